//! What scripts leave behind: signal handlers, exceptions on their way, objects, and functions in progress.

use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crossdock_embed::{Kind, Limits, Session, Settings, Value};

use crate::rig::{Child, SOON, has_module, in_children, number, rounds, run, soon, try_run};

in_children! {
    a_signal_handler_that_exits_does_not_end_the_host: exiting_handlers;
    a_signal_handler_that_raises_leaves_output_with_its_session: raising_handlers;
    a_late_asynchronous_exception_hits_no_other_session: late_exceptions;
    a_late_asynchronous_exception_hits_no_other_session_in_a_python_of_others (of_others): late_exceptions;
    signal_handlers_and_timers_of_a_session_end_with_it: handlers_end;
    a_session_that_cannot_be_freed_blocks_no_other_forever: endless_ends;
    a_host_function_that_exits_the_process_ends_it: exits_in_functions;
    stopping_a_script_duplicates_no_output: duplicates;
    python_can_be_finalized_while_a_script_runs (of_others): finalized;
}

/// Delivers a signal to the process, whose Python handler runs on the script thread later.
fn raise(signal: i32) {
    // SAFETY: a valid signal; Python has a handler for it.
    assert_eq!(unsafe { libc::raise(signal) }, 0);
}

fn exiting_handlers(child: &Child) {
    let (session, other) = (child.session(), child.session());
    run(
        &session,
        "import signal, sys\nsignal.signal(signal.SIGUSR1, lambda *_: sys.exit(3))",
    );
    for round in 0..20 {
        raise(libc::SIGUSR1);
        run(&other, &format!("x = {round}"));
        assert_eq!(number(&other, "x"), round);
    }
}

fn raising_handlers(child: &Child) {
    let (one, by_one) = child.heard(Settings::default());
    let (two, by_two) = child.heard(Settings::default());
    run(
        &one,
        "import signal\ndef fail(*_): raise RuntimeError('left behind')\nsignal.signal(signal.SIGUSR1, fail)",
    );
    for round in 0..20 {
        raise(libc::SIGUSR1);
        run(&two, &format!("print('two {round}')"));
        raise(libc::SIGUSR1);
        run(&one, &format!("print('one {round}')"));
        assert_eq!(
            by_two.try_iter().collect::<String>(),
            format!("two {round}\n")
        );
        assert_eq!(
            by_one.try_iter().collect::<String>(),
            format!("one {round}\n")
        );
    }
    run(
        &child.session(),
        "import sys\nassert sys.stdout is sys.__stdout__",
    );
}

/// A thread of the script raises an exception in the script thread once no script runs there.
fn late_exceptions(child: &Child) {
    let (session, lines) = child.heard(Settings::default());
    let other = child.session();
    if !has_module(&session, "ctypes") {
        return;
    }
    run(
        &session,
        "import sys, threading\n\
         out, script = sys.stdout, threading.get_ident()\n\
         raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc\n\
         class Exit(SystemExit): code = 3\n\
         def send(kind):\n\
         \x20   while script in sys._current_frames(): pass\n\
         \x20   raise_in(ctypes.c_ulong(script), ctypes.py_object(kind))\n\
         \x20   print('sent', file=out)\n",
    );
    for kind in ["Exit", "RuntimeError"] {
        run(
            &session,
            &format!("threading.Thread(target=send, args=({kind},)).start()"),
        );
        assert_eq!(lines.recv_timeout(SOON).unwrap(), "sent\n");
        run(&other, "x = 1");
    }
}

fn handlers_end(child: &Child) {
    let [first, second] = [child.session(), child.session()];
    let set = |value| {
        format!(
            "import signal\ndef handler(*_): raise RuntimeError\n\
             signal.signal(signal.SIGUSR1, handler)\nsignal.signal(signal.SIGUSR2, {value})"
        )
    };
    run(&first, &set("signal.SIG_IGN"));
    run(
        &first,
        "signal.signal(signal.SIGALRM, handler)\nsignal.setitimer(signal.ITIMER_REAL, 3600)",
    );
    run(&second, &set("handler"));
    let other = child.session();
    run(
        &other,
        "import signal\nkept = signal.getsignal(signal.SIGUSR2)",
    );
    drop(first);
    run(
        &other,
        "assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL\n\
         assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)\n\
         assert signal.getsignal(signal.SIGUSR2) is kept",
    );
    drop(second);
    run(
        &other,
        "for name in ('SIGUSR1', 'SIGUSR2'):\n\
         \x20   assert signal.getsignal(getattr(signal, name)) is signal.SIG_DFL, name",
    );
}

/// Objects of a session that run for ever when they end.
fn endless(body: &str) -> String {
    format!(
        "class Endless:\n    def __del__(self):\n        {body}\n\
         one, two, three = Endless(), Endless(), Endless()"
    )
}

