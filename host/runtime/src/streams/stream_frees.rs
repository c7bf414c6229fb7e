//! Streams that free memory: those who wait for releases go on once the stream is past that.

use crate::devices::device::Device;
use crate::error::Error;
use crate::plugins::releases::{self, Release};
use crate::plugins::stream_core::StreamCore;
use crate::plugins::stream_frees::Finish;
use crate::streams::completion::{self, Then};
use crate::streams::event::Event;

/// Notes that a stream of the device was told to free memory, for those who wait for releases.
pub(crate) fn note(core: &StreamCore, device: &Device) {
    if releases::is_within() {
        // A part of that release, for which somebody may wait already, who looks here no more.
        finish(device)(core);
    } else {
        core.frees.note(|| finish(device));
    }
}

fn finish(device: &Device) -> Finish {
    let device = device.clone();
    let release = Release::by_plugin(device.plugin().releases());
    Box::new(move |core| {
        let left = end_of(core, &device).and_then(|end| match end {
            Some(end) => completion::after(end, Then::Release(release, Vec::new())).map(drop),
            None => Ok(()),
        });
        if let Err(error) = left {
            // Nobody can say when the stream is past it, so nobody waits for that.
            log::debug!(target: "crossdock::memory", "{error}: {}", error.why());
        }
    })
}

/// An event at the stream's present end; none where it is idle.
fn end_of(core: &StreamCore, device: &Device) -> Result<Option<Event>, Error> {
    core.with_submit_lock(|handle| {
        if matches!(device.hooks().is_idle(handle), Ok(true)) {
            return Ok(None);
        }
        let end = Event::create(device)?;
        device.hooks().event_record(end.handle(), handle)?;
        Ok(Some(end))
    })
}
