//! Work in its place: after what it depends on, and remembered by the memories it touches.

use std::sync::Arc;

use crossdock_sdk::abi::{Status, StreamHandle};

use crate::chain::{Chain, OnFailure};
use crate::device::Device;
use crate::error::Error;
use crate::event::Event;
use crate::internal_streams::InternalStream;
use crate::memory::Memory;
use crate::pending::{Access, Earlier, Mark};
use crate::stream::Stream;
use crate::tensor::Tensor;

/// The tensors that some work reads and writes.
#[derive(Clone, Copy)]
pub(crate) struct Touched<'a> {
    reads: Option<&'a Tensor>,
    writes: Option<&'a Tensor>,
}

impl<'a> Touched<'a> {
    pub(crate) const fn reads(tensor: &'a Tensor) -> Self {
        Self {
            reads: Some(tensor),
            writes: None,
        }
    }

    pub(crate) const fn writes(tensor: &'a Tensor) -> Self {
        Self {
            reads: None,
            writes: Some(tensor),
        }
    }

    pub(crate) const fn copy(dst: &'a Tensor, src: &'a Tensor) -> Self {
        Self {
            reads: Some(src),
            writes: Some(dst),
        }
    }

    fn each(self) -> impl Iterator<Item = (&'a Memory, Access)> {
        let reads = self.reads.map(|tensor| (tensor.memory(), Access::Read));
        let writes = self.writes.map(|tensor| {
            let is_all = tensor.layout().is_contiguous() && tensor.nbytes() == tensor.memory().size;
            let access = if is_all {
                Access::Write
            } else {
                Access::WritePart
            };
            (tensor.memory(), access)
        });
        reads.into_iter().chain(writes)
    }

    /// Makes the CPU wait for all that this work has to come after.
    pub(crate) fn synchronize(self) -> Result<(), Error> {
        for (memory, access) in self.each() {
            memory.pending().synchronize(access, None)?;
        }
        Ok(())
    }

    /// Makes the line wait for all that this work has to come after.
    fn come_after(self, line: Line<'_>) -> Result<Vec<Place<'a>>, Error> {
        let found = |(memory, access): (&'a Memory, Access)| {
            let marks = memory.pending().before(access);
            (Place::new(memory, access, line.on()), marks)
        };
        // What was found is on the stream already. What other threads put there from now on may come
        // after this work.
        let found: Vec<_> = self.each().map(found).collect();
        line.begin()?;
        let mut places = Vec::with_capacity(2);
        for (mut place, marks) in found {
            place.earlier.extend(line.come_after(marks, place.access)?);
            places.push(place);
        }
        Ok(places)
    }

    /// Remembers work that has no event at its end, and why. Where it is on a stream, a later record
    /// may do; else the memories are kept for ever, and who uses them is told why.
    fn remember_unrecorded(self, stream: Option<&Stream>, why: &Error) {
        for (memory, _) in self.each() {
            let mark = Mark {
                stream: stream.cloned(),
                end: Err(why.clone()),
                access: Access::Write,
                holds_memory: true,
            };
            memory.pending().enter(mark, &[]);
        }
    }
}

/// Where work is put.
#[derive(Clone, Copy)]
enum Line<'a> {
    /// On this stream.
    On(&'a Stream),
    /// On a stream of ours between two points of this one, which belongs to another plugin.
    For(&'a Stream, &'a InternalStream),
}

impl Line<'_> {
    /// The stream whose later work comes after this without being told.
    const fn stream(&self) -> &Stream {
        match self {
            Self::On(stream) | Self::For(stream, _) => stream,
        }
    }

    /// The stream that the work itself is on, where that is the caller's.
    const fn on(&self) -> Option<&Stream> {
        match self {
            Self::On(stream) => Some(stream),
            Self::For(..) => None,
        }
    }

