//! Copies of bytes: at once, in the order of a stream, and through pinned memory where the driver would wait.
#![expect(unsafe_code, reason = "moves bytes between addresses")]

use std::sync::{Arc, Mutex};

use crossdock_sdk::deadline::Deadline;

use crate::current::Entered;
use crate::device::{Device, locked};
use crate::fault::Fault;
use crate::host_call::Function;
use crate::place::Place;
use crate::progress::{Progress, wait_until_over};
use crate::stream::Stream;
use crate::vendor::{Vendor, Way};

/// Copies bytes that do not overlap, at once or on a stream.
///
/// # Safety
/// - Both sides are valid for `bytes` until the copy is done.
pub(crate) unsafe fn contiguous<V: Vendor>(
    stream: Option<&Stream<V>>,
    dst: &Place<V>,
    src: &Place<V>,
    bytes: u64,
) -> Result<(), Fault> {
    let operation = "copy";
    refuse_overlap(dst.address, src.address, bytes)?;
    let Some(stream) = stream else {
        let device = worker(dst, src, operation)?;
        // SAFETY: forwarded.
        let copy = |inside: &Entered<'_, V>, on| unsafe { plain(inside, on, dst, src, bytes) };
        return at_once(device, &[dst, src], operation, copy);
    };
    let inside = stream.submit(operation)?;
    dst.get_ready(&inside, stream.raw)?;
    src.get_ready(&inside, stream.raw)?;
    if dst.is_pageable() || src.is_pageable() {
        // SAFETY: forwarded.
        unsafe { bounced(&inside, stream, dst, src, bytes) }?;
    } else {
        // SAFETY: forwarded.
        unsafe { plain(&inside, stream.raw, dst, src, bytes) }?;
    }
    dst.used_on(&inside, stream)?;
    src.used_on(&inside, stream)
}

/// Does something on a stream that nobody else uses, and waits for it.
pub(crate) fn at_once<V: Vendor>(
    device: &Device<V>,
    places: &[&Place<V>],
    operation: &'static str,
    work: impl FnOnce(&Entered<'_, V>, u64) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let inside = device.enter(operation)?;
    let stream = device.take_stream(&inside)?;
    let ready = places
        .iter()
        .try_for_each(|place| place.get_ready(&inside, stream));
    // A part of it may run, also where the rest was refused.
    let put = ready.and_then(|()| work(&inside, stream));
    let ended = finish(&inside, stream);
    match (&put, &ended) {
        (Ok(()), Ok(())) => device.give_stream(stream),
        // One that failed is not used again.
        _ => device.report(inside.vendor().destroy_stream(stream)),
    }
    put.and(ended)
}

/// Waits until nothing of a stream's runs any more.
fn finish<V: Vendor>(inside: &Entered<'_, V>, stream: u64) -> Result<(), Fault> {
    if inside.vendor().synchronize_stream(stream).is_ok() {
        return Ok(());
    }
    let ask = || Progress::ask(inside, |vendor| vendor.query_stream(stream));
    match wait_until_over(Deadline::after(None), ask)? {
        Progress::Failed(fault) => Err(fault),
        Progress::Done | Progress::Running => Ok(()),
    }
}

/// The device that copies where no stream says so.
pub(crate) fn worker<'a, V: Vendor>(
    dst: &'a Place<V>,
    src: &'a Place<V>,
    operation: &'static str,
) -> Result<&'a Arc<Device<V>>, Fault> {
    let places = [dst, src];
    let of_device = places.iter().find(|place| !place.is_host());
    let of_any = || places.iter().find(|place| place.device.is_some());
    let found = of_device.or_else(of_any);
    found
        .and_then(|place| place.device.as_ref())
        .ok_or_else(|| {
            let why = "neither side is memory of a device";
            Fault::unsupported(operation, why)
        })
}