fn endless_ends(child: &Child) {
    let limited = || {
        let limits = Limits {
            timeout: Some(Duration::from_millis(100)),
            grace: Duration::from_millis(100),
        };
        let settings = Settings {
            limits,
            ..Settings::default()
        };
        Session::open(child.host, settings).unwrap()
    };
    let (other, host) = (child.session(), child.host);
    let (stoppable, stubborn) = (limited(), limited());
    soon(move || {
        run(&stoppable, &endless("while True: pass"));
        drop(stoppable);
        run(&other, "x = 1");
        let catching = "while True:\n            try:\n                for n in iter(int, 1): pass\n            \
                        except BaseException: pass";
        run(&stubborn, &endless(catching));
        drop(stubborn);
        let failure = try_run(&other, "x = 2").unwrap_err();
        assert_eq!(failure.kind, Kind::Stuck, "{failure}");
        let failure = Session::open(host, Settings::default()).unwrap_err();
        assert_eq!(failure.kind, Kind::Stuck, "{failure}");
    });
}

/// In a process that exits while a function of the host runs: where it exits.
const EXITS_IN: &str = "CROSSDOCK_TEST_EXITS_IN";

/// The session that such a process frees at its exit.
static FREED_AT_EXIT: Mutex<Option<Session>> = Mutex::new(None);

extern "C" fn free_at_exit() {
    let session = FREED_AT_EXIT
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    drop(session);
}

fn exits_in_functions(child: &Child) {
    if let Some(place) = std::env::var_os(EXITS_IN) {
        return exit_in(child, place.to_str().unwrap());
    }
    let name = std::env::args().nth(2).unwrap();
    for place in ["function", "output", "main"] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", &name, "--nocapture", "--test-threads=1"])
            .env(EXITS_IN, place);
        soon(move || {
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(7), "{place}: {said}");
        });
    }
}

/// Exits in a function of a session that the exit frees, or while one runs on another thread.
#[expect(clippy::exit, reason = "this is what the test is about")]
fn exit_in(child: &Child, place: &str) {
    let (entered, is_in) = std::sync::mpsc::channel();
    let settings = Settings {
        stdout: true,
        output: Some(Box::new(|_, _| std::process::exit(7))),
        ..Settings::default()
    };
    let session = Session::open(child.host, settings).unwrap();
    // As a C++ program registers the destructor of its global session.
    // SAFETY: the function takes nothing.
    assert_eq!(unsafe { libc::atexit(free_at_exit) }, 0);
    let exits = place != "main";
    let function = move |_: Vec<Value>, _: Vec<(String, Value)>| {
        if exits {
            std::process::exit(7);
        }
        entered.send(()).unwrap();
        loop {
            std::thread::park();
        }
    };
    session.define("function", Box::new(function)).unwrap();
    run(
        &session,
        "import builtins, sys\nbuiltins.function, builtins.out = function, sys.stdout",
    );
    *FREED_AT_EXIT.lock().unwrap() = Some(session);
    let other = child.session();
    let text = match place {
        "output" => "print('now', file=out)",
        _ => "function()",
    };
    let runs = std::thread::spawn(move || drop(try_run(&other, text)));
    if !exits {
        is_in.recv_timeout(SOON).unwrap();
        std::process::exit(7);
    }
    runs.join().unwrap();
}

/// Every line arrives once, wherever the interrupt hits `print`.
fn duplicates(child: &Child) {
    for round in 0..rounds(20, 500) {
        let (session, lines) = child.heard(Settings::default());
        let session = std::sync::Arc::new(session);
        let runs = std::sync::Arc::clone(&session);
        let runs = std::thread::spawn(move || {
            try_run(&runs, "n = 0\nwhile True:\n    n += 1\n    print(n)")
        });
        for _ in 0..round % 5 + 1 {
            lines.recv_timeout(SOON).unwrap();
        }
        session.interrupt().unwrap();
        assert_eq!(runs.join().unwrap().unwrap_err().kind, Kind::Interrupted);
        drop(session);
        let lines: Vec<String> = lines.try_iter().collect();
        let text = lines.concat();
        let mut seen = std::collections::HashSet::new();
        let twice: Vec<_> = text.lines().filter(|line| !seen.insert(*line)).collect();
        assert!(twice.is_empty(), "round {round}: {twice:?} came twice");
    }
}

/// The host that started Python ends it while a script catches all that would stop it.
fn finalized(child: &Child) {
    use libloading::os::unix::Library;
    let (session, lines) = child.heard(Settings::default());
    std::thread::spawn(move || {
        try_run(
            &session,
            "print('in')\nwhile True:\n    try:\n        for n in iter(int, 1): pass\n    except BaseException: pass",
        )
    });
    lines.recv_timeout(SOON).unwrap();
    let process = Library::this();
    // SAFETY: the function of this name has had this type in every version.
    let take = unsafe { process.get::<unsafe extern "C" fn() -> i32>(b"PyGILState_Ensure\0") };
    // SAFETY: Python runs, and this thread started it.
    unsafe { take.unwrap()() };
    // SAFETY: the function of this name has had this type in every version.
    let end = unsafe { process.get::<unsafe extern "C" fn() -> i32>(b"Py_FinalizeEx\0") };
    // SAFETY: this thread started Python and holds its lock.
    assert_eq!(unsafe { end.unwrap()() }, 0);
}
