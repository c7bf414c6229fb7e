//! The end of a process in which a plugin is open: by an exit, and as the child of a fork.
//!
//! No process that has other cases to run can show either, so such a case runs in one that is made for
//! it and ends with it.
#![expect(
    unsafe_code,
    reason = "forks, starts a timer and registers a C function for the exit"
)]

use std::ffi::c_void;
use std::fs::File;
use std::io::Write as _;
use std::process::ExitStatus;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use std::{io, mem::ManuallyDrop, os::unix::process::ExitStatusExt as _};

use crossdock::{Device, Error};
use crossdock_sdk::abi::{HostFunction, Status, StreamHandle};
use crossdock_sdk::fence::fence;
use rustix::process::{Pid, Signal, WaitOptions, waitpid};

use crate::Outcome;
use crate::case::{Verdict, ensure, failed, is_unsupported, same_bytes, skipped};
use crate::random::pattern;
use crate::subject::Subject;

/// How the process of a case ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// It exits while the plugin is open and has work.
    Exit,
    /// Children are forked off it, which exit.
    Fork,
}

/// Writes into `told` what `word` makes of the exit, when the process has come through what plugins do
/// then. To be called once, before a plugin is opened: what is registered first runs last.
///
/// # Errors
/// When the system refuses to register it.
pub fn tell_at_exit(told: File, word: Word) -> io::Result<()> {
    let first = LAST_WORD.set((told, word)).is_ok();
    // SAFETY: the function takes nothing, may run on any thread, and no panic leaves it.
    let registered = first && unsafe { libc::atexit(last_word) } == 0;
    if registered {
        return Ok(());
    }
    Err(io::Error::other("the exit of the process is not noticed"))
}

/// What is written of an outcome.
type Word = fn(Outcome) -> Vec<u8>;

static LAST_WORD: OnceLock<(File, Word)> = OnceLock::new();
/// A child of a fork has no word to say: its parent sees how it ended.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

extern "C" fn last_word() {
    if let Some((mut told, word)) = LAST_WORD.get().map(|(told, word)| (told, *word))
        && !IS_CHILD.load(Ordering::Relaxed)
    {
        let word = fence(|| word(after_exit().into())).unwrap_or_default();
        // Without the word the case fails, which is all that can be done.
        let _written = told.write_all(&word);
    }
}

impl Ending {
    /// Runs the case in the process that is to end. Where the outcome is no failure, the caller then
    /// exits with the plugin open: it leaks the subject's runtime.
    ///
    /// `open_anew` opens the plugin in a child of a fork, and gives the same device, if it is there. A child that finds
    /// a failure gives it to `tell` itself. A process or child that takes longer than `limit` ends by
    /// `SIGALRM`, and a child ends with its parent.
    pub fn run(
        self,
        subject: &Subject<'_>,
        limit: Duration,
        open_anew: impl Fn() -> Result<Option<Device>, Error>,
        tell: impl Fn(Outcome),
    ) -> Outcome {
        let verdict = match self {
            Self::Exit => leave_work(subject).map(|()| end_after(limit)),
            Self::Fork => forks(subject, &|| {
                // The child is not waited for without it either: the alarm ends it.
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).ok();
                end_after(limit);
                let verdict = in_child(&open_anew);
                let is_well = verdict.is_ok();
                if !is_well {
                    tell(verdict.into());
                }
                is_well
            }),
        };
        verdict.into()
    }
}

/// Leaves memory behind, and a stream with work where there are streams.
fn leave_work(subject: &Subject<'_>) -> Verdict {
    let memory = subject.allocate(BYTES as u64)?;
    memory.write(0, &pattern(1, BYTES))?;
    if subject.needs_streams().is_ok() {
        let mut stream = subject.stream()?;
        stream.upload(&memory, pattern(2, BYTES))?;
        let left = ManuallyDrop::new(stream);
        leave_functions(subject, left.handle())?;
    }
    let _left = ManuallyDrop::new(memory);
    Ok(())
}

