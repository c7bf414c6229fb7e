//! The stream that work is put on, and what it waits for before.

use std::sync::Arc;

use crossdock_sdk::abi::StreamHandle;

use crate::devices::device::Device;
use crate::error::Error;
use crate::streams::event::Event;
use crate::streams::internal_stream::InternalStream;
use crate::streams::outstanding_work::{Access, Earlier, Work};
use crate::streams::stream::Stream;
use crate::streams::wait::{OnFailure, WaitMethod};

/// The stream that work is submitted to.
#[derive(Clone, Copy)]
pub(super) enum WorkStream<'a> {
    /// The caller's, of the plugin that does the work.
    Callers(&'a Stream),
    /// An internal one of that plugin, because the caller's stream belongs to another: it waits for
    /// an event of the caller's stream, which then waits for one of its own.
    Internal(&'a Stream, &'a Arc<InternalStream>),
}

impl WorkStream<'_> {
    /// The caller's stream, in whose order the work is done.
    pub(super) const fn caller(&self) -> &Stream {
        match self {
            Self::Callers(stream) | Self::Internal(stream, _) => stream,
        }
    }

    /// The caller's stream where the work itself is on it.
    pub(super) const fn callers_own(&self) -> Option<&Stream> {
        match self {
            Self::Callers(stream) => Some(stream),
            Self::Internal(..) => None,
        }
    }

    /// The internal stream where the work is on one.
    pub(super) const fn internal(&self) -> Option<&Arc<InternalStream>> {
        match self {
            Self::Callers(_) => None,
            Self::Internal(_, internal) => Some(internal),
        }
    }

    /// The device that does the work.
    fn device(&self) -> &Device {
        match self {
            Self::Callers(stream) => stream.device(),
            Self::Internal(_, internal) => internal.device(),
        }
    }

    /// Whether the plugin that does the work is that of the event.
    fn is_of_plugin_of(&self, event: &Event) -> bool {
        self.device().is_of(event.device().plugin())
    }

    /// Makes it wait for what is on the caller's stream.
    pub(super) fn wait_for_caller(&self) -> Result<(), Error> {
        match self {
            Self::Callers(_) => Ok(()),
            Self::Internal(stream, internal) => internal
                .wait(&stream.record_own()?, OnFailure::Inherit)
                .map(drop),
        }
    }

    /// Makes it wait for the works that one with this access has to come after, and gives their ends.
    pub(super) fn come_after(
        &self,
        works: Vec<Work>,
        access: Access,
    ) -> Result<Vec<Earlier>, Error> {
        let mut earlier = Vec::new();
        for work in works {
            // What is on one stream is in order there. That is certain only where the earlier work is
            // of the stream's own plugin: the stream goes on early where another one breaks down.
            let is_on_this = work.stream.is_some() && work.stream.as_ref() == self.callers_own();
            let is_native = work.is_of_one_plugin();
            let earlier_access = work.access;
            let event = work.event()?;
            // Nobody can say any more when the work ends, so nothing can come after it: this answers why.
            if event.device().hooks().is_quarantined() {
                event.is_done()?;
            }
            // A write replaces what failed, and a read that failed left the content as it was.
            let tolerates_failure = access.is_write() || earlier_access == Access::Read;
            let is_certain = if is_on_this {
                // The stream hands a failure on until it has told of it.
                if !tolerates_failure && self.caller().may_have_told() {
                    event.is_done()?;
                }
                is_native
            } else {
                let method = self.wait(&event, tolerates_failure)?;
                match method {
                    WaitMethod::Blocked | WaitMethod::Native => true,
                    // Given up only where the event's plugin is no longer called: if it is this
                    // stream's as well, it does nothing more here.
                    WaitMethod::HostEvent => self.is_of_plugin_of(&event),
                    WaitMethod::HostThread => false,
                }
            };
            earlier.push(Earlier { event, is_certain });
        }
        Ok(those_replaced(earlier, access))
    }

    /// Makes it wait for an event. A failure of the work before the event is inherited, unless it is
    /// tolerated and known by now.
    fn wait(&self, event: &Event, tolerates_failure: bool) -> Result<WaitMethod, Error> {
        // The error may be one of the query, so the work is waited for all the same.
        let on_failure = if tolerates_failure && event.is_done().is_err() {
            OnFailure::Ignore
        } else {
            OnFailure::Inherit
        };
        match self {
            Self::Callers(stream) => stream.wait_with(event, on_failure),
            Self::Internal(_, internal) => internal.wait(event, on_failure),
        }
    }

    pub(super) fn submit(
        &self,
        work: impl FnOnce(StreamHandle) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match self {
            Self::Callers(stream) => stream.with_submit_lock(work),
            Self::Internal(_, internal) => work(internal.handle()),
        }
    }

    /// An event for the end of work that is to come.
    pub(super) fn create_end(&self) -> Result<Event, Error> {
        Event::create_own(self.device())
    }

    /// Records the end. As the work is there already, a failure is worth a second try.
    pub(super) fn record(&self, end: &Event) -> Result<(), Error> {
        let record = || match self {
            Self::Callers(stream) => stream.record_to(end),
            Self::Internal(_, internal) => internal.record_to(end),
        };
        record().or_else(|_| record())
    }
}

/// The ends of earlier work that the work to come may replace. Work that failed is not among them
/// where some of its elements stay as they are: a reader of those has to be told.
pub(super) fn those_replaced(mut earlier: Vec<Earlier>, access: Access) -> Vec<Earlier> {
    if access == Access::WritePart {
        earlier.retain(|one| one.event.is_done().is_ok());
    }
    earlier
}
