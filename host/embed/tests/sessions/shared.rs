//! What a script changes for the whole interpreter, and what stays of it: other sessions go on as before.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crossdock_embed::{Kind, Limits, Session, Settings};

use crate::rig::{Child, in_children, number, run, soon, try_run};

in_children! {
    a_trace_of_one_session_blocks_nobody: traces;
    a_trace_of_one_session_blocks_nobody_in_a_python_of_others (of_others): traces;
    a_trace_after_an_interrupt_blocks_nobody: traces_after_interrupts;
    limits_cover_what_a_script_leaves_in_the_way: left_in_the_way;
    what_one_session_takes_out_of_sys_others_still_have: taken_out;
    sources_are_kept_within_bounds_and_as_long_as_their_session: sources;
    each_text_is_shown_with_its_own_lines_and_the_name_of_its_caller: own_lines;
    a_file_is_shown_with_its_own_lines_wherever_the_process_is: files;
    lines_of_a_text_that_is_gone_are_not_taken_from_another: gone;
    the_end_of_a_session_gives_its_namespace_back_without_a_full_collection: ends;
    what_others_hold_of_a_session_that_ended_stays: held;
}

/// A trace function.
const TRACE: &str = "import sys\nseen = []\n\
                     def trace(frame, event, what):\n\
                     \x20   seen.append(frame.f_code.co_filename)\n\
                     \x20   return trace\n";

fn traces(child: &Child) {
    let (session, other) = (child.session(), child.session());
    soon(move || {
        run(&session, &format!("{TRACE}sys.settrace(trace)"));
        run(&other, "import sys\nassert sys.gettrace() is None");
        run(
            &session,
            "def f(): pass\nf()\nassert sys.gettrace() is trace",
        );
        run(&session, "sys.settrace(None)");
        run(
            &session,
            "assert any('script.py' in name for name in seen), seen",
        );
        run(&session, "sys.setprofile(trace)");
        run(&other, "assert sys.getprofile() is None");
        run(
            &session,
            "assert sys.getprofile() is trace\nsys.setprofile(None)",
        );
        run(&other, "y = 1");
    });
}

fn traces_after_interrupts(child: &Child) {
    let (session, lines) = child.heard(Settings::default());
    let session = Arc::new(session);
    let other = child.session();
    soon(move || {
        for round in 0..20 {
            let runs = {
                let session = Arc::clone(&session);
                let text = format!("print('in')\nfor i in range({}): pass", round * 5000);
                std::thread::spawn(move || try_run(&session, &text))
            };
            let _line = lines.recv().unwrap();
            session.interrupt().unwrap();
            let _ended = runs.join().unwrap();
            run(&other, &format!("{TRACE}sys.settrace(trace)"));
            run(&session, "x = 1");
        }
    });
}

/// It ends only if somebody stops what the host calls for the script once its own code has ended.
fn left_in_the_way(child: &Child) {
    let session = child.session();
    let entry = "import sys\nclass Entry(str):\n\
                 \x20   __hash__ = str.__hash__\n\
                 \x20   def __eq__(self, other):\n        while True: pass\n\
                 sys.path.append(Entry('x'))";
    let stream = "import sys\nclass Stream:\n\
                  \x20   def write(self, text): pass\n\
                  \x20   def flush(self):\n        while True: pass\n\
                  sys.stdout = Stream()";
    let number = "class E(Exception):\n\
                  \x20   def __str__(self):\n        while True: pass\n\
                  raise E";
    soon(move || {
        for text in [stream, number] {
            let limits = Limits {
                timeout: Some(Duration::from_millis(100)),
                grace: Duration::from_secs(10),
            };
            let failure = session
                .run_text(text, "script.py", Some(limits))
                .unwrap_err();
            assert_eq!(failure.kind, Kind::Timeout, "{failure}");
            run(&session, "import sys\nassert sys.stdout is sys.__stdout__");
        }
        run(&session, entry);
        run(&session, "sys.path.pop()");
    });
}

