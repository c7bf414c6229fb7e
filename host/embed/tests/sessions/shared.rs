//! What a script changes for the whole interpreter, and what stays of it: other sessions go on as before.

use std::sync::Arc;
use std::time::Duration;

use crossdock_embed::{Kind, Limits, Settings};

use crate::rig::{Child, in_children, number, run, soon, try_run};

in_children! {
    a_trace_of_one_session_blocks_nobody: traces;
    a_trace_of_one_session_blocks_nobody_in_a_python_of_others (of_others): traces;
    a_trace_after_an_interrupt_blocks_nobody: traces_after_interrupts;
    limits_cover_what_a_script_leaves_in_the_way: left_in_the_way;
    what_one_session_takes_out_of_sys_others_still_have: taken_out;
    sources_are_kept_within_bounds_and_as_long_as_their_session: sources;
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
        run(&session, "assert 'script.py' in seen, seen");
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
        "assert not [name for name in linecache.cache if 'text' in name and name[4:5].isdigit()]",
    );
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
