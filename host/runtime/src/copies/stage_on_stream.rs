//! A staged copy in the order of a stream: all of it is submitted before the call returns.
//!
//! An internal stream of the source's plugin, the *reader*, copies part after part into chunks of host memory. One of
//! the destination's, the *writer*, copies them from there. The writer waits for the read of each part, and the reader
//! waits for the write out of a chunk before it reads into that chunk again. Between two plugins each of these waits is
//! for a host event. A third internal stream on each side, the *carrier*, waits for the side's parts in turn and calls
//! the host behind each; the host then completes the event.
//!
//! # Why no wait can last forever
//!
//! Hardware queues are shared: a wait at the head of a queue blocks all that was submitted to this queue later, also
//! other streams. So the argument is about the order of submission, and holds for any number of queues.
//!
//! 1. *Each wait is submitted after everything that ends it.* The read is submitted, then the carrier's wait for it,
//!    then the host function that completes the event, and only then the writer's wait for the event
//!    (`streams/wait.rs`). The wait for a chunk is for a write that was submitted earlier, in the same way. The caller's
//!    stream waits for the copy last.
//! 2. *Nothing is submitted later.* Neither a thread nor a host function submits work: on a single queue that work
//!    would be behind the wait of the caller's stream for it.
//! 3. *What completes an event never waits for a device.* The host function passes a job to a thread, and the job
//!    completes the event.
//!
//! Suppose that some operations never run. Of these, take the one that was submitted first. All that is ahead of it in
//! its queue was submitted before it, and so has run. What it waits for was submitted before it too (1, 2), and so has
//! run, and then its event was completed (3). So it runs: a contradiction. The only exception is a wait for something
//! outside of the library, such as a host event of the caller: it lasts until that is completed. Since this call does
//! not wait, the caller can complete it. Two threads that submit at once change nothing: the argument needs one order
//! of submission, and any order will do.
//!
//! # Bounds
//!
//! The parts in flight are at most [`MOST_PARTS`]. A copy that has more makes its caller wait for the oldest part. The
//! chunks are those of a ring (`route_data/ring.rs`), which belongs to the caller's stream and the two devices.
//!
//! Each side keeps the ring until its last operation is over. Where that is unknown, the ring is leaked and counted. The
//! next copy's reader waits for the last write out of the ring, and not only for the caller's stream, which goes on too
//! early where its plugin breaks down.
#![expect(
    unsafe_code,
    reason = "hands host memory that it keeps alive to copy hooks"
)]

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

use crossdock_sdk::abi::{Side, Status};

use crate::copies::order;
use crate::copies::stage::{self, Part, Parts};
use crate::devices::device::Device;
use crate::error::Error;
use crate::hooks::panics::Panics;
use crate::plugins::releases::Release;
use crate::process::process_state;
use crate::route_data::chunks::{LONG_BYTES, PER_COPY};
use crate::route_data::ring::{Ring, RingUser};
use crate::streams::completion::{self, Then};
use crate::streams::event::Event;
use crate::streams::internal_stream::InternalStream;
use crate::streams::stream::Stream;
use crate::streams::wait::{self, OnFailure, WaitMethod, Waiter};
use crate::tensors::tensor::Tensor;

/// What a device lacks, so that the caller waits for a staged copy instead of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Obstacle<'a> {
    /// Streams.
    Streams(&'a Device),
    /// Events that the host completes.
    HostEvents(&'a Device),
    /// Host functions.
    HostCalls(&'a Device),
}

/// What keeps a staged copy from following a stream; `None` if it follows.
pub(crate) fn obstacle<'a>(
    from: &'a Device,
    to: &'a Device,
    stream: &'a Stream,
) -> Option<Obstacle<'a>> {
    let all = [from, to, stream.device()];
    let has_streams = |device: &Device| device.hooks().table().streams().is_some();
    if let Some(without) = all.into_iter().find(|device| !has_streams(device)) {
        return Some(Obstacle::Streams(without));
    }
    let calls_host = |device: &Device| device.hooks().table().host_calls().is_some();
    if let Some(without) = [from, to].into_iter().find(|device| !calls_host(device)) {
        return Some(Obstacle::HostCalls(without));
    }
    let mut pairs = all
        .into_iter()
        .flat_map(|one| all.map(|other| (one, other)));
    pairs.find_map(|(one, other)| {
        Some(match wait::who_waits(one, other)? {
            Waiter::Caller => Obstacle::HostEvents(one),
            Waiter::Thread => Obstacle::HostCalls(other),
        })
    })
}

