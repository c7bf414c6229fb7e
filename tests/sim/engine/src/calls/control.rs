//! Calls of tests: stillness, progress, faults, reports.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::fault::Moment;
use crate::random::Random;
use crate::state::State;
use crate::wait::Goal;
use crate::{Engine, Error, Failure, Fault, LinkUse, Policy, Report, ReportKind, Schedule, Site};

impl Engine {
    /// Begins a call that may end without the engine: its number, for the calls of the engine that it makes.
    /// Faults count it here, and no more in those.
    ///
    /// # Errors
    ///
    /// [`Error::InHostFunction`], which is also reported, [`Error::Forked`], and a fault's failure.
    pub fn begin(&self, site: Site) -> Result<Site, Error> {
        self.enter(site, None).map(|(_, site)| site)
    }

    /// Holds everything still: nothing starts until as many calls of [`Engine::release`]. What runs
    /// already goes on. Waits last until then, or until their limit.
    pub fn hold(&self) {
        if let Ok(mut state) = self.shared.here() {
            state.held += 1;
        }
    }

    /// Ends one [`Engine::hold`].
    pub fn release(&self) {
        let Ok(mut state) = self.shared.here() else {
            return;
        };
        state.held = state.held.saturating_sub(1);
        self.shared.tell_all();
    }

    /// Runs up to `operations` that can run, whatever the policy, and says how many ran. Nothing
    /// runs while held.
    pub fn progress(&self, operations: usize) -> usize {
        let Ok(mut state) = self.shared.here() else {
            return 0;
        };
        for ran in 0..operations {
            let next = match self.shared.config.policy {
                Policy::Seeded => crate::policy::seeded::choose(&mut state),
                Policy::Threads | Policy::Lazy => state.first_runnable(),
            };
            let Some(queue) = next else { return ran };
            state = self.shared.run(state, queue);
        }
        operations
    }

    /// Whether a thread waits for its turn, and goes on as soon as the others sleep. It may seem to
    /// sleep itself, for it looks at them from time to time.
    #[must_use]
    pub fn wants_turn(&self) -> bool {
        self.shared.wants_turn()
    }

    /// Runs everything and waits until nothing is pending, host functions included. The host knows
    /// then that all is over.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`]; [`Error::Standstill`] when something waits and nothing can complete it.
    pub fn drain(&self, limit: Duration) -> Result<(), Error> {
        let state = self.shared.here()?;
        let mut state = self.shared.block(state, &Goal::Everything, Some(limit))?;
        for device in 0..self.shared.config.devices {
            state.learn_device(device);
        }
        Ok(())
    }

    /// Begins the choices of `Seeded` and of faults anew, as an engine with this seed does. The workers of `Threads`
    /// go on with theirs.
    pub fn reseed(&self, seed: u64) {
        if let Ok(mut state) = self.shared.here() {
            state.random = Random::new(seed);
            state.plan.reseed(seed);
        }
    }

    /// The choices of `Seeded` that were no first possibility, where they are noted: as `Config::schedule` they let the
    /// same happen again.
    #[must_use]
    pub fn choices(&self) -> Schedule {
        let state = self.shared.here();
        state.map_or_else(|_| Schedule::new(), |state| state.choices.made())
    }

