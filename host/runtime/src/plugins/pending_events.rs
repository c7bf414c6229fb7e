//! Recorded events of the runtime's own that may be pending.
//!
//! A tensor keeps the event of its last work for as long as it lives, and without a wait the event is never queried. So
//! for each new event, a few of the oldest are queried, and events that have happened are returned to the plugin. This
//! keeps the number of live events in proportion to the number of pending ones.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::plugins::releases::{Outstanding, Releases};

/// An event that may be pending.
pub(crate) trait Pending: Send + Sync {
    /// Queries whether the event has happened. If it has, returns the handle to the plugin.
    fn poll(self: Arc<Self>) -> bool;
}

/// Those of one plugin. The one that was queried longest ago comes first.
#[derive(Default)]
pub(crate) struct PendingEvents(Mutex<VecDeque<Weak<dyn Pending>>>);

/// Up to this many events, none is queried: most are dropped soon.
const FEW: usize = 32;

/// The number of events that are queried for each new one.
const QUERIED: usize = 4;

impl PendingEvents {
    fn events(&self) -> MutexGuard<'_, VecDeque<Weak<dyn Pending>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event that was recorded.
    pub(crate) fn add(&self, event: Weak<dyn Pending>) {
        self.events().push_back(event);
    }

    /// Queries a few where there are many. No lock is held over that.
    pub(crate) fn poll(&self, releases: &Arc<Releases>) {
        let mut events = self.events();
        while events
            .front()
            .is_some_and(|oldest| oldest.strong_count() == 0)
        {
            events.pop_front();
        }
        if events.len() <= FEW {
            return;
        }
        let queried: Vec<_> = events.drain(..QUERIED).collect();
        drop(events);
        // Taken before an event is kept. Whoever dropped its tensor and waits for releases may destroy the context of a
        // stream of others next, and so waits for the query.
        let _place = Outstanding::new(releases);
        let is_pending =
            |event: &Weak<dyn Pending>| event.upgrade().is_some_and(|event| !event.poll());
        let pending: Vec<_> = queried.into_iter().filter(is_pending).collect();
        self.events().extend(pending);
    }
}

impl fmt::Debug for PendingEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingEvents").finish_non_exhaustive()
    }
}
