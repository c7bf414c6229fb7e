//! The pool of internal streams: those that the runtime makes for itself on a plugin's devices.
//!
//! Each carries one piece of work at a time: two on one stream would order things that have nothing to
//! do with each other, and could wait in a circle.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossdock_sdk::abi::{EventHandle, Status, StreamHandle};
use crossdock_sdk::deadline::Deadline;

use crate::devices::device::Device;
use crate::error::Error;
use crate::hooks::plugin_hooks::Hooks;
use crate::streams::event::Event;
use crate::streams::stream::done;
use crate::streams::stream_core::destroy;
use crate::streams::wait::{self, OnFailure, WaitMethod};

/// A plugin's internal streams that nobody holds: idle ones, and ones whose work is still running.
#[derive(Debug, Default)]
pub(crate) struct InternalStreams(Mutex<Pool>);

/// The oldest stream first.
#[derive(Debug, Default)]
struct Pool {
    streams: Vec<Kept>,
    /// The number of the one that was given back last.
    last: u64,
}

/// A stream in the pool. Each time it is given back it has another number: what was asked about it
/// before says nothing of the work that it has since.
#[derive(Debug, Clone)]
struct Kept {
    number: u64,
    stream: Arc<PooledStream>,
}

/// One of them. A thread that queries it shares it meanwhile, and the last to let go of one that left the
/// pool destroys it.
#[derive(Debug)]
struct PooledStream {
    device: u32,
    handle: StreamHandle,
}

/// So many of a device's are queried for an idle one, the oldest first: their work is over first.
const MOST_QUERIED: usize = 4;

/// While the pool of all devices holds more than these, idle ones are destroyed.
const MOST_KEPT: usize = 16;

/// How long a host function that has done its work may take to return.
const RETURN: Duration = Duration::from_secs(1);

impl InternalStreams {
    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows at most `most` of a device's to `visit`, the oldest first. They stay in the pool meanwhile,
    /// so that a wait for all of them misses none. No lock is held while `visit` calls hooks.
    fn look(&self, hooks: &Hooks, device: u32, most: usize, mut visit: impl FnMut(&Kept)) {
        let pool = self.pool();
        let of = pool
            .streams
            .iter()
            .filter(|one| one.stream.device == device);
        let streams: Vec<_> = of.take(most).cloned().collect();
        drop(pool);
        for one in streams {
            visit(&one);
            let_go(hooks, one.stream);
        }
    }

    /// Takes a stream out of the pool, unless another thread took it first, even if that thread has
    /// given it back since.
    fn claim(&self, one: &Kept) -> bool {
        let streams = &mut self.pool().streams;
        let at = streams.iter().position(|other| other.number == one.number);
        at.map(|at| streams.remove(at)).is_some()
    }

    fn give_back(&self, stream: Arc<PooledStream>) {
        let mut pool = self.pool();
        pool.last += 1;
        let number = pool.last;
        pool.streams.push(Kept { number, stream });
    }

    /// A kept stream of the device whose work is done.
    fn idle(&self, hooks: &Hooks, device: u32) -> Option<Arc<PooledStream>> {
        let mut idle = None;
        self.look(hooks, device, MOST_QUERIED, |one| {
            if idle.is_some() {
                return;
            }
            match done(hooks.stream_query(one.stream.handle)) {
                Ok(true) if self.claim(one) => idle = Some(Arc::clone(&one.stream)),
                // A stream on which something failed may say so for ever.
                Err(error) if is_of_work(&error) => _ = self.claim(one),
                // Its work may be running, and a wait for the device has to find it.
                Ok(_) | Err(_) => {}
            }
        });
        idle
    }

    fn is_full(&self) -> bool {
        self.pool().streams.len() > MOST_KEPT
    }

    /// Destroys idle ones where there are too many: what many needed at once does not stay for ever.
    fn trim(&self, hooks: &Hooks, device: u32) {
        if !self.is_full() {
            return;
        }
        self.look(hooks, device, MOST_QUERIED, |one| {
            let is_over = match done(hooks.stream_query(one.stream.handle)) {
                Ok(is_over) => is_over,
                Err(error) => is_of_work(&error),
            };
            if is_over && self.is_full() {
                self.claim(one);
            }
        });
    }

    /// Makes the CPU wait for the work on the device's internal streams. Failures of that work are told
    /// by the streams that it was done for, and not here.
    ///
    /// # Errors
    /// [`Error::Hook`]: `TIMEOUT`, or what the plugin answered where the work may still be running.
    pub(crate) fn synchronize(
        &self,
        hooks: &Hooks,
        device: u32,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let mut outcome = Ok(());
        self.look(hooks, device, usize::MAX, |one| {
            // One that another thread takes meanwhile had nothing left to do.
            let over = hooks.wait_until_over(one.stream.handle, deadline);
            outcome = std::mem::replace(&mut outcome, Ok(())).and(over);
        });
        outcome
    }

    /// Destroys the kept streams, before their plugin is closed.
    pub(crate) fn close(&self, hooks: &Hooks) {
        let kept = std::mem::take(&mut self.pool().streams);
        for one in kept {
            let_go(hooks, one.stream);
        }
    }
}

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
        let (hooks, index) = (device.hooks(), device.index());
        if hooks.is_forked() {
            // The lock may be that of a thread which this process does not have.
            return Err(Error::Forked {
                operation: "take a stream",
            });
        }
        let streams = device.plugin().internal_streams();
        let pooled = match streams.idle(hooks, index) {
            Some(pooled) => pooled,
            None => Arc::new(PooledStream {
                device: index,
                handle: hooks.stream_create(index)?,
            }),
        };
        streams.trim(hooks, index);
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
    pub(crate) fn wait_for_own(&self, event: EventHandle) -> Result<(), Error> {
        self.device.hooks().stream_wait_event(self.handle, event)
    }

    /// Makes what comes later on it wait for an event of any plugin.
    ///
    /// # Errors
    /// As [`wait::wait`].
    pub(crate) fn wait(&self, event: &Event, on_failure: OnFailure) -> Result<WaitMethod, Error> {
        wait::wait(&self.device, event, on_failure, |own| {
            self.wait_for_own(own)
        })
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

    /// Makes the CPU wait until its work is over, failed or not.
    ///
    /// # Errors
    /// As [`Hooks::wait_until_over`].
    pub(crate) fn wait_until_over(&self, deadline: Deadline) -> Result<(), Error> {
        self.device.hooks().wait_until_over(self.handle, deadline)
    }

    /// Gives it back where hooks may be called, so that those which are too many end there: this one too,
    /// once the host function returned that is its last work. Later nobody may come to end it.
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

/// Whether a plugin that answers this about a stream says that its work is over and has failed.
pub(crate) fn is_of_work(error: &Error) -> bool {
    error.status().is_some_and(Status::is_failure_of_work)
}

/// Destroys a stream unless others hold it.
fn let_go(hooks: &Hooks, pooled: Arc<PooledStream>) {
    if let Some(last) = Arc::into_inner(pooled) {
        destroy(hooks, last.handle);
    }
}
