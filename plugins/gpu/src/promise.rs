//! Host events as promises: what the host will complete, and its outcome, for all the work that waits for it.
//!
//! The driver's events cannot carry a failure of the host. So the driver is told only that the host is done, and the
//! failure travels here, beside the driver's events.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crossdock_sdk::deadline::Deadline;

use crate::fault::Fault;

/// How something ended.
type Outcome = Result<(), Fault>;

/// One thing that the host completes, once.
#[derive(Debug, Default)]
pub(crate) struct Promise {
    outcome: Mutex<Option<Outcome>>,
    told: Condvar,
}

impl Promise {
    /// Completes it and lets the device go on by `tell`; `false` when it was complete already.
    pub(crate) fn complete(&self, outcome: Outcome, tell: impl FnOnce()) -> bool {
        {
            let mut now = self.outcome();
            if now.is_some() {
                return false;
            }
            // Set before the device goes on, so that whoever it wakes finds the outcome.
            *now = Some(outcome);
        }
        tell();
        self.told.notify_all();
        true
    }

    /// Its outcome, once there is one.
    pub(crate) fn now(&self) -> Option<Outcome> {
        self.outcome().clone()
    }

    /// Waits for its outcome; `None` at the deadline.
    pub(crate) fn wait(&self, deadline: Deadline) -> Option<Outcome> {
        let waited = deadline.wait_while(&self.told, self.outcome(), |now| now.is_none());
        waited.clone()
    }

    fn outcome(&self) -> MutexGuard<'_, Option<Outcome>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The promises that a piece of work waits for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Promises(Vec<Arc<Promise>>);

impl Promises {
    /// Of work that waits for one host event and nothing else.
    pub(crate) fn of(promise: &Arc<Promise>) -> Self {
        Self(vec![Arc::clone(promise)])
    }

    /// One that has failed already.
    pub(crate) fn broken(fault: Fault) -> Self {
        let promise = Promise::default();
        promise.complete(Err(fault), || ());
        Self(vec![Arc::new(promise)])
    }

    /// Adds `others`. Promises that were completed without a failure are dropped: they cannot fail any more.
    pub(crate) fn join(&mut self, others: &Self) {
        // Kept as promises are kept: completed, and without a failure.
        let is_kept = |promise: &Promise| promise.now() == Some(Ok(()));
        self.0.retain(|promise| !is_kept(promise));
        for promise in &others.0 {
            let is_there = self.0.iter().any(|known| Arc::ptr_eq(known, promise));
            if !is_there && !is_kept(promise) {
                self.0.push(Arc::clone(promise));
            }
        }
    }

    /// Those that are not complete.
    pub(crate) fn pending(&self) -> Self {
        let pending = self.0.iter().filter(|promise| promise.now().is_none());
        Self(pending.cloned().collect())
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether each of them is one of `others`.
    pub(crate) fn are_among(&self, others: &Self) -> bool {
        let is_there = |one| others.0.iter().any(|other| Arc::ptr_eq(one, other));
        self.0.iter().all(is_there)
    }

    /// Puts `others` in front, so that a failure among them is reported first.
    pub(crate) fn put_first(&mut self, others: Self) {
        self.0.splice(..0, others.0);
    }

    /// The first failure among them. It is complete only once the work behind them is done.
    pub(crate) fn verdict(&self) -> Outcome {
        let failure = |promise: &Arc<Promise>| promise.now().and_then(Result::err);
        self.0.iter().find_map(failure).map_or(Ok(()), Err)
    }

    /// Drops those of `told` that are complete: their verdict was reported. The others may still fail.
    pub(crate) fn forget(&mut self, told: &Self) {
        let is_told = |promise: &Arc<Promise>| {
            promise.now().is_some() && told.0.iter().any(|one| Arc::ptr_eq(one, promise))
        };
        self.0.retain(|promise| !is_told(promise));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_seen_by_all_and_told_once() {
        let (good, bad) = (Arc::new(Promise::default()), Arc::new(Promise::default()));
        let mut stream = Promises::of(&good);
        stream.join(&Promises::of(&bad));
        let recorded = stream.clone();
        assert_eq!(stream.verdict(), Ok(()));
        let why = Fault::invalid("test", "a reason");
        assert!(good.complete(Ok(()), || ()));
        // Whom the device wakes finds the outcome.
        assert!(bad.complete(Err(why.clone()), || assert_eq!(
            stream.verdict(),
            Err(why.clone())
        )));
        assert!(!bad.complete(Ok(()), || ()));
        stream.forget(&recorded);
        assert_eq!(stream.verdict(), Ok(()));
        assert_eq!(recorded.verdict(), Err(why));
    }

    #[test]
    fn a_promise_that_is_pending_is_not_forgotten() {
        let (done, pending) = (Arc::new(Promise::default()), Arc::new(Promise::default()));
        let mut stream = Promises::of(&done);
        stream.join(&Promises::of(&pending));
        let why = Fault::invalid("test", "a reason");
        assert!(done.complete(Err(why.clone()), || ()));
        let told = stream.clone();
        stream.forget(&told);
        assert_eq!(stream.verdict(), Ok(()));
        assert!(pending.complete(Err(why.clone()), || ()));
        assert_eq!(stream.verdict(), Err(why));
    }
}
