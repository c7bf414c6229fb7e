//! The pool of internal streams: those that the runtime makes for itself on a plugin's devices.
//!
//! Each carries one piece of work at a time: two on one stream would order things that have nothing to
//! do with each other, and could wait in a circle.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crossdock_sdk::abi::{Status, StreamHandle};
use crossdock_sdk::deadline::Deadline;

use crate::error::Error;
use crate::hooks::plugin_hooks::Hooks;
use crate::plugins::stream_core::destroy;
use crate::plugins::tellers::Tellers;

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
    /// How many threads wait for it while it is in the pool.
    waiters: AtomicUsize,
    tellers: Tellers,
}

impl PooledStream {
    pub(crate) fn may_have_told(&self) -> bool {
        self.tellers.may_have_told()
    }

    fn is_awaited(&self) -> bool {
        self.waiters.load(Ordering::Acquire) > 0
    }
}

/// A wait for a stream, until this is dropped. Made under the pool's lock, as is the look at it in `claim`. The plugin
/// may put something on the stream for the wait, and on one hardware queue whoever takes it meanwhile would stand behind
/// that.
struct Awaited<'a>(&'a PooledStream);

impl<'a> Awaited<'a> {
    fn new(_pool: &Pool, stream: &'a PooledStream) -> Self {
        stream.waiters.fetch_add(1, Ordering::AcqRel);
        Self(stream)
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.0.waiters.fetch_sub(1, Ordering::AcqRel);
    }
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
    /// given it back since, or waits for it.
    fn claim(&self, one: &Kept) -> bool {
        let streams = &mut self.pool().streams;
        let is_it = |other: &Kept| other.number == one.number && !other.stream.is_awaited();
        let at = streams.iter().position(is_it);
        at.map(|at| streams.remove(at)).is_some()
    }

    /// Keeps a stream in the pool while somebody waits for it; none where it was taken.
    fn keep_for_wait<'a>(&self, one: &'a Kept) -> Option<Awaited<'a>> {
        let pool = self.pool();
        let is_kept = pool.streams.iter().any(|other| other.number == one.number);
        is_kept.then(|| Awaited::new(&pool, &one.stream))
    }

    pub(crate) fn give_back(&self, stream: Arc<PooledStream>) {
        let mut pool = self.pool();
        let other =
            |noted: &Weak<PooledStream>| !std::ptr::eq(noted.as_ptr(), Arc::as_ptr(&stream));
        pool.unrecorded.retain(other);
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
                waiters: AtomicUsize::new(0),
                tellers: Tellers::default(),
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
                Err(error) if self.is_failed(hooks, one, &error) => _ = self.claim(one),
                // Its work may be running, and a wait for the device has to find it.
                Ok(_) | Err(_) => {}
            }
        });
        idle
    }

    /// Whether the work on a kept stream failed and is over. Such a stream may say so for ever.
    fn is_failed(&self, hooks: &Hooks, one: &Kept, answer: &Error) -> bool {
        if !answer.is_failure_of_work() {
            return false;
        }
        // The answer may be a failure of the question, while the work is running.
        let at_once = Deadline::after(Some(Duration::ZERO));
        let ask = |_: Awaited<'_>| hooks.wait_until_over(one.stream.handle, at_once);
        let over = self.keep_for_wait(one).map(ask);
        over.is_some_and(|over| match over {
            Ok(()) => true,
            Err(error) => error.status() == Some(Status::DEVICE_LOST),
        })
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
                Err(error) => self.is_failed(hooks, one, &error),
            };
            if is_over && self.is_full() {
                self.claim(one);
            }
        });
    }

    /// Makes the calling thread wait for the work on the device's internal streams. Failures of that work are told
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
        let mut wait_for = |awaited: Awaited<'_>| {
            let PooledStream {
                handle, tellers, ..
            } = awaited.0;
            let over = hooks.wait_until_over_by(*handle, deadline, |wait| tellers.tell(wait));
            outcome = std::mem::replace(&mut outcome, Ok(())).and(over);
        };
        // Before the others: one that is given back meanwhile is among those.
        for stream in self.unrecorded(device) {
            self.keep_unrecorded_for_wait(&stream).map(&mut wait_for);
            let_go(hooks, stream);
        }
        self.look(hooks, device, usize::MAX, |one| {
            // One that another thread took meanwhile had nothing left to do.
            self.keep_for_wait(one).map(&mut wait_for);
        });
        outcome
    }

    fn unrecorded(&self, device: u32) -> Vec<Arc<PooledStream>> {
        let noted = &self.pool().unrecorded;
        let noted = noted.iter().filter_map(Weak::upgrade);
        noted.filter(|stream| stream.device == device).collect()
    }

    /// Keeps a stream whose end could not be recorded from being taken while somebody waits for it; none where it was
    /// given back.
    fn keep_unrecorded_for_wait<'a>(&self, stream: &'a Arc<PooledStream>) -> Option<Awaited<'a>> {
        let pool = self.pool();
        let is_it = |noted: &Weak<PooledStream>| std::ptr::eq(noted.as_ptr(), Arc::as_ptr(stream));
        let is_noted = pool.unrecorded.iter().any(is_it);
        is_noted.then(|| Awaited::new(&pool, stream))
    }

    /// Destroys the kept streams, before their plugin is closed.
    pub(crate) fn close(&self, hooks: &Hooks) {
        let kept = std::mem::take(&mut self.pool().streams);
        for one in kept {
            let_go(hooks, one.stream);
        }
    }
}

/// Destroys a stream unless others hold it.
pub(crate) fn let_go(hooks: &Hooks, pooled: Arc<PooledStream>) {
    if let Some(last) = Arc::into_inner(pooled) {
        destroy(hooks, last.handle);
    }
}
