//! A staged copy in the order of a stream: a thread of the host submits its parts. The stream waits for the
//! copy, and the caller does not.
//!
//! The thread reads each part on an internal stream of the source's plugin, and writes it on one of the
//! destination's. No part waits on a device for another part: the thread submits a write once it has seen
//! that the read is over, and reuses a chunk once it has seen that its write is over.
//!
//! The caller's stream waits for an event that the thread completes at the end, so it waits for work that is
//! submitted later. Where that wait held up the streams of the parts, they would never run: a deadlock.
//! [`obstacle`] finds the devices where that could happen. There the caller waits, and `stage.rs` copies.
#![expect(
    unsafe_code,
    reason = "hands host memory that it keeps alive to copy hooks"
)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc;

use crossdock_sdk::abi::{Capabilities, Side, Status};
use crossdock_sdk::deadline::Deadline;
use crossdock_sdk::fence::fence;
use crossdock_sdk::threads::Thread;

use crate::copies::order;
use crate::copies::stage::{self, Part, Parts};
use crate::devices::device::Device;
use crate::error::Error;
use crate::hooks::panics::Panics;
use crate::plugins::later_work::LaterWork;
use crate::process::process_state;
use crate::route_data::chunks::{Lease, PER_COPY};
use crate::streams::completion;
use crate::streams::event::Event;
use crate::streams::internal_stream::InternalStream;
use crate::streams::stream::Stream;
use crate::tensors::tensor::Tensor;

/// Why the caller waits for a staged copy instead of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Obstacle<'a> {
    /// The plugin of this device has no streams.
    NoStreams(&'a Device),
    /// Streams of this device may hold each other up.
    SharedQueues(&'a Device),
    /// The stream's plugin has no events that the host completes.
    NoHostEvents(&'a Device),
}

/// What keeps a staged copy from following a stream; `None` where it follows.
pub(crate) fn obstacle<'a>(
    from: &'a Device,
    to: &'a Device,
    stream: &'a Stream,
) -> Option<Obstacle<'a>> {
    for end in [from, to] {
        if end.hooks().table().streams().is_none() {
            return Some(Obstacle::NoStreams(end));
        }
        if !end
            .capabilities()
            .contains(Capabilities::INDEPENDENT_STREAMS)
        {
            return Some(Obstacle::SharedQueues(end));
        }
    }
    let waits = stream.device().has_host_events();
    (!waits).then_some(Obstacle::NoHostEvents(stream.device()))
}

/// Copies the bytes of the compact tensor `src` into the compact tensor `dst` of the same size. The copy comes
/// after the work that is on the stream, and before the work that is put there later.
///
/// # Errors
/// The answer of a hook that was to put the copy into the stream's order; then nothing was changed. A failure
/// of the copy itself is reported by the stream, and to each reader of `dst`.
pub(crate) fn stage(dst: &Tensor, src: &Tensor, stream: &Stream) -> Result<(), Error> {
    if src.nbytes() == 0 {
        return Ok(());
    }
    stage::check_not_lost(dst, src)?;
    let copy = Arc::new(StagedCopy::new(dst, src)?);
    let (start, started) = mpsc::channel::<Event>();
    let submitted = Arc::clone(&copy);
    let run = move || {
        // Where the copy was refused, the sender is dropped and no event comes.
        if let Ok(end) = started.recv() {
            submitted.run(&end);
        }
    };
    let fenced = move || {
        let _caught = fence(run);
    };
    Thread::named("crossdock-stage")
        .spawn(fenced)
        .map_err(|error| Error::exhausted("start a thread for a staged copy", error))?;
    let (reader, writer) = (&copy.source.stream, &copy.destination.stream);
    order::run_later(stream, (src, reader), (dst, writer), |end| {
        // The thread is waiting for this. If it were gone, dropping the event would fail whoever waits for it.
        let _sent = start.send(end);
    })
}

/// One end of a copy that is under way.
#[derive(Debug)]
struct End {
    /// Where its first byte is.
    side: Side,
    stream: Arc<InternalStream>,
    /// Lets a wait for the whole device wait for this copy too.
    _later: LaterWork,
}

impl End {
    fn of(tensor: &Tensor) -> Result<Self, Error> {
        let device = tensor.device();
        Ok(Self {
            side: tensor.memory().side(tensor.offset()),
            stream: Arc::new(InternalStream::take(device)?),
            _later: LaterWork::on(device.in_plugin()),
        })
    }

