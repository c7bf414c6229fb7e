//! Work that moves bytes, in the context of its memory: synchronously, or in the order of a stream.

use std::sync::Arc;

use crossdock_sdk::deadline::Deadline;

use crate::current::Entered;
use crate::device::Device;
use crate::ended_streams::EndedStream;
use crate::fault::Fault;
use crate::native::NativeEvent;
use crate::place::Place;
use crate::progress::{Progress, wait_until_over};
use crate::stream::Stream;
use crate::vendor::Vendor;

/// Where work is done: a context of a device, which is not always that of the stream.
#[derive(Debug)]
pub(crate) struct Site<'a, V: Vendor> {
    pub(crate) device: &'a Arc<Device<V>>,
    pub(crate) context: u64,
}

impl<'a, V: Vendor> Site<'a, V> {
    /// Where a copy between these places is made: in the context of the device memory, or else of the device that
    /// locked the host's.
    pub(crate) fn of(places: [&'a Place<V>; 2], operation: &'static str) -> Result<Self, Fault> {
        let of_device = places.iter().find(|place| !place.is_host());
        let of_any = || places.iter().find(|place| place.device.is_some());
        let place = of_device.or_else(of_any);
        let found = place.and_then(|place| Some((place, place.device.as_ref()?)));
        let (place, device) = found.ok_or_else(|| {
            let why = "neither side is memory of a device";
            Fault::unsupported(operation, why)
        })?;
        let context = if place.is_host() {
            device.home(operation)?.context
        } else {
            place.context(operation)?
        };
        Ok(Self { device, context })
    }

    /// Where a stream's own work is done.
    pub(crate) const fn of_stream(stream: &'a Stream<V>) -> Self {
        Self {
            device: &stream.device,
            context: stream.context,
        }
    }

    /// Does work in the order of a stream, or synchronously without one. `work` gets the entered context and the stream to
    /// put its calls on: the caller's, or one that is made for it.
    pub(crate) fn run(
        &self,
        stream: Option<&Stream<V>>,
        places: [&Place<V>; 2],
        operation: &'static str,
        work: impl FnOnce(&Entered<'_, V>, u64) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let Some(stream) = stream else {
            return self.run_synchronously(places, operation, work);
        };
        let inside = stream.submit(operation)?;
        for place in places {
            place.get_ready(&inside, stream.raw)?;
        }
        let done = if self.context == stream.context {
            work(&inside, stream.raw)
        } else {
            self.run_in_other_context(stream, &inside, work)
        };
        // Also after a refusal: a part of the work may be on the stream.
        let noted = places.map(|place| place.used_on(&inside, stream));
        let noted = noted.into_iter().fold(Ok(()), Result::and);
        places
            .iter()
            .for_each(|place| place.note_loss([&done, &noted]));
        done.and(noted.map_err(Fault::of_begun))
    }

    /// Does work of another context in the order of a stream: on a stream that is made for it, between two events.
    fn run_in_other_context(
        &self,
        stream: &Stream<V>,
        outside: &Entered<'_, V>,
        work: impl FnOnce(&Entered<'_, V>, u64) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let before = NativeEvent::record(&stream.device, outside, stream.context, stream.raw)?;
        let inside = Entered::new(self.device, self.context)?;
        let raw = inside.ask(Vendor::create_stream)?;
        let done = before.hold(&inside, raw);
        let done = done.and_then(|()| work(&inside, raw));
        // Also after a refusal: parts of the work may be on the stream, and the caller's stream waits for them.
        let after = NativeEvent::record(self.device, &inside, self.context, raw);
        if after.is_err() {
            // Then this thread waits, as the caller may free the memory.
            let _over = finish(&inside, raw);
        }
        // Its work completes all the same.
        self.device
            .end_stream(&inside, self.context, EndedStream::hidden(raw));
        drop(inside);
        let held = after.and_then(|after| follow(outside, stream.raw, &after));
        done.and(held.map_err(Fault::of_begun))
    }

    /// Does work on a stream that nobody else uses, and waits for it.
    fn run_synchronously(
        &self,
        places: [&Place<V>; 2],
        operation: &'static str,
        work: impl FnOnce(&Entered<'_, V>, u64) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let is_home = self.device.home(operation)?.context == self.context;
        let inside = self.device.enter_in(self.context, operation)?;
        let stream = if is_home {
            self.device.take_stream(&inside)?
        } else {
            inside.ask(Vendor::create_stream)?
        };
        let ready = places
            .iter()
            .try_for_each(|place| place.get_ready(&inside, stream));
        // Also after a refusal: a part of the work may run, and the caller may free its memory.
        let put = ready.and_then(|()| work(&inside, stream));
        let ended = finish(&inside, stream);
        if is_home && put.is_ok() && ended.is_ok() {
            self.device.give_stream(stream);
        } else {
            // A stream that failed is not used again.
            self.device.report(inside.vendor().destroy_stream(stream));
        }
        places
            .iter()
            .for_each(|place| place.note_loss([&put, &ended]));
        put.and(ended)
    }
}

/// Makes the calls that are one piece of work. Where the first one fails, nothing was begun.
pub(crate) fn submit_all<T>(
    calls: impl Iterator<Item = T>,
    call: impl Fn(T) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut made = false;
    for one in calls {
        call(one).map_err(|fault| match made {
            true => fault.of_begun(),
            false => fault,
        })?;
        made = true;
    }
    Ok(())
}

/// Lets a stream wait for work on another one, which the caller takes to be on this one. So where the driver cannot let
/// it wait, this thread does: the caller may free the memory once its own stream is over.
pub(crate) fn follow<V: Vendor>(
    inside: &Entered<'_, V>,
    stream: u64,
    end: &NativeEvent<V>,
) -> Result<(), Fault> {
    let wait = || end.hold(inside, stream);
    // This thread may be who lets the work go on, so it waits only if a second try fails too.
    wait().or_else(|_| wait()).inspect_err(|_| {
        let _over = end.wait(Deadline::after(None));
    })
}

/// Waits until nothing of a stream's runs any more. An error is also that of its work.
pub(crate) fn finish<V: Vendor>(inside: &Entered<'_, V>, stream: u64) -> Result<(), Fault> {
    match wait_for_stream(inside, stream)? {
        Progress::Failed(fault) => Err(fault),
        Progress::Done | Progress::Running => Ok(()),
    }
}

/// Waits until nothing of a stream's runs any more; after an error something may. A driver may report work that failed
/// once, and by this call: so work counts as failed if the call did, and the query after it finds nothing.
pub(crate) fn wait_for_stream<V: Vendor>(
    inside: &Entered<'_, V>,
    stream: u64,
) -> Result<Progress, Fault> {
    let Err(code) = inside.vendor().synchronize_stream(stream) else {
        return Ok(Progress::Done);
    };
    let ask = || Progress::ask(inside, |vendor| vendor.query_stream(stream));
    Ok(match wait_until_over(Deadline::after(None), ask)? {
        Progress::Failed(fault) => Progress::Failed(fault),
        Progress::Done | Progress::Running => {
            let fault = inside.fault(code);
            let status = fault.status.as_failure_of_work();
            Progress::Failed(fault.with_status(status))
        }
    })
}
