//! How a stream waits for an event of another plugin.
//!
//! The waiting side gets an event that the host completes when the other side's work is
//! [over](crate::streams::completion).

use std::sync::Arc;

use crate::devices::device::Device;
use crate::error::Error;
use crate::streams::completion::{self, Then};
use crate::streams::event::Event;
use crate::streams::internal_stream::InternalStream;

/// How a wait was arranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitMethod {
    /// Inside one plugin; or not at all: the event, of whichever plugin, had happened already.
    Native,
    /// By an event that the host completes; no thread waits.
    HostEvent,
    /// By an event that the host completes when a thread of ours has waited.
    HostThread,
    /// The calling thread waited, because the stream's plugin has no events that the host completes.
    Blocked,
}

/// Who waits where a stream of one device is to come after work on another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// The caller: the stream's plugin has no events that the host completes.
    Caller,
    /// A thread of the host: the other plugin calls no function of the host.
    Thread,
}

/// Who waits where a stream of one device is to come after work on another; `None` where no thread has to,
/// or one of the devices has no streams.
pub(crate) fn who_waits(device: &Device, other: &Device) -> Option<Waiter> {
    let (table, other_table) = (device.hooks().table(), other.hooks().table());
    if Arc::ptr_eq(device.plugin(), other.plugin()) {
        return None;
    }
    let _both = (table.streams()?, other_table.streams()?);
    if !device.has_host_events() {
        return Some(Waiter::Caller);
    }
    other_table.host_calls().is_none().then_some(Waiter::Thread)
}

/// What becomes of a stream when the work that it waits for has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// The failure becomes the stream's own.
    Inherit,
    /// The stream goes on as after a success: it only learns that the work is over.
    Ignore,
}

/// Makes a stream of `device` wait for an event of any plugin, and says how. `wait_for_own` makes the
/// stream wait for an event of its own plugin. The carrier is an internal stream that waits for another plugin's event,
/// and calls the host then; none: one is taken for this wait alone.
///
/// # Errors
/// [`Error::Hook`]; the failure of the work where the stream inherits it and it is known already;
/// [`Error::Forked`] for an event of the process that this one was forked off.
pub(crate) fn wait(
    (device, carrier): (&Device, Option<&Arc<InternalStream>>),
    event: &Event,
    on_failure: OnFailure,
    wait_for_own: impl Fn(&Event) -> Result<(), Error>,
) -> Result<WaitMethod, Error> {
    if event.is_known_done() {
        return Ok(WaitMethod::Native);
    }
    if event.device().hooks().is_forked() {
        // Its plugin, and who would complete it, are in another process.
        return Err(Error::Forked {
            operation: "wait for an event",
        });
    }
    let is_own = device.is_of(event.device().plugin());
    if on_failure == OnFailure::Inherit && is_own && !event.carries_failure() {
        match wait_for_own(event) {
            Err(error) if error.is_unsupported() => {}
            waited => return waited.map(|()| WaitMethod::Native),
        }
    }
    let (method, host_event) = bridge((device, carrier), event, on_failure)?;
    if let Some(host_event) = host_event {
        wait_for_own(&host_event)?;
    }
    Ok(method)
}

/// Gives an event of `device`'s plugin that happens when the work before `event` is over, and says
/// what completes it; none where the caller waited instead.
///
/// What completes it is submitted before any stream waits for it: on one hardware queue it would
/// otherwise stand behind that wait, for ever.
fn bridge(
    (device, carrier): (&Device, Option<&Arc<InternalStream>>),
    event: &Event,
    on_failure: OnFailure,
) -> Result<(WaitMethod, Option<Event>), Error> {
    let host_event = match Event::host(device) {
        Err(error) if error.is_unsupported() => {
            match on_failure {
                // A stream that inherits a failure need not know that the work is over.
                OnFailure::Inherit => completion::ask_until_over(event, None)?,
                OnFailure::Ignore => drop(completion::block_until_over(event, None)?),
            }
            return Ok((WaitMethod::Blocked, None));
        }
        host_event => host_event?,
    };
    let then = Then::Complete(host_event.clone(), on_failure);
    let method = completion::after_on(carrier, event.awaited(), then)?;
    Ok((method, Some(host_event)))
}
