//! An internal stream, which the runtime makes for itself on a plugin's device, as its holder has it.

use std::sync::Arc;
use std::time::Duration;

use crossdock_sdk::abi::StreamHandle;
use crossdock_sdk::deadline::Deadline;

use crate::devices::device::Device;
use crate::error::Error;
use crate::plugins::internal_streams::{PooledStream, let_go};
use crate::streams::event::Event;
use crate::streams::wait::{self, OnFailure, WaitMethod};

/// How long a host function that has done its work may take to return.
const RETURN: Duration = Duration::from_secs(1);

/// An internal stream that its holder has to itself. Dropping it calls no hook and leaves its work
/// running.
#[derive(Debug)]
pub(crate) struct InternalStream {
    device: Device,
    handle: StreamHandle,
    /// Until it is dropped.
    pooled: Option<Arc<PooledStream>>,
}

impl InternalStream {
    /// An idle stream of the device, or a new one.
    ///
    /// # Errors
    /// [`Error::Hook`]; `UNSUPPORTED` where the plugin has no streams.
    pub(crate) fn take(device: &Device) -> Result<Self, Error> {
        let hooks = device.hooks();
        if hooks.is_forked() {
            // The lock may be that of a thread which this process does not have.
            return Err(Error::Forked {
                operation: "take a stream",
            });
        }
        let streams = device.plugin().internal_streams();
        let pooled = streams.take(hooks, device.index())?;
        Ok(Self {
            device: device.clone(),
            handle: pooled.handle,
            pooled: Some(pooled),
        })
    }

    pub(crate) const fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) const fn handle(&self) -> StreamHandle {
        self.handle
    }

    /// Makes what comes later on it wait for an event of its own plugin.
    ///
    /// # Errors
    /// [`Error::Hook`].
    pub(crate) fn wait_for_own(&self, event: &Event) -> Result<(), Error> {
        let hooks = self.device.hooks();
        event.with_handle((), |event| hooks.stream_wait_event(self.handle, event))
    }

    /// Makes what comes later on it wait for an event of any plugin.
    ///
    /// # Errors
    /// As [`wait::wait`].
    pub(crate) fn wait(&self, event: &Event, on_failure: OnFailure) -> Result<WaitMethod, Error> {
        wait::wait((&self.device, None), event, on_failure, |own| {
            self.wait_for_own(own)
        })
    }

    /// The same for one of many events of another stream: `carrier`, an internal stream of the event's device, waits for
    /// each of them in turn.
    ///
    /// # Errors
    /// As [`wait::wait`].
    pub(crate) fn wait_by(&self, carrier: &Arc<Self>, event: &Event) -> Result<WaitMethod, Error> {
        let (waiter, inherit) = ((&self.device, Some(carrier)), OnFailure::Inherit);
        wait::wait(waiter, event, inherit, |own| self.wait_for_own(own))
    }

    /// An event at its present end.
    ///
    /// # Errors
    /// [`Error::Hook`].
    pub(crate) fn record(&self) -> Result<Event, Error> {
        let event = Event::create_own(&self.device)?;
        self.record_to(&event)?;
        Ok(event)
    }

    /// Records an event of the device at its present end.
    ///
    /// # Errors
    /// [`Error::Hook`].
    pub(crate) fn record_to(&self, event: &Event) -> Result<(), Error> {
        let hooks = self.device.hooks();
        hooks.event_record(event.handle(), self.handle)
    }

    /// Whether a wait for the device may have been told of a failure of its work, which an event that is recorded later
    /// does not have.
    pub(crate) fn may_have_told(&self) -> bool {
        let pooled = self.pooled.as_ref();
        pooled.is_some_and(|pooled| pooled.may_have_told())
    }

    /// Lets waits for the device find it while it is kept, because the end of its work could not be recorded.
    pub(crate) fn note_unrecorded(&self) {
        let streams = self.device.plugin().internal_streams();
        self.pooled
            .iter()
            .for_each(|pooled| streams.note_unrecorded(pooled));
    }

    /// Blocks the calling thread until its work is over, failed or not.
    ///
    /// # Errors
    /// As [`Hooks::wait_until_over`].
    pub(crate) fn wait_until_over(&self, deadline: Deadline) -> Result<(), Error> {
        self.device.hooks().wait_until_over(self.handle, deadline)
    }

    /// Gives it back, in a thread that may call hooks, and destroys streams that are too many: this one too, once
    /// its last work, the host function, has returned. Later nobody may come to destroy it.
    pub(crate) fn give_back(mut self) {
        let device = self.device.clone();
        let (hooks, streams) = (device.hooks(), device.plugin().internal_streams());
        let returned = || self.wait_until_over(Deadline::after(Some(RETURN)));
        if streams.is_full()
            && returned().is_ok()
            && let Some(pooled) = self.pooled.take()
        {
            let_go(hooks, pooled);
        }
        drop(self);
        streams.trim(hooks, device.index());
    }
}

impl Drop for InternalStream {
    fn drop(&mut self) {
        // In a child the lock may be that of a thread which the child does not have.
        if let Some(pooled) = self
            .pooled
            .take()
            .filter(|_| !self.device.hooks().is_forked())
        {
            self.device.plugin().internal_streams().give_back(pooled);
        }
    }
}
