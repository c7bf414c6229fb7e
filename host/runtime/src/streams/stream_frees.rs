//! Streams that free memory: those who wait for releases go on once the stream is past that.

use crossdock_sdk::abi::StreamHandle;

use crate::devices::device::Device;
use crate::error::Error;
use crate::plugins::releases::{self, Release};
use crate::plugins::stream_core::StreamCore;
use crate::plugins::stream_frees::Finish;
use crate::streams::completion::{self, Then};
use crate::streams::event::Event;

/// Frees memory of the device by `free`, which submits that to the stream, and lets those who wait for releases wait
/// until the stream is past it.
///
/// # Errors
/// As [`StreamCore::with_submit_lock`].
pub(crate) fn submit(
    core: &StreamCore,
    device: &Device,
    free: impl FnOnce(StreamHandle) -> Result<(), Error>,
) -> Result<(), Error> {
    if !releases::is_within() {
        return core.submit_free(|| finish(device), free);
    }
    // A part of that release. A wait for it does not look for notes any more, so the end is recorded with the free: the
    // stream may end after that.
    let release = Release::by_plugin(device.plugin().releases());
    let end = core.with_submit_lock(|stream| free(stream).map(|()| end_of(stream, device)))?;
    wait_behind(end, release);
    Ok(())
}

fn finish(device: &Device) -> Finish {
    let device = device.clone();
    let release = Release::by_plugin(device.plugin().releases());
    Box::new(move |stream| {
        let end = end_of(stream, &device);
        Box::new(move || wait_behind(end, release))
    })
}

/// Keeps the place of a release until the work before `end` is over; none where it is.
fn wait_behind(end: Result<Option<Event>, Error>, release: Release) {
    let left = end.and_then(|end| match end {
        Some(end) => completion::after(end, Then::Release(release, Vec::new())).map(drop),
        None => Ok(()),
    });
    if let Err(error) = left {
        // Nobody can say when the stream is past it, so nobody waits for that.
        log::debug!(target: "crossdock::memory", "{error}: {}", error.why());
    }
}

/// An event at the stream's present end; none where it is idle. The caller holds the stream's submit lock.
fn end_of(stream: StreamHandle, device: &Device) -> Result<Option<Event>, Error> {
    if matches!(device.hooks().is_idle(stream), Ok(true)) {
        return Ok(None);
    }
    let end = Event::create_own(device)?;
    device.hooks().event_record(end.handle(), stream)?;
    Ok(Some(end))
}
