//! Interrupts, timeouts, and scripts that cannot be stopped.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crossdock_embed::{Kind, Limits, Outcome, Session, Settings, State, Value};

use crate::rig::{Child, SOON, has_module, in_children, number, rounds, run, try_run};

in_children! {
    interrupt_reaches_a_lone_loop: loops;
    interrupt_reaches_a_lone_loop_on_a_thread_of_a_python_of_others (of_others): lone_loop;
    an_interrupt_that_python_ignores_is_raised_again: ignored;
    an_interrupt_that_python_of_others_ignores_is_raised_again (of_others): ignored;
    late_interrupt_is_taken_back: late;
    late_interrupt_is_taken_back_in_a_python_of_others (of_others): late;
    an_interrupt_of_what_waits_keeps_it_from_running: waiting;
    a_script_that_resets_all_signals_is_interrupted_all_the_same: reset;
    timeout_really_stops: timeouts;
    stuck_native_code_is_reported: stuck;
    a_function_of_the_host_that_does_not_end_is_reported_with_its_name: stuck_inside;
    who_waits_behind_native_code_that_was_to_stop_is_told_where_it_is: behind;
    who_waits_behind_a_script_that_ends_by_its_interrupt_gets_its_turn: handled;
    who_waits_behind_a_script_that_catches_its_interrupt_is_told_where_it_is: caught;
    a_script_that_closes_the_files_of_others_gets_nothing_written_into_its_own: closed;
}

/// Interrupts a script once it says that it runs, and gives the time until it has ended.
fn interrupted(child: &Child, before: &str, text: &str) -> Duration {
    interrupted_inside(
        child,
        &format!("import time\n{before}\nprint('in')\n{text}"),
    )
}

/// The same for one that says by itself where it is to be interrupted.
fn interrupted_inside(child: &Child, text: &str) -> Duration {
    let (session, lines) = child.heard(Settings::default());
    thread::scope(|scope| {
        let runs = scope.spawn(|| (try_run(&session, text), Instant::now()));
        lines.recv_timeout(SOON).unwrap();
        let asked = Instant::now();
        let outcome = session.interrupt().unwrap();
        let (result, ended) = runs.join().unwrap();
        let failure = result.unwrap_err();
        assert_eq!(failure.kind, Kind::Interrupted);
        assert_eq!(failure.exception.as_deref(), Some("KeyboardInterrupt"));
        assert_ne!(outcome, Outcome::Idle);
        ended - asked
    })
}

/// What an idle machine does in some milliseconds.
fn is_quick(what: &str, took: Duration) {
    println!("{what}: {took:?}");
    assert!(took < Duration::from_secs(2), "{what}: {took:?}");
}

fn lone_loop(child: &Child) {
    is_quick("loop", interrupted(child, "", "while True: pass"));
}

fn loops(child: &Child) {
    lone_loop(child);
    is_quick("sleep", interrupted(child, "", "time.sleep(60)"));
    let event = "import threading\nthreading.Event().wait()";
    is_quick("event", interrupted(child, "", event));
}

fn reset(child: &Child) {
    let before = "import signal\nfor s in range(signal.SIGRTMIN, signal.SIGRTMAX + 1):\n\
                  \x20   signal.signal(s, signal.SIG_DFL)";
    is_quick("loop", interrupted(child, before, "while True: pass"));
}

/// Python ignores what is raised in a weak reference's callback and in `__del__`, and imports have such
/// callbacks.
fn ignored(child: &Child) {
    let callback = "import weakref\nclass C: pass\ndef loop(_):\n\
                    \x20   print('in')\n\
                    \x20   while True: pass\n\
                    c = C()\nr = weakref.ref(c, loop)\ndel c\n\
                    while True: pass";
    is_quick("callback", interrupted_inside(child, callback));
    let end = "class C:\n\
               \x20   def __del__(self):\n\
               \x20       print('in')\n\
               \x20       while True: pass\n\
               C()\nC()\nwhile True: pass";
    is_quick("end", interrupted_inside(child, end));
}

