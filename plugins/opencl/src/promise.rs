//! What the host promised to complete, and what came of it, for all the work that waits for it.
//!
//! OpenCL forgets why an event failed, Intel's runtime reports the work behind it as done, and
//! PoCL 3 never again runs a queue that waits for an event which has already failed. So the driver
//! is only ever told that the host is done; a failure is carried here, beside the driver's events.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fault::Fault;

/// How something ended.
type Outcome = Result<(), Fault>;

/// One thing that the host completes, once.
#[derive(Debug, Default)]
pub(crate) struct Promise(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    Open,
    /// The driver is being told, and may refuse. A thread that it wakes meanwhile finds the outcome here.
    Telling(Outcome),
    Complete(Outcome),
}

impl Promise {
    /// Completes it and lets the driver know by `tell`; `false` when it was complete already.
    ///
    /// A refusal of the driver leaves it open: those who wait were not woken.
    pub(crate) fn complete(
        &self,
        outcome: Outcome,
        tell: impl FnOnce() -> Outcome,
    ) -> Result<bool, Fault> {
        {
            let mut state = self.state();
            if !matches!(*state, State::Open) {
                return Ok(false);
            }
            *state = State::Telling(outcome.clone());
        }
        // The driver is told without the lock.
        let told = tell();
        *self.state() = match told {
            Ok(()) => State::Complete(outcome),
            Err(_) => State::Open,
        };
        told.map(|()| true)
    }

    fn failure(&self) -> Option<Fault> {
        match &*self.state() {
            State::Telling(Err(fault)) | State::Complete(Err(fault)) => Some(fault.clone()),
            State::Open | State::Telling(Ok(())) | State::Complete(Ok(())) => None,
        }
    }

    fn is_kept(&self) -> bool {
        matches!(*self.state(), State::Complete(Ok(())))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The promises that a piece of work stands behind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Promises(Vec<Arc<Promise>>);

impl Promises {
    /// Those of work that waits for one host event and nothing else.
    pub(crate) fn of(promise: &Arc<Promise>) -> Self {
        Self(vec![Arc::clone(promise)])
    }

    /// One that has failed already.
    pub(crate) fn broken(fault: Fault) -> Self {
        Self::of(&Arc::new(Promise(Mutex::new(State::Complete(Err(fault))))))
    }

    /// Adds `others`. A promise that was kept can fail no more, and is forgotten.
    pub(crate) fn join(&mut self, others: &Self) {
        self.0.retain(|promise| !promise.is_kept());
        for promise in &others.0 {
            let known = self.0.iter().any(|known| Arc::ptr_eq(known, promise));
            if !known && !promise.is_kept() {
                self.0.push(Arc::clone(promise));
            }
        }
    }

    /// Puts `others` in front of those that are here: a failure among them is told first.
    pub(crate) fn put_first(&mut self, others: Self) {
        self.0.splice(..0, others.0);
    }

    /// The first one's failure, once the work before it is done.
    pub(crate) fn verdict(&self) -> Result<(), Fault> {
        let failed = self.0.iter().find_map(|promise| promise.failure());
        failed.map_or(Ok(()), Err)
    }

    /// Forgets `told`, whose verdict was told.
    pub(crate) fn forget(&mut self, told: &Self) {
        self.0
            .retain(|promise| !told.0.iter().any(|told| Arc::ptr_eq(told, promise)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_seen_by_all_and_reported_once() {
        let (good, bad) = (Arc::new(Promise::default()), Arc::new(Promise::default()));
        let mut stream = Promises::of(&good);
        stream.join(&Promises::of(&bad));
        let recorded = stream.clone();
        assert_eq!(stream.verdict(), Ok(()));
        let why = Fault::invalid("test", "a reason");
        assert_eq!(good.complete(Ok(()), || Ok(())), Ok(true));
        assert_eq!(bad.complete(Err(why.clone()), || Ok(())), Ok(true));
        assert_eq!(bad.complete(Ok(()), || Ok(())), Ok(false));
        assert_eq!(stream.verdict(), Err(why.clone()));
        stream.forget(&recorded);
        assert_eq!(stream.verdict(), Ok(()));
        assert_eq!(recorded.verdict(), Err(why));
    }

    #[test]
    fn a_completion_that_the_driver_refuses_may_be_tried_again() {
        let promise = Arc::new(Promise::default());
        let (why, refusal) = (
            Fault::invalid("test", "a reason"),
            Fault::invalid("x", "no"),
        );
        let mut stream = Promises::of(&promise);
        let refused = promise.complete(Ok(()), || {
            // A stream that begins to wait meanwhile waits for whatever comes of it.
            stream.join(&Promises::of(&promise));
            Err(refusal.clone())
        });
        assert_eq!(refused, Err(refusal));
        assert_eq!(stream.verdict(), Ok(()));
        let again = promise.complete(Err(why.clone()), || {
            // Whom the driver wakes finds the outcome.
            assert_eq!(stream.verdict(), Err(why.clone()));
            Ok(())
        });
        assert_eq!(again, Ok(true));
        assert_eq!(stream.verdict(), Err(why));
        assert_eq!(promise.complete(Ok(()), || Ok(())), Ok(false));
    }
}
