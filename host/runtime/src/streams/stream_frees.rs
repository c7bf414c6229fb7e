//! Streams that free memory: those who wait for releases go on once the stream is past that.

use crossdock_sdk::abi::Status;

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
    let release = Release::by_plugin(device.plugin().releases());
    finish_by(device.clone(), release)
}

fn finish_by(device: Device, release: Release) -> Finish {
    Box::new(move |core| {
        let left = match end_of(core, &device) {
            Ok(Some(end)) => completion::after(end, Then::Release(release, Vec::new())).map(drop),
            Ok(None) => Ok(()),
            Err(error) if error.status() == Some(Status::CAPTURING) => {
                // Its owner captures the stream, for a while: whoever waits asks again.
                core.frees.put_back(finish_by(device, release));
                Ok(())
            }
            Err(error) => Err(error),
        };
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