/// Whether a copy of so many bytes has more parts than can be in flight: the caller waits for the oldest ones.
pub(crate) fn exceeds_flight(bytes: u64, chunk_bytes: u64) -> bool {
    bytes.div_ceil(part_bytes(bytes, chunk_bytes)) > MOST_PARTS as u64
}

/// Copies the bytes of the compact tensor `src` into the compact tensor `dst` of the same size. The copy comes
/// after the work that is on the stream, and before the work that is put there later.
///
/// # Errors
/// The answer of a hook that refused a part. The elements of `dst` are undefined then: earlier parts may have been
/// written. A failure of a part as it runs is reported by the stream, and to each reader of `dst`. `is_refused` is set
/// if a plugin does not support the copy of the first part on a stream: its streams cannot use the memory.
pub(crate) fn stage(
    dst: &Tensor,
    src: &Tensor,
    stream: &Stream,
    is_refused: &Cell<bool>,
) -> Result<(), Error> {
    if src.nbytes() == 0 {
        return Ok(());
    }
    stage::check_not_lost(dst, src)?;
    let chunks = src.device().shared().chunks();
    let user = RingUser {
        stream: stream.identity(),
        devices: [src, dst].map(|end| end.device().in_plugin()),
    };
    let bytes = part_bytes(src.nbytes(), chunks.chunk_bytes());
    let parts = Parts::of_at_most(src.nbytes(), bytes);
    let panics = Panics::from_now();
    let (source, destination) = (Half::of(src)?, Half::of(dst)?);
    let ring = chunks.take_ring(&user, bytes);
    let ring = ring.filter(|ring| source.comes_after(&destination, ring));
    let ring = ring.unwrap_or_else(|| Ring::new(chunks, &user, bytes));
    let mut written = None;
    let staged = ring.sides(chunks_for(&parts), &user).and_then(|chunks| {
        let copy = StagedCopy {
            source: &source,
            destination: &destination,
            chunks,
        };
        let (reader, writer) = (&source.stream, &destination.stream);
        order::run_halves(stream, (src, reader), (dst, writer), || {
            let submitted = copy.submit(&parts, is_refused);
            source.keep(&ring);
            written = destination.keep(&ring);
            submitted
        })
    });
    if panics.is_any() {
        process_state::leak(ring);
    } else if staged.is_ok()
        && let Some(written) = written
    {
        ring.set_written(written);
        chunks.share_ring(&ring);
    }
    staged
}

/// One side of a copy.
#[derive(Debug)]
struct Half {
    /// Where its first byte is.
    side: Side,
    stream: Arc<InternalStream>,
    carrier: Arc<InternalStream>,
}

impl Half {
    fn of(tensor: &Tensor) -> Result<Self, Error> {
        let take = || InternalStream::take(tensor.device()).map(Arc::new);
        Ok(Self {
            side: tensor.memory().side(tensor.offset()),
            stream: take()?,
            carrier: take()?,
        })
    }

    /// The address of a part.
    fn at(&self, part: Part) -> Result<Side, Error> {
        let address = self.side.address.advanced(part.at);
        let address = address
            .ok_or_else(|| Error::misuse("copy a tensor", "it ends beyond all addresses"))?;
        Ok(Side {
            address,
            ..self.side
        })
    }

    /// Submits the copy of a part.
    fn copy(&self, dst: Side, src: Side, bytes: u64) -> Result<(), Error> {
        let (device, stream) = (self.stream.device(), self.stream.handle());
        // SAFETY: one side is a chunk of the ring, which is kept until this is over; the other lies inside a compact
        // tensor, whose memory remembers the copy and outlives it.
        unsafe { stage::copy(device, dst, src, bytes, stream) }
    }

    /// Makes what comes later here wait for an event of the other half.
    fn wait_for(&self, other: &Self, event: &Event) -> Result<(), Error> {
        self.stream.wait_by(&other.carrier, event).map(drop)
    }

