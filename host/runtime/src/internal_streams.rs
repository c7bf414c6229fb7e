//! Streams of our own on a plugin's devices. Each carries one piece of work at a time: two on one
//! stream would order things that have nothing to do with each other, and could wait in a circle.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossdock_sdk::abi::{EventHandle, Status, StreamHandle};

use crate::chain::{self, Chain, Passing};
use crate::device::Device;
use crate::error::Error;
use crate::event::Event;
use crate::hooks::Hooks;
use crate::life;
use crate::stream::done;

/// A plugin's internal streams that nobody has, idle ones and ones whose work is still running.
#[derive(Debug, Default)]
pub(crate) struct InternalStreams(Mutex<Vec<Kept>>);

#[derive(Debug, Clone, Copy)]
struct Kept {
    device: u32,
    handle: StreamHandle,
}

/// So many of a device's are looked at for an idle one, the oldest first: their work is over first.
const LOOKED_AT: usize = 4;

/// More idle ones are destroyed.
const MOST_KEPT: usize = 16;

impl InternalStreams {
    fn kept(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those of a device, the oldest first. They stay here: who waits for all of them misses none.
    fn of(&self, device: u32, most: usize) -> Vec<Kept> {
        let kept = self.kept();
        let of = kept.iter().filter(|one| one.device == device);
        of.take(most).copied().collect()
    }

    /// Takes a stream out, unless another thread did.
    fn claim(&self, one: Kept) -> bool {
        let mut kept = self.kept();
        let at = kept.iter().position(|other| other.handle == one.handle);
        at.map(|at| kept.remove(at)).is_some()
    }

    /// A kept stream of the device whose work is done. No lock is held while the plugin is asked.
    fn idle(&self, hooks: &Hooks, device: u32) -> Option<StreamHandle> {
        let mut idle = None;
        for one in self.of(device, LOOKED_AT) {
            let is_idle = match done(hooks.stream_query(one.handle)) {
                Ok(false) => continue,
                Ok(true) => true,
                // A stream on which something failed may say so for ever.
                Err(_) => false,
            };
            let is_wanted = is_idle && idle.is_none();
            let is_spare = is_idle && !is_wanted && self.kept().len() <= MOST_KEPT;
            if is_spare || !self.claim(one) {
                continue;
            }
            if is_wanted {
                idle = Some(one.handle);
            } else {
                destroy(hooks, one.handle);
            }
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
        // One that another thread takes and ends meanwhile had nothing left to do.
        let ended = |one: &Kept| hooks.wait_for_stream(one.handle, left());
        let streams = self.of(device, usize::MAX);
        let late = streams
            .iter()
            .filter_map(|one| ended(one).err())
            .find(is_timeout);
        late.map_or(Ok(()), Err)
    }

    /// Destroys the kept streams, before their plugin is closed.
    pub(crate) fn close(&self, hooks: &Hooks) {
        let kept = std::mem::take(&mut *self.kept());
        for one in kept {
            destroy(hooks, one.handle);
        }
    }
}

/// An internal stream that its holder has to itself. Dropping it calls no hook and leaves its work
/// running.
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
        self.device.hooks().wait_for_stream(self.handle, limit)
    }
}

impl Drop for InternalStream {
    fn drop(&mut self) {
        let kept = Kept {
            device: self.device.index(),
            handle: self.handle,
        };
        // In a child the lock may be that of a thread which the child does not have.
        if !self.device.hooks().is_forked() {
            self.device.plugin().internal_streams().kept().push(kept);
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
