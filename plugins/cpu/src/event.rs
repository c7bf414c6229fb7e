//! Events: points that a stream passes or the host completes, with the failure that led there.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossdock_sdk::abi::Status;
use crossdock_sdk::deadline::Deadline;

use crate::queue::{Queue, Woken};

/// Why work on a stream failed; shared by all that wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    status: Status,
    reason: Arc<str>,
}

impl Failure {
    /// A failure with its reason.
    #[must_use]
    pub fn new(status: Status, reason: &str) -> Self {
        Self {
            status,
            reason: Arc::from(reason),
        }
    }

    /// The same failure with the status that waiters get for work that failed.
    #[must_use]
    pub fn of_work(self) -> Self {
        Self {
            status: self.status.as_failure_of_work(),
            ..self
        }
    }

    /// What a hook answers for it.
    #[must_use]
    pub const fn status(&self) -> Status {
        self.status
    }

    /// The reason.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

/// How work ended.
pub type Outcome = Result<(), Failure>;

/// Something that happens once.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Debug)]
enum Progress {
    /// With the streams that wait for it, and how many threads do.
    Pending {
        streams: Vec<Arc<Queue>>,
        threads: usize,
    },
    Fired {
        outcome: Outcome,
        at: Instant,
    },
}

impl Default for Progress {
    fn default() -> Self {
        Self::Pending {
            streams: Vec::new(),
            threads: 0,
        }
    }
}

impl Signal {
    /// Makes it happen; a second time changes nothing. Whether this was the first. Who waited is
    /// added to `woken`.
    pub(crate) fn fire(self: &Arc<Self>, outcome: Outcome, woken: &mut Woken) -> bool {
        let mut progress = lock(&self.progress);
        let Progress::Pending { streams, threads } = &mut *progress else {
            return false;
        };
        woken.add_streams(std::mem::take(streams), &outcome);
        if *threads > 0 {
            woken.add_threads(self);
        }
        let at = Instant::now();
        *progress = Progress::Fired { outcome, at };
        true
    }

    /// Wakes the threads that waited until this happened.
    pub(crate) fn wake(&self) {
        self.changed.notify_all();
    }

    /// Keeps a stream, with its turn, until this happens; how it ended where it did already.
    pub(crate) fn make_wait(&self, stream: &Arc<Queue>) -> Option<Outcome> {
        match &mut *lock(&self.progress) {
            Progress::Pending { streams, .. } => {
                streams.push(Arc::clone(stream));
                None
            }
            Progress::Fired { outcome, .. } => Some(outcome.clone()),
        }
    }

    /// How it ended, if it happened.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        lock(&self.progress).outcome()
    }

    /// Blocks until it happens, or for `limit`; `None` when the limit passed first.
    pub(crate) fn synchronize(&self, limit: Option<Duration>) -> Option<Outcome> {
        let deadline = Deadline::after(limit);
        let mut progress = lock(&self.progress);
        progress.add_thread();
        let is_pending = |progress: &mut Progress| matches!(progress, Progress::Pending { .. });
        progress = deadline.wait_while(&self.changed, progress, is_pending);
        progress.remove_thread();
        progress.outcome()
    }

    fn at(&self) -> Option<Instant> {
        match &*lock(&self.progress) {
            Progress::Pending { .. } => None,
            Progress::Fired { at, .. } => Some(*at),
        }
    }
}

impl Progress {
    fn add_thread(&mut self) {
        if let Self::Pending { threads, .. } = self {
            *threads += 1;
        }
    }

    fn remove_thread(&mut self) {
        if let Self::Pending { threads, .. } = self {
            *threads -= 1;
        }
    }

    fn outcome(&self) -> Option<Outcome> {
        match self {
            Self::Pending { .. } => None,
            Self::Fired { outcome, .. } => Some(outcome.clone()),
        }
    }
}

/// An event; recording it again starts it anew.
#[derive(Debug)]
pub struct Event {
    current: Mutex<Option<Arc<Signal>>>,
    by_host: bool,
}

impl Event {
    /// An event that was never recorded: complete, as everywhere.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            current: Mutex::new(None),
            by_host: false,
        }
    }

    /// An event that is pending until the host completes it.
    #[must_use]
    pub fn pending() -> Self {
        Self {
            current: Mutex::new(Some(Arc::default())),
            by_host: true,
        }
    }

    /// Whether the host completes it, so that no stream can record it.
    #[must_use]
    pub const fn is_by_host(&self) -> bool {
        self.by_host
    }

    /// Whether it was ever recorded, or is the host's.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.current().is_some()
    }

    /// Completes an event of the host's; whether it was one, and pending.
    pub fn complete(&self, outcome: Outcome) -> bool {
        let outcome = outcome.map_err(Failure::of_work);
        let Some(signal) = self.current().filter(|_| self.by_host) else {
            return false;
        };
        let mut woken = Woken::default();
        let is_first = signal.fire(outcome, &mut woken);
        woken.go_on();
        is_first
    }

    /// Fails those who still wait for an event of the host's, which nobody can complete any more.
    pub fn abandon(&self) {
        let why = "the host's event was destroyed before it was completed";
        // One that is complete stays as it is.
        self.complete(Err(Failure::new(Status::VENDOR, why)));
    }

    /// How it ended; `None` while it is pending.
    #[must_use]
    pub fn query(&self) -> Option<Outcome> {
        self.current()
            .map_or(Some(Ok(())), |signal| signal.outcome())
    }

    /// Blocks until it is complete, or for `limit`; `None` when the limit passed first.
    #[must_use]
    pub fn synchronize(&self, limit: Option<Duration>) -> Option<Outcome> {
        self.current()
            .map_or(Some(Ok(())), |signal| signal.synchronize(limit))
    }

    /// When it happened; `None` unless it was recorded and is complete.
    #[must_use]
    pub fn happened_at(&self) -> Option<Instant> {
        self.current()?.at()
    }

    /// Makes it stand for `signal` from now on.
    pub(crate) fn restart(&self, signal: Arc<Signal>) {
        *lock(&self.current) = Some(signal);
    }

    /// What it stands for now: recording it again does not change that for those who wait.
    pub(crate) fn current(&self) -> Option<Arc<Signal>> {
        lock(&self.current).clone()
    }
}

impl Default for Event {
    fn default() -> Self {
        Self::new()
    }
}

/// No state behind these locks can be left half changed, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
