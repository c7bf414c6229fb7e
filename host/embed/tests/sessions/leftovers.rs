//! What scripts leave behind: signal handlers, exceptions on their way, objects, and functions in progress.

use crossdock_embed::{Kind, Settings};

use crate::rig::{Child, SOON, has_module, in_children, number, rounds, run, try_run};

in_children! {
    a_signal_handler_that_exits_does_not_end_the_host: exiting_handlers;
    a_signal_handler_that_raises_leaves_output_with_its_session: raising_handlers;
    a_late_asynchronous_exception_hits_no_other_session: late_exceptions;
    a_late_asynchronous_exception_hits_no_other_session_in_a_python_of_others (of_others): late_exceptions;
    signal_handlers_and_timers_of_a_session_end_with_it: handlers_end;
    stopping_a_script_duplicates_no_output: duplicates;
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
