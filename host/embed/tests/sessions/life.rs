//! Signals, forks, and the end of the process, in any order.

use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use crossdock_embed::{Host, Kind, Limits, Options, Python, Session, Settings, Value};

use crate::rig::{Child, SOON, has_module, in_children, number, rounds, run, soon, try_run};

in_children! {
    signals_are_left_alone: signals;
    a_script_blocks_the_signals_that_its_caller_blocks: blocked_signals;
    a_fork_of_the_host_has_no_scripts: forks;
    a_child_of_a_script_ends_with_its_script: children_of_scripts;
    a_script_cannot_run_scripts_that_it_would_wait_for: nested;
    a_thread_of_a_script_cannot_run_what_would_wait_for_the_script: threads_of_scripts;
    a_thread_of_a_script_cannot_run_what_would_wait_for_the_script_in_a_python_of_others (of_others): threads_of_scripts;
    a_start_file_that_exits_does_not_end_the_host: start_files;
    exit_in_any_order: exits;
    exit_in_any_order_in_a_python_of_others (of_others): exits;
}

/// Who handles each signal that hosts care for.
fn handlers() -> Vec<usize> {
    let signals = [
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGCHLD,
        libc::SIGPIPE,
        libc::SIGUSR1,
        libc::SIGSEGV,
        libc::SIGALRM,
        libc::SIGWINCH,
    ];
    let handler = |signal| {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: asks, and changes nothing.
        unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
        // SAFETY: zeroed, and any bit pattern is valid.
        unsafe { action.assume_init() }.sa_sigaction
    };
    signals.into_iter().map(handler).collect()
}

fn signals(child: &Child) {
    let before = handlers();
    let session = child.session();
    for module in ["signal", "asyncio", "multiprocessing", "subprocess"] {
        run(&session, &format!("import {module}"));
    }
    for module in ["numpy", "matplotlib.pyplot", "torch"] {
        has_module(&session, module);
    }
    run(
        &session,
        "async def f(): await asyncio.sleep(0)\nasyncio.run(f())",
    );
    run(
        &session,
        "import sys\nassert subprocess.run(['true']).returncode == 0",
    );
    assert_eq!(handlers(), before);
}

/// The signals that a thread of this process blocks, the lowest bit being signal 1.
fn blocked(name: &str) -> u64 {
    let folders = std::fs::read_dir("/proc/self/task").unwrap();
    let texts =
        folders.map(|folder| std::fs::read_to_string(folder.unwrap().path().join("status")));
    let line = |text: &str, key| {
        text.lines()
            .find_map(|line| line.strip_prefix(key).map(str::to_owned))
    };
    let mut named = texts.filter_map(Result::ok);
    let status = named
        .find(|text| line(text, "Name:").unwrap().trim() == name)
        .unwrap();
    u64::from_str_radix(line(&status, "SigBlk:").unwrap().trim(), 16).unwrap()
}

/// Blocks or unblocks a signal for the calling thread.
fn change_mask(how: i32, signal: i32) {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: there is room for a set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: a set that was made, and a valid signal.
    unsafe { libc::sigaddset(set.as_mut_ptr(), signal) };
    // SAFETY: a set that was made; the old one is not wanted.
    unsafe { libc::pthread_sigmask(how, set.as_ptr(), std::ptr::null_mut()) };
}

fn blocked_signals(child: &Child) {
    let (term, user) = (1 << (libc::SIGTERM - 1), 1 << (libc::SIGUSR1 - 1));
    let session = child.session();
    run(
        &session,
        "import signal, subprocess\n\
         def own(): return signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, [])\n\
         def ends(): p = subprocess.Popen(['sleep', '60']); p.terminate(); return p.wait() == -15",
    );
    run(&session, "assert not own() and ends()");
    for thread in ["crossdock-embed", "crossdock-watch"] {
        assert_eq!(blocked(thread) & (term | user), term | user, "{thread}");
    }
    change_mask(libc::SIG_BLOCK, libc::SIGTERM);
    run(&session, "assert own()");
    change_mask(libc::SIG_UNBLOCK, libc::SIGTERM);
    run(&session, "assert not own() and ends()");
}

/// Ends a forked child without anything of the parent's.
fn end(code: i32) -> ! {
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(code) }
}

fn waited_for(child: i32) -> i32 {
    let mut status = 0;
    // SAFETY: a child of ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "{status}");
    libc::WEXITSTATUS(status)
}

fn forks(child: &Child) {
    let session = child.session();
    // SAFETY: the child calls what must answer without locks, and ends.
    let fork = unsafe { libc::fork() };
    if fork == 0 {
        let forked = |kind| kind == Kind::Forked;
        let all = [
            forked(try_run(&session, "x = 1").unwrap_err().kind),
            forked(session.interrupt().unwrap_err().kind),
            forked(session.state().unwrap_err().kind),
            forked(Host::start(child.host.python()).unwrap_err().kind),
            forked(
                Session::open(child.host, Settings::default())
                    .unwrap_err()
                    .kind,
            ),
        ];
        drop(session);
        end(i32::from(all.contains(&false)));
    }
    assert_eq!(waited_for(fork), 0);
    run(&session, "x = 1");
}

