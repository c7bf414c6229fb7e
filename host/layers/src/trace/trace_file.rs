//! The trace file: what a host and its plugins did and when, for <https://ui.perfetto.dev>.
//!
//! [`start`] begins it; `%p` in a name stands for the process id. The file
//! is an array of Chrome trace events, and is whole after every write: it can be read while it
//! grows, and after a crash. Events wait for at most a tenth of a second, or until the next one.
//! After a write that fails, as on a full disk, it ends with the events before that write.
//!
//! Traced are the calls of hooks that go through a [`Stack`](crate::Stack), and [`span`]s of the host.
//! Without a trace a call costs one relaxed load more.
#![expect(
    unsafe_code,
    reason = "asks the system for thread numbers and a file lock"
)]

use std::cell::Cell;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crossdock_sdk::regular;
use serde_json::{Map, Value, json};

use crate::error::LayersError;

/// Whether there is a trace; the one word that every call of a hook looks at.
static ON: AtomicBool = AtomicBool::new(false);
/// How many traces were started, so that each thread names itself once in each.
static SESSION: AtomicU32 = AtomicU32::new(0);
/// The process that began the trace. In its forks nothing is written, and no lock is taken.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Whether the process is exiting: then nothing waits.
static IS_ENDING: AtomicBool = AtomicBool::new(false);
static TRACE: Mutex<Option<Trace>> = Mutex::new(None);
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Events are written when there are so many bytes of them, or when the oldest is so old.
const BATCH_BYTES: usize = 64 << 10;
const BATCH_NS: u64 = 100_000_000;
/// What makes an array of the events before it; the next batch is written over it.
const END: &str = "\n]\n";

/// A trace that is being written.
struct Trace {
    file: File,
    path: PathBuf,
    /// Where the next batch goes: the events before it end here.
    end: u64,
    pending: String,
    oldest_ns: u64,
    /// The first failure to write; nothing is written after it.
    failed: Option<io::Error>,
    is_failure_told: bool,
}

/// Starts a trace into `path`, a regular file that is created, or emptied where it exists. Not to be
/// called in the child of a fork, where a thread that the child does not have may hold the trace.
///
/// # Errors
/// There is a trace already, another process writes this file, or it cannot be written.
pub fn start(path: impl AsRef<Path>) -> Result<(), LayersError> {
    let path = numbered(path.as_ref());
    let mut trace = lock();
    if let Some(running) = trace.as_ref() {
        let file = running.path.display();
        return Err(refuse(format!(
            "a trace into `{file}` is running: stop it first"
        )));
    }
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    let opened =
        Trace::create(&path).map_err(|error| refuse(format!("`{}`: {error}", path.display())))?;
    *trace = Some(opened);
    LazyLock::force(&EPOCH);
    SESSION.fetch_add(1, Ordering::Relaxed);
    ON.store(true, Ordering::Release);
    Ok(())
}

/// Ends the trace and closes its file.
///
/// # Errors
/// There is none, or the first failure to write it. In the child of a fork: the parent's it is.
pub fn stop() -> Result<(), LayersError> {
    if is_on() && is_fork() {
        return Err(refuse(
            "this process is a fork of the one that is traced: stop the trace there".to_owned(),
        ));
    }
    let taken = {
        let mut trace = lock();
        ON.store(false, Ordering::Release);
        trace.take()
    };
    let Some(mut trace) = taken else {
        return Err(refuse("no trace is running".to_owned()));
    };
    trace.flush();
    match trace.failed.take() {
        None => Ok(()),
        Some(error) => Err(refuse(format!("`{}`: {error}", trace.path.display()))),
    }
}

/// Whether a trace is running. One relaxed load.
#[must_use]
#[inline]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Whether this is a fork of the process that is traced.
fn is_fork() -> bool {
    PROCESS.load(Ordering::Relaxed) != std::process::id()
}

/// Writes out what is waiting, and from then on each event at once: the process is exiting. Gives the first
/// failure to write, unless it was logged.
pub fn finish() -> Option<String> {
    IS_ENDING.store(true, Ordering::Relaxed);
    if !is_on() || is_fork() {
        return None;
    }
    let mut trace = lock();
    let trace = trace.as_mut()?;
    trace.flush();
    trace.new_failure()
}