    /// Whether an event is of the plugin that does the work.
    fn plugin_is_of(&self, event: &Event) -> bool {
        let device = match self {
            Self::On(stream) => stream.device(),
            Self::For(_, own) => own.device(),
        };
        device.is_of(event.device().plugin())
    }

    /// Makes it come after what is on the stream.
    fn begin(&self) -> Result<(), Error> {
        match self {
            Self::On(_) => Ok(()),
            Self::For(stream, own) => own.wait(&stream.record()?, OnFailure::Inherit).map(drop),
        }
    }

    /// Makes it wait for marks that work with this access has to come after, and gives their ends.
    fn come_after(&self, marks: Vec<Mark>, access: Access) -> Result<Vec<Earlier>, Error> {
        let mut earlier = Vec::new();
        for mark in marks {
            // Not where a stream of another plugin stands between the two: where that plugin breaks
            // down, it goes on too early.
            let is_covered = mark.stream.is_some() && mark.stream.as_ref() == self.on();
            let is_native = mark.is_of_one_plugin();
            let event = mark.end?;
            // A write replaces what failed, and a read that failed left the content as it was.
            let may_fail = access.is_write() || mark.access == Access::Read;
            let is_certain = if is_covered {
                is_native
            } else {
                match self.wait(&event, may_fail)? {
                    Chain::Native | Chain::Blocked => true,
                    // Given up only where the plugin does nothing more, on this stream either.
                    Chain::HostEvent => self.plugin_is_of(&event),
                    Chain::HostThread => false,
                }
            };
            earlier.push(Earlier { event, is_certain });
        }
        Ok(failures_apart(earlier, access))
    }

    /// Makes it wait for an event, and for its failure only if the work may not fail.
    fn wait(&self, event: &Event, may_fail: bool) -> Result<Chain, Error> {
        // What looks like a failure of the work may be one of the question, so it is waited for.
        let on_failure = if may_fail && event.is_done().is_err() {
            OnFailure::Ignore
        } else {
            OnFailure::Inherit
        };
        match self {
            Self::On(stream) => stream.wait_with(event, on_failure),
            Self::For(_, own) => own.wait(event, on_failure),
        }
    }

    fn submit(&self, work: impl FnOnce(StreamHandle) -> Result<(), Error>) -> Result<(), Error> {
        match self {
            Self::On(stream) => stream.take_turn(work),
            Self::For(_, own) => work(own.handle()),
        }
    }

    fn record(&self) -> Result<Event, Error> {
        match self {
            Self::On(stream) => stream.record(),
            Self::For(_, own) => own.record(),
        }
    }
}

/// Without the ends of work that failed, where the work to come leaves some of its bytes as they are:
/// who reads those has to be told.
fn failures_apart(mut earlier: Vec<Earlier>, access: Access) -> Vec<Earlier> {
    if access == Access::WritePart {
        earlier.retain(|one| one.event.is_done().is_ok());
    }
    earlier
}

/// A memory that some work touches, and the ends of the work that is over before.
struct Place<'a> {
    memory: &'a Memory,
    access: Access,
    earlier: Vec<Earlier>,
}

impl<'a> Place<'a> {
    /// A memory that work on `stream` touches, and such work that is there already. To be made before
    /// the end of the work is recorded, which therefore comes after that.
    fn new(memory: &'a Memory, access: Access, stream: Option<&Stream>) -> Self {
        let there = stream.map(|stream| memory.pending().on(stream, access));
        Self {
            memory,
            access,
            earlier: failures_apart(there.unwrap_or_default(), access),
        }
    }
}

