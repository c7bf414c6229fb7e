//! How a stream waits for an event of another plugin.
//!
//! The waiting side gets an event that the host completes; a [courier](crate::courier) completes it
//! when the other side's event happened.

use std::sync::Arc;

use crate::courier::{self, Task};
use crate::device::Device;
use crate::error::Error;
use crate::event::Event;
use crate::stream::Stream;

/// How a wait was arranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Chain {
    /// Inside one plugin.
    Native,
    /// By an event that the host completes; no thread waits.
    HostEvent,
    /// By an event that the host completes when a thread of ours has waited.
    HostThread,
    /// The calling thread waited, because the stream's plugin has no events that the host completes.
    Blocked,
}

/// Who waits where a stream of one device is to come after work on another, for people; `None` where
/// no thread has to, or one of them has no streams.
pub(crate) fn waiting(device: &Device, other: &Device) -> Option<String> {
    let (table, others) = (device.hooks().table(), other.hooks().table());
    if Arc::ptr_eq(device.plugin(), other.plugin()) {
        return None;
    }
    let _both = (table.streams()?, others.streams()?);
    let why = if table.host_events().is_none() {
        format!(
            "the caller waits: `{}` has no events that the host completes",
            device.plugin().name()
        )
    } else if others.host_calls().is_none() {
        format!(
            "a thread of the host waits: `{}` calls no function of the host",
            other.plugin().name()
        )
    } else {
        return None;
    };
    Some(format!(
        "where a stream of `{device}` comes after one of `{other}`, {why}"
    ))
}

/// Makes `stream` wait for an event that its plugin does not know.
pub(crate) fn wait(stream: &Stream, event: &Event) -> Result<Chain, Error> {
    let gate = match Event::host(stream.device()) {
        Err(error) if error.is_unsupported() => {
            event.synchronize(None)?;
            return Ok(Chain::Blocked);
        }
        gate => gate?,
    };
    stream.wait_for_own(gate.handle())?;
    courier::after(event.clone(), Task::Complete(gate))
}