fn taken_out(child: &Child) {
    let (session, lines) = child.heard(Settings::default());
    let other = child.session();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("main.py");
    std::fs::write(&file, "import sys\nhere = sys.path[0]\n").unwrap();
    soon(move || {
        session.run_file(&file, None).unwrap();
        for name in ["stdout", "stderr", "argv", "path"] {
            for broken in [format!("del sys.{name}"), format!("sys.{name} = None")] {
                run(&other, &format!("import sys\n{broken}"));
                run(
                    &session,
                    "import sys, json\nassert sys.stderr is sys.__stderr__ and here in sys.path\n\
                     print(sys.argv[0] == __file__)",
                );
                assert_eq!(lines.try_iter().collect::<String>(), "True\n", "{broken}");
                run(&session, &broken);
                run(
                    &other,
                    "assert sys.stdout is sys.__stdout__ and sys.argv == ['']",
                );
                other.run_file(&file, None).unwrap();
                run(&other, "sys.argv[0] = ''");
            }
        }
    });
}

fn sources(child: &Child) {
    let (session, other) = (child.session(), child.session());
    let kept = "import linecache\n\
                kept = sum(len(''.join(entry[2])) for entry in linecache.cache.values() if len(entry) == 4)";
    run(&other, kept);
    let before = number(&other, "kept");
    let comment = "#".repeat(20_000);
    for round in 0..200 {
        let text = format!("{comment}\ndef f(): 1 / 0");
        session
            .run_text(&text, &format!("text{round}.py"), None)
            .unwrap();
    }
    run(&other, kept);
    let grown = number(&other, "kept") - before;
    assert!(grown < 2 << 20, "{grown} bytes of sources");
    // The last ones are still shown.
    let trace = try_run(&session, "f()").unwrap_err().traceback.unwrap();
    assert!(trace.contains("1 / 0"), "{trace}");
    drop(session);
    run(&other, kept);
    run(
        &other,
        "assert not [name for name in linecache.cache if 'text199.py' in name]",
    );
    // A text that runs again takes no more.
    let again = "entries = len(linecache.cache)";
    run(&other, again);
    let entries = number(&other, "entries");
    run(&other, again);
    assert_eq!(number(&other, "entries"), entries);
}

/// A script sees the line on which its function fails.
fn sees_its_own_line(session: &Session, function: &str, line: &str) {
    let text = format!(
        "import inspect, traceback\n\
         try: {function}()\n\
         except NameError as error: trace = traceback.format_exc()\n\
         assert '{line}\\n' in trace, trace\n\
         assert '{line}' in inspect.getsource({function})"
    );
    run(session, &text);
}

fn own_lines(child: &Child) {
    let sessions = [child.session(), child.session()];
    for name in [
        "plan.py",
        "<script>",
        "<string>",
        "<stdin>",
        "a (b).py",
        "",
        "\u{e9}.py",
    ] {
        for (at, session) in sessions.iter().enumerate() {
            for text in 0..2 {
                let lines = format!("def f{text}():\n    return session_{at}_text_{text}\n");
                session.run_text(&lines, name, None).unwrap();
            }
        }
        for (at, session) in sessions.iter().enumerate() {
            for text in 0..2 {
                let function = format!("f{text}");
                let failure = session.call(&function, Vec::new(), Vec::new(), None);
                let failure = failure.unwrap_err();
                let shown = format!(
                    "  File \"{name}\", line 2, in {function}\n    return session_{at}_text_{text}\n"
                );
                let trace = failure.traceback.as_deref().unwrap();
                assert!(trace.contains(&shown), "{trace}");
                assert!(
                    failure.hint().contains(&format!("look at {name}:2")),
                    "{failure}"
                );
                let returned = format!("return session_{at}_text_{text}");
                sees_its_own_line(session, &function, &returned);
            }
        }
    }
    // What Python says of a text that it cannot compile has the name of the caller too.
    let failure = sessions[0].run_text("a b", "plan.py", None).unwrap_err();
    assert!(failure.why().contains("(plan.py, line 1)"), "{failure}");
    let trace = failure.traceback.as_deref().unwrap();
    assert!(
        trace.contains("  File \"plan.py\", line 1\n    a b\n"),
        "{trace}"
    );
    let warning = "import warnings\nwarnings.simplefilter('error')";
    run(&sessions[0], warning);
    let failure = sessions[0].run_text("1 is 1", "plan.py", None).unwrap_err();
    assert!(failure.why().contains("(plan.py, line 1)"), "{failure}");
    // And so has each traceback within one.
    let text =
        "def g():\n    try: f0()\n    except NameError: raise ExceptionGroup('two', [KeyError(1)])";
    sessions[0].run_text(text, "outer.py", None).unwrap();
    let failure = sessions[0].call("g", Vec::new(), Vec::new(), None);
    let trace = failure.unwrap_err().traceback.unwrap();
    assert!(trace.contains("File \"outer.py\", line 3"), "{trace}");
    assert!(!trace.contains("<text"), "{trace}");
}

