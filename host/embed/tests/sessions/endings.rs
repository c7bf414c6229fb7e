//! How scripts end themselves: never the host, but for what ends any process.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};

use crossdock_embed::{Failure, Kind, Session, Settings, Value};

use crate::rig::{Child, has_module, in_children, number, run, try_run};

in_children! {
    sys_exit_does_not_end_the_host: exits;
    sys_exit_does_not_end_a_python_of_others (of_others): exits;
    sys_exit_of_a_file_or_a_module_does_not_end_the_host: files;
    sys_exit_where_nobody_can_hear_it_changes_nothing: unheard;
    exit_functions_of_scripts_are_not_run: exit_functions;
    what_ends_any_process_ends_the_host: processes;
    faulthandler_and_host_handlers: crashes;
}

/// What is passed to `sys.exit`, and the code that comes of it.
const CODES: [(&str, i32); 12] = [
    ("5", 5),
    ("-1", -1),
    ("None", 0),
    ("", 0),
    ("True", 1),
    ("'text'", 1),
    ("2.5", 1),
    ("(3, 4)", 1),
    ("2**31 - 1", i32::MAX),
    ("2**40", i32::MAX),
    ("-10**100", i32::MIN),
    ("sys", 1),
];

fn code(failure: &Failure) -> i32 {
    let Kind::Exit(code) = failure.kind else {
        panic!("{failure}");
    };
    code
}

fn exits(child: &Child) {
    let session = child.session();
    run(&session, "import sys\ndef leave(code): sys.exit(code)");
    for (text, expected) in CODES {
        let failure = try_run(&session, &format!("sys.exit({text})")).unwrap_err();
        assert_eq!(code(&failure), expected, "{text}");
        assert_eq!(failure.exception.as_deref(), Some("SystemExit"));
    }
    let failure = try_run(&session, "sys.exit('why')").unwrap_err();
    assert!(failure.why().contains("why"), "{failure}");
    for (value, expected) in [
        (Value::Int(7), 7),
        (Value::Int(i64::MAX), i32::MAX),
        (Value::Text("text".to_owned()), 1),
        (Value::None, 0),
    ] {
        let failure = session.call("leave", vec![value], Vec::new(), None);
        assert_eq!(code(&failure.unwrap_err()), expected);
    }
    odd(&session);
    run(&session, "still = 1");
    assert_eq!(number(&session, "still"), 1);
}

/// Exits that make trouble when they are looked at.
fn odd(session: &Session) {
    let raised = |text: &str| code(&try_run(session, text).unwrap_err());
    assert_eq!(raised("class E(SystemExit): pass\nraise E(6)"), 6);
    // What Python keeps counts, not what the class says of it.
    assert_eq!(
        raised("class E(SystemExit): code = property(lambda self: 1 / 0)\nraise E(6)"),
        6
    );
    assert_eq!(
        raised("class E(SystemExit):\n    def __str__(self): sys.exit(8)\nraise E(9)"),
        9
    );
    let number = "class I(int):\n    def __lt__(self, other): 1 / 0\n    __gt__ = __lt__\n";
    assert_eq!(raised(&format!("{number}sys.exit(I(4))")), 4);
    assert_eq!(raised("exit(3)"), 3);
    assert_eq!(raised("import _thread\n_thread.exit()"), 0);
    // It only looks like one.
    let failure = try_run(session, "raise KeyboardInterrupt(5)").unwrap_err();
    assert_eq!(failure.kind, Kind::Exception);
}

fn files(child: &Child) {
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path().join("leaving");
    std::fs::create_dir(&package).unwrap();
    let file = package.join("__main__.py");
    std::fs::write(&file, "import sys\nsys.exit(11)\n").unwrap();
    let session = child.session();
    assert_eq!(code(&session.run_file(&file, None).unwrap_err()), 11);
    let path = folder.path().to_str().unwrap();
    run(
        &session,
        &format!("import sys\nsys.path.insert(0, {path:?})"),
    );
    assert_eq!(code(&session.run_module("leaving", None).unwrap_err()), 11);
    // While a module is imported, a function of which is to be called.
    std::fs::write(
        folder.path().join("unready.py"),
        "import sys\nsys.exit(12)\n",
    )
    .unwrap();
    let failure = session.call("unready:f", Vec::new(), Vec::new(), None);
    assert_eq!(code(&failure.unwrap_err()), 12);
}

fn unheard(child: &Child) {
    let (session, lines) = child.heard(Settings::default());
    run(
        &session,
        "import sys, threading, weakref\nsys.unraisablehook = lambda what: print(what.exc_type.__name__)\n\
         thread = threading.Thread(target=sys.exit, args=(4,))\nthread.start()\nthread.join()\n\
         class A:\n    def __del__(self): sys.exit(5)\nA()\nx = A()\ndel x\nprint('on')",
    );
    assert_eq!(
        lines.try_iter().collect::<String>(),
        "SystemExit\nSystemExit\non\n"
    );
    drop(session);
    child.session();
}

fn exit_functions(child: &Child) {
    let session = child.session();
    run(
        &session,
        "import atexit, os, sys\natexit.register(os._exit, 9)\natexit.register(sys.exit, 8)",
    );
    // The process of this test ends with 0.
}

/// In a process that runs this text: it is to end by it.
const TEXT: &str = "CROSSDOCK_TEST_ENDING";

fn processes(child: &Child) {
    if let Some(text) = std::env::var_os(TEXT) {
        return run(&child.session(), text.to_str().unwrap());
    }
    assert_eq!(ended("import os\nos._exit(3)").code(), Some(3));
    let killed = ended("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)");
    assert_eq!(killed.signal(), Some(libc::SIGKILL));
}

fn ended(text: &str) -> ExitStatus {
    again().env(TEXT, text).output().unwrap().status
}

/// This test once more, in a process of its own.
fn again() -> Command {
    let name = std::env::args().nth(2).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &name, "--nocapture", "--test-threads=1"]);
    command
}

/// Both tell of a crash, first Python, whose handler came last; and the process ends by the signal.
fn crashes(child: &Child) {
    if std::env::var_os(TEXT).is_some() {
        let handler: extern "C" fn(i32) = on_crash;
        // SAFETY: the address of a function is a word.
        let handler = unsafe { std::ptr::from_ref(&handler).cast::<usize>().read() };
        // SAFETY: the handler calls only what a handler may.
        unsafe { libc::signal(libc::SIGSEGV, handler) };
        let text = "import ctypes, faulthandler, sys\nfaulthandler.enable(sys.__stderr__)\n\
                    def f(): ctypes.string_at(0)\nf()";
        return run(&child.session(), text);
    }
    if !has_module(&child.session(), "ctypes") {
        return;
    }
    let output = again().env(TEXT, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{said}");
    let python = said.find("line 3 in f").unwrap_or(usize::MAX);
    let host = said.find("the host's own words").unwrap_or(0);
    assert!(python < host, "{said}");
}

extern "C" fn on_crash(signal: i32) {
    const WORDS: &str = "the host's own words\n";
    // SAFETY: a text and its length; both functions may be called in a handler.
    unsafe { libc::write(2, WORDS.as_ptr().cast(), WORDS.len()) };
    // SAFETY: as above.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}