fn late(child: &Child) {
    let (first, second) = (child.session(), child.session());
    let mut delivered = 0;
    let rounds = rounds(150, 10_000);
    for round in 0..rounds {
        thread::scope(|scope| {
            let text = format!("for i in range({}): pass", round * 37 % 2000);
            let first = &first;
            let runs = scope.spawn(move || try_run(first, &text));
            let mut outcome = Outcome::Idle;
            for _ in 0..round % 7 {
                outcome = first.interrupt().unwrap();
                thread::yield_now();
            }
            match runs.join().unwrap() {
                Ok(()) => assert_ne!(outcome, Outcome::Pending, "round {round}"),
                Err(failure) => {
                    assert_eq!(failure.kind, Kind::Interrupted, "round {round}: {failure}");
                    delivered += 1;
                }
            }
        });
        try_run(&second, "s = 0\nfor i in range(100): s += i").unwrap();
        try_run(&first, "for i in range(100): pass").unwrap();
    }
    println!("{delivered} of {rounds} were interrupted");
}

fn waiting(child: &Child) {
    let (first, lines) = child.heard(Settings::default());
    let second = child.session();
    thread::scope(|scope| {
        let runs = scope.spawn(|| try_run(&first, "print('in')\nwhile True: pass"));
        lines.recv_timeout(SOON).unwrap();
        let waits = scope.spawn(|| try_run(&second, "x = 1"));
        while second.state().unwrap() != State::Waiting {
            thread::yield_now();
        }
        assert_eq!(second.interrupt().unwrap(), Outcome::Delivered);
        let failure = waits.join().unwrap().unwrap_err();
        assert_eq!(failure.kind, Kind::Interrupted);
        assert_ne!(first.interrupt().unwrap(), Outcome::Idle);
        runs.join().unwrap().unwrap_err();
    });
    assert_eq!(second.get("x").unwrap_err().kind, Kind::Exception);
    assert_eq!(second.interrupt().unwrap(), Outcome::Idle);
}

fn limits(timeout_ms: u64, grace_ms: u64) -> Option<Limits> {
    Some(Limits {
        timeout: Some(Duration::from_millis(timeout_ms)),
        grace: Duration::from_millis(grace_ms),
    })
}

fn timed(session: &Session, text: &str, limits: Option<Limits>) -> Kind {
    session
        .run_text(text, "script.py", limits)
        .unwrap_err()
        .kind
}

fn timeouts(child: &Child) {
    let session = child.session();
    let text = "n = 0\nwhile True: n += 1";
    let failure = session.run_text(text, "script.py", limits(100, 10_000));
    let failure = failure.unwrap_err();
    assert_eq!(failure.kind, Kind::Timeout);
    assert!(failure.why().contains("the 100ms that"), "{failure}");
    let before = number(&session, "n");
    run(
        &session,
        "import time\nc = time.process_time()\ntime.sleep(0.2)\nc = int(1000 * (time.process_time() - c))",
    );
    assert_eq!(number(&session, "n"), before);
    assert!(number(&session, "c") < 100, "something still runs");
    // The second interrupt gets through to what caught the first.
    let stubborn = "try:\n    while True: pass\nexcept KeyboardInterrupt:\n    while True: pass";
    assert_eq!(timed(&session, stubborn, limits(100, 100)), Kind::Timeout);
    assert_eq!(
        timed(&session, "import time\ntime.sleep(60)", limits(50, 10_000)),
        Kind::Timeout
    );
    session
        .run_text("x = 1", "script.py", limits(60_000, 100))
        .unwrap();
}

/// Native code that holds Python's lock, and that no signal wakes: it waits to be told to go on.
struct Wall(*mut (libc::pthread_mutex_t, libc::pthread_cond_t));

impl Wall {
    const TEXT: &str = "def wait():\n    native.pthread_cond_wait(condition, mutex)\nwait()";

