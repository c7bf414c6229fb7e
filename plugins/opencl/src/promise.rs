//! What the host promised to complete, and what came of it, for all the work that waits for it.
//!
//! OpenCL forgets why an event failed, Intel's runtime reports the work behind it as done, and
//! PoCL 3 never again runs a queue that waits for an event which has already failed. So the driver
//! is only ever told that the host is done; a failure is carried here, beside the driver's events.

use std::sync::{Arc, OnceLock};

use crate::fault::Fault;

/// One thing that the host completes, once.
#[derive(Debug, Default)]
pub(crate) struct Promise(OnceLock<Result<(), Fault>>);

impl Promise {
    /// Completes it; `false` when it was complete already.
    pub(crate) fn complete(&self, outcome: Result<(), Fault>) -> bool {
        self.0.set(outcome).is_ok()
    }

    fn failure(&self) -> Option<&Fault> {
        self.0.get().and_then(|outcome| outcome.as_ref().err())
    }

    fn is_kept(&self) -> bool {
        matches!(self.0.get(), Some(Ok(())))
    }
}

/// The promises that a piece of work stands behind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Promises(Vec<Arc<Promise>>);

impl Promises {
    /// Those behind a host event alone.
    pub(crate) fn of(promise: &Arc<Promise>) -> Self {
        Self(vec![Arc::clone(promise)])
    }

    /// One that has failed already.
    pub(crate) fn broken(fault: Fault) -> Self {
        Self::of(&Arc::new(Promise(OnceLock::from(Err(fault)))))
    }

    /// Stands behind `others` as well. What was kept can fail no more, and is forgotten.
    pub(crate) fn join(&mut self, others: &Self) {
        self.0.retain(|promise| !promise.is_kept());
        for promise in &others.0 {
            let known = self.0.iter().any(|known| Arc::ptr_eq(known, promise));
            if !known && !promise.is_kept() {
                self.0.push(Arc::clone(promise));
            }
        }
    }

    /// The first one's failure, once the work before it is done.
    pub(crate) fn verdict(&self) -> Result<(), Fault> {
        let failed = self.0.iter().find_map(|promise| promise.failure());
        failed.map_or(Ok(()), |fault| Err(fault.clone()))
    }

    /// The same, told once: those that are complete are forgotten.
    pub(crate) fn report(&mut self) -> Result<(), Fault> {
        let verdict = self.verdict();
        self.0.retain(|promise| promise.0.get().is_none());
        verdict
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
        assert!(good.complete(Ok(())));
        assert!(bad.complete(Err(why.clone())));
        assert!(!bad.complete(Ok(())));
        assert_eq!(stream.verdict(), Err(why.clone()));
        assert_eq!(stream.report(), Err(why.clone()));
        assert_eq!(stream.report(), Ok(()));
        assert_eq!(recorded.verdict(), Err(why));
    }
}
