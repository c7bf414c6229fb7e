//! `xd_event`: a point in a stream's work, or one that the host completes.
#![expect(unsafe_code, reason = "exports functions by name")]

use crossdock::Event;
use crossdock_api::{Failure, Out, Owned, Ref, Status, XdDevice, XdEvent};
use crossdock_sdk::deadline::limit;

use crate::crossing::boundary::{fence_call, fence_free, fence_into, fence_value};
use crate::crossing::failure::On as _;
use crate::crossing::object::{Handle, borrow, give, retain};

impl Handle for XdEvent {
    type Object = Event;
    const NAME: &'static str = "event";
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_event_create_host(
    device: Ref<'_, XdDevice>,
    out: Out<'_, Owned<XdEvent>>,
) -> Failure {
    fence_into("xd_event_create_host", out, || {
        let device = borrow(device)?;
        Ok(give(Event::host(device).on(device)?))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_event_complete(event: Ref<'_, XdEvent>, status: Status) -> Failure {
    fence_call("xd_event_complete", || {
        let event = borrow(event)?;
        event.complete(status).on(event.device())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_event_device(
    event: Ref<'_, XdEvent>,
    out: Out<'_, Owned<XdDevice>>,
) -> Failure {
    fence_into("xd_event_device", out, || {
        Ok(give(borrow(event)?.device().clone()))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_event_is_done(event: Ref<'_, XdEvent>, out: Out<'_, i32>) -> Failure {
    fence_into("xd_event_is_done", out, || {
        let event = borrow(event)?;
        Ok(event.is_done().on(event.device())?.into())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_event_synchronize(event: Ref<'_, XdEvent>, limit_ns: u64) -> Failure {
    fence_call("xd_event_synchronize", || {
        let event = borrow(event)?;
        event.synchronize(limit(limit_ns)).on(event.device())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_event_elapsed(
    event: Ref<'_, XdEvent>,
    earlier: Ref<'_, XdEvent>,
    out: Out<'_, u64>,
) -> Failure {
    fence_into("xd_event_elapsed", out, || {
        let (event, earlier) = (borrow(event)?, borrow(earlier)?);
        let elapsed = event.elapsed_since(earlier);
        let elapsed = elapsed.on_one_of(event.device(), earlier.device())?;
        Ok(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_event_retain(event: Ref<'_, XdEvent>) -> Owned<XdEvent> {
    fence_value(|| retain(event))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_event_free(event: Owned<XdEvent>) {
    fence_free(event);
}
