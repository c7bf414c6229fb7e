//! The two signals of the script thread: one that wakes it, and one that makes it say where it is.
#![expect(
    unsafe_code,
    reason = "sends signals to a thread, and reads what Python writes into a pipe"
)]

use std::collections::HashMap;
use std::ffi::c_int;
use std::io::{PipeReader, PipeWriter, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How the script thread is reached without the interpreter's lock.
#[derive(Debug)]
pub(crate) struct Signals {
    thread: libc::pthread_t,
    /// Wakes it from waits; Python's handler asks whether it is to stop. Only Python's main thread
    /// handles signals, so there is none on another.
    wake: Option<c_int>,
    place: Option<Place>,
}

/// `faulthandler` writes where the thread is, from within the signal's handler.
#[derive(Debug)]
struct Place {
    signal: c_int,
    reader: Mutex<PipeReader>,
    writer: PipeWriter,
    /// The pipe, whose ends a script can close: other files would get their numbers.
    pipe: Identity,
}

/// How long the thread may take to say where it is.
const ANSWER: Duration = Duration::from_millis(200);

impl Signals {
    /// For the thread that this is called on.
    pub(crate) fn of_this_thread(is_pythons_main: bool) -> Self {
        let mut free = free_signals();
        let wake = if is_pythons_main { free.next() } else { None };
        let place = free.next().and_then(Place::new);
        let taken = [wake, place.as_ref().map(|place| place.signal)];
        change_mask(libc::SIG_UNBLOCK, &taken);
        Self {
            // SAFETY: asks for nothing.
            thread: unsafe { libc::pthread_self() },
            wake,
            place,
        }
    }

    /// The signal that wakes, the one that asks where it is, and the descriptor for the answer; 0
    /// where there is none.
    pub(crate) fn numbers(&self) -> (c_int, c_int, c_int) {
        let place = self.place.as_ref();
        let place = place.map_or((0, 0), |place| (place.signal, place.writer.as_raw_fd()));
        (self.wake.unwrap_or(0), place.0, place.1)
    }

    /// Whether a signal can wake it: a script may have reset it.
    pub(crate) fn can_wake(&self) -> bool {
        self.wake.is_some_and(|signal| !is_free(signal))
    }

    /// Keeps it from being woken, on the thread itself: a function of the host would get `EINTR`. A script notices
    /// afterwards what was sent meanwhile.
    pub(crate) fn quiet(&self) -> Option<Quiet> {
        // SAFETY: asks for nothing.
        let is_here = unsafe { libc::pthread_self() } == self.thread;
        self.wake.filter(|_| is_here).map(Quiet::new)
    }

    /// Wakes it.
    pub(crate) fn wake(&self) {
        if let Some(signal) = self.wake {
            self.send(signal);
        }
    }

    /// The line of Python that it is in: `File "a.py", line 3 in f`, and in which function of the host's.
    pub(crate) fn place(&self) -> Option<String> {
        let place = self.place.as_ref()?;
        let mut reader = place.reader.lock().ok()?;
        let ends = [reader.as_raw_fd(), place.writer.as_raw_fd()];
        if ends.iter().any(|end| identity(*end) != Some(place.pipe)) {
            return None;
        }
        drain(&mut reader);
        self.send(place.signal);
        let until = Instant::now() + ANSWER;
        let mut text = Vec::new();
        while readable(&reader, until) {
            text.extend(drain(&mut reader));
            // What it writes comes piece by piece.
            if let Some(place) = told(&String::from_utf8_lossy(&text)) {
                return Some(place);
            }
        }
        None
    }

    /// Sends a signal that is still handled: a script may have reset it, and it would end the process.
    fn send(&self, signal: c_int) {
        if is_free(signal) {
            return;
        }
        // SAFETY: the thread never ends.
        let failed = unsafe { libc::pthread_kill(self.thread, signal) };
        debug_assert_eq!(failed, 0, "a live thread and a valid signal");
    }
}

impl Place {
    fn new(signal: c_int) -> Option<Self> {
        let (reader, writer) = std::io::pipe().ok()?;
        for end in [reader.as_raw_fd(), writer.as_raw_fd()] {
            // SAFETY: a descriptor of ours. A handler that writes must never wait.
            unsafe { libc::fcntl(end, libc::F_SETFL, libc::O_NONBLOCK) };
        }
        Some(Self {
            signal,
            pipe: identity(reader.as_raw_fd())?,
            reader: Mutex::new(reader),
            writer,
        })
    }
}

/// The line in which a script is, of what `faulthandler` writes: a title, and the calls, the innermost first. A
/// function of the host's is a call of no file, and is told with the line that called it.
fn told(written: &str) -> Option<String> {
    let (complete, _rest) = written.rsplit_once('\n')?;
    let lines = complete.lines().map(str::trim);
    let mut calls = lines.filter(|line| line.starts_with("File "));
    let first = calls.next()?;
    if !first.starts_with("File \"<program>\"") {
        return Some(with_given_name(first));
    }
    let (_, function) = first.rsplit_once(" in ")?;
    let caller = with_given_name(calls.next()?);
    Some(format!("{caller}, in `{function}` of the program"))
}

/// A call in `<text 3: NAME>` (`_register` in `sessions.py`) as one in the file that the host named.
fn with_given_name(call: &str) -> String {
    let given = || {
        let (_number, named) = call.strip_prefix("File \"<text ")?.split_once(": ")?;
        let (name, place) = named.rsplit_once(">\", line ")?;
        Some(format!("File \"{name}\", line {place}"))
    };
    given().unwrap_or_else(|| call.to_owned())
}

/// Device and inode.
type Identity = (libc::dev_t, libc::ino_t);

/// Which file a number stands for now.
fn identity(number: RawFd) -> Option<Identity> {
    let mut facts = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: a number that is no file is an error, and there is room for the answer.
    let failed = unsafe { libc::fstat(number, facts.as_mut_ptr()) };
    // SAFETY: zeroed, and every bit pattern of it is an answer.
    let facts = unsafe { facts.assume_init() };
    (failed == 0).then_some((facts.st_dev, facts.st_ino))
}

/// What is in the pipe now.
fn drain(reader: &mut PipeReader) -> Vec<u8> {
    let mut text = Vec::new();
    // It ends with the error that there is no more for now.
    let _would_block = reader.read_to_end(&mut text);
    text
}

/// Whether there is something to read before a point in time.
fn readable(reader: &PipeReader, until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    let milliseconds = c_int::try_from(left.as_millis()).unwrap_or(c_int::MAX);
    let mut asked = libc::pollfd {
        fd: reader.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one descriptor, which is open.
    unsafe { libc::poll(&raw mut asked, 1, milliseconds) > 0 }
}

/// Real-time signals that nobody in this process handles. The first few are left to others, who
/// count from there.
fn free_signals() -> impl Iterator<Item = c_int> {
    const LEFT_TO_OTHERS: c_int = 5;
    let all = libc::SIGRTMIN() + LEFT_TO_OTHERS..=libc::SIGRTMAX();
    all.filter(|&signal| is_free(signal))
}

/// Whether nobody handles a signal.
fn is_free(signal: c_int) -> bool {
    action(signal).is_some_and(|action| action.sa_sigaction == libc::SIG_DFL)
}

/// What the process does with a signal; `None` if there is no such signal.
fn action(signal: c_int) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: asks for the action and changes none.
    let failed = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: zeroed, and every bit pattern of it is an action.
    let action = unsafe { action.assume_init() };
    (failed == 0).then_some(action)
}

/// What the process does with its signals without Python. Python itself does not know of handlers that the host
/// set after Python started, and cannot set those again that a script replaced.
#[derive(Default)]
pub(crate) struct HostActions(Mutex<HashMap<c_int, libc::sigaction>>);

impl HostActions {
    /// Remembers all actions that are not Python's. `own` is a signal that Python handles.
    pub(crate) fn save(&self, own: c_int) {
        let python = action(own).map_or(libc::SIG_DFL, |action| action.sa_sigaction);
        let mut saved = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for signal in 1..=libc::SIGRTMAX() {
            if let Some(action) = action(signal).filter(|action| action.sa_sigaction != python) {
                saved.insert(signal, action);
            }
        }
    }

    /// Sets what was remembered last.
    pub(crate) fn restore(&self, signal: c_int) {
        let saved = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(action) = saved.get(&signal) {
            // SAFETY: an action that the system reported for this signal.
            unsafe { libc::sigaction(signal, action, std::ptr::null_mut()) };
        }
    }
}

/// The signal that wakes is blocked on the script thread while this lives.
pub(crate) struct Quiet(c_int);

impl Quiet {
    pub(crate) fn new(wake: c_int) -> Self {
        change_mask(libc::SIG_BLOCK, &[Some(wake)]);
        Self(wake)
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        change_mask(libc::SIG_UNBLOCK, &[Some(self.0)]);
    }
}

/// Changes the mask of this thread. The host may have blocked signals for the threads that it starts.
fn change_mask(how: c_int, signals: &[Option<c_int>]) {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: makes the set empty.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in signals.iter().flatten() {
        // SAFETY: a set that was made, and a valid signal.
        unsafe { libc::sigaddset(set.as_mut_ptr(), *signal) };
    }
    // SAFETY: a set that was made; the old one is not wanted.
    unsafe { libc::pthread_sigmask(how, set.as_ptr(), std::ptr::null_mut()) };
}
