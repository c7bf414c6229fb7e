//! Copies of bytes: synchronously, or in the order of a stream.
#![expect(unsafe_code, reason = "moves bytes between addresses")]

use crate::bounce::bounced;
use crate::current::Entered;
use crate::fault::Fault;
use crate::place::Place;
use crate::stream::Stream;
use crate::vendor::{CopyDirection, Vendor};
use crate::work::Site;

/// Copies bytes that do not overlap, synchronously or on a stream.
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
    let (places, memory_site) = ([dst, src], Site::of([dst, src], operation)?);
    // Between two devices, or two contexts of one: the driver's call for that names both contexts, so that it can be
    // made in the stream's own.
    let is_across =
        !dst.is_host() && !src.is_host() && dst.context(operation)? != src.context(operation)?;
    let is_pageable = dst.is_pageable() || src.is_pageable();
    match stream {
        Some(stream) if is_across => {
            let across = |inside: &Entered<'_, V>, on| {
                // SAFETY: as this function's: both sides are valid for `bytes` until the copy is done.
                unsafe { across(inside, on, places, bytes) }
            };
            Site::of_stream(stream).run(Some(stream), places, operation, across)
        }
        None if is_across => memory_site.run(None, places, operation, |inside, on| {
            // SAFETY: as this function's: both sides are valid for `bytes` until the copy is done.
            unsafe { across(inside, on, places, bytes) }
        }),
        Some(stream) if is_pageable => {
            let mut has_begun = false;
            let bounced = |inside: &Entered<'_, V>, on| {
                has_begun = true;
                // SAFETY: as this function's: both sides are valid for `bytes` until the copy is done.
                unsafe { bounced(inside, (stream, on), places, bytes) }
            };
            let made = memory_site.run(Some(stream), places, operation, bounced);
            // Also where it failed, as parts of it may run; not where the stream took nothing.
            if has_begun {
                stream.mark_bounce();
            }
            made
        }
        _ => memory_site.run(stream, places, operation, |inside, on| {
            // SAFETY: as this function's: both sides are valid for `bytes` until the copy is done.
            unsafe { plain(inside, on, places, bytes) }
        }),
    }
}

/// A copy by the driver alone, inside of one context.
///
/// # Safety
/// - As [`contiguous`].
unsafe fn plain<V: Vendor>(
    inside: &Entered<'_, V>,
    stream: u64,
    [dst, src]: [&Place<V>; 2],
    bytes: u64,
) -> Result<(), Fault> {
    let direction = match (dst.is_host(), src.is_host()) {
        (true, true) => CopyDirection::HostToHost,
        (true, false) => CopyDirection::DeviceToHost,
        (false, true) => CopyDirection::HostToDevice,
        (false, false) => CopyDirection::DeviceToDevice,
    };
    let (dst, src) = (dst.address, src.address);
    // SAFETY: as this function's: both sides are valid for `bytes` until the copy is done.
    inside.ask(|vendor| unsafe { vendor.copy(direction, dst, src, bytes, stream) })
}

/// A copy by the driver from one context to another.
///
/// # Safety
/// - As [`contiguous`].
unsafe fn across<V: Vendor>(
    inside: &Entered<'_, V>,
    stream: u64,
    [dst, src]: [&Place<V>; 2],
    bytes: u64,
) -> Result<(), Fault> {
    let side = |place: &Place<V>| {
        let ordinal = place.device.as_ref().map_or(0, |device| device.ordinal);
        let context = place.context("copy")?;
        Ok::<_, Fault>((place.address, context, ordinal))
    };
    let (dst, src) = (side(dst)?, side(src)?);
    // SAFETY: as this function's: both sides are valid for `bytes` until the copy is done.
    inside.ask(|vendor| unsafe { vendor.copy_across(dst, src, bytes, stream) })
}

/// Refuses sides that overlap.
fn refuse_overlap(dst: u64, src: u64, bytes: u64) -> Result<(), Fault> {
    if dst.abs_diff(src) < bytes {
        return Err(Fault::invalid("copy", "the sides overlap"));
    }
    Ok(())
}