/// Nanoseconds since the first trace began.
pub(crate) fn now() -> u64 {
    u64::try_from(EPOCH.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Something of the host's own that takes time; recorded when it is dropped.
#[derive(Debug)]
#[must_use = "the span ends when it is dropped"]
pub struct Span(Option<Running>);

#[derive(Debug)]
struct Running {
    category: &'static str,
    name: &'static str,
    began: u64,
    arguments: Map<String, Value>,
}

/// Begins a span. `arguments` is asked only when there is a trace.
pub fn span(category: &'static str, name: &'static str, arguments: impl FnOnce() -> Value) -> Span {
    if !is_on() {
        return Span(None);
    }
    let Value::Object(arguments) = arguments() else {
        return Span(None);
    };
    Span(Some(Running {
        category,
        name,
        began: now(),
        arguments,
    }))
}

impl Span {
    /// Adds what is known only at the end.
    pub fn add(&mut self, name: &str, value: impl FnOnce() -> Value) {
        if let Some(running) = &mut self.0 {
            running.arguments.insert(name.to_owned(), value());
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(span) = self.0.take() {
            record(span.category, span.name, span.began, span.arguments);
        }
    }
}

/// Records what began at `began` and ends now. Writes nothing in the child of a fork.
pub(crate) fn record(
    category: &'static str,
    name: &'static str,
    began: u64,
    arguments: Map<String, Value>,
) {
    if !is_on() || is_fork() {
        return;
    }
    let now = now();
    let (began, length) = (Microseconds(began), Microseconds(now.saturating_sub(began)));
    let (process, thread) = (PROCESS.load(Ordering::Relaxed), thread_number());
    let arguments = Value::Object(arguments);
    // The names are ours: words without anything to escape.
    let event = format!(
        "{{\"name\":\"{name}\",\"cat\":\"{category}\",\"ph\":\"X\",\"ts\":{began},\
         \"dur\":{length},\"pid\":{process},\"tid\":{thread},\"args\":{arguments}}}"
    );
    let named = thread_name();
    let failure = lock().as_mut().and_then(|trace| {
        if let Some(named) = named {
            trace.push(&named, now);
        }
        trace.push(&event, now);
        trace.new_failure()
    });
    // Without the lock: a logger may call a hook.
    if let Some(failure) = failure {
        log::error!(target: "crossdock::load", "{failure}");
    }
}

impl Trace {
    fn create(path: &Path) -> io::Result<Self> {
        // A pipe would keep the whole program waiting for a reader.
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false);
        let file = regular::open_with(options, path)?;
        // SAFETY: an open file; the call changes nothing but its lock.
        let locked = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
        if locked != 0 {
            let why = "another process writes it (`%p` in a name is the process id)";
            return Err(io::Error::other(why));
        }
        file.set_len(0)?;
        let mut trace = Self {
            file,
            path: path.to_owned(),
            end: 0,
            pending: "[\n".to_owned(),
            oldest_ns: 0,
            failed: None,
            is_failure_told: false,
        };
        let process = json!({
            "name": "process_name",
            "ph": "M",
            "pid": PROCESS.load(Ordering::Relaxed),
            "args": { "name": "crossdock" },
        });
        trace.pending.push_str(&process.to_string());
        trace.flush();
        match trace.failed.take() {
            None => Ok(trace),
            Some(error) => Err(error),
        }
    }

    fn push(&mut self, event: &str, now: u64) {
        if self.pending.is_empty() {
            self.oldest_ns = now;
        }
        self.pending.push_str(",\n");
        self.pending.push_str(event);
        let waited = now.saturating_sub(self.oldest_ns);
        if self.pending.len() > BATCH_BYTES
            || waited > BATCH_NS
            || IS_ENDING.load(Ordering::Relaxed)
        {
            self.flush();
        }
    }

    /// One write: the events, and the end of the array behind them.
    fn flush(&mut self) {
        let length = self.pending.len() as u64;
        if length == 0 || self.failed.is_some() {
            self.pending.clear();
            return;
        }
        self.pending.push_str(END);
        let written = regular::fits(self.end + self.pending.len() as u64)
            .and_then(|()| self.file.write_all_at(self.pending.as_bytes(), self.end));
        match written {
            Ok(()) => self.end += length,
            Err(error) => {
                self.end_before_failure();
                self.failed = Some(error);
            }
        }
        self.pending.clear();
    }

    /// Takes away what was written of a batch, and ends the array before it. Space for the end is there: the
    /// file had it at this place.
    fn end_before_failure(&self) {
        if self.end == 0 {
            return;
        }
        let whole = self.end + END.len() as u64;
        let ended = self.file.set_len(whole);
        // A second failure changes nothing: the first one is reported.
        let _ended = ended.and_then(|()| self.file.write_all_at(END.as_bytes(), self.end));
    }

    /// The first failure to write, once.
    fn new_failure(&mut self) -> Option<String> {
        let error = self.failed.as_ref()?;
        if self.is_failure_told {
            return None;
        }
        self.is_failure_told = true;
        let file = self.path.display();
        Some(format!("the trace `{file}` ends here: {error}"))
    }
}

fn lock() -> MutexGuard<'static, Option<Trace>> {
    TRACE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `%p` in a file's name is the process id.
fn numbered(path: &Path) -> PathBuf {
    match path.to_str() {
        Some(text) => PathBuf::from(text.replace("%p", &std::process::id().to_string())),
        None => path.to_owned(),
    }
}

/// Nanoseconds, written as the microseconds that the format wants.
struct Microseconds(u64);

impl fmt::Display for Microseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// The system's number of this thread, as other tools show it.
fn thread_number() -> i64 {
    thread_local!(static NUMBER: i64 = {
        // SAFETY: takes nothing and cannot fail.
        i64::from(unsafe { libc::gettid() })
    });
    NUMBER.with(|number| *number)
}

/// The event that names this thread, once in each trace.
fn thread_name() -> Option<String> {
    thread_local!(static NAMED: Cell<u32> = const { Cell::new(0) });
    let session = SESSION.load(Ordering::Relaxed);
    if NAMED.with(|named| named.replace(session)) == session {
        return None;
    }
    let thread = std::thread::current();
    let event = json!({
        "name": "thread_name",
        "ph": "M",
        "pid": PROCESS.load(Ordering::Relaxed),
        "tid": thread_number(),
        "args": { "name": thread.name()? },
    });
    Some(event.to_string())
}

fn refuse(why: String) -> LayersError {
    LayersError::new("trace", why)
}

#[cfg(test)]
mod tests {
    use std::os::fd::FromRawFd as _;

    use super::*;

    /// A file whose last byte is written, on a device without more space.
    fn full_file(content: &str) -> File {
        // SAFETY: a text with a NUL behind it.
        let file = unsafe { libc::memfd_create(c"full".as_ptr(), libc::MFD_ALLOW_SEALING) };
        assert!(file >= 0);
        // SAFETY: a new descriptor that nothing else has.
        let file = unsafe { File::from_raw_fd(file) };
        file.write_all_at(content.as_bytes(), 0).unwrap();
        // SAFETY: a command with a number, for an open file.
        let sealed = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_GROW) };
        assert_eq!(sealed, 0);
        file
    }

    fn content(file: &File) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn a_trace_on_a_full_disk_ends_with_the_last_event_that_was_written() {
        // The system writes page by page, so it writes the few bytes up to the end of the page.
        let first = format!("[\n\"{}\"", "x".repeat(4096 - 4 - END.len()));
        let file = full_file(&format!("{first}{END}"));
        let mut trace = Trace {
            file,
            path: PathBuf::from("trace.json"),
            end: first.len() as u64,
            pending: String::new(),
            oldest_ns: 0,
            failed: None,
            is_failure_told: false,
        };
        assert_eq!(content(&trace.file).len(), 4096);
        for _ in 0..2 {
            trace.push("\"event\"", 0);
            trace.flush();
            let events: Vec<Value> = serde_json::from_slice(&content(&trace.file)).unwrap();
            assert_eq!(events.len(), 1);
        }
        let told = trace.new_failure().unwrap();
        assert!(told.contains("trace.json"), "{told}");
        assert_eq!(trace.new_failure(), None, "it is told once");
    }
}