fn children_of_scripts(child: &Child) {
    let (session, lines) = child.heard(Settings::default());
    run(
        &session,
        "import os, sys, subprocess\ndef wait(pid): return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])",
    );
    run(&session, "pid = os.fork()\nif pid: code = wait(pid)\n");
    run(&session, "assert code == 0");
    run(
        &session,
        "pid = os.fork()\nif not pid: sys.exit(7)\ncode = wait(pid)\nassert code == 7",
    );
    run(
        &session,
        "pid = os.fork()\nif not pid: print('x' * 10); 1 / 0\ncode = wait(pid)\nassert code == 1",
    );
    run(
        &session,
        "print(subprocess.check_output(['echo', 'hi']).decode(), end='')",
    );
    assert_eq!(lines.try_iter().collect::<String>(), "hi\n");
}

fn nested(child: &Child) {
    let other = child.session();
    let (said, kinds) = std::sync::mpsc::channel();
    let settings = Settings {
        stdout: true,
        output: Some(Box::new(move |_, _| {
            let failure = try_run(&other, "x = 1").unwrap_err();
            said.send((failure.kind, other.interrupt().unwrap()))
                .unwrap();
        })),
        ..Settings::default()
    };
    let session = Session::open(child.host, settings).unwrap();
    run(&session, "print('now')");
    assert_eq!(kinds.recv_timeout(SOON).unwrap().0, Kind::Busy);
    // The script waits for a thread of its own, which would wait for the script.
    let limits = Some(Limits {
        timeout: Some(SOON),
        ..Limits::default()
    });
    let text =
        "import threading\nt = threading.Thread(target=print, args=('now',))\nt.start()\nt.join()";
    session.run_text(text, "script.py", limits).unwrap();
    assert_eq!(kinds.recv_timeout(SOON).unwrap().0, Kind::Busy);
}

/// What a thread of a script calls: a function of the host's, which runs a script.
static CALLED: OnceLock<Session> = OnceLock::new();

/// Which way it ended: 0 well, 1 busy.
extern "C" fn call_of_the_host() -> i32 {
    match CALLED.get().map(|session| try_run(session, "x = 1")) {
        Some(Ok(())) => 0,
        Some(Err(failure)) if failure.kind == Kind::Busy => 1,
        _ => 2,
    }
}

fn threads_of_scripts(child: &Child) {
    let (session, lines) = child.heard(Settings::default());
    if !has_module(&session, "ctypes") {
        return;
    }
    CALLED.set(child.session()).unwrap();
    let function: extern "C" fn() -> i32 = call_of_the_host;
    // SAFETY: the address of a function is a word.
    let address = unsafe { std::ptr::from_ref(&function).cast::<i64>().read() };
    session.set("address", Value::Int(address)).unwrap();
    soon(move || {
        run(
            &session,
            "import ctypes, threading, concurrent.futures as futures\n\
             call = ctypes.CFUNCTYPE(ctypes.c_int)(address)\n\
             def grandchild():\n    t = threading.Thread(target=lambda: print(call()))\n    t.start()\n    t.join()\n\
             for target in (lambda: print(call()), grandchild):\n\
             \x20   t = threading.Thread(target=target)\n    t.start()\n    t.join()\n\
             with futures.ThreadPoolExecutor(2) as pool: print(pool.submit(call).result())",
        );
        let heard: String = lines.try_iter().collect();
        assert_eq!(heard.replace('\n', ""), "111");
        // Once the script has ended it waits for nobody.
        run(
            &session,
            "go, code = threading.Event(), None\n\
             def later():\n    global code\n    go.wait()\n    answer = 1\n\
             \x20   while answer == 1: answer = call()\n    code = answer\n\
             threading.Thread(target=later).start()\n",
        );
        run(&session, "go.set()");
        while matches!(session.get("code"), Ok(Value::None)) {
            thread::yield_now();
        }
        assert_eq!(number(&session, "code"), 0);
        run(CALLED.get().unwrap(), "assert x == 1");
    });
}

/// The environment of a process that ends while everything runs: when, in microseconds.
const ENDS_AFTER: &str = "CROSSDOCK_TEST_ENDS_AFTER";

fn exits(child: &Child) {
    if let Some(after) = std::env::var_os(ENDS_AFTER) {
        let after = after.to_str().unwrap().parse().unwrap();
        return exit_while_scripts_run(child, Duration::from_micros(after));
    }
    let name = std::env::args().nth(2).unwrap();
    for round in 0..rounds(8, 500) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let command = command.args(["--exact", &name, "--nocapture", "--test-threads=1"]);
        let output = command
            .env(ENDS_AFTER, (round * 1237 % 30_000).to_string())
            .output()
            .unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "round {round}: {}\n{complaint}",
            output.status
        );
    }
}

