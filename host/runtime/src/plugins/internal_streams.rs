//! The pool of internal streams: those that the runtime makes for itself on a plugin's devices.
//!
//! Each carries one piece of work at a time: two on one stream would order things that have nothing to
//! do with each other, and could wait in a circle.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crossdock_sdk::abi::{Status, StreamHandle};
use crossdock_sdk::deadline::Deadline;

use crate::error::Error;
use crate::hooks::plugin_hooks::Hooks;
use crate::hooks::waits;
use crate::plugins::stream_core::destroy;

/// A plugin's internal streams that nobody holds: idle ones, and ones whose work is still running.
#[derive(Debug, Default)]
pub(crate) struct InternalStreams(Mutex<Pool>);

/// The oldest stream first.
#[derive(Debug, Default)]
struct Pool {
    streams: Vec<Kept>,
    /// Those that memories keep, because the end of the work on them could not be recorded.
    unrecorded: Vec<Weak<PooledStream>>,
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
pub(crate) struct PooledStream {
    device: u32,
    pub(crate) handle: StreamHandle,
}

/// So many of a device's are queried for an idle one, the oldest first: their work is over first.
const MOST_QUERIED: usize = 4;

/// While the pool of all devices holds more than these, idle ones are destroyed.
const MOST_KEPT: usize = 16;

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

    /// Notes a stream that is kept for work whose end could not be recorded: a wait for the device finds it all the same.
    pub(crate) fn note_unrecorded(&self, stream: &Arc<PooledStream>) {
        let noted = &mut self.pool().unrecorded;
        noted.retain(|one| one.strong_count() > 0);
        noted.push(Arc::downgrade(stream));
    }

    /// Takes a stream out of the pool, unless another thread took it first, even if that thread has
    /// given it back since.
    fn claim(&self, one: &Kept) -> bool {
        let streams = &mut self.pool().streams;
        let at = streams.iter().position(|other| other.number == one.number);
        at.map(|at| streams.remove(at)).is_some()
    }

    /// Whether the stream is in the pool, and was all the while.
    fn keeps(&self, one: &Kept) -> bool {
        let streams = &self.pool().streams;
        streams.iter().any(|other| other.number == one.number)
    }

    pub(crate) fn give_back(&self, stream: Arc<PooledStream>) {
        let mut pool = self.pool();
        pool.last += 1;
        let number = pool.last;
        pool.streams.push(Kept { number, stream });
    }

    /// A stream of the device whose work is done, else a new one.
    ///
    /// # Errors
    /// [`Error::Hook`]; `UNSUPPORTED` where the plugin has no streams.
    pub(crate) fn take(&self, hooks: &Hooks, device: u32) -> Result<Arc<PooledStream>, Error> {
        let stream = match self.idle(hooks, device) {
            Some(idle) => idle,
            None => Arc::new(PooledStream {
                device,
                handle: hooks.stream_create(device)?,
            }),
        };
        self.trim(hooks, device);
        Ok(stream)
    }

    /// A kept stream of the device whose work is done.
    fn idle(&self, hooks: &Hooks, device: u32) -> Option<Arc<PooledStream>> {
        let mut idle = None;
        self.look(hooks, device, MOST_QUERIED, |one| {
            if idle.is_some() {
                return;
            }
            match hooks.is_idle(one.stream.handle) {
                Ok(true) if self.claim(one) => idle = Some(Arc::clone(&one.stream)),
                // A stream on which something failed may say so for ever.
                Err(error) if error.is_failure_of_work() => _ = self.claim(one),
                // Its work may be running, and a wait for the device has to find it.
                Ok(_) | Err(_) => {}
            }
        });
        idle
    }

    pub(crate) fn is_full(&self) -> bool {
        self.pool().streams.len() > MOST_KEPT
    }

    /// Destroys idle ones where there are too many: what many needed at once does not stay for ever.
    pub(crate) fn trim(&self, hooks: &Hooks, device: u32) {
        if !self.is_full() {
            return;
        }
        self.look(hooks, device, MOST_QUERIED, |one| {
            let is_over = match hooks.is_idle(one.stream.handle) {
                Ok(is_over) => is_over,
                Err(error) => error.is_failure_of_work(),
            };
            if is_over && self.is_full() {
                self.claim(one);
            }
        });
    }

    /// Makes the calling thread wait for the work on the device's internal streams. Failures of that work are told
    /// by the streams that it was done for, and not here. The plugin is only asked: for a longer wait it may put
    /// something on the stream, and on one hardware queue whoever takes the stream meanwhile would stand behind that.
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
        let mut wait_for = |stream: &PooledStream, is_kept: &dyn Fn() -> bool| {
            let ask = || Ok(!is_kept() || is_over(hooks, stream)?);
            let late = || {
                let why = "a stream of the runtime's own still has work";
                hooks.failure("synchronize", Status::TIMEOUT, why)
            };
            let over = waits::ask_until(deadline, ask);
            let over = over.and_then(|over| over.then_some(()).ok_or_else(late));
            outcome = std::mem::replace(&mut outcome, Ok(())).and(over);
        };
        self.look(hooks, device, usize::MAX, |one| {
            // One that another thread takes meanwhile has nothing left to do.
            wait_for(&one.stream, &|| self.keeps(one));
        });
        let unrecorded: Vec<_> = self.pool().unrecorded.clone();
        for one in unrecorded.iter().filter_map(Weak::upgrade) {
            if one.device == device {
                wait_for(&one, &|| true);
            }
            let_go(hooks, one);
        }
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

/// Whether the stream's work is over, failed or not.
fn is_over(hooks: &Hooks, stream: &PooledStream) -> Result<bool, Error> {
    let now = Deadline::after(Some(Duration::ZERO));
    match hooks.wait_until_over(stream.handle, now) {
        Err(error) if error.status() == Some(Status::TIMEOUT) => Ok(false),
        over => over.map(|()| true),
    }
}

/// Destroys a stream unless others hold it.
pub(crate) fn let_go(hooks: &Hooks, pooled: Arc<PooledStream>) {
    if let Some(last) = Arc::into_inner(pooled) {
        destroy(hooks, last.handle);
    }
}
