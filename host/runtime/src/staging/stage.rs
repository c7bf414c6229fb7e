//! A staged copy: one thread reads chunks from the source while another writes to the destination.
#![expect(
    unsafe_code,
    reason = "hands host memory that it keeps alive to copy hooks"
)]

use std::sync::mpsc;
use std::thread;

use crossdock_sdk::abi::{CopyArgs, Side, StreamHandle};

use crate::device::Device;
use crate::error::Error;
use crate::order::Touched;
use crate::staging::chunks::{Lease, PER_COPY};
use crate::tensor::Tensor;

/// Copies the bytes of the compact tensor `src` into the compact tensor `dst`, which has as many.
pub(crate) fn stage(dst: &Tensor, src: &Tensor) -> Result<(), Error> {
    let touched = Touched {
        reads: Some(src.memory()),
        writes: Some(dst.memory()),
    };
    touched.synchronize()?;
    let total = src.nbytes();
    if total == 0 {
        return Ok(());
    }
    let chunks = src.device().routing().chunks();
    let steps = Steps::new(total, chunks.chunk_bytes());
    let devices = [src.device(), dst.device()];
    let first = chunks.lease(devices)?;
    if steps.is_single() {
        return in_turn(dst, src, &steps, &first);
    }
    let second = chunks.lease(devices)?;
    at_once(dst, src, &steps, [first, second])
}

/// The parts in which bytes travel.
#[derive(Clone, Copy)]
struct Steps {
    total: u64,
    step: u64,
}

/// One part.
#[derive(Clone, Copy)]
struct Part {
    at: u64,
    bytes: u64,
}

impl Steps {
    /// Parts that fit into a chunk. What fits into one as a whole is cut up all the same where the
    /// parts are still long: else nothing overlaps.
    fn new(total: u64, chunk_bytes: u64) -> Self {
        let even = (total / OVERLAPPED).next_multiple_of(ALIGNED_BYTES);
        let step = even.max(SHORTEST_BYTES).min(chunk_bytes);
        Self { total, step }
    }

    const fn is_single(&self) -> bool {
        self.total <= self.step
    }

    fn parts(self) -> impl Iterator<Item = Part> {
        let count = self.total.div_ceil(self.step);
        (0..count).map(move |index| {
            let at = index * self.step;
            let bytes = self.step.min(self.total - at);
            Part { at, bytes }
        })
    }
}

/// Reads and writes part after part.
fn in_turn(dst: &Tensor, src: &Tensor, steps: &Steps, chunk: &Lease<'_>) -> Result<(), Error> {
    for part in steps.parts() {
        read(src, chunk, part)?;
        write(dst, chunk, part)?;
    }
    Ok(())
}

type Filled<'a> = Result<(Part, Lease<'a>), Error>;

/// Reads on another thread while this one writes the part before.
fn at_once<'a>(
    dst: &Tensor,
    src: &Tensor,
    steps: &Steps,
    chunks: [Lease<'a>; PER_COPY],
) -> Result<(), Error> {
    let (full, filled) = mpsc::sync_channel::<Filled<'a>>(PER_COPY);
    let (empty, emptied) = mpsc::sync_channel::<Lease<'a>>(PER_COPY);
    for chunk in chunks {
        // There is room for both, and the receiver is here.
        let _sent = empty.send(chunk);
    }
    thread::scope(|scope| {
        let reader = move || read_parts(src, steps, &emptied, &full);
        let started = thread::Builder::new()
            .name("crossdock-stage".to_owned())
            .spawn_scoped(scope, reader);
        if let Err(error) = started {
            log::debug!(target: "crossdock::route", "no thread to read ahead: {error}");
            let chunk = dst.device().routing().chunks();
            let chunk = chunk.lease([src.device(), dst.device()])?;
            return in_turn(dst, src, steps, &chunk);
        }
        write_parts(dst, filled, empty)
    })
}

/// Owns its ends of the channels: after a failure they must be gone, so that the reader ends too.
fn write_parts<'a>(
    dst: &Tensor,
    filled: mpsc::Receiver<Filled<'a>>,
    empty: mpsc::SyncSender<Lease<'a>>,
) -> Result<(), Error> {
    for part in filled {
        let (part, chunk) = part?;
        write(dst, &chunk, part)?;
        // The reader has gone when everything was read.
        let _sent = empty.send(chunk);
    }
    Ok(())
}

fn read_parts<'a>(
    src: &Tensor,
    steps: &Steps,
    emptied: &mpsc::Receiver<Lease<'a>>,
    full: &mpsc::SyncSender<Filled<'a>>,
) {
    for part in steps.parts() {
        // The writer failed and has gone.
        let Ok(chunk) = emptied.recv() else {
            return;
        };
        let done = read(src, &chunk, part).map(|()| (part, chunk));
        let failed = done.is_err();
        if full.send(done).is_err() || failed {
            return;
        }
    }
}

fn read(src: &Tensor, chunk: &Lease<'_>, part: Part) -> Result<(), Error> {
    let side = src.memory().side(src.offset().saturating_add(part.at));
    copy(src.device(), chunk.side(), side, part.bytes)
}

fn write(dst: &Tensor, chunk: &Lease<'_>, part: Part) -> Result<(), Error> {
    let side = dst.memory().side(dst.offset().saturating_add(part.at));
    copy(dst.device(), side, chunk.side(), part.bytes)
}

fn copy(device: &Device, dst: Side, src: Side, bytes: u64) -> Result<(), Error> {
    let args = CopyArgs { dst, src, bytes };
    // SAFETY: one side is a chunk that the caller holds and that has `bytes` bytes, the other lies
    // inside a compact tensor that is alive; the copy is done when it returns.
    unsafe { device.hooks().copy(args, StreamHandle::NONE) }
}

/// In so many parts a copy's first and last part, which nothing overlaps, hardly count.
const OVERLAPPED: u64 = 16;

/// Shorter parts cost less than the thread that would read them.
const SHORTEST_BYTES: u64 = 1 << 20;

/// Parts begin at whole pages.
const ALIGNED_BYTES: u64 = 4096;
