//! `xd_stream`: an ordered queue of work on one device.
#![expect(
    unsafe_code,
    reason = "exports functions by name, and wraps streams of callers"
)]

use crossdock::{Stream, WaitMethod};
use crossdock_api::{Failure, Out, Owned, Ref, WaitKind, XdDevice, XdEvent, XdStream};
use crossdock_sdk::deadline::limit;

use crate::crossing::boundary::{fence_call, fence_free, fence_into, fence_value, optional};
use crate::crossing::failure::On as _;
use crate::crossing::object::{Handle, borrow, give, look, retain};

impl Handle for XdStream {
    type Object = Stream;
    const NAME: &'static str = "stream";
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_stream_create(
    device: Ref<'_, XdDevice>,
    out: Out<'_, Owned<XdStream>>,
) -> Failure {
    fence_into("xd_stream_create", out, || {
        let device = borrow(device)?;
        Ok(give(Stream::new(device).on(device)?))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_stream_default(
    device: Ref<'_, XdDevice>,
    out: Out<'_, Owned<XdStream>>,
) -> Failure {
    fence_into("xd_stream_default", out, || {
        let device = borrow(device)?;
        Ok(give(Stream::default_of(device).on(device)?))
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xd_stream_wrap(
    device: Ref<'_, XdDevice>,
    native: u64,
    out: Out<'_, Owned<XdStream>>,
) -> Failure {
    fence_into("xd_stream_wrap", out, || {
        let device = borrow(device)?;
        // SAFETY: the header asks the caller for a live stream that outlives its handles, on which
        // nobody else puts work during a call.
        Ok(give(unsafe { Stream::wrap(device, native) }.on(device)?))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_stream_device(
    stream: Ref<'_, XdStream>,
    out: Out<'_, Owned<XdDevice>>,
) -> Failure {
    fence_into("xd_stream_device", out, || {
        Ok(give(borrow(stream)?.device().clone()))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_stream_native_handle(
    stream: Ref<'_, XdStream>,
    out: Out<'_, u64>,
) -> Failure {
    fence_into("xd_stream_native_handle", out, || {
        let stream = borrow(stream)?;
        stream.native_handle().on(stream.device())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_stream_find(
    device: Ref<'_, XdDevice>,
    native: u64,
    out: Out<'_, Owned<XdStream>>,
) -> Failure {
    fence_into("xd_stream_find", out, || {
        Ok(Stream::find(borrow(device)?, native).map_or(Owned::NULL, give))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_stream_record(
    stream: Ref<'_, XdStream>,
    out: Out<'_, Owned<XdEvent>>,
) -> Failure {
    fence_into("xd_stream_record", out, || {
        let stream = borrow(stream)?;
        Ok(give(stream.record().on(stream.device())?))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_stream_wait(
    stream: Ref<'_, XdStream>,
    event: Ref<'_, XdEvent>,
    out: Out<'_, WaitKind>,
) -> Failure {
    fence_call("xd_stream_wait", || {
        let (stream, event) = (borrow(stream)?, borrow(event)?);
        let chain = stream
            .wait(event)
            .on_one_of(stream.device(), event.device())?;
        optional(out).put(match chain {
            WaitMethod::Native => WaitKind::NATIVE,
            WaitMethod::HostEvent => WaitKind::HOST_EVENT,
            WaitMethod::HostThread => WaitKind::HOST_THREAD,
            _ => WaitKind::BLOCKED,
        });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_stream_synchronize(
    stream: Ref<'_, XdStream>,
    limit_ns: u64,
) -> Failure {
    fence_call("xd_stream_synchronize", || {
        let stream = borrow(stream)?;
        stream.synchronize(limit(limit_ns)).on(stream.device())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_stream_is_idle(
    stream: Ref<'_, XdStream>,
    out: Out<'_, i32>,
) -> Failure {
    fence_into("xd_stream_is_idle", out, || {
        let stream = borrow(stream)?;
        Ok(stream.is_idle().on(stream.device())?.into())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_stream_equal(one: Ref<'_, XdStream>, other: Ref<'_, XdStream>) -> i32 {
    fence_value(|| Some((look(one)? == look(other)?).into()))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_stream_retain(stream: Ref<'_, XdStream>) -> Owned<XdStream> {
    fence_value(|| retain(stream))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_stream_free(stream: Owned<XdStream>) {
    fence_free(stream);
}
