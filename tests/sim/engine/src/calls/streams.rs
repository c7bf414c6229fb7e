//! Calls about streams.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::engine::Locked;
use crate::op::Body;
use crate::policy::seeded;
use crate::state::{State, StreamState};
use crate::wait::Goal;
use crate::{Engine, Error, Event, Failure, Policy, ReportKind, Site, Stream};

impl Engine {
    /// Creates a stream on a device.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for no such device.
    pub fn create_stream(&self, site: Site, device: u32) -> Result<Stream, Error> {
        let (mut state, site) = self.enter(site, Some(device))?;
        let queue = state.next_queue(device);
        let actor = state.next_actor();
        let raw = state.next_handle();
        let stream = StreamState {
            device,
            queue,
            actor,
            site,
            destroyed: false,
            submitted: 0,
            completed: 0,
            clock: Clock::default(),
            time_ns: 0,
            failure: None,
        };
        state.streams.insert(raw, stream);
        Ok(Stream::from_raw(raw))
    }

    /// Destroys a stream; work already on it completes.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`].
    pub fn destroy_stream(&self, site: Site, stream: Stream) -> Result<(), Error> {
        let (mut state, site) = self.enter(site, None)?;
        state.stream(site, stream)?.destroyed = true;
        state.forget_stream(stream.raw());
        Ok(())
    }

    /// The device of a stream.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`].
    pub fn device_of(&self, site: Site, stream: Stream) -> Result<u32, Error> {
        let (mut state, site) = self.enter(site, None)?;
        Ok(state.stream(site, stream)?.device)
    }

    /// How many operations were submitted to a stream so far, records and waits among them; 0 of one that is gone.
    #[must_use]
    pub fn submitted(&self, stream: Stream) -> u64 {
        let state = self.shared.here();
        let count = |state: Locked<'_>| Some(state.streams.get(&stream.raw())?.submitted);
        state.ok().and_then(count).unwrap_or(0)
    }

    /// Makes what is submitted to `stream` from now on wait for the event as it is now: for its last
    /// record, or for its completion by the host. One that was never recorded is done. The event may
    /// be destroyed at once. The failure of what was waited for becomes the stream's.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`].
    pub fn wait(&self, site: Site, stream: Stream, event: Event) -> Result<(), Error> {
        let (mut state, site) = self.enter_on(site, stream)?;
        state.stream(site, stream)?;
        let event = state.event(site, event)?;
        let (point, made) = (event.point.as_ref().map(Arc::clone), event.site);
        let Some(point) = point else {
            if state.config.report_unrecorded {
                let detail = "the event was never recorded, and the wait does nothing".to_owned();
                state.report(ReportKind::Unrecorded, made, Some(site), None, detail);
            }
            return Ok(());
        };
        state.submit(site, stream, Body::Wait(point), Vec::new())?;
        self.shared.tell(&state);
        Ok(())
    }

    /// Whether all that was submitted to the stream is done.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`]; [`Error::Failed`] with the stream's first failure, which stays.
    pub fn query_stream(&self, site: Site, stream: Stream) -> Result<bool, Error> {
        let (mut state, site) = self.enter_on(site, stream)?;
        let goal = state.tail(site, stream)?;
        if !state.reached(&goal) {
            self.after_a_vain_query(state, &goal);
            return Ok(false);
        }
        let told = state.learn_stream(stream);
        told.map_or(Ok(true), |failure| Err(Error::Failed(failure)))
    }

    /// Makes the calling thread wait until all that was submitted to the stream so far is done.
    /// No limit is `None`.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`], [`Error::TimedOut`], [`Error::Standstill`]; [`Error::Failed`] with the
    /// stream's first failure, which is then forgotten.
    pub fn synchronize_stream(
        &self,
        site: Site,
        stream: Stream,
        limit: Option<Duration>,
    ) -> Result<(), Error> {
        let (mut state, site) = self.enter_on(site, stream)?;
        let goal = state.tail(site, stream)?;
        let mut state = self.shared.block(state, &goal, limit)?;
        let told = state.learn_stream(stream);
        if let Some(stream) = state.streams.get_mut(&stream.raw()) {
            stream.failure.take_if(|failure| Some(*failure) == told);
        }
        told.map_or(Ok(()), |failure| Err(Error::Failed(failure)))
    }

    /// The same for all streams of a device; failures stay.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`], [`Error::TimedOut`], [`Error::Standstill`].
    pub fn synchronize_device(
        &self,
        site: Site,
        device: u32,
        limit: Option<Duration>,
    ) -> Result<(), Error> {
        let (state, _) = self.enter(site, Some(device))?;
        let here = state.streams.iter().filter(|(_, s)| s.device == device);
        let tails = here.map(|(&raw, s)| (raw, s.submitted)).collect();
        let mut state = self.shared.block(state, &Goal::Streams(tails), limit)?;
        state.learn_device(device);
        Ok(())
    }
}

impl Engine {
    /// Begins a call about a stream: faults of its device count.
    pub(crate) fn enter_on(&self, site: Site, stream: Stream) -> Result<(Locked<'_>, Site), Error> {
        let device = self
            .shared
            .here()?
            .streams
            .get(&stream.raw())
            .map(|s| s.device);
        let (mut state, site) = self.enter(site, device)?;
        state.trace.note("on", [stream.raw(), 0]);
        Ok((state, site))
    }

    /// A poll moves things: `Lazy` runs one operation of those that are missing, and where
    /// these wait for the host, another one: what the host waits for may be behind it. `Seeded` runs some one.
    pub(crate) fn after_a_vain_query(&self, mut state: Locked<'_>, goal: &Goal) {
        let next = match self.shared.config.policy {
            Policy::Lazy => state.needed(goal).or_else(|| state.first_runnable()),
            Policy::Seeded => seeded::behind_a_vain_query(&mut state),
            Policy::Threads => None,
        };
        if let Some(queue) = next {
            drop(self.shared.run(state, queue));
        }
    }
}

impl State {
    /// All that was submitted to a stream so far.
    fn tail(&mut self, site: Site, stream: Stream) -> Result<Goal, Error> {
        let submitted = self.stream(site, stream)?.submitted;
        Ok(Goal::Streams(vec![(stream.raw(), submitted)]))
    }

    /// The host knows what the streams of a device have done, those that are gone too.
    pub(crate) fn learn_device(&mut self, device: u32) {
        self.look_at_words();
        let Self {
            host,
            host_ns,
            streams,
            gone,
            ..
        } = self;
        for stream in streams.values().filter(|stream| stream.device == device) {
            host.join(&stream.clock);
            *host_ns = (*host_ns).max(stream.time_ns);
        }
        if let Some(gone) = gone.get(&device) {
            host.join(gone);
        }
    }

    /// The host knows what a stream did; the failure that there is to tell.
    fn learn_stream(&mut self, stream: Stream) -> Option<Failure> {
        self.look_at_words();
        let stream = self.streams.get(&stream.raw())?;
        self.host.join(&stream.clock);
        self.host_ns = self.host_ns.max(stream.time_ns);
        stream.failure
    }
}