    /// `None` where this Python has no `ctypes`.
    fn new(session: &Session) -> Option<Self> {
        if !has_module(session, "ctypes") {
            return None;
        }
        let parts = (
            libc::PTHREAD_MUTEX_INITIALIZER,
            libc::PTHREAD_COND_INITIALIZER,
        );
        let wall = Self(Box::leak(Box::new(parts)));
        let set = |name, address: usize| {
            let address = Value::Int(i64::try_from(address).unwrap());
            session.set(name, address).unwrap();
            run(session, &format!("{name} = ctypes.c_void_p({name})"));
        };
        set("mutex", wall.mutex().expose_provenance());
        set("condition", wall.condition().expose_provenance());
        run(
            session,
            "native = ctypes.PyDLL(None)\nnative.pthread_mutex_lock(mutex)",
        );
        Some(wall)
    }

    const fn mutex(&self) -> *mut libc::pthread_mutex_t {
        // SAFETY: never freed.
        unsafe { &raw mut (*self.0).0 }
    }

    const fn condition(&self) -> *mut libc::pthread_cond_t {
        // SAFETY: never freed.
        unsafe { &raw mut (*self.0).1 }
    }

    /// Waits until a script stands before it, which has the mutex before.
    fn is_reached(&self) {
        // SAFETY: a mutex that lives for ever.
        assert_eq!(unsafe { libc::pthread_mutex_lock(self.mutex()) }, 0);
        // SAFETY: locked on this thread.
        assert_eq!(unsafe { libc::pthread_mutex_unlock(self.mutex()) }, 0);
    }

    /// Lets the script go on, and waits until it has ended.
    fn open(self, session: &Session) {
        self.is_reached();
        // SAFETY: a condition that lives for ever.
        assert_eq!(unsafe { libc::pthread_cond_signal(self.condition()) }, 0);
        let until = Instant::now() + SOON;
        while session.state().unwrap() != State::Idle {
            assert!(Instant::now() < until, "it never ends");
            thread::yield_now();
        }
    }
}

fn stuck(child: &Child) {
    let (session, other) = (child.session(), child.session());
    let Some(wall) = Wall::new(&session) else {
        return;
    };
    let failure = session
        .run_text(Wall::TEXT, "script.py", limits(200, 100))
        .unwrap_err();
    assert_eq!(failure.kind, Kind::Stuck);
    assert!(failure.why().contains("\"script.py\", line 2"), "{failure}");
    match session.state().unwrap() {
        State::Stuck(_, place) => assert!(place.contains("line 2"), "{place}"),
        state => panic!("{state:?}"),
    }
    assert_eq!(try_run(&session, "x = 1").unwrap_err().kind, Kind::Stuck);
    assert_eq!(try_run(&other, "x = 1").unwrap_err().kind, Kind::Stuck);
    wall.open(&session);
    run(&session, "x = 1");
    run(&other, "x = 1");
}

fn stuck_inside(child: &Child) {
    let session = child.session();
    let (go, may_go) = mpsc::channel::<()>();
    let may_go = Mutex::new(may_go);
    let waits = move |_: Vec<Value>, _: Vec<(String, Value)>| {
        let _gone = may_go.lock().unwrap().recv();
        Ok(Value::None)
    };
    session.define("waits", Box::new(waits)).unwrap();
    let text = "def f():\n    waits()\nf()";
    let failure = session.run_text(text, "script.py", limits(200, 100));
    let failure = failure.unwrap_err();
    assert_eq!(failure.kind, Kind::Stuck);
    let place = "\"script.py\", line 2 in f, in `waits` of the program";
    assert!(failure.why().contains(place), "{failure}");
    go.send(()).unwrap();
    let until = Instant::now() + SOON;
    while session.state().unwrap() != State::Idle {
        assert!(Instant::now() < until, "it never ends");
        thread::yield_now();
    }
}

/// Its own caller set no limit, so it waits on; all others need not.
fn behind(child: &Child) {
    let (session, other) = (child.session(), child.session());
    let Some(wall) = Wall::new(&session) else {
        return;
    };
    behind_wall(&session, &other, wall);
    // The same where native code lets Python's lock go.
    let wall = Wall::new(&session).unwrap();
    run(&session, "native = ctypes.CDLL(None)");
    behind_wall(&session, &other, wall);
}

