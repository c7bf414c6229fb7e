//! Functions of the host that scripts call.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};

use crossdock_embed::{Function, FunctionFailure, Kind, Session, Value};

use crate::rig::{Child, in_children, number, run, soon, try_run};

in_children! {
    a_script_calls_a_function_of_the_host: calls;
    what_a_function_fails_with_is_an_exception: failures;
    a_function_is_dropped_once_when_nobody_needs_it: drops;
    a_function_of_a_session_that_is_gone_is_an_error: gone;
    threads_of_a_script_call_at_once: threads;
    a_script_in_a_function_is_stopped_when_it_returns: stops;
    an_interrupt_does_not_interrupt_a_system_call_of_a_function: system_calls;
    no_host_lock_across_python: no_lock;
    a_fork_has_no_functions_of_its_parent: forks;
}

type Arguments = (Vec<Value>, Vec<(String, Value)>);

/// A function that answers with its first argument, and tells what it was called with.
fn told() -> (Function, mpsc::Receiver<Arguments>) {
    let (tell, called) = mpsc::channel();
    let tell = Mutex::new(tell);
    let function = move |mut values: Vec<Value>, named| {
        let first = if values.is_empty() {
            Value::None
        } else {
            values.remove(0)
        };
        let _nobody_listens = tell.lock().unwrap().send((values, named));
        Ok(first)
    };
    (Box::new(function), called)
}

fn failing(text: &str, is_out_of_memory: bool) -> Function {
    let text = text.to_owned();
    Box::new(move |_, _| {
        let text = text.clone();
        Err(FunctionFailure {
            text,
            is_out_of_memory,
        })
    })
}

fn calls(child: &Child) {
    let session = child.session();
    let (function, called) = told();
    session.define("ask", function).unwrap();
    run(
        &session,
        "assert ask({'a': [1, 2.5]}, 'x', k=b'y') == {'a': [1, 2.5]}\nassert ask() is None",
    );
    let (values, named) = called.recv().unwrap();
    assert_eq!(
        format!("{values:?} {named:?}"),
        "[Text(\"x\")] [(\"k\", Bytes([121]))]"
    );
    run(
        &session,
        "assert ask.__name__ == 'ask' and callable(ask)\nlist(map(ask, range(3)))",
    );
    let failure = try_run(&session, "ask({1, 2})").unwrap_err();
    assert_eq!(failure.exception.as_deref(), Some("TypeError"));
}

fn failures(child: &Child) {
    let session = child.session();
    session
        .define("boom", failing("it broke\n  why: grüße", false))
        .unwrap();
    session.define("full", failing("no room", true)).unwrap();
    run(
        &session,
        "try: boom()\nexcept RuntimeError as e: told = str(e)",
    );
    run(&session, "assert told == 'it broke\\n  why: grüße', told");
    let failure = try_run(&session, "def f():\n    full()\nf()").unwrap_err();
    assert_eq!(failure.exception.as_deref(), Some("MemoryError"));
    assert!(
        failure
            .traceback
            .unwrap()
            .contains("script.py\", line 2, in f")
    );
    // By its own name, and the place is the line that called it.
    let failure = try_run(&session, "x = 1\nboom()").unwrap_err();
    assert!(failure.hint().contains("script.py:2"), "{failure}");
    let trace = failure.traceback.unwrap();
    assert!(trace.contains("in boom"), "{trace}");
    assert!(!trace.contains("<crossdock>"), "{trace}");
    let ends = |values: Vec<Value>, _| match values.first() {
        Some(Value::Int(_)) => panic!("a function of the host's that panics"),
        _ => Ok(Value::None),
    };
    session.define("panics", Box::new(ends)).unwrap();
    assert!(try_run(&session, "panics(1)").is_err());
    run(&session, "panics()");
}

fn drops(child: &Child) {
    let counted = Arc::new(());
    let function = || -> Function {
        let held = Arc::clone(&counted);
        Box::new(move |_, _| Ok(Value::Int(i64::try_from(Arc::strong_count(&held)).unwrap())))
    };
    let is_held = || Arc::strong_count(&counted) - 1;
    let session = child.session();
    session.define("f", function()).unwrap();
    run(&session, "old = f\nassert f() == 2");
    session.define("f", function()).unwrap();
    assert_eq!(is_held(), 1, "the first is gone");
    assert!(
        try_run(&session, "old()")
            .unwrap_err()
            .why()
            .contains("defined its name anew")
    );
    run(&session, "f()");
    drop(session);
    assert_eq!(is_held(), 0);
    // What cannot be defined is dropped as well.
    let other = child.session();
    let inner = function();
    let refused: Function = Box::new(move |_, _| inner(Vec::new(), Vec::new()));
    run(
        &other,
        "import sys\nsys.modules[__name__].__class__ = type('M', (type(sys),), {'__setattr__': None})",
    );
    let failure = other.define("f", refused).unwrap_err();
    assert_eq!(failure.exception.as_deref(), Some("TypeError"));
    assert_eq!(is_held(), 0);
}

