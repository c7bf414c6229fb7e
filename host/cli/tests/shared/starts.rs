//! How parents start programs: with signals ignored or blocked, and with little of what the system counts.
//! Tests of other crates include this file too.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

pub(crate) type Start = fn() -> io::Result<()>;

/// Each runs in the new process, before the program.
pub(crate) const STARTS: [(&str, Start); 4] = [
    ("as usual", || Ok(())),
    ("SIGCHLD is ignored", ignore_sigchld),
    ("all signals are blocked", block_all_signals),
    ("few descriptors", || limit(libc::RLIMIT_NOFILE, 20)),
];

/// Makes `command` start so.
pub(crate) fn start_with(command: &mut Command, start: Start) -> &mut Command {
    // SAFETY: the functions of this file make system calls only, as they must between fork and exec.
    unsafe { command.pre_exec(start) }
}

fn ignore_sigchld() -> io::Result<()> {
    // SAFETY: no code of this process is to run.
    let before = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    done(before != libc::SIG_ERR)
}

fn block_all_signals() -> io::Result<()> {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is written.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: the set is read during the call.
    done(unsafe { libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut()) } == 0)
}

pub(crate) fn limit(of: libc::__rlimit_resource_t, most: libc::rlim_t) -> io::Result<()> {
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    // SAFETY: the limit is read during the call.
    done(unsafe { libc::setrlimit(of, &raw const limit) } == 0)
}

fn done(is_done: bool) -> io::Result<()> {
    if is_done {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