#[expect(clippy::exit, reason = "this is what the test is about")]
fn exit_while_scripts_run(child: &Child, after: Duration) {
    let texts = [
        "while True: pass",
        "import time\ntime.sleep(60)",
        "def f(x): return x",
    ];
    // Behind a script that never ends, none could be opened.
    for (text, session) in texts.map(|text| (text, child.session())) {
        thread::spawn(move || {
            while try_run(&session, text).is_ok_and(|()| text.starts_with("def")) {
                drop(session.call("f", vec![Value::Bytes(vec![0; 1000])], Vec::new(), None));
            }
        });
    }
    let session = child.session_that_may_be_late();
    let until = Instant::now() + after;
    while Instant::now() < until {
        thread::yield_now();
    }
    drop(session);
    std::process::exit(0);
}

impl Child {
    /// A session from a thread that the end of the process may find waiting.
    fn session_that_may_be_late(&self) -> thread::JoinHandle<()> {
        let host = self.host;
        thread::spawn(move || drop(Session::open(host, Settings::default())))
    }
}

#[test]
fn starts_without_python() {
    let options = Options {
        python: Some(PathBuf::from("/nowhere/python")),
        ..Options::default()
    };
    // SAFETY: no script runs.
    let failure = unsafe { Python::open(&options, std::ptr::null()) }.unwrap_err();
    assert_eq!(failure.kind, Kind::NoPython);
    assert!(failure.to_string().contains("/nowhere/python"), "{failure}");
}

/// In a process whose environment keeps Python from starting: the variable that does it.
const IS_STEERED: &str = "CROSSDOCK_TEST_STEERED";

/// Variables that end every Python at its start.
const STEERING: [(&str, &str); 5] = [
    ("PYTHONHOME", "/nowhere"),
    ("PYTHONHASHSEED", "odd"),
    ("PYTHONUTF8", "7"),
    ("PYTHONMALLOC", "none"),
    ("PYTHONTRACEMALLOC", "-1"),
];

#[test]
fn an_environment_that_keeps_python_from_starting_does_not_end_the_host() {
    if let Some(variable) = std::env::var_os(IS_STEERED) {
        return is_told(variable.to_str().unwrap());
    }
    for (variable, value) in STEERING {
        let name = "life::an_environment_that_keeps_python_from_starting_does_not_end_the_host";
        let mut command = Command::new(std::env::current_exe().unwrap());
        let command = command.args(["--exact", name, "--test-threads=1"]);
        let steered = command.env(IS_STEERED, variable).env(variable, value);
        let output = steered.output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{variable}: {complaint}");
    }
}

fn is_told(variable: &str) {
    // SAFETY: no script runs.
    match unsafe { Python::open(&Options::default(), std::ptr::null()) } {
        Ok(python) => {
            let failure = Host::start(python).unwrap_err();
            assert_eq!(failure.kind, Kind::NoPython);
            assert!(failure.hint().contains(variable), "{failure}");
        }
        Err(failure) => println!("skipped: {failure}"),
    }
}

/// In a process whose Python has a start file that exits: the file.
const START_FILE: &str = "CROSSDOCK_TEST_START_FILE";

/// `usercustomize` runs when Python starts. Once it is mended, the same process starts Python.
fn start_files(child: &Child) {
    let python = &child.host.python().choice().executable;
    let asked = "import site; print(site.getusersitepackages())";
    let home = tempfile::tempdir().unwrap();
    let said = Command::new(python)
        .args(["-c", asked])
        .env("HOME", home.path())
        .output();
    let folder = PathBuf::from(String::from_utf8(said.unwrap().stdout).unwrap().trim());
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("usercustomize.py");
    std::fs::write(&file, "raise SystemExit(3)\n").unwrap();
    let name = "life::a_start_file_that_exits_is_reported";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    command
        .env("HOME", home.path())
        .env(START_FILE, file)
        .env(START_WITH, python);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
}

/// In such a process: its Python.
const START_WITH: &str = "CROSSDOCK_TEST_START_WITH";

#[test]
fn a_start_file_that_exits_is_reported() {
    let Some(file) = std::env::var_os(START_FILE) else {
        return;
    };
    let options = Options {
        python: std::env::var_os(START_WITH).map(PathBuf::from),
        ..Options::default()
    };
    // SAFETY: no script runs.
    let python = unsafe { Python::open(&options, std::ptr::null()) }.unwrap();
    let start = Command::new(&python.choice().executable)
        .args(["-c", "pass"])
        .status();
    if start.unwrap().success() {
        return println!("skipped: this Python ignores the start files of users");
    }
    let failure = Host::start(python).unwrap_err();
    assert_eq!(failure.kind, Kind::NoPython, "{failure}");
    std::fs::remove_file(file).unwrap();
    let host = Host::start(python).unwrap();
    run(&Session::open(host, Settings::default()).unwrap(), "x = 1");
}
