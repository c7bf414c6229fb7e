//! Strided copies: planned as rows and planes, and made synchronously or on a stream.
#![expect(unsafe_code, reason = "moves bytes between addresses")]

use crossdock_sdk::abi::StridedArgs;

use crate::copy::contiguous;
use crate::current::Entered;
use crate::fault::Fault;
use crate::place::{Place, Reach};
use crate::rect::{Dimension, Plan, Steps};
use crate::stream::Stream;
use crate::vendor::{Region, Rows, Vendor};
use crate::work::{Site, submit_all};

const OPERATION: &str = "copy_strided";

/// The arrays of a strided copy, read.
#[derive(Debug)]
pub(crate) struct Shape {
    item: u64,
    dimensions: Vec<Dimension>,
}

impl Shape {
    /// Reads the arrays.
    ///
    /// # Safety
    /// - The arrays of `args` hold `rank` numbers each.
    pub(crate) unsafe fn read(args: &StridedArgs) -> Result<Self, Fault> {
        if args.element_bits == 0 || !args.element_bits.is_multiple_of(8) {
            let why = "elements that are not whole bytes";
            return Err(Fault::unsupported(OPERATION, why));
        }
        let item = u64::from(args.element_bits / 8);
        // SAFETY: the caller's promise, passed on.
        let arrays = unsafe { args.arrays() };
        let missing = || Fault::invalid(OPERATION, "an array is missing");
        let [shape, dst, src] = arrays.ok_or_else(missing)?;
        let bytes = |stride: i64| {
            let bytes = stride.checked_mul(item.cast_signed());
            bytes.ok_or_else(|| Fault::invalid(OPERATION, "a stride beyond 64 bits"))
        };
        let mut dimensions = Vec::with_capacity(shape.len());
        for ((extent, dst), src) in shape.iter().zip(dst).zip(src) {
            let extent = u64::try_from(*extent).ok().filter(|extent| *extent > 0);
            let extent = extent.ok_or_else(|| Fault::invalid(OPERATION, "an extent below 1"))?;
            // With one element the stride is never used, and may be any number.
            if extent > 1 {
                dimensions.push(Dimension {
                    extent,
                    dst: bytes(*dst)?,
                    src: bytes(*src)?,
                });
            }
        }
        Ok(Self { item, dimensions })
    }

    /// The bytes that a side uses around its first element.
    pub(crate) fn reach(&self, side: impl Fn(&Dimension) -> i64) -> Result<Reach, Fault> {
        let (mut before, mut after) = (0_u64, self.item);
        for one in &self.dimensions {
            let step = side(one);
            let way = step.unsigned_abs().checked_mul(one.extent - 1);
            let reached = if step < 0 { &mut before } else { &mut after };
            let sum = way.and_then(|way| reached.checked_add(way));
            *reached = sum.ok_or_else(|| Fault::invalid(OPERATION, "a reach beyond 64 bits"))?;
        }
        Ok(Reach { before, after })
    }
}

/// Copies a region, synchronously or on a stream.
///
/// # Safety
/// - Every element of both sides is valid until the copy is done.
pub(crate) unsafe fn strided<V: Vendor>(
    stream: Option<&Stream<V>>,
    dst: &Place<V>,
    src: &Place<V>,
    shape: &Shape,
) -> Result<(), Fault> {
    let site = Site::of([dst, src], OPERATION)?;
    let longest = site.device.facts.longest_pitch;
    let plan = Plan::of(shape.item, &shape.dimensions, longest)?;
    if plan.is_contiguous() {
        // SAFETY: a contiguous plan covers the elements and no other byte, and the caller vouches for those.
        return unsafe { contiguous(stream, dst, src, plan.width) };
    }
    if dst.is_host() && src.is_host() {
        let why = "neither side is memory of a device";
        return Err(Fault::unsupported(OPERATION, why));
    }
    if !dst.is_host() && !src.is_host() && dst.context(OPERATION)? != src.context(OPERATION)? {
        let why = "rows are not copied from device to device";
        return Err(Fault::unsupported(OPERATION, why));
    }
    if stream.is_some() && (dst.is_pageable() || src.is_pageable()) {
        let why = "the driver would wait for the stream, as the host memory is not locked";
        return Err(Fault::unsupported(OPERATION, why));
    }
    let rows = |inside: &Entered<'_, V>, on| {
        submit_all(regions(&plan, dst, src), |region| {
            // SAFETY: the rows are the elements, which the caller vouches for.
            inside.ask(|vendor| unsafe { vendor.copy_rows(&region, on) })
        })
    };
    site.run(stream, [dst, src], OPERATION, rows)
}

fn regions<'a, V: Vendor>(
    plan: &'a Plan,
    dst: &'a Place<V>,
    src: &'a Place<V>,
) -> impl Iterator<Item = Region> + 'a {
    let side = |place: &Place<V>, steps: Steps, start: u64| Rows {
        address: place.address.wrapping_add(start),
        is_host: place.is_host(),
        pitch: steps.pitch,
        rows: steps.rows,
    };
    plan.boxes.iter().map(move |(to, from)| Region {
        dst: side(dst, plan.dst, *to),
        src: side(src, plan.src, *from),
        width: plan.width,
        height: plan.height,
        depth: plan.depth,
    })
}
