//! Calls about events.

use std::time::Duration;

use crate::engine::unbuilt;
use crate::{Engine, Error, Event, Site, Stream};

impl Engine {
    /// Creates an event for records on streams of any device.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for no such device.
    pub fn create_event(&self, site: Site, device: u32) -> Result<Event, Error> {
        let _ = (site, device);
        unbuilt()
    }

    /// Creates an event that the host completes, once.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for no such device.
    pub fn create_host_event(&self, site: Site, device: u32) -> Result<Event, Error> {
        let _ = (site, device);
        unbuilt()
    }

    /// Completes a host event: with success, or with a status that its waiters then see.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`]; [`Error::Invalid`] for a recorded event, or one that is complete.
    pub fn complete(
        &self,
        site: Site,
        event: Event,
        outcome: Result<(), i32>,
    ) -> Result<(), Error> {
        let _ = (site, event, outcome);
        unbuilt()
    }

    /// Records the event at the stream's present end; replaces an earlier record.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`]; [`Error::Invalid`] for an event that the host completes.
    pub fn record(&self, site: Site, event: Event, stream: Stream) -> Result<(), Error> {
        let _ = (site, event, stream);
        unbuilt()
    }

    /// Whether the event happened.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`]; [`Error::Failed`] with the failure of the work before it.
    pub fn query_event(&self, site: Site, event: Event) -> Result<bool, Error> {
        let _ = (site, event);
        unbuilt()
    }

    /// Makes the calling thread wait for the event as it is now.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`], [`Error::TimedOut`], [`Error::Standstill`]; [`Error::Failed`] with the
    /// failure of the work before it.
    pub fn synchronize_event(
        &self,
        site: Site,
        event: Event,
        limit: Option<Duration>,
    ) -> Result<(), Error> {
        let _ = (site, event, limit);
        unbuilt()
    }

    /// Destroys an event. A pending record goes on, and waits that were submitted keep it. A host
    /// event that is pending is completed with the failure [`Engine::DESTROYED`].
    ///
    /// # Errors
    ///
    /// [`Error::Stale`].
    pub fn destroy_event(&self, site: Site, event: Event) -> Result<(), Error> {
        let _ = (site, event);
        unbuilt()
    }

    /// Nanoseconds of simulated time between two recorded events that happened; 0 where the second
    /// was first.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`]; [`Error::Invalid`] where one did not happen yet.
    pub fn elapsed_ns(&self, site: Site, start: Event, end: Event) -> Result<u64, Error> {
        let _ = (site, start, end);
        unbuilt()
    }

    /// The status of what waits for a host event that is destroyed before it was completed.
    pub const DESTROYED: i32 = -1;
}
