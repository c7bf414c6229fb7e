//! A staged copy: workers, each a thread that reads a part into its chunk and writes it from there.
//!
//! While one worker writes, others read, so both links are busy. A link that works in the caller's
//! thread is used by as many workers as the machine has cores, from the core's own cache; one that
//! takes a part at a time has the next ones waiting.
#![expect(
    unsafe_code,
    reason = "hands host memory that it keeps alive to copy hooks"
)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crossdock_sdk::abi::{CopyArgs, Side, StreamHandle};
use crossdock_sdk::threads::Thread;

use crate::copies::order::Accesses;
use crate::devices::device::Device;
use crate::error::Error;
use crate::hooks::panics::{self, Panics};
use crate::route_data::chunk::PAGE_BYTES;
use crate::route_data::chunks::{Lease, PER_COPY};
use crate::tensors::tensor::Tensor;

/// Copies the bytes of the compact tensor `src` into the compact tensor `dst`, which has as many.
pub(crate) fn stage(dst: &Tensor, src: &Tensor) -> Result<(), Error> {
    check_not_lost(dst, src)?;
    let accesses = Accesses::copy(dst, src);
    let _calls = accesses.begin();
    accesses.synchronously(|| move_all(dst, src))
}

fn move_all(dst: &Tensor, src: &Tensor) -> Result<(), Error> {
    let total = src.nbytes();
    if total == 0 {
        return Ok(());
    }
    let parts = Parts::new(total, src.device().shared().chunks().chunk_bytes());
    let (failure, has_panicked) = (OnceLock::new(), AtomicBool::new(false));
    let worker = || {
        let panics = Panics::from_now();
        if let Err(error) = move_parts(dst, src, &parts) {
            parts.end();
            // The first failure is what the others ended for.
            let _known = failure.set(error);
        }
        if panics.is_any() {
            has_panicked.store(true, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        for _ in 1..parts.workers() {
            let started = Thread::named("crossdock-stage").spawn_scoped(scope, worker);
            if let Err(error) = started {
                log::debug!(target: "crossdock::route", "no thread for a staged copy: {error}");
                break;
            }
        }
        worker();
    });
    // Of another worker's panic this thread does not know.
    if has_panicked.into_inner() {
        panics::note();
    }
    failure.into_inner().map_or(Ok(()), Err)
}

/// The parts in which bytes travel, each given out once.
#[derive(Debug)]
pub(super) struct Parts {
    total: u64,
    step: u64,
    count: u64,
    next: AtomicU64,
}

/// One part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) at: u64,
    pub(super) bytes: u64,
}

impl Parts {
    /// Parts that fit into a chunk. What fits into few is cut up all the same where the parts are
    /// still long: else nothing overlaps.
    pub(super) fn new(total: u64, chunk_bytes: u64) -> Self {
        let even = (total / OVERLAPPED).next_multiple_of(PAGE_BYTES);
        Self::of_at_most(total, even.max(SHORTEST_BYTES).min(chunk_bytes))
    }

    /// Parts of so many bytes, but for the last one.
    pub(super) const fn of_at_most(total: u64, step: u64) -> Self {
        Self {
            total,
            step,
            count: total.div_ceil(step),
            next: AtomicU64::new(0),
        }
    }

    pub(super) const fn step(&self) -> u64 {
        self.step
    }

    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// How many workers are worth it: fewer parts than two cost less than the thread that moves them.
    fn workers(&self) -> u64 {
        (self.count / 2).clamp(1, PER_COPY as u64)
    }

    /// A part that nobody has.
    pub(super) fn take(&self) -> Option<Part> {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        (index < self.count).then(|| {
            let at = index * self.step;
            let bytes = self.step.min(self.total - at);
            Part { at, bytes }
        })
    }

    /// Gives out no more.
    fn end(&self) {
        self.next.store(self.count, Ordering::Relaxed);
    }
}

/// Reads parts into a chunk of this worker's own, and writes each from there, until none is left.
fn move_parts(dst: &Tensor, src: &Tensor, parts: &Parts) -> Result<(), Error> {
    let chunks = src.device().shared().chunks();
    let mut next = parts.take();
    if next.is_none() {
        // A worker that comes too late has no use for a chunk.
        return Ok(());
    }
    let chunk = chunks.lease([src.device().in_plugin(), dst.device().in_plugin()])?;
    while let Some(part) = next {
        let moved = read(src, &chunk, part).and_then(|()| write(dst, &chunk, part));
        if let Err(error) = moved {
            chunk.fail(&error);
            return Err(error);
        }
        next = parts.take();
    }
    Ok(())
}

fn read(src: &Tensor, chunk: &Lease<'_>, part: Part) -> Result<(), Error> {
    let side = src.memory().side(src.offset().saturating_add(part.at));
    copy_at_once(src.device(), chunk.side(), side, part.bytes)
}

fn write(dst: &Tensor, chunk: &Lease<'_>, part: Part) -> Result<(), Error> {
    let side = dst.memory().side(dst.offset().saturating_add(part.at));
    copy_at_once(dst.device(), side, chunk.side(), part.bytes)
}

fn copy_at_once(device: &Device, dst: Side, src: Side, bytes: u64) -> Result<(), Error> {
    // SAFETY: one side is a chunk that the caller holds and that has `bytes` bytes, the other lies
    // inside a compact tensor that is alive; the copy is done when it returns.
    unsafe { copy(device, dst, src, bytes, StreamHandle::NONE) }
}

/// Copies a part between a tensor and a chunk by the device's plugin.
///
/// # Safety
/// - Both sides have `bytes` bytes, and stay until the copy is done.
pub(super) unsafe fn copy(
    device: &Device,
    dst: Side,
    src: Side,
    bytes: u64,
    stream: StreamHandle,
) -> Result<(), Error> {
    let args = CopyArgs { dst, src, bytes };
    // SAFETY: the caller's promise, passed on.
    let copied = unsafe { device.hooks().copy(args, stream) };
    copied.inspect_err(|error| device.notice_lost(error))
}

/// Refuses a copy from or to a device that was lost.
pub(super) fn check_not_lost(dst: &Tensor, src: &Tensor) -> Result<(), Error> {
    let mut ends = [src, dst].into_iter();
    ends.try_for_each(|end| end.device().check_not_lost("copy"))
}

/// In so many parts a copy's first read and last write, which little overlaps, hardly count.
const OVERLAPPED: u64 = 16;

/// Two shorter parts cost less than the thread that would move them.
const SHORTEST_BYTES: u64 = 512 << 10;
