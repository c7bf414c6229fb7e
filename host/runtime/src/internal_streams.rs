//! Streams of our own on a plugin's devices. Each carries one piece of work at a time: two on one
//! stream would order things that have nothing to do with each other, and could wait in a circle.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crossdock_sdk::abi::{EventHandle, Status, StreamHandle};

use crate::chain::{self, Chain, Passing};
use crate::device::Device;
use crate::error::Error;
use crate::event::Event;
use crate::hooks::Hooks;
use crate::life;
use crate::stream::{done, nanoseconds};

/// A plugin's internal streams that nobody has, idle ones and ones whose work is still running.
#[derive(Debug, Default)]
pub(crate) struct InternalStreams(Mutex<Vec<Kept>>);

#[derive(Debug, Clone, Copy)]
struct Kept {
    device: u32,
    handle: StreamHandle,
}

/// More are destroyed once their work is submitted: it completes all the same.
const MOST_KEPT: usize = 16;

impl InternalStreams {
    fn take(&self, device: u32) -> Vec<Kept> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extract_if(.., |one| one.device == device).collect()
    }

    /// Keeps streams, and gives back those that are too many.
    fn keep(&self, streams: impl IntoIterator<Item = Kept>) -> Vec<Kept> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(streams);
        let room = kept.len().min(MOST_KEPT);
        kept.split_off(room)
    }

    /// A kept stream of the device whose work is done. No lock is held while the plugin is asked.
    fn idle(&self, hooks: &Hooks, device: u32) -> Option<StreamHandle> {
        let (mut idle, mut others) = (None, Vec::new());
        for one in self.take(device) {
            if idle.is_some() {
                others.push(one);
                continue;
            }
            match done(hooks.stream_query(one.handle)) {
                Ok(true) => idle = Some(one.handle),
                Ok(false) => others.push(one),
                // A stream on which something failed may say so for ever.
                Err(_) => destroy(hooks, one.handle),
            }
        }
        for one in self.keep(others) {
            destroy(hooks, one.handle);
        }
        idle
    }

    /// Makes the CPU wait for the work on the device's internal streams. Its failures are those of the
    /// streams that it was done for.
    ///
    /// # Errors
    /// [`Error::Hook`]: `TIMEOUT`.
    pub(crate) fn synchronize(
        &self,
        hooks: &Hooks,
        device: u32,
        left: impl Fn() -> Option<Duration>,
    ) -> Result<(), Error> {
        let is_timeout = |error: &Error| error.status() == Some(Status::TIMEOUT);
        let streams = self.take(device);
        let ended = |one: &Kept| hooks.stream_synchronize(one.handle, nanoseconds(left()));
        let late = streams
            .iter()
            .filter_map(|one| ended(one).err())
            .find(is_timeout);
        for one in self.keep(streams) {
            destroy(hooks, one.handle);
        }
        late.map_or(Ok(()), Err)
    }

    /// Destroys the kept streams, before their plugin is closed.
    pub(crate) fn close(&self, hooks: &Hooks) {
        let kept = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for one in kept {
            destroy(hooks, one.handle);
        }
    }
}

/// An internal stream that its holder has to itself. Dropping it calls no hook as long as few are
/// kept, and leaves its work running.
#[derive(Debug)]
pub(crate) struct InternalStream {
    device: Device,
    handle: StreamHandle,
}

impl InternalStream {
    /// An idle stream of the device, or a new one.
    ///
    /// # Errors
    /// [`Error::Hook`]; `UNSUPPORTED` where the plugin has no streams.
    pub(crate) fn take(device: &Device) -> Result<Self, Error> {
        let (hooks, index) = (device.hooks(), device.index());
        if hooks.is_forked() {
            // The lock may be that of a thread which this process does not have.
            return Err(Error::Forked {
                operation: "take a stream",
            });
        }
        let handle = match device.plugin().internal_streams().idle(hooks, index) {
            Some(handle) => handle,
            None => hooks.stream_create(index)?,
        };
        let device = device.clone();
        Ok(Self { device, handle })
    }

    pub(crate) const fn handle(&self) -> StreamHandle {
        self.handle
    }

    /// Makes what comes later on it wait for an event of its own plugin.
    ///
    /// # Errors
    /// [`Error::Hook`].
    pub(crate) fn wait_for_own(&self, event: EventHandle) -> Result<(), Error> {
        self.device.hooks().stream_wait_event(self.handle, event)
    }

    /// Makes what comes later on it wait for an event of any plugin.
    ///
    /// # Errors
    /// As [`chain::wait`].
    pub(crate) fn wait(&self, event: &Event, passing: Passing) -> Result<Chain, Error> {
        chain::wait(&self.device, event, passing, |own| self.wait_for_own(own))
    }

    /// An event at its present end.
    ///
    /// # Errors
    /// [`Error::Hook`].
    pub(crate) fn record(&self) -> Result<Event, Error> {
        let event = Event::create(&self.device)?;
        let hooks = self.device.hooks();
        hooks.event_record(event.handle(), self.handle)?;
        Ok(event)
    }

    /// Makes the CPU wait until its work is done; `None` is no limit.
    ///
    /// # Errors
    /// [`Error::Hook`]: `TIMEOUT`, or the first failure of its work.
    pub(crate) fn synchronize(&self, limit: Option<Duration>) -> Result<(), Error> {
        let hooks = self.device.hooks();
        hooks.stream_synchronize(self.handle, nanoseconds(limit))
    }
}

impl Drop for InternalStream {
    fn drop(&mut self) {
        let hooks = self.device.hooks();
        let kept = Kept {
            device: self.device.index(),
            handle: self.handle,
        };
        for one in self.device.plugin().internal_streams().keep([kept]) {
            destroy(hooks, one.handle);
        }
    }
}

fn destroy(hooks: &Hooks, stream: StreamHandle) {
    if let Err(error) = hooks.stream_destroy(stream)
        && !life::is_over(&error)
    {
        log::error!(target: "crossdock::stream", "{error}: {}", error.why());
    }
}
