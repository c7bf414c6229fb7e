//! Events of the driver: points in its streams. Those of a device's own context are kept and recorded again.

use std::sync::Arc;

use crossdock_sdk::deadline::Deadline;

use crate::current::Entered;
use crate::device::Device;
use crate::ended_streams::EndedStream;
use crate::fault::Fault;
use crate::progress::{Progress, wait_until_over};
use crate::stream::Stream;
use crate::vendor::Vendor;

/// A recorded event of the driver's. It belongs to the context of the stream that recorded it.
#[derive(Debug)]
pub(crate) struct NativeEvent<V: Vendor> {
    device: Arc<Device<V>>,
    context: u64,
    raw: u64,
}

impl<V: Vendor> NativeEvent<V> {
    /// Marks the present end of a stream of the context that was entered.
    pub(crate) fn record(
        device: &Arc<Device<V>>,
        inside: &Entered<'_, V>,
        context: u64,
        stream: u64,
    ) -> Result<Arc<Self>, Fault> {
        let raw = if is_home(device, context) {
            device.take_event(inside)?
        } else {
            inside.ask(Vendor::create_event)?
        };
        // Owned from here on, so that it goes back where the record fails.
        let event = Self {
            device: Arc::clone(device),
            context,
            raw,
        };
        inside.ask(|vendor| vendor.record(raw, stream))?;
        Ok(Arc::new(event))
    }

    /// Marks the present end of a stream, for longer than its context lives: by an event of the device's own context.
    /// The owner of another one may destroy it as soon as its work is over.
    pub(crate) fn record_for_good(
        stream: &Stream<V>,
        inside: &Entered<'_, V>,
    ) -> Result<Arc<Self>, Fault> {
        at_home(stream, inside, |at_home, (context, end)| {
            Self::record(&stream.device, at_home, context, end)
        })
    }

    /// Marks the present end of the stream in the place of an earlier point; a new event where others have this one.
    pub(crate) fn again(
        self: Arc<Self>,
        inside: &Entered<'_, V>,
        stream: u64,
    ) -> Result<Arc<Self>, Fault> {
        if Arc::strong_count(&self) > 1 {
            return Self::record(&self.device, inside, self.context, stream);
        }
        inside.ask(|vendor| vendor.record(self.raw, stream))?;
        Ok(self)
    }

    /// Makes a stream of the context that was entered wait for it.
    pub(crate) fn hold(&self, inside: &Entered<'_, V>, stream: u64) -> Result<(), Fault> {
        let waits = &inside.device.host_waits;
        waits.submit_behind(&self.device.host_waits, || {
            inside.ask(|vendor| vendor.wait_event(stream, self.raw))
        })
    }

    /// How far the work before it is.
    pub(crate) fn progress(&self) -> Result<Progress, Fault> {
        let inside = self.device.enter_in(self.context, "event_query")?;
        Progress::ask(&inside, |vendor| vendor.query_event(self.raw))
    }

    /// The same of a marker whose later ones, which mark no more work, are `later`: while a stream of the device waits for
    /// a pending host event they may stand behind that, and this one does not.
    pub(crate) fn progress_in_front(&self, later: Progress) -> Result<Progress, Fault> {
        match self.device.host_waits.are_pending() {
            true => self.progress(),
            false => Ok(later),
        }
    }

    /// Makes the calling thread wait.
    pub(crate) fn wait(&self, deadline: Deadline) -> Result<Progress, Fault> {
        if deadline.left().is_none() {
            let inside = self.device.enter_in(self.context, "event_synchronize")?;
            // A failure of the work is found by the question below.
            let _over = inside.vendor().synchronize_event(self.raw);
        }
        wait_until_over(deadline, || self.progress())
    }

    /// Milliseconds from one to the other, as the driver answers.
    pub(crate) fn elapsed(&self, end: &Self) -> Result<f32, Fault> {
        let inside = self.device.enter_in(self.context, "event_elapsed")?;
        inside.ask(|vendor| vendor.elapsed(self.raw, end.raw))
    }
}

impl<V: Vendor> Drop for NativeEvent<V> {
    fn drop(&mut self) {
        if self.device.check("event_destroy").is_err() {
            return;
        }
        if is_home(&self.device, self.context) && self.device.keep_event(self.raw) {
            return;
        }
        if let Ok(inside) = self.device.enter_in(self.context, "event_destroy") {
            self.device.report(inside.vendor().destroy_event(self.raw));
        }
    }
}

/// Does something in the device's own context with a stream of it whose end is the present end of `stream`, which may be
/// of another context.
pub(crate) fn at_home<V: Vendor, T>(
    stream: &Stream<V>,
    inside: &Entered<'_, V>,
    act: impl FnOnce(&Entered<'_, V>, (u64, u64)) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let device = &stream.device;
    if is_home(device, stream.context) {
        return act(inside, (stream.context, stream.raw));
    }
    let end = NativeEvent::record(device, inside, stream.context, stream.raw)?;
    let home = device.home("event_record")?;
    let at_home = Entered::new(device, home.context)?;
    let own = at_home.ask(Vendor::create_stream)?;
    let waits = end.hold(&at_home, own);
    let done = waits.and_then(|()| act(&at_home, (home.context, own)));
    // The wait is on it, and is not undone by that.
    device.end_stream(&at_home, home.context, EndedStream::hidden(own));
    done
}

fn is_home<V: Vendor>(device: &Device<V>, context: u64) -> bool {
    device
        .known_home()
        .is_some_and(|home| home.context == context)
}