    fn device(&self) -> &Device {
        self.stream.device()
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

    /// Submits the copy of a part, and returns the event at its end.
    fn submit(&self, dst: Side, src: Side, bytes: u64) -> Result<Event, Error> {
        // SAFETY: one side is a chunk that the copy holds until it knows that this is over; the other lies
        // inside a compact tensor whose memory remembers the copy, and outlives it.
        unsafe { stage::copy(self.device(), dst, src, bytes, self.stream.handle()) }?;
        self.stream.record()
    }

    /// Waits for all that was submitted, and tells whether it is known to be over.
    fn is_over(&self) -> bool {
        self.stream.wait_until_over(Deadline::after(None)).is_ok()
    }
}

/// A copy whose parts a thread submits.
#[derive(Debug)]
struct StagedCopy {
    source: End,
    destination: End,
    parts: Parts,
}

impl StagedCopy {
    fn new(dst: &Tensor, src: &Tensor) -> Result<Self, Error> {
        let chunk_bytes = src.device().shared().chunks().chunk_bytes();
        Ok(Self {
            source: End::of(src)?,
            destination: End::of(dst)?,
            parts: Parts::new(src.nbytes(), chunk_bytes),
        })
    }

    /// Makes the copy, and completes `end` when it is over. Where nobody can tell whether it is over, `end` is lost
    /// and the chunks are leaked: a device may still write them.
    fn run(&self, end: &Event) {
        let panics = Panics::from_now();
        let mut in_flight = PartsInFlight::new(self);
        let Err(error) = in_flight.move_all() else {
            drop(in_flight);
            return completion::complete(end, Status::OK);
        };
        let why = error.why();
        log::debug!(target: "crossdock::route", "a staged copy failed: {error}: {why}");
        let failure = completion::failure_of(&error);
        let is_over = [&self.source, &self.destination].map(End::is_over);
        if panics.is_any() || is_over.contains(&false) {
            process_state::leak(in_flight);
            end.lose(error);
        } else {
            drop(in_flight);
        }
        completion::complete(end, failure);
    }
}

/// The parts that were submitted and are not known to be over, the oldest first.
struct PartsInFlight<'a> {
    copy: &'a StagedCopy,
    /// How many chunks there are.
    chunks: usize,
    read: VecDeque<(Part, Lease<'a>, Event)>,
    written: VecDeque<(Lease<'a>, Event)>,
    /// The chunk of a part that failed.
    failed: Vec<Lease<'a>>,
}

impl<'a> PartsInFlight<'a> {
    const fn new(copy: &'a StagedCopy) -> Self {
        Self {
            copy,
            chunks: 0,
            read: VecDeque::new(),
            written: VecDeque::new(),
            failed: Vec::new(),
        }
    }

    fn move_all(&mut self) -> Result<(), Error> {
        let mut next = self.copy.parts.take();
        loop {
            while let Some(part) = next
                && let Some(chunk) = self.chunk()?
            {
                self.read_part(part, chunk)?;
                next = self.copy.parts.take();
            }
            let Some((part, chunk, read)) = self.read.pop_front() else {
                break;
            };
            self.write_part(part, chunk, &read)?;
        }
        self.written
            .iter()
            .try_for_each(|(_, written)| written.synchronize(None))
    }

    /// A chunk for the next part: one whose write is over, or a new one. `None` where all are in use and a read is
    /// pending, as the caller then writes that part instead of waiting.
    fn chunk(&mut self) -> Result<Option<Lease<'a>>, Error> {
        let oldest = self.written.front().map(|(_, written)| written);
        let is_free = match oldest {
            Some(written) if self.chunks >= PER_COPY && self.read.is_empty() => {
                written.synchronize(None).map(|()| true)
            }
            Some(written) => written.is_done(),
            None => Ok(false),
        };
        if is_free? {
            return Ok(self.written.pop_front().map(|(chunk, _)| chunk));
        }
        if self.chunks >= PER_COPY {
            return Ok(None);
        }
        let [source, destination] = [&self.copy.source, &self.copy.destination].map(End::device);
        let chunks = source.shared().chunks();
        let chunk = chunks.lease([source.in_plugin(), destination.in_plugin()])?;
        self.chunks += 1;
        Ok(Some(chunk))
    }

    fn read_part(&mut self, part: Part, chunk: Lease<'a>) -> Result<(), Error> {
        let source = &self.copy.source;
        let (side, from) = (chunk.side(), source.at(part)?);
        match source.submit(side, from, part.bytes) {
            Ok(read) => self.read.push_back((part, chunk, read)),
            Err(error) => return self.fail(chunk, error),
        }
        Ok(())
    }

    fn write_part(&mut self, part: Part, chunk: Lease<'a>, read: &Event) -> Result<(), Error> {
        let destination = &self.copy.destination;
        let written = read.synchronize(None).and_then(|()| {
            let (side, to) = (chunk.side(), destination.at(part)?);
            destination.submit(to, side, part.bytes)
        });
        match written {
            Ok(written) => self.written.push_back((chunk, written)),
            Err(error) => return self.fail(chunk, error),
        }
        Ok(())
    }

    /// Keeps the chunk of a part that failed: either device may still use it.
    fn fail(&mut self, chunk: Lease<'a>, error: Error) -> Result<(), Error> {
        self.failed.push(chunk);
        Err(error)
    }
}