/// A copy by the driver alone.
///
/// # Safety
/// - As [`contiguous`].
unsafe fn plain<V: Vendor>(
    inside: &Entered<'_, V>,
    stream: u64,
    dst: &Place<V>,
    src: &Place<V>,
    bytes: u64,
) -> Result<(), Fault> {
    let way = match (dst.is_host(), src.is_host()) {
        (true, true) => Way::AmongHost,
        (true, false) => Way::ToHost,
        (false, true) => Way::ToDevice,
        (false, false) => Way::Inside,
    };
    let (to, from) = (dst.context("copy")?, src.context("copy")?);
    if way == Way::Inside && to != from {
        let side = |place: &Place<V>, context| {
            let ordinal = place.device.as_ref().map_or(0, |device| device.ordinal);
            (place.address, context, ordinal)
        };
        let (dst, src) = (side(dst, to), side(src, from));
        // SAFETY: forwarded.
        return inside.ask(|vendor| unsafe { vendor.copy_across(dst, src, bytes, stream) });
    }
    let (dst, src) = (dst.address, src.address);
    // SAFETY: forwarded.
    inside.ask(|vendor| unsafe { vendor.copy(way, dst, src, bytes, stream) })
}

/// A copy with memory that the driver would wait for: the stream calls the host, which moves the bytes to or from
/// pinned memory of the stream's own. The stream's order keeps a part from the next one's bytes.
///
/// # Safety
/// - As [`contiguous`].
unsafe fn bounced<V: Vendor>(
    inside: &Entered<'_, V>,
    stream: &Stream<V>,
    dst: &Place<V>,
    src: &Place<V>,
    bytes: u64,
) -> Result<(), Fault> {
    let permit = Arc::new(Permit::default());
    let calls = &stream.device.calls;
    let put = |to: u64, from: u64, bytes: u64| {
        let part = Part { to, from, bytes };
        calls.put(inside, stream.raw, part.under(&permit))
    };
    // What is refused in the middle leaves the parts before it on the stream: they may use nothing of the caller's
    // any more.
    let done = if dst.is_host() && src.is_host() {
        put(dst.address, src.address, bytes)
    } else {
        let (block, room) = stream.bounce(inside, bytes)?;
        let mut parts = (0..bytes.div_ceil(room)).map(|at| {
            let start = at * room;
            (start, room.min(bytes - start))
        });
        parts.try_for_each(|(start, length)| {
            let copy = |way, to, from| {
                // SAFETY: the block is the stream's, and the other side is valid by the caller's promise.
                inside.ask(|vendor| unsafe { vendor.copy(way, to, from, length, stream.raw) })
            };
            if src.is_pageable() {
                put(block, src.address + start, length)?;
                copy(Way::ToDevice, dst.address + start, block)
            } else {
                copy(Way::ToHost, block, src.address + start)?;
                put(dst.address + start, block, length)
            }
        })
    };
    done.inspect_err(|_| permit.withdraw())
}

/// Whether parts of a copy may use the caller's memory.
#[derive(Debug, Default)]
struct Permit {
    is_withdrawn: Mutex<bool>,
}

impl Permit {
    /// Waits for a part that uses it now, which is short.
    fn withdraw(&self) {
        *locked(&self.is_withdrawn) = true;
    }
}

/// A part of a copy that the host makes.
#[derive(Debug, Clone, Copy)]
struct Part {
    to: u64,
    from: u64,
    bytes: u64,
}

impl Part {
    fn under(self, permit: &Arc<Permit>) -> Function {
        let permit = Arc::clone(permit);
        Box::new(move || {
            let is_withdrawn = locked(&permit.is_withdrawn);
            if !*is_withdrawn {
                self.copy();
            }
        })
    }

    fn copy(self) {
        let word = |address: u64| usize::try_from(address).unwrap_or(0);
        let to = std::ptr::with_exposed_provenance_mut::<u8>(word(self.to));
        let from = std::ptr::with_exposed_provenance::<u8>(word(self.from));
        // SAFETY: host memory that is valid by the promise of `contiguous` until the copy is done, which it is not
        // before this; the sides do not overlap.
        unsafe { to.copy_from_nonoverlapping(from, word(self.bytes)) };
    }
}

/// Refuses sides that overlap.
pub(crate) fn refuse_overlap(dst: u64, src: u64, bytes: u64) -> Result<(), Fault> {
    if dst.abs_diff(src) < bytes {
        return Err(Fault::invalid("copy", "the sides overlap"));
    }
    Ok(())
}