    /// Number of operations that were submitted and are not done.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.shared.here().map_or(0, |state| state.pending)
    }

    /// Adds a fault; it counts from now on.
    pub fn inject(&self, fault: Fault) {
        if let Ok(mut state) = self.shared.here() {
            state.plan.add(fault);
        }
    }

    /// Removes all faults, and gives lost devices back.
    pub fn clear_faults(&self) {
        let Ok(mut state) = self.shared.here() else {
            return;
        };
        state.plan.clear();
        state.lost.clear();
    }

    /// Removes all faults, and lost devices stay lost; how often one struck since the last time.
    pub fn disarm(&self) -> u64 {
        self.shared.here().map_or(0, |mut state| state.plan.clear())
    }

    /// The failure of a call that is about no device, and that the engine hears of by this alone, where a fault
    /// refuses it.
    #[must_use]
    pub fn refused(&self, site: Site) -> Option<Failure> {
        let mut state = self.shared.here().ok()?;
        let (status, _) = state.plan.strikes(Moment::Call, site, None)?;
        Some(Failure { status, site })
    }

    /// The failure that a device is lost with, if it is.
    #[must_use]
    pub fn lost(&self, device: u32) -> Option<Failure> {
        self.shared.here().ok()?.lost.get(&device).copied()
    }

    /// The report of a standstill, when operations are pending and, as things are, none can run
    /// before host code does something. It is not added to the reports.
    #[must_use]
    pub fn standstill(&self) -> Option<Report> {
        self.shared.here().ok()?.stands_still()
    }

    /// What happened so far, as one number: each call by its name and stream, and each operation as
    /// it started. Two runs with equal numbers did the same in the same order.
    #[must_use]
    pub fn trace(&self) -> u64 {
        self.shared.here().map_or(0, |state| state.trace.number())
    }

    /// Nanoseconds of simulated time until now, as the host knows them.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.shared.here().map_or(0, |state| state.host_ns)
    }

    /// How each link was used since the last [`Engine::take_link_uses`]. An operation counts from its beginning on.
    #[must_use]
    pub fn link_uses(&self) -> Vec<LinkUse> {
        let state = self.shared.here();
        state.map_or_else(|_| Vec::new(), |state| state.links.uses().collect())
    }

    /// The same, which is then forgotten.
    pub fn take_link_uses(&self) -> Vec<LinkUse> {
        let Ok(mut state) = self.shared.here() else {
            return Vec::new();
        };
        state.links.take()
    }

    /// Reports that what one call destroyed is used by another one, of what its caller names by handles of its own.
    pub fn report_stale(&self, destroys: Site, uses: Site, what: &str) {
        if let Ok(mut state) = self.shared.here() {
            let detail =
                format!("{what} is used by the second call, and the first one destroyed it");
            state.report(ReportKind::Stale, destroys, Some(uses), None, detail);
        }
    }

    /// All reports so far, oldest first; each pair of calls is reported once.
    #[must_use]
    pub fn reports(&self) -> Vec<Report> {
        self.shared
            .here()
            .map_or_else(|_| Vec::new(), |state| state.reports.clone())
    }

    /// Those behind the first so many.
    #[must_use]
    pub fn reports_behind(&self, known: usize) -> Vec<Report> {
        let state = self.shared.here();
        let behind = state.map(|state| state.reports.get(known..).map(<[Report]>::to_vec));
        behind.ok().flatten().unwrap_or_default()
    }

    /// How many reports there ever were, also those that were taken. It takes no lock.
    #[must_use]
    pub fn reports_made(&self) -> u64 {
        self.shared.reports_made.load(Ordering::Acquire)
    }

    /// All reports so far, which are then forgotten.
    pub fn take_reports(&self) -> Vec<Report> {
        let Ok(mut state) = self.shared.here() else {
            return Vec::new();
        };
        std::mem::take(&mut state.reports)
    }

    /// One report for each allocation, registered range, stream and event that is left.
    #[must_use]
    pub fn leaks(&self) -> Vec<Report> {
        let Ok(state) = self.shared.here() else {
            return Vec::new();
        };
        let memory = &state.memory;
        let allocated = memory.allocations.values().filter(|a| a.freed_by.is_none());
        let allocated = allocated.map(|a| (a.site, Some((a.start, a.bytes)), "an allocation"));
        let registered = memory.registered.iter();
        let registered =
            registered.map(|(&(_, at), r)| (r.site, Some((at, r.bytes)), "a registered range"));
        let streams = state.streams.values().filter(|stream| !stream.destroyed);
        let streams = streams.map(|stream| (stream.site, None, "a stream"));
        let events = state
            .events
            .values()
            .map(|event| (event.site, None, "an event"));
        let all = allocated.chain(registered).chain(streams).chain(events);
        all.map(|(site, bytes, what)| State::leak(site, bytes, what))
            .collect()
    }
}