/// Leaves a function behind that is running when the process exits, and one behind it on the stream.
fn leave_functions(subject: &Subject<'_>, stream: StreamHandle) -> Verdict {
    if subject.hooks().table().host_calls().is_none() {
        return Ok(());
    }
    let functions: [unsafe extern "C" fn(*mut c_void); 2] = [lasts, begins];
    for function in functions {
        let before = CALLS.begun();
        // SAFETY: `stream_host_call` needs
        // - a function for any thread and any word: both use what is static, and no word.
        let queued = unsafe {
            let function = HostFunction(Some(function));
            subject
                .hooks()
                .stream_host_call(stream, function, null_mut())
        };
        if is_unsupported(&queued) {
            return Ok(());
        }
        queued?;
        // A stream that does nothing until somebody waits leaves nothing to be looked at. And a plugin whose
        // driver does not keep the functions in order calls the second one now, or never.
        CALLS.wait_for_more(before);
    }
    Ok(())
}

/// Demands that no function begins once `at_exit` has returned.
fn after_exit() -> Verdict {
    let begun = CALLS.begun();
    CALLS.end();
    CALLS.wait_for_more(begun);
    let later = CALLS.begun() - begun;
    ensure!(
        later == 0,
        "a function of the host began after `at_exit` had returned"
    );
    Ok(())
}

/// The functions that were left on a stream.
struct Calls {
    state: Mutex<(u32, bool)>,
    changed: Condvar,
}

static CALLS: Calls = Calls {
    state: Mutex::new((0, false)),
    changed: Condvar::new(),
};

impl Calls {
    /// How many have begun.
    fn begun(&self) -> u32 {
        self.state().0
    }

    /// Notes that one begins.
    fn begin(&self) {
        self.state().0 += 1;
        self.changed.notify_all();
    }

    /// Lets those end that last.
    fn end(&self) {
        self.state().1 = true;
        self.changed.notify_all();
    }

    /// Waits a moment for another one to begin.
    fn wait_for_more(&self, begun: u32) {
        let waits = |state: &mut (u32, bool)| state.0 <= begun;
        let waited = self.changed.wait_timeout_while(self.state(), MOMENT, waits);
        drop(waited);
    }

    /// Waits until those that last may end: not for long, since a driver may wait for its threads at its own
    /// exit.
    fn last(&self) {
        let waits = |state: &mut (u32, bool)| !state.1;
        let waited = self
            .changed
            .wait_timeout_while(self.state(), LONGEST, waits);
        drop(waited);
    }

    /// A count is changed by one assignment, so a panic elsewhere does not spoil it.
    fn state(&self) -> MutexGuard<'_, (u32, bool)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

unsafe extern "C" fn lasts(_: *mut c_void) {
    let _caught = fence(|| {
        CALLS.begin();
        CALLS.last();
    });
}

unsafe extern "C" fn begins(_: *mut c_void) {
    let _caught = fence(|| CALLS.begin());
}

/// Forks children while another thread is inside of the plugin, and uses the plugin once more.
fn forks(subject: &Subject<'_>, child: &dyn Fn() -> bool) -> Verdict {
    if has_address_sanitizer() {
        return skipped(
            "AddressSanitizer is in this process: a lock of its own may be held for ever in the child",
        );
    }
    for _ in 0..FORKS {
        let is_over = AtomicBool::new(false);
        let ended = std::thread::scope(|scope| {
            let busy = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    round_trip(subject)?;
                }
                Ok(())
            });
            let ended = fork(child);
            is_over.store(true, Ordering::Relaxed);
            let used = busy.join();
            used.unwrap_or_else(|_| failed("a thread of the suite panicked"))?;
            ended.map_err(|error| crate::case::Unmet::Failed(format!("fork: {error}")))
        })?;
        if ended.code() != Some(WELL) {
            return failed(shown(ended));
        }
    }
    round_trip(subject)
}

