//! Streams that were made here and whose last handle was dropped while their work ran. Each is destroyed once its work is
//! over.
//!
//! Until then a wait for the device finds the work. Drivers also differ: some wait for the work of a stream that is
//! destroyed, and the contract's `stream_destroy` must not block.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossdock_sdk::abi::{Status, StreamHandle};
use crossdock_sdk::deadline::Deadline;

use crate::error::Error;
use crate::hooks::plugin_hooks::Hooks;
use crate::plugins::stream_core::destroy;

/// A plugin's streams that have ended and may still have work. The newest is queried first, and then those that were
/// queried longest ago.
#[derive(Debug, Default)]
pub(crate) struct EndedStreams(Mutex<VecDeque<Arc<Ended>>>);

/// One of them. A thread that queries it shares it meanwhile; the last one destroys it.
#[derive(Debug)]
struct Ended {
    device: u32,
    handle: StreamHandle,
}

/// So many are queried each time that a stream is created or ends.
const QUERIED: usize = 4;

impl EndedStreams {
    fn streams(&self) -> MutexGuard<'_, VecDeque<Arc<Ended>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a stream that nobody has in hand. [`EndedStreams::destroy_idle`] destroys it once its work is over.
    pub(super) fn enter(&self, device: u32, handle: StreamHandle) {
        // The newest first, since it is likely to be idle.
        let ended = Arc::new(Ended { device, handle });
        self.streams().push_front(ended);
    }

    /// Destroys streams whose work is over by now, of a few that are queried.
    pub(crate) fn destroy_idle(&self, hooks: &Hooks) {
        let mut streams = self.streams();
        let few = streams.len().min(QUERIED);
        let queried: Vec<_> = streams.iter().take(few).cloned().collect();
        streams.rotate_left(few);
        drop(streams);
        for stream in queried {
            if is_over(hooks, stream.handle) {
                self.remove(&stream);
            }
            let_go(hooks, stream);
        }
    }

    /// Makes the calling thread wait for the work on the device's streams, and destroys those whose work is over. Failures
    /// of that work are told by the tensors that it wrote, and not here.
    ///
    /// # Errors
    /// [`Error::Hook`]: `TIMEOUT`, or what the plugin answered where the work may still be running.
    pub(crate) fn synchronize(
        &self,
        hooks: &Hooks,
        device: u32,
        deadline: Deadline,
    ) -> Result<(), Error> {
        // One of another device must not be kept here: the last one to have it destroys it.
        let of_device = |stream: &&Arc<Ended>| stream.device == device;
        let of_device: Vec<_> = self.streams().iter().filter(of_device).cloned().collect();
        let mut outcome = Ok(());
        for stream in of_device {
            let over = hooks.wait_until_over(stream.handle, deadline);
            if over.is_ok() {
                self.remove(&stream);
            }
            let_go(hooks, stream);
            outcome = outcome.and(over);
        }
        outcome
    }

    /// Gives all back, before their plugin is closed, which waits for their work.
    pub(crate) fn close(&self, hooks: &Hooks) {
        let ended = std::mem::take(&mut *self.streams());
        for stream in ended {
            let_go(hooks, stream);
        }
    }

    fn remove(&self, stream: &Arc<Ended>) {
        self.streams().retain(|other| !Arc::ptr_eq(other, stream));
    }
}

/// Whether the work on a stream is known to be over, failed or not.
fn is_over(hooks: &Hooks, handle: StreamHandle) -> bool {
    match hooks.is_idle(handle) {
        Ok(is_idle) => is_idle,
        // The answer may be a failure of the query, while the work is running.
        Err(error) if error.is_failure_of_work() => {
            let at_once = Deadline::after(Some(Duration::ZERO));
            let over = hooks.wait_until_over(handle, at_once);
            over.map_or_else(
                |error| error.status() == Some(Status::DEVICE_LOST),
                |()| true,
            )
        }
        Err(_) => false,
    }
}

/// Destroys a stream unless the list or another thread has it.
fn let_go(hooks: &Hooks, ended: Arc<Ended>) {
    if let Some(last) = Arc::into_inner(ended) {
        destroy(hooks, last.handle);
    }
}
