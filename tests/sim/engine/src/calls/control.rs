//! Calls of tests: stillness, progress, faults, reports.

use std::time::Duration;

use crate::engine::unbuilt;
use crate::{Engine, Error, Fault, Report};

impl Engine {
    /// Holds everything still: nothing starts until as many calls of [`Engine::release`]. What runs
    /// already goes on. Waits last until then, or until their limit.
    pub fn hold(&self) {}

    /// Ends one [`Engine::hold`].
    pub fn release(&self) {}

    /// Runs up to `operations` that can run, whatever the policy, and says how many ran. Nothing
    /// runs while held.
    pub fn progress(&self, operations: usize) -> usize {
        let _ = operations;
        0
    }

    /// Runs everything and waits until nothing is pending, host functions included.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`]; [`Error::Standstill`] when something waits and nothing can complete it.
    pub fn drain(&self, limit: Duration) -> Result<(), Error> {
        let _ = limit;
        unbuilt()
    }

    /// Number of operations that were submitted and are not done.
    #[must_use]
    pub fn pending(&self) -> usize {
        0
    }

    /// Adds a fault; it counts from now on.
    pub fn inject(&self, fault: Fault) {
        let _ = fault;
    }

    /// Removes all faults, and gives lost devices back.
    pub fn clear_faults(&self) {}

    /// The report of a standstill, when operations are pending and, as things are, none can run
    /// before host code does something. It is not added to the reports.
    #[must_use]
    pub fn standstill(&self) -> Option<Report> {
        None
    }

    /// All reports so far, oldest first; each pair of calls is reported once.
    #[must_use]
    pub fn reports(&self) -> Vec<Report> {
        Vec::new()
    }

    /// All reports so far, which are then forgotten.
    pub fn take_reports(&self) -> Vec<Report> {
        Vec::new()
    }

    /// One report for each allocation, registered range, stream and event that is left.
    #[must_use]
    pub fn leaks(&self) -> Vec<Report> {
        Vec::new()
    }
}
