//! Processes that do not reap their children themselves, each a process of its own. Tests of other crates
//! include this file too.

use std::process::Command;

/// In a child: the case to run.
pub(crate) const CASE: &str = "CROSSDOCK_TEST_CHILD_CASE";

/// What happens to the children of a process.
pub(crate) const REAPERS: [(&str, fn()); 5] = [
    ("none", || {}),
    ("ignored", || on_child_end(libc::SIG_IGN, 0)),
    ("no zombies", || {
        on_child_end(libc::SIG_DFL, libc::SA_NOCLDWAIT);
    }),
    ("a handler", || on_child_end(handler(), 0)),
    ("a handler and no pidfd", || {
        on_child_end(handler(), 0);
        refuse(libc::SYS_pidfd_open);
    }),
];

/// Runs `body` in a process for each of [`REAPERS`].
pub(crate) fn in_children(test: &str, body: fn()) {
    if let Ok(case) = std::env::var(CASE) {
        let (_, begin) = REAPERS.iter().find(|(name, _)| *name == case).unwrap();
        begin();
        return body();
    }
    for (name, _) in REAPERS {
        let ended = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(CASE, name)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{name}: {}\n{said}", ended.status);
    }
}

fn on_child_end(action: libc::sighandler_t, flags: libc::c_int) {
    // SAFETY: zeros are a valid value of this plain struct.
    let mut chosen: libc::sigaction = unsafe { std::mem::zeroed() };
    chosen.sa_sigaction = action;
    chosen.sa_flags = flags;
    // SAFETY: the handler makes only calls that a handler may make.
    let done = unsafe { libc::sigaction(libc::SIGCHLD, &raw const chosen, std::ptr::null_mut()) };
    assert_eq!(done, 0);
}

#[expect(
    clippy::fn_to_numeric_cast_any,
    reason = "the C library takes handlers as numbers"
)]
fn handler() -> libc::sighandler_t {
    extern "C" fn reap_all(_signal: libc::c_int) {
        // SAFETY: it points to the calling thread's number.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: as above.
        let before = unsafe { *errno };
        // SAFETY: no status is asked for.
        while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
        // SAFETY: as above.
        unsafe { *errno = before };
    }
    let handler: extern "C" fn(libc::c_int) = reap_all;
    handler as libc::sighandler_t
}

/// From now on this system call answers `ENOSYS` on this thread.
pub(crate) fn refuse(number: libc::c_long) {
    let step = |code: u32, k, jf| libc::sock_filter {
        code: u16::try_from(code).unwrap(),
        jt: 0,
        jf,
        k,
    };
    let errno = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    let call = u32::try_from(number).unwrap();
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        // For another call the next step is left out.
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call, 1),
        step(libc::BPF_RET | libc::BPF_K, errno, 0),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let program = libc::sock_fprog {
        len: 4,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: no pointer is passed.
    let allowed = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    let (set, mode) = (libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER);
    // SAFETY: the filter is copied during the call.
    let refused = unsafe { libc::prctl(set, mode, &raw const program) };
    assert_eq!((allowed, refused), (0, 0));
}