fn files(child: &Child) {
    let session = child.session();
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    for (at, folder) in folders.iter().enumerate() {
        let lines = format!("def f{at}():\n    return folder_{at}\n");
        std::fs::write(folder.path().join("plan.py"), lines).unwrap();
        run(
            &session,
            &format!("import os\nos.chdir({:?})", folder.path()),
        );
        session.run_file(Path::new("plan.py"), None).unwrap();
    }
    for at in [0, 1, 0] {
        let failure = session.call(&format!("f{at}"), Vec::new(), Vec::new(), None);
        let trace = failure.unwrap_err().traceback.unwrap();
        assert!(
            trace.contains(&format!("    return folder_{at}\n")),
            "{trace}"
        );
    }
}

fn gone(child: &Child) {
    let (session, other) = (child.session(), child.session());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plan.py"), "\nof a file\n").unwrap();
    run(&other, &format!("import os\nos.chdir({:?})", folder.path()));
    let text = "import builtins\nbuiltins.kept = lambda: lost";
    session.run_text(text, "plan.py", None).unwrap();
    drop(session);
    other
        .run_text("\nof another text", "plan.py", None)
        .unwrap_err();
    let failure = try_run(&other, "import builtins\nbuiltins.kept()").unwrap_err();
    let trace = failure.traceback.unwrap();
    assert!(
        trace.contains("File \"plan.py\", line 2, in <lambda>"),
        "{trace}"
    );
    assert!(!trace.contains("of a"), "{trace}");
}

/// Somebody who is told when it goes, kept by a function that refers to its own namespace.
const CANARY: &str = "import builtins\n\
                      class Canary:\n\
                      \x20   def __del__(self, freed=builtins.freed): freed.append(1)\n\
                      canary = Canary()\n\
                      class A:\n\
                      \x20   def method(self): return canary\n\
                      def f(): return [a.method() for a in all_of_them]\n\
                      all_of_them = [A(), A()]\n\
                      lazy = (lambda outer: lambda: (outer, canary))(all_of_them)\n";

fn ends(child: &Child) {
    let watcher = child.session();
    run(
        &watcher,
        "import builtins, gc\nbuiltins.freed = []\nlive = [[] for _ in range(200_000)]\ncollected = []\n\
         gc.collect()\n\
         gc.callbacks.append(lambda phase, info: collected.append(info['generation']))",
    );
    // What it holds is new, old, or so much that all objects are hardly more.
    let kinds = [
        ("", false),
        ("gc.collect()\n", false),
        ("much = [[] for _ in range(30_000)]\n", true),
    ];
    for (round, (more, is_full)) in kinds.into_iter().enumerate() {
        let session = child.session();
        run(&session, CANARY);
        run(
            &session,
            &format!("import gc, json, threading\n{more}x = f()"),
        );
        run(&watcher, "collected.clear()");
        drop(session);
        let collected = if is_full { "in" } else { "not in" };
        run(
            &watcher,
            &format!("assert 2 {collected} collected, collected"),
        );
        run(
            &watcher,
            &format!("assert len(freed) == {round} + 1, freed"),
        );
    }
}

fn held(child: &Child) {
    let other = child.session();
    run(&other, "import builtins\nbuiltins.freed = []");
    let session = child.session();
    run(&session, CANARY);
    let later = "import threading\ngo, done = threading.Event(), threading.Event()\n\
                 def wait():\n    go.wait()\n    seen.append(len(f()))\n    done.set()\n\
                 seen = []\nbuiltins.kept = A().method, go, done, seen\n\
                 threading.Thread(target=wait).start()";
    run(&session, later);
    drop(session);
    run(
        &other,
        "method, go, done, seen = kept\nassert type(method()).__name__ == 'Canary'\n\
         go.set()\ndone.wait()\nassert seen == [2] and not freed, (seen, freed)",
    );
}