fn gone(child: &Child) {
    let (first, second) = (child.session(), child.session());
    let (function, _called) = told();
    first.define("ask", function).unwrap();
    run(&first, "import builtins\nbuiltins.kept = ask");
    run(&second, "assert kept(3) == 3");
    drop(first);
    let failure = try_run(&second, "kept(3)").unwrap_err();
    assert!(failure.why().contains("closed the session"), "{failure}");
}

fn threads(child: &Child) {
    let session = child.session();
    let both = Barrier::new(2);
    // Each waits until the other is in it too: without Python's lock, and without one of the host's.
    let meets: Function = Box::new(move |values, _| {
        both.wait();
        Ok(values.into_iter().next().unwrap_or_default())
    });
    session.define("meets", meets).unwrap();
    soon(move || {
        run(
            &session,
            "import threading\ngot = []\n\
             ts = [threading.Thread(target=lambda n=n: got.append(meets(n))) for n in (1, 2)]\n\
             for t in ts: t.start()\n\
             for t in ts: t.join()\n\
             total = sum(got)",
        );
        assert_eq!(number(&session, "total"), 3);
    });
}

fn stops(child: &Child) {
    let session = Arc::new(child.session());
    let (entered, is_in) = mpsc::channel();
    let entered = Mutex::new(entered);
    let inner = Arc::downgrade(&session);
    let stopper: Function = Box::new(move |_, _| {
        // From within, the script cannot run another, and can be stopped.
        let session = inner.upgrade().unwrap();
        let refused = session.run_text("1", "inner.py", None).unwrap_err();
        assert_eq!(refused.kind, Kind::Busy);
        session.interrupt().unwrap();
        entered.lock().unwrap().send(()).unwrap();
        Ok(Value::None)
    });
    session.define("stopper", stopper).unwrap();
    let failure = try_run(&session, "stopper()\nwhile True: pass").unwrap_err();
    assert_eq!(failure.kind, Kind::Interrupted);
    is_in.recv().unwrap();
    run(&session, "after = 1");
}

/// A function that comes back into the host, while another thread waits for its turn with a script.
fn no_lock(child: &Child) {
    let sessions: Arc<[Session; 2]> = Arc::new([child.session(), child.session()]);
    let (is_in, may_go) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (inner, at, to) = (
        Arc::downgrade(&sessions),
        Arc::clone(&is_in),
        Arc::clone(&may_go),
    );
    let reenters: Function = Box::new(move |_, _| {
        at.wait();
        to.wait();
        let sessions = inner.upgrade().unwrap();
        for session in sessions.iter() {
            session.state().unwrap();
            assert_eq!(session.get("x").unwrap_err().kind, Kind::Busy);
            let (function, _called) = told();
            assert_eq!(session.define("y", function).unwrap_err().kind, Kind::Busy);
        }
        Ok(Value::Int(7))
    });
    let [first, _] = &*sessions;
    first.define("reenters", reenters).unwrap();
    let served = Arc::new(AtomicUsize::new(0));
    let (mine, count) = (Arc::clone(&sessions), Arc::clone(&served));
    soon(move || {
        let [first, second] = &*mine;
        std::thread::scope(|scope| {
            scope.spawn(|| run(first, "x = reenters()"));
            is_in.wait();
            scope.spawn(|| {
                run(second, "x = 1");
                count.fetch_add(1, Ordering::SeqCst);
            });
            // The other is in the queue, or about to be.
            may_go.wait();
        });
        assert_eq!(number(first, "x"), 7);
    });
    assert_eq!(served.load(Ordering::SeqCst), 1);
}

fn forks(child: &Child) {
    let session = child.session();
    let (function, _called) = told();
    session.define("ask", function).unwrap();
    run(
        &session,
        "import os, sys\nchild = os.fork()\n\
         if child == 0:\n\
         \x20   try: ask(1)\n\
         \x20   except RuntimeError as e: os._exit(0 if 'fork' in str(e) else 1)\n\
         \x20   os._exit(2)\n\
         status = os.waitpid(child, 0)[1]",
    );
    assert_eq!(number(&session, "status"), 0);
}

/// The function waits in the system until the interrupt was sent.
fn system_calls(child: &Child) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let (entered, is_in) = mpsc::channel();
    let (answered, answer) = mpsc::channel();
    let waits = move |_: Vec<Value>, _: Vec<(String, Value)>| {
        let mut asked = libc::pollfd {
            fd: std::os::fd::AsRawFd::as_raw_fd(&reader),
            events: libc::POLLIN,
            revents: 0,
        };
        entered.send(()).unwrap();
        // SAFETY: one descriptor, which is open.
        answered
            .send(unsafe { libc::poll(&raw mut asked, 1, -1) })
            .unwrap();
        Ok(Value::None)
    };
    let session = child.session();
    session.define("waits", Box::new(waits)).unwrap();
    std::thread::scope(|scope| {
        let runs = scope.spawn(|| try_run(&session, "waits()\nwhile True: pass"));
        is_in.recv().unwrap();
        session.interrupt().unwrap();
        std::io::Write::write_all(&mut writer, b"x").unwrap();
        assert_eq!(answer.recv().unwrap(), 1, "the answer of `poll`");
        assert_eq!(runs.join().unwrap().unwrap_err().kind, Kind::Interrupted);
    });
}
