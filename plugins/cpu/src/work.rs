//! Copies and fills as the contract asks for them: checked, then run now or on a stream.
#![expect(
    unsafe_code,
    reason = "copies between addresses that the host vouches for"
)]

use std::sync::Arc;

use crossdock_sdk::abi::{CopyArgs, FillArgs, Status, StridedArgs};
use crossdock_sdk::plugin::Error;

use crate::convert;
use crate::copy::{Elements, Plan};
use crate::device::{Device, size};
use crate::event::{Failure, Outcome};
use crate::fill::fill;
use crate::stream::Stream;

/// Work that was checked and is ready to run.
pub(crate) struct Work {
    device: Arc<Device>,
    dst: *mut u8,
    kind: Kind,
    bytes: usize,
}

enum Kind {
    Copy { plan: Plan, src: *const u8 },
    Fill { pattern: [u8; 16], length: usize },
}

// SAFETY: the pointers are followed only by `Work::run`, and the hooks' callers keep both
// memories valid until the work is done, whichever thread does it.
unsafe impl Send for Work {}

impl Work {
    /// Checks a copy of bytes.
    pub(crate) fn copy(device: &Arc<Device>, args: &CopyArgs) -> Result<Self, Error> {
        let operation = "copy";
        device.check_open(operation)?;
        let bytes = size(operation, args.bytes)?;
        let span = (0, i128::from(args.bytes));
        let dst = device.side(operation, &args.dst, span)?;
        let src = device.side(operation, &args.src, span)?.cast_const();
        if dst.addr().abs_diff(src.addr()) < bytes {
            return Err(Error::new(
                Status::INVALID,
                operation,
                "the two sides overlap",
            ));
        }
        let kind = Kind::Copy {
            plan: Plan::of_bytes(bytes),
            src,
        };
        Ok(Self {
            device: Arc::clone(device),
            dst,
            kind,
            bytes,
        })
    }

    /// Checks a strided copy.
    ///
    /// # Safety
    /// The arrays of `args` hold `rank` numbers each.
    pub(crate) unsafe fn strided(device: &Arc<Device>, args: &StridedArgs) -> Result<Self, Error> {
        let operation = "copy_strided";
        device.check_open(operation)?;
        // SAFETY: the caller's promise, passed on.
        let [shape, dst_strides, src_strides] = unsafe { arrays(args)? };
        let bits = args.element_bits;
        let plan = Plan::new(&Elements {
            bits,
            shape,
            dst_strides,
            src_strides,
            dst_offset_bits: 0,
            src_offset_bits: 0,
        })
        .map_err(|why| convert::refusal(operation, why))?;
        let dst = device.side(operation, &args.dst, span(bits, shape, dst_strides))?;
        let src = device.side(operation, &args.src, span(bits, shape, src_strides))?;
        let bytes = plan.bytes();
        let kind = Kind::Copy {
            plan,
            src: src.cast_const(),
        };
        Ok(Self {
            device: Arc::clone(device),
            dst,
            kind,
            bytes,
        })
    }

    /// Checks a fill.
    pub(crate) fn fill(device: &Arc<Device>, args: &FillArgs) -> Result<Self, Error> {
        let operation = "fill";
        device.check_open(operation)?;
        let bytes = size(operation, args.bytes)?;
        let dst = device.side(operation, &args.dst, (0, i128::from(args.bytes)))?;
        let length = usize::try_from(args.pattern_bytes).unwrap_or(usize::MAX);
        if !matches!(length, 1 | 2 | 4 | 8 | 16) || !bytes.is_multiple_of(length) {
            let why = format!("a pattern of {length} bytes does not fill {bytes} bytes");
            return Err(Error::new(Status::INVALID, operation, why));
        }
        let kind = Kind::Fill {
            pattern: args.pattern,
            length,
        };
        Ok(Self {
            device: Arc::clone(device),
            dst,
            kind,
            bytes,
        })
    }

    /// Runs on `stream`, or now without one.
    ///
    /// # Safety
    /// Every byte that the work reads or writes is valid until it is done, and the sides do not
    /// overlap.
    pub(crate) unsafe fn start(
        self,
        operation: &'static str,
        stream: Option<&Stream>,
    ) -> Result<(), Error> {
        let short = self.bytes <= SHORT_BYTES;
        // SAFETY: the caller's promise holds until the work is done.
        let run = move || unsafe { self.run() };
        let outcome = match stream {
            None => run(),
            Some(stream) if short => stream.submit_short(run),
            Some(stream) => stream.submit(run),
        };
        convert::outcome(operation, outcome)
    }

    /// Does the work.
    ///
    /// # Safety
    /// As [`Work::start`].
    unsafe fn run(self) -> Outcome {
        match self.kind {
            Kind::Copy { plan, src } => {
                // SAFETY: the caller vouches for both sides.
                unsafe { plan.run(&self.device.pool, self.dst, src) };
                Ok(())
            }
            Kind::Fill { pattern, length } => {
                let pattern = pattern.get(..length).unwrap_or_default();
                // SAFETY: the caller vouches for the range.
                let filled = unsafe { fill(&self.device.pool, self.dst, self.bytes, pattern) };
                filled.map_err(|length| {
                    let reason = format!("no fill with a pattern of {} bytes", length.0);
                    Failure::new(Status::INVALID, &reason)
                })
            }
        }
    }
}

/// The arrays of a strided copy.
///
/// # Safety
/// Each is null, or has `rank` numbers that live as long as the answer is used.
unsafe fn arrays<'a>(args: &StridedArgs) -> Result<[&'a [i64]; 3], Error> {
    // SAFETY: the caller's promise, passed on.
    let read = (args.rank <= MAX_RANK).then(|| unsafe { args.arrays() });
    let why = "a shape of more than 64 axes, or without its numbers";
    let refused = || Error::new(Status::INVALID, "copy_strided", why);
    read.flatten().ok_or_else(refused)
}

/// The bytes that a side touches, before and after its first element.
fn span(bits: u32, shape: &[i64], strides: &[i64]) -> (i128, i128) {
    if shape.contains(&0) {
        return (0, 0);
    }
    let (mut low, mut high) = (0_i128, i128::from(bits));
    for (&extent, &stride) in shape.iter().zip(strides) {
        let reach = (i128::from(extent) - 1) * i128::from(stride) * i128::from(bits);
        if reach < 0 {
            low += reach;
        } else {
            high += reach;
        }
    }
    (low.div_euclid(8), (high + 7).div_euclid(8))
}

/// Work of up to this size takes less time than waking a thread for it.
const SHORT_BYTES: usize = 64 << 10;

/// The contract's limit.
const MAX_RANK: u32 = 64;
