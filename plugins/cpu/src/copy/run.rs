//! Runs a plan: cuts it in units, and hands ranges of them to the workers.
#![expect(
    unsafe_code,
    reason = "copies between addresses that the caller vouches for"
)]

use std::ops::Range;
use std::sync::Arc;

use super::axes::Axis;
use super::contiguous::{fence, move_bytes};
use super::plan::{CHUNK_BYTES, Kernel, Plan, Width};
use super::pool::Pool;
use super::tile::{Scratch, transpose};
use super::{bits, gather, scatter};

/// The two ends of one copy, on their way to a worker.
#[derive(Clone, Copy, Debug)]
struct Ends {
    dst: *mut u8,
    src: *const u8,
}

// SAFETY: the pointers are only followed inside `Plan::run`, whose caller vouches for both
// ranges until it returns, whichever thread follows them.
unsafe impl Send for Ends {}
// SAFETY: as above; the workers write disjoint parts.
unsafe impl Sync for Ends {}

impl Plan {
    /// Copies from `src` to `dst`, with the help of `pool` when it is large; done on return.
    ///
    /// # Safety
    /// - Every element of the plan is readable from `src` and writable at `dst`, until this returns.
    /// - The two sets of elements do not overlap, and no other thread writes either.
    pub unsafe fn run(&self, pool: &Pool, dst: *mut u8, src: *const u8) {
        let ends = Ends { dst, src };
        let units = self.units();
        let packed = matches!(self.kernel, Kernel::Bits { .. });
        if self.bytes < PARALLEL_BYTES || pool.threads() < 2 || units < 2 || packed {
            // SAFETY: the caller's promise, passed on whole.
            unsafe { self.run_units(0..units, ends) };
            return;
        }
        let unit_bytes = (self.bytes / units).max(1);
        let per_part = (CHUNK_BYTES / unit_bytes).max(1);
        let plan = Arc::new(self.clone());
        pool.run(units.div_ceil(per_part), move |part| {
            let first = part.saturating_mul(per_part);
            let range = first..units.min(first.saturating_add(per_part));
            // SAFETY: the caller's promise holds until `Pool::run` returns, which is after the
            // last part; parts are disjoint in the destination.
            unsafe { plan.run_units(range, ends) };
        });
    }

    /// How many units the plan has: chunks of the cut axis, for each place of the outer axes.
    fn units(&self) -> usize {
        if self.kernel == Kernel::Empty {
            return 0;
        }
        self.chunks().saturating_mul(self.outer_count)
    }

    fn chunks(&self) -> usize {
        let cut = if self.cut_j { self.j } else { self.i };
        cut.extent.div_ceil(self.chunk)
    }

    /// Runs some units on this thread.
    ///
    /// # Safety
    /// As [`Plan::run`], for the elements of these units.
    unsafe fn run_units(&self, units: Range<usize>, ends: Ends) {
        let chunks = self.chunks();
        let mut scratch = None;
        for unit in units {
            let (dst, src) = self.offsets(unit / chunks);
            let first = (unit % chunks).saturating_mul(self.chunk);
            let (mut i, mut j) = (self.i, self.j);
            let cut = if self.cut_j { &mut j } else { &mut i };
            cut.extent = self.chunk.min(cut.extent.saturating_sub(first));
            let steps = first.cast_signed();
            let dst = dst.wrapping_add(cut.dst.wrapping_mul(steps));
            let src = src.wrapping_add(cut.src.wrapping_mul(steps));
            // SAFETY: the unit's elements are the caller's; the offsets are within the span
            // that planning checked.
            unsafe { self.run_kernel(&mut scratch, (i, j), ends, (dst, src)) };
        }
        if self.streaming {
            fence();
        }
    }

    /// Where the `outer`th place of the outer axes starts, in the plan's unit (bytes, or bits).
    fn offsets(&self, mut outer: usize) -> (isize, isize) {
        let (mut dst, mut src) = (self.dst_offset, self.src_offset);
        for axis in &self.outer {
            let at = (outer % axis.extent).cast_signed();
            outer /= axis.extent;
            dst = dst.wrapping_add(axis.dst.wrapping_mul(at));
            src = src.wrapping_add(axis.src.wrapping_mul(at));
        }
        (dst, src)
    }

    /// Moves one unit.
    ///
    /// # Safety
    /// As [`Plan::run`], for the elements of `i` and `j` at these offsets.
    unsafe fn run_kernel(
        &self,
        scratch: &mut Option<Box<Scratch>>,
        (i, j): (Axis, Axis),
        ends: Ends,
        (dst_offset, src_offset): (isize, isize),
    ) {
        if let Kernel::Bits { bits } = self.kernel {
            // SAFETY: the caller's promise for these elements.
            unsafe { bits::copy(bits, i, (ends.dst, dst_offset), (ends.src, src_offset)) };
            return;
        }
        let dst = ends.dst.wrapping_offset(dst_offset);
        let src = ends.src.wrapping_offset(src_offset);
        match self.kernel {
            Kernel::Empty | Kernel::Bits { .. } => {}
            Kernel::Bytes => {
                // SAFETY: `i.extent` bytes at both ends are the caller's.
                unsafe { move_bytes(dst, src, i.extent, self.streaming) };
            }
            Kernel::Runs { bytes } => {
                // SAFETY: the caller's promise for these runs.
                unsafe { copy_runs(dst, src, i, bytes, self.streaming) };
            }
            Kernel::Transpose { width } => {
                let scratch = scratch.get_or_insert_with(Scratch::new);
                // SAFETY: the caller's promise; the plan chose this kernel for its layout.
                unsafe { transpose(scratch, width, (dst, src), (i, j), self.streaming) };
            }
            Kernel::Gather { width } => {
                // SAFETY: the caller's promise; the destination is dense, so the plan chose it.
                unsafe { gather::gather(width, dst, src, i, self.streaming) };
            }
            Kernel::Scatter { width } => {
                // SAFETY: the caller's promise for these elements.
                unsafe { copy_blocks(width, dst, src, i, j) };
            }
        }
    }
}

/// Moves `runs.extent` runs of `bytes` bytes.
///
/// # Safety
/// Every run is readable, writable, and apart from the others.
unsafe fn copy_runs(
    mut dst: *mut u8,
    mut src: *const u8,
    runs: Axis,
    bytes: usize,
    streaming: bool,
) {
    let streaming = streaming && bytes >= STREAMING_RUN_BYTES;
    for _ in 0..runs.extent {
        // SAFETY: one run, the caller's.
        unsafe { move_bytes(dst, src, bytes, streaming) };
        dst = dst.wrapping_offset(runs.dst);
        src = src.wrapping_offset(runs.src);
    }
}

/// Moves the elements of two axes.
///
/// # Safety
/// As [`scatter::copy`].
unsafe fn copy_blocks(width: Width, dst: *mut u8, src: *const u8, i: Axis, j: Axis) {
    let block = match width {
        Width::W1 => scatter::copy::<1>,
        Width::W2 => scatter::copy::<2>,
        Width::W4 => scatter::copy::<4>,
        Width::W8 => scatter::copy::<8>,
        Width::W16 => scatter::copy::<16>,
    };
    // SAFETY: the caller's promise, passed on whole.
    unsafe { block(dst, src, i, j) };
}

/// Below this a worker costs more than it saves.
const PARALLEL_BYTES: usize = 1 << 20;

/// Shorter runs end in partial lines too often for stores past the cache to pay.
const STREAMING_RUN_BYTES: usize = 1 << 10;
