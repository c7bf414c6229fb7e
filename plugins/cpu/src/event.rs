//! Events: points that a stream passes or the host completes, with the failure that led there.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossdock_sdk::abi::Status;

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
    fired: Mutex<Option<Fired>>,
    changed: Condvar,
}

/// That it happened, and when.
#[derive(Clone, Debug)]
struct Fired {
    outcome: Outcome,
    at: Instant,
}

impl Signal {
    /// Makes it happen; a second time changes nothing. Whether this was the first.
    pub(crate) fn fire(&self, outcome: Outcome) -> bool {
        let mut fired = lock(&self.fired);
        let first = fired.is_none();
        if first {
            *fired = Some(Fired {
                outcome,
                at: Instant::now(),
            });
            self.changed.notify_all();
        }
        first
    }

    /// How it ended, if it happened.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        lock(&self.fired)
            .as_ref()
            .map(|fired| fired.outcome.clone())
    }

    /// Blocks until it happens, or for `limit`; `None` when the limit passed first.
    pub(crate) fn synchronize(&self, limit: Option<Duration>) -> Option<Outcome> {
        let end = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut fired = lock(&self.fired);
        loop {
            if let Some(fired) = fired.as_ref() {
                return Some(fired.outcome.clone());
            }
            let Some(end) = end else {
                fired = self
                    .changed
                    .wait(fired)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = end.checked_duration_since(Instant::now())?;
            let waited = self.changed.wait_timeout(fired, left);
            (fired, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn at(&self) -> Option<Instant> {
        lock(&self.fired).as_ref().map(|fired| fired.at)
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
        self.by_host && self.current().is_some_and(|signal| signal.fire(outcome))
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

    /// Time from this event to `later`; `None` unless both were recorded and are complete.
    #[must_use]
    pub fn elapsed(&self, later: &Self) -> Option<Duration> {
        let (from, to) = (self.current()?.at()?, later.current()?.at()?);
        Some(to.saturating_duration_since(from))
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