/// Remembers work whose end is `event`, after which everything later on `stream` comes.
fn enter(stream: Option<&Stream>, event: &Event, places: &[Place<'_>], holds_memory: bool) {
    for place in places {
        let mark = Mark {
            stream: stream.cloned(),
            end: Ok(event.clone()),
            access: place.access,
            holds_memory,
        };
        place.memory.pending().enter(mark, &place.earlier);
    }
}

/// Does work by a hook of `maker`'s plugin: at once without a stream, else in the stream's order.
///
/// A stream of another plugin is kept in order too: the work goes to a stream of our own, between
/// two points of the other one.
pub(crate) fn run(
    maker: &Device,
    stream: Option<&Stream>,
    touched: Touched<'_>,
    work: impl FnOnce(StreamHandle) -> Result<(), Error>,
) -> Result<(), Error> {
    let Some(stream) = stream else {
        return run_at_once(touched, work);
    };
    if Arc::ptr_eq(stream.device().plugin(), maker.plugin()) {
        return queue(Line::On(stream), touched, work);
    }
    match InternalStream::take(maker) {
        // Between the two points nobody else's work for the stream may begin.
        Ok(own) => stream.take_foreign_turn(|| queue(Line::For(stream, &own), touched, work)),
        Err(error) if error.is_unsupported() => {
            synchronize(Some(stream))?;
            run_at_once(touched, work)
        }
        Err(error) => Err(error),
    }
}

/// Makes the CPU wait for all that is on a stream, because work is to come that cannot follow it.
///
/// # Errors
/// [`Error::Hook`]; the failure of that work.
pub(crate) fn synchronize(stream: Option<&Stream>) -> Result<(), Error> {
    match stream {
        Some(stream) => stream.record()?.synchronize(None),
        None => Ok(()),
    }
}

fn run_at_once(
    touched: Touched<'_>,
    work: impl FnOnce(StreamHandle) -> Result<(), Error>,
) -> Result<(), Error> {
    touched.synchronize()?;
    submitted(touched, work(StreamHandle::NONE))
}

/// Puts work where it belongs and remembers it.
fn queue(
    line: Line<'_>,
    touched: Touched<'_>,
    work: impl FnOnce(StreamHandle) -> Result<(), Error>,
) -> Result<(), Error> {
    let places = touched.come_after(line)?;
    submitted(touched, line.submit(work))?;
    // The work is there, so a failure to record its end is worth a second try.
    let event = line
        .record()
        .or_else(|_| line.record())
        .inspect_err(|error| {
            touched.remember_unrecorded(line.on(), error);
        })?;
    let followed = match line {
        Line::On(_) => Ok(true),
        // A thread that waits gives up where nobody can say that the work is over, and the stream
        // goes on.
        Line::For(stream, _) => stream.wait(&event).map(|chain| chain != Chain::HostThread),
    };
    let stream = matches!(followed, Ok(true)).then(|| line.stream());
    enter(stream, &event, &places, true);
    followed.map(drop)
}

/// What submitting work led to. A hook that panicked may have begun it.
fn submitted(touched: Touched<'_>, result: Result<(), Error>) -> Result<(), Error> {
    if let Err(error) = &result
        && error.status() == Some(Status::PANIC)
    {
        touched.remember_unrecorded(None, error);
    }
    result
}

/// Makes `stream` wait for all that work with this access has to come after.
pub(crate) fn come_after(stream: &Stream, memory: &Memory, access: Access) -> Result<(), Error> {
    let marks = memory.pending().before(access);
    Line::On(stream).come_after(marks, access).map(drop)
}

/// Makes `stream` wait for what work of others that is to come on it depends on.
pub(crate) fn wait(stream: &Stream, touched: Touched<'_>) -> Result<(), Error> {
    touched.come_after(Line::On(stream)).map(drop)
}

/// Remembers work of others that is on `stream`, and that its caller has put into order.
/// `holds_memory`: the memory has to outlive it.
pub(crate) fn note(stream: &Stream, touched: Touched<'_>, holds_memory: bool) -> Result<(), Error> {
    let place = |(memory, access)| Place::new(memory, access, Some(stream));
    let places: Vec<_> = touched.each().map(place).collect();
    let event = stream.record()?;
    enter(Some(stream), &event, &places, holds_memory);
    Ok(())
}
