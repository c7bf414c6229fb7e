//! Copies of bytes: at once, in the order of a stream, and through pinned memory where the driver would wait.
#![expect(unsafe_code, reason = "moves bytes between addresses")]

use std::sync::{Arc, Mutex};

use crate::current::Entered;
use crate::device::locked;
use crate::fault::Fault;
use crate::host_call::Function;
use crate::place::Place;
use crate::stream::Stream;
use crate::vendor::{Vendor, Way};
use crate::work::Site;

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
    let (places, memory) = ([dst, src], Site::of([dst, src], operation)?);
    let is_across =
        !dst.is_host() && !src.is_host() && dst.context(operation)? != src.context(operation)?;
    let is_pageable = dst.is_pageable() || src.is_pageable();
    match stream {
        Some(stream) if is_across => {
            let across = |inside: &Entered<'_, V>, on| {
                // SAFETY: forwarded.
                unsafe { across(inside, on, places, bytes) }
            };
            Site::of_stream(stream).make(Some(stream), places, operation, across)
        }
        None if is_across => memory.make(None, places, operation, |inside, on| {
            // SAFETY: forwarded.
            unsafe { across(inside, on, places, bytes) }
        }),
        Some(stream) if is_pageable => {
            let bounced = |inside: &Entered<'_, V>, on| {
                // SAFETY: forwarded.
                unsafe { bounced(inside, (stream, on), places, bytes) }
            };
            memory.make(Some(stream), places, operation, bounced)
        }
        _ => memory.make(stream, places, operation, |inside, on| {
            // SAFETY: forwarded.
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
    let way = match (dst.is_host(), src.is_host()) {
        (true, true) => Way::AmongHost,
        (true, false) => Way::ToHost,
        (false, true) => Way::ToDevice,
        (false, false) => Way::Inside,
    };
    let (dst, src) = (dst.address, src.address);
    // SAFETY: forwarded.
    inside.ask(|vendor| unsafe { vendor.copy(way, dst, src, bytes, stream) })
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
    // SAFETY: forwarded.
    inside.ask(|vendor| unsafe { vendor.copy_across(dst, src, bytes, stream) })
}

/// A copy with memory that the driver would wait for: the stream calls the host, which moves the bytes to or from
/// pinned memory of the stream's own. The stream's order keeps a part from the next one's bytes.
///
/// # Safety
/// - As [`contiguous`].
unsafe fn bounced<V: Vendor>(
    inside: &Entered<'_, V>,
    (stream, on): (&Stream<V>, u64),
    [dst, src]: [&Place<V>; 2],
    bytes: u64,
) -> Result<(), Fault> {
    let permit = Arc::new(Permit::default());
    let calls = &inside.device.calls;
    let put = |to: u64, from: u64, bytes: u64| {
        let part = Part { to, from, bytes };
        calls.put(inside, on, part.under(&permit))
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
                inside.ask(|vendor| unsafe { vendor.copy(way, to, from, length, on) })
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
fn refuse_overlap(dst: u64, src: u64, bytes: u64) -> Result<(), Fault> {
    if dst.abs_diff(src) < bytes {
        return Err(Fault::invalid("copy", "the sides overlap"));
    }
    Ok(())
}
