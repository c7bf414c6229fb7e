//! Streams of ours that are no longer used: each is destroyed once its work is over. A driver may wait for the work of a
//! stream in the call that destroys it, which must not block here.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossdock_sdk::deadline::Deadline;

use crate::current::Entered;
use crate::device::{Device, locked};
use crate::fault::Fault;
use crate::progress::{Progress, wait_until};
use crate::vendor::Vendor;
use crate::work::finish;

/// Those of a device's own context that still have work. The one that was queried longest ago comes first. A thread that
/// queries one shares it meanwhile; the last one destroys it.
#[derive(Debug, Default)]
pub(crate) struct EndedStreams(Mutex<VecDeque<Arc<EndedStream>>>);

/// A stream of ours that is no longer used.
#[derive(Debug)]
pub(crate) struct EndedStream {
    raw: u64,
    /// Whether others know its native handle, and so may capture it.
    is_shown: bool,
}

impl EndedStream {
    pub(crate) const fn new(raw: u64, is_shown: bool) -> Self {
        Self { raw, is_shown }
    }

    /// One that no other code has ever known.
    pub(crate) const fn hidden(raw: u64) -> Self {
        Self::new(raw, false)
    }

    /// Whether its work is over. While it is captured, or may be, that is unknown: a query would end the capture.
    fn is_over<V: Vendor>(&self, inside: &Entered<'_, V>) -> bool {
        if self.is_shown && inside.vendor().is_capturing(self.raw) != Ok(false) {
            return false;
        }
        let now = Progress::ask(inside, |vendor| vendor.query_stream(self.raw));
        now.is_ok_and(|now| now.is_over())
    }
}

/// So many are queried for each stream that ends.
const QUERIED: usize = 4;

impl<V: Vendor> Device<V> {
    /// Ends a stream of ours, in the context that was entered. One of another context is destroyed at once: it goes with
    /// that, and drivers with several contexts do not wait.
    pub(crate) fn end_stream(&self, inside: &Entered<'_, V>, context: u64, stream: EndedStream) {
        match self.remember_stream(context, stream) {
            None => self.destroy_ended(inside, QUERIED),
            Some(stream) => self.report(inside.vendor().destroy_stream(stream.raw)),
        }
    }

    /// Remembers a stream of the device's own context, to be destroyed later. Returns one of another context.
    pub(crate) fn remember_stream(&self, context: u64, stream: EndedStream) -> Option<EndedStream> {
        let home = self.known_home();
        if home.is_none_or(|home| home.context != context) {
            return Some(stream);
        }
        // The new one first, since it is likely to be idle.
        locked(&self.ended.0).push_front(Arc::new(stream));
        None
    }

    /// Waits until the work of all ended streams is over. Whether it is.
    pub(crate) fn drain_ended(&self, deadline: Deadline) -> Result<bool, Fault> {
        let Some(home) = self.known_home().filter(|_| !self.is_lost()) else {
            return Ok(true);
        };
        let drained = wait_until(deadline, || {
            let inside = self.enter_in(home.context, "retire")?;
            self.destroy_ended(&inside, usize::MAX);
            Ok(locked(&self.ended.0).is_empty().then_some(()))
        })?;
        Ok(drained.is_some())
    }

    /// Whether the work of all ended streams is over, as far as the driver says.
    pub(crate) fn has_drained_ended(&self) -> bool {
        let drained = self.drain_ended(Deadline::after(Some(Duration::ZERO)));
        drained.unwrap_or(false)
    }

    /// Destroys all at the close, behind their work.
    pub(crate) fn close_ended(&self, inside: &Entered<'_, V>) {
        let ended = std::mem::take(&mut *locked(&self.ended.0));
        for stream in ended {
            // A failure of that work is not reported to anyone.
            let _over = finish(inside, stream.raw);
            self.let_go(inside, stream);
        }
    }

    /// Destroys those whose work is over, of at most `most` that are queried.
    fn destroy_ended(&self, inside: &Entered<'_, V>, most: usize) {
        let mut ended = locked(&self.ended.0);
        let few = ended.len().min(most);
        let queried: Vec<_> = ended.iter().take(few).cloned().collect();
        ended.rotate_left(few);
        // The driver is asked without the lock.
        drop(ended);
        for stream in queried {
            if stream.is_over(inside) {
                locked(&self.ended.0).retain(|other| !Arc::ptr_eq(other, &stream));
            }
            self.let_go(inside, stream);
        }
    }

    fn let_go(&self, inside: &Entered<'_, V>, stream: Arc<EndedStream>) {
        if let Some(stream) = Arc::into_inner(stream) {
            self.report(inside.vendor().destroy_stream(stream.raw));
        }
    }
}
