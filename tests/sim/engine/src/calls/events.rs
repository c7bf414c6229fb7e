//! Calls about events.

use std::sync::Arc;
use std::time::Duration;

use crate::op::{Body, Completion, Point};
use crate::state::{EventState, State};
use crate::wait::Goal;
use crate::{Engine, Error, Event, Failure, Site, Stream};

impl Engine {
    /// Creates an event for records on streams of any device.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for no such device.
    pub fn create_event(&self, site: Site, device: u32) -> Result<Event, Error> {
        let (mut state, site) = self.enter(site, Some(device))?;
        let raw = state.next_handle();
        state.events.insert(
            raw,
            EventState {
                site,
                is_host: false,
                point: None,
            },
        );
        Ok(Event::from_raw(raw))
    }

    /// Creates an event that the host completes, once.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for no such device.
    pub fn create_host_event(&self, site: Site, device: u32) -> Result<Event, Error> {
        let (mut state, site) = self.enter(site, Some(device))?;
        let raw = state.next_handle();
        let point = Some(Point::new(site, None));
        state.events.insert(
            raw,
            EventState {
                site,
                is_host: true,
                point,
            },
        );
        Ok(Event::from_raw(raw))
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
        let (mut state, site) = self.enter(site, None)?;
        let found = state.event(site, event)?;
        let is_host = found.is_host;
        let point = found.point.as_ref().map(Arc::clone).filter(|_| is_host);
        let Some(point) = point.filter(|point| point.done.get().is_none()) else {
            let why = if is_host {
                "it is complete already"
            } else {
                "streams record it"
            };
            let why = format!("the host cannot complete {event}: {why}");
            return Err(Error::Invalid { why });
        };
        let failure = outcome.err().map(|status| Failure { status, site });
        state.complete(&point, failure);
        self.shared.tell(&state);
        Ok(())
    }

    /// Records the event at the stream's present end; replaces an earlier record.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`]; [`Error::Invalid`] for an event that the host completes.
    pub fn record(&self, site: Site, event: Event, stream: Stream) -> Result<(), Error> {
        let (mut state, site) = self.enter_on(site, stream)?;
        let queue = state.stream(site, stream)?.queue;
        let found = state.event(site, event)?;
        if found.is_host {
            let why = format!("{event} is completed by the host and cannot be recorded");
            return Err(Error::Invalid { why });
        }
        let point = Point::new(site, Some(queue));
        found.point = Some(Arc::clone(&point));
        state.submit(site, stream, Body::Record(point), Vec::new())?;
        self.shared.tell(&state);
        Ok(())
    }

    /// Whether the event happened.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`]; [`Error::Failed`] with the failure of the work before it.
    pub fn query_event(&self, site: Site, event: Event) -> Result<bool, Error> {
        let (mut state, site) = self.enter(site, None)?;
        let Some(point) = state.event(site, event)?.point.as_ref().map(Arc::clone) else {
            return Ok(true);
        };
        if point.done.get().is_none() {
            self.after_a_vain_query(state, &Goal::Point(point));
            return Ok(false);
        }
        state
            .learn_point(&point)
            .map_or(Ok(true), |failure| Err(Error::Failed(failure)))
    }

    /// Whether the host knows already that the event happened, and so that it is before all that the host submits.
    /// Unlike a query this tells it nothing.
    #[must_use]
    pub fn is_known_to_host(&self, event: Event) -> bool {
        let Ok(state) = self.shared.here() else {
            return false;
        };
        let point = state.events.get(&event.raw()).map(|found| &found.point);
        let done = point.and_then(|point| point.as_ref()?.done.get());
        done.is_some_and(|done| done.clock.is_within(&state.host))
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
        let (mut state, site) = self.enter(site, None)?;
        let Some(point) = state.event(site, event)?.point.as_ref().map(Arc::clone) else {
            return Ok(());
        };
        let goal = Goal::Point(Arc::clone(&point));
        let mut state = self.shared.block(state, &goal, limit)?;
        state
            .learn_point(&point)
            .map_or(Ok(()), |failure| Err(Error::Failed(failure)))
    }

    /// Destroys an event. A pending record goes on, and waits that were submitted keep it. A host
    /// event that is pending is completed with the failure [`Engine::DESTROYED`].
    ///
    /// # Errors
    ///
    /// [`Error::Stale`].
    pub fn destroy_event(&self, site: Site, event: Event) -> Result<(), Error> {
        let (mut state, site) = self.enter(site, None)?;
        state.event(site, event)?;
        let Some(gone) = state
            .events
            .remove(&event.raw())
            .filter(|gone| gone.is_host)
        else {
            return Ok(());
        };
        if let Some(point) = gone.point.filter(|point| point.done.get().is_none()) {
            let status = Self::DESTROYED;
            state.complete(&point, Some(Failure { status, site }));
            self.shared.tell(&state);
        }
        Ok(())
    }

    /// Nanoseconds of simulated time between two recorded events that happened.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`]; [`Error::Invalid`] where one did not happen yet, or the second was first.
    pub fn elapsed_ns(&self, site: Site, start: Event, end: Event) -> Result<u64, Error> {
        let (mut state, site) = self.enter(site, None)?;
        let mut time = |event| {
            let point = state.event(site, event)?.point.as_ref().map(Arc::clone);
            let done = point.and_then(|point| point.done.get().map(|done| done.time_ns));
            done.ok_or_else(|| Error::Invalid {
                why: format!("{event} did not happen yet"),
            })
        };
        let elapsed = time(end)?.checked_sub(time(start)?);
        elapsed.ok_or_else(|| Error::Invalid {
            why: format!("{end} happened before {start}"),
        })
    }

    /// The status of what waits for a host event that is destroyed before it was completed.
    pub const DESTROYED: i32 = -1;
}

impl State {
    /// Completes a host event; the host did all that it did before.
    fn complete(&self, point: &Point, failure: Option<Failure>) {
        let clock = self.host.clone();
        let waited = point.made.elapsed().as_nanos();
        let waited = u64::try_from(waited).ok().filter(|_| !self.is_paced());
        let done = Completion {
            failure,
            clock,
            time_ns: self.now_ns().saturating_add(waited.unwrap_or(0)),
        };
        point.complete(done);
    }

    /// The host knows what led to a point; the failure that there is to tell.
    fn learn_point(&mut self, point: &Point) -> Option<Failure> {
        let done = point.done.get()?;
        self.host_learns(&done.clock);
        self.host_ns = self.host_ns.max(done.time_ns);
        done.failure
    }
}