/// Whether memory comes from `AddressSanitizer`, whose older versions (gcc 12) make no lock anew in a child.
fn has_address_sanitizer() -> bool {
    // SAFETY: the name is a C string, and looking it up calls nothing.
    !unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__asan_init".as_ptr()) }.is_null()
}

#[expect(
    clippy::exit,
    reason = "the end of the child is what the case is about"
)]
/// Forks a child that calls `child` and exits with [`WELL`] where that answers that all is well.
fn fork(child: &dyn Fn() -> bool) -> io::Result<ExitStatus> {
    // SAFETY: takes nothing. The child has this thread only. It uses what the C library, Rust's and
    // Crossdock keep usable in a child; a plugin that does not is what is looked for.
    match unsafe { libc::fork() } {
        0 => {
            IS_CHILD.store(true, Ordering::Relaxed);
            std::process::exit(if child() { WELL } else { 1 });
        }
        number => {
            let child = Pid::from_raw(number).ok_or_else(io::Error::last_os_error)?;
            let ended = rustix::io::retry_on_intr(|| waitpid(Some(child), WaitOptions::empty()))?;
            let ended = ended.ok_or_else(|| io::Error::other("the child did not end"))?;
            Ok(ExitStatus::from_raw(ended.1.as_raw()))
        }
    }
}

/// Opens the plugin in a child of a fork, and uses it. One whose driver the parent has started is not
/// to be had there.
fn in_child(open_anew: &dyn Fn() -> Result<Option<Device>, Error>) -> Verdict {
    match open_anew() {
        Err(error) if error.status() == Some(Status::FORKED) => Ok(()),
        device => {
            let Some(device) = device? else {
                return failed("the plugin has no such device in the child of a fork");
            };
            let subject = Subject::new(device.plugin().hooks(), device.index())?;
            round_trip(&subject)
        }
    }
}

fn round_trip(subject: &Subject<'_>) -> Verdict {
    let memory = subject.allocate(BYTES as u64)?;
    let bytes = pattern(3, BYTES);
    memory.write(0, &bytes)?;
    same_bytes("a round trip", &memory.read(0, BYTES)?, &bytes)
}

/// Lets `SIGALRM` end this process after a time, whatever its parent blocks and ignores. To be called before
/// a plugin is opened too, as that may hang.
pub fn end_after(limit: Duration) {
    let mut alarm = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is written.
    unsafe { libc::sigemptyset(alarm.as_mut_ptr()) };
    // SAFETY: the set is empty, and the signal a valid one.
    unsafe { libc::sigaddset(alarm.as_mut_ptr(), libc::SIGALRM) };
    // SAFETY: the set is read during the call, and the mask before is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, alarm.as_ptr(), null_mut()) };
    // SAFETY: the default action runs no code of this process.
    unsafe { libc::signal(libc::SIGALRM, libc::SIG_DFL) };
    let it_value = libc::timeval {
        tv_sec: limit.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_usec: limit.subsec_micros().into(),
    };
    let timer = libc::itimerval {
        it_interval: libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        },
        it_value,
    };
    // SAFETY: the timer is read during the call, and the old one is not asked for.
    let _started = unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, null_mut()) };
}

/// How a child ended that did not end well.
fn shown(ended: ExitStatus) -> String {
    match (ended.signal(), ended.code()) {
        (Some(libc::SIGALRM), _) => {
            "the child of a fork hangs: mostly behind a lock that another thread of its parent held"
                .to_owned()
        }
        (Some(number), _) => format!("the child of a fork ended by signal {number}"),
        (None, code) => format!(
            "the child of a fork was ended with code {}",
            code.unwrap_or(-1)
        ),
    }
}

const BYTES: usize = 4096;
/// How long something may take that happens at once or never.
const MOMENT: Duration = Duration::from_millis(100);
/// How long a function lasts that nobody ends.
const LONGEST: Duration = Duration::from_millis(500);
const FORKS: usize = 4;

/// The exit code of a child of a fork that ended well, which one that a plugin ends does not have.
const WELL: i32 = 86;