    /// Makes what comes later here wait until the last copy is out of the chunks. Whether it does, also where another
    /// plugin breaks down.
    fn comes_after(&self, other: &Self, ring: &Ring) -> bool {
        let Some(written) = ring.written::<Event>() else {
            return false;
        };
        // The last copy may fail: this one only needs its chunks. No thread of ours waits, since it may give up.
        let (waiter, ignore) = (
            (self.stream.device(), Some(&other.carrier)),
            OnFailure::Ignore,
        );
        let waited = wait::wait(waiter, &written, ignore, |own| {
            self.stream.wait_for_own(own)
        });
        matches!(waited, Ok(WaitMethod::Native | WaitMethod::HostEvent))
    }

    /// Keeps the ring until all that was submitted here is over, and gives the event at its end. Where that cannot be
    /// known, the ring is leaked.
    fn keep(&self, ring: &Arc<Ring>) -> Option<Event> {
        let (ring, releases) = (Arc::clone(ring), self.stream.device().plugin().releases());
        let kept = match self.stream.record().or_else(|_| self.stream.record()) {
            Ok(end) => {
                let (over, written) = (end.clone(), end.clone());
                let release = Release::new(releases, move || match over.is_done() {
                    // A lost device may still use the chunks.
                    Err(error) if error.status() == Some(Status::DEVICE_LOST) => {
                        process_state::leak(ring);
                    }
                    _over => drop(ring),
                });
                let then = Then::Release(release, Vec::new());
                completion::after_on(Some(&self.carrier), end, then).map(|_method| written)
            }
            Err(error) => {
                process_state::leak(ring);
                Err(error)
            }
        };
        kept.inspect_err(|error| {
            let why = error.why();
            log::error!(target: "crossdock::memory", "chunks are leaked: {error}: {why}");
        })
        .ok()
    }
}

/// A copy whose parts go through these chunks, one after another.
struct StagedCopy<'a> {
    source: &'a Half,
    destination: &'a Half,
    chunks: Vec<Side>,
}

impl StagedCopy<'_> {
    /// Submits all parts. Waits for the oldest one where too many are in flight.
    fn submit(&self, parts: &Parts, is_refused: &Cell<bool>) -> Result<(), Error> {
        let mut written = VecDeque::<Event>::with_capacity(MOST_PARTS);
        for chunk in self.chunks.iter().copied().cycle() {
            let Some(part) = parts.take() else {
                break;
            };
            if written.len() == MOST_PARTS
                && let Some(oldest) = written.pop_front()
            {
                oldest.synchronize(None)?;
            }
            let before = written.len().checked_sub(self.chunks.len());
            if let Some(out_of_chunk) = before.and_then(|at| written.get(at)) {
                self.source.wait_for(self.destination, out_of_chunk)?;
            }
            let note = |error: &Error| {
                if error.is_unsupported() && written.is_empty() {
                    is_refused.set(true);
                }
            };
            let (from, to) = (self.source.at(part)?, self.destination.at(part)?);
            self.source
                .copy(chunk, from, part.bytes)
                .inspect_err(note)?;
            let read = self.source.stream.record()?;
            self.destination.wait_for(self.source, &read)?;
            self.destination
                .copy(to, chunk, part.bytes)
                .inspect_err(note)?;
            written.push_back(self.destination.stream.record()?);
        }
        Ok(())
    }
}

/// How many bytes a part has: a chunk where [`MOST_PARTS`] of these suffice, else twice as many, and so on.
pub(crate) fn part_bytes(total: u64, chunk_bytes: u64) -> u64 {
    let most = LONGEST_PART.max(chunk_bytes);
    let mut bytes = chunk_bytes;
    while bytes < most && total.div_ceil(bytes) > MOST_PARTS as u64 {
        bytes = bytes.saturating_mul(2).min(most);
    }
    bytes
}

/// How many chunks a copy goes through: at most [`PER_COPY`], and fewer where they are long.
fn chunks_for(parts: &Parts) -> usize {
    let most = (LONG_BYTES / parts.step()).clamp(FEWEST_LONG, PER_COPY as u64);
    usize::try_from(parts.count().min(most)).unwrap_or(PER_COPY)
}

/// So many parts of a copy are in flight at most: some drivers let a caller wait who submits more than about a
/// thousand operations, and a part is up to ten.
const MOST_PARTS: usize = 64;

/// No part is longer, unless a chunk is.
const LONGEST_PART: u64 = 16 << 20;

/// So many chunks keep both links busy.
const FEWEST_LONG: u64 = 4;