fn behind_wall(session: &Session, other: &Session, wall: Wall) {
    let wait = |grace| {
        other
            .run_text("x = 1", "other.py", limits(1, grace))
            .unwrap_err()
    };
    thread::scope(|scope| {
        let runs = scope.spawn(|| session.run_text(Wall::TEXT, "script.py", None));
        wall.is_reached();
        let waits = scope.spawn(|| wait(100));
        while other.state().unwrap() != State::Waiting {
            thread::yield_now();
        }
        assert_eq!(session.interrupt().unwrap(), Outcome::Pending);
        let failure = waits.join().unwrap();
        assert_eq!(failure.kind, Kind::Stuck);
        assert!(failure.why().contains("\"script.py\", line 2"), "{failure}");
        // A later caller is told at once.
        let asked = Instant::now();
        assert_eq!(wait(60_000).kind, Kind::Stuck);
        is_quick("refusal", asked.elapsed());
        assert!(matches!(session.state().unwrap(), State::Stuck(..)));
        wall.open(session);
        let failure = runs.join().unwrap().unwrap_err();
        assert_eq!(failure.kind, Kind::Interrupted);
    });
    run(other, "assert 'x' not in globals()");
}

fn handled(child: &Child) {
    let (session, lines) = child.heard(Settings::default());
    let other = child.session();
    let text = "import time\ntry:\n    print('in')\n    while True: pass\nexcept KeyboardInterrupt: pass\n\
                end = time.monotonic() + 0.2\nwhile time.monotonic() < end: pass\n";
    thread::scope(|scope| {
        let runs = scope.spawn(|| try_run(&session, text));
        lines.recv_timeout(SOON).unwrap();
        session.interrupt().unwrap();
        other
            .run_text("x = 1", "other.py", limits(60_000, 20_000))
            .unwrap();
        runs.join().unwrap().unwrap();
    });
}

/// Nobody asked it to end twice, and it does not end by one interrupt: so it may run for ever.
fn caught(child: &Child) {
    let (session, lines) = child.heard(Settings::default());
    let session = Arc::new(session);
    let (other, host) = (child.session(), child.host);
    let text = "try:\n    print('in')\n    while True: pass\nexcept KeyboardInterrupt: pass\n\
                print('goes on')\nwhile True: pass\n";
    let runs = Arc::clone(&session);
    let runs = thread::spawn(move || try_run(&runs, text));
    lines.recv_timeout(SOON).unwrap();
    let (told, failures) = mpsc::channel();
    let also = told.clone();
    thread::spawn(move || {
        let failure = other.run_text("x = 1", "other.py", limits(60_000, 100));
        told.send(failure.unwrap_err())
    });
    session.interrupt().unwrap();
    assert!(lines.iter().any(|line| line.contains("goes on")));
    thread::spawn(move || also.send(Session::open(host, Settings::default()).unwrap_err()));
    for _ in 0..2 {
        let failure = failures.recv_timeout(SOON).unwrap();
        assert_eq!(failure.kind, Kind::Stuck);
        assert!(failure.why().contains("\"script.py\", line 6"), "{failure}");
    }
    session.interrupt().unwrap();
    assert_eq!(runs.join().unwrap().unwrap_err().kind, Kind::Interrupted);
    run(&child.session(), "x = 1");
}

fn closed(child: &Child) {
    let session = child.session();
    let Some(wall) = Wall::new(&session) else {
        return;
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.into_temp_path();
    session
        .set("path", Value::Text(path.to_str().unwrap().to_owned()))
        .unwrap();
    run(
        &session,
        "import os\nos.closerange(3, 4096)\n\
         files = [os.open(path, os.O_RDWR | os.O_APPEND) for _ in range(64)]",
    );
    let failure = session
        .run_text(Wall::TEXT, "script.py", limits(200, 100))
        .unwrap_err();
    assert_eq!(failure.kind, Kind::Stuck);
    assert!(failure.why().contains("not known"), "{failure}");
    wall.open(&session);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
    run(&session, "x = 1");
}
