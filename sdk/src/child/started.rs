//! The children that a program has, as a signal handler can read them, and the end of all of them.
//!
//! The functions here that end processes make only calls that a signal handler may make.
#![expect(unsafe_code, reason = "signals, and what a signal handler may call")]

use std::ffi::CString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use super::process::{REAPS_ALONE, UNREAPED, waited};

/// The children of a program that called `reap_alone`, from their start until they are reaped: a PID, or the
/// negative one of the leader of a group.
static STARTED: [AtomicI32; 16] = [const { AtomicI32::new(0) }; 16];

/// Where the system lists the children of the main thread.
static CHILDREN: OnceLock<CString> = OnceLock::new();

/// A child's place in the list, if there was one left.
#[derive(Debug)]
pub(super) struct Started(Option<&'static AtomicI32>);

impl Started {
    pub(super) fn new(pid: libc::pid_t, leads_group: bool) -> Self {
        let number = if leads_group { -pid } else { pid };
        let mut places = STARTED.iter();
        Self(places.find(|place| {
            let order = Ordering::AcqRel;
            place
                .compare_exchange(0, number, order, Ordering::Relaxed)
                .is_ok()
        }))
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            place.store(0, Ordering::Release);
        }
    }
}

/// Has the system kill the process that this starts when the calling thread ends.
pub(super) fn bound(command: &mut Command) -> &mut Command {
    let parent = std::process::id().cast_signed();
    let bind = move || {
        // SAFETY: no pointer is passed.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
        // SAFETY: takes nothing.
        if unsafe { libc::getppid() } != parent {
            // The parent ended before the call, so no signal comes.
            // SAFETY: ends the process without running any code of it.
            unsafe { libc::_exit(1) };
        }
        Ok(())
    };
    // SAFETY: the function makes system calls only, as it must between fork and exec.
    unsafe { command.pre_exec(bind) }
}

/// Kills all children of a program that called `reap_alone`, with the groups that they lead and the orphans
/// that they leave. It may be called by a signal handler, after which the process ends.
pub fn kill_all() {
    if !REAPS_ALONE.load(Ordering::Relaxed) {
        return;
    }
    for number in started() {
        // SAFETY: no pointer is passed. The child is not reaped, so the number is its own.
        unsafe { libc::kill(number, libc::SIGKILL) };
    }
    // A process inside of a driver may not die: it is left to the system.
    for _ in 0..MOMENTS {
        let mut all = started();
        let is_running =
            all.any(|number| matches!(waited(libc::P_PID, number.abs(), UNREAPED), Ok(None)));
        let had_orphans = kill_orphans_once();
        if !is_running && !had_orphans {
            return;
        }
        pause();
    }
}

/// Kills the children that this program did not start, until there are none.
pub(super) fn kill_orphans() {
    for _ in 0..MOMENTS {
        if !kill_orphans_once() {
            return;
        }
        pause();
    }
}

/// Kills the children that this program did not start, and returns whether there were any. Each can leave
/// others.
fn kill_orphans_once() -> bool {
    let mut had_orphans = false;
    each_child(|pid| {
        if started().all(|number| number.abs() != pid) {
            had_orphans = true;
            // SAFETY: no pointer is passed. The process is a child of this one, which alone reaps it.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            let _ended = waited(libc::P_PID, pid, libc::WEXITED | libc::WNOHANG);
        }
    });
    had_orphans
}

fn started() -> impl Iterator<Item = libc::pid_t> {
    let numbers = STARTED.iter().map(|place| place.load(Ordering::Acquire));
    numbers.filter(|number| *number != 0)
}

/// Notes where the system lists the children of the main thread, to which orphans come.
pub(super) fn find_children() {
    let path = format!("/proc/self/task/{}/children", std::process::id());
    drop(CHILDREN.set(CString::new(path).unwrap_or_default()));
}

/// Calls `with` for each child of the main thread. Without the kernel's list (`CONFIG_PROC_CHILDREN`) there is
/// no call.
fn each_child(mut with: impl FnMut(libc::pid_t)) {
    let Some(path) = CHILDREN.get() else {
        return;
    };
    // SAFETY: a C string.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return;
    }
    let (mut bytes, mut pid) = ([0_u8; 1024], 0);
    loop {
        // SAFETY: there is room for so many bytes.
        let count = unsafe { libc::read(file, bytes.as_mut_ptr().cast(), bytes.len()) };
        let read = bytes.get(..usize::try_from(count).unwrap_or(0));
        let Some(read @ [_, ..]) = read else {
            break;
        };
        // Numbers, each with a space behind it.
        for byte in read {
            if byte.is_ascii_digit() {
                pid = pid * 10 + libc::pid_t::from(byte - b'0');
            } else if pid != 0 {
                with(pid);
                pid = 0;
            }
        }
    }
    // SAFETY: opened above.
    unsafe { libc::close(file) };
}

/// Sleeps for a moment.
fn pause() {
    let moment = libc::timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    // SAFETY: the time is read during the call, and what is left of it is not asked for.
    unsafe { libc::nanosleep(&raw const moment, ptr::null_mut()) };
}

/// How many moments the end of killed processes is awaited.
const MOMENTS: u32 = 1000;
