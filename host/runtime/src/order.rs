//! Work in its place: after what it depends on, and remembered by the memories it touches.

use std::sync::Arc;

use crossdock_sdk::abi::StreamHandle;

use crate::device::Device;
use crate::error::Error;
use crate::memory::Memory;
use crate::pending::{Access, Mark};
use crate::stream::Stream;

/// The memories that some work reads and writes.
#[derive(Clone, Copy)]
pub(crate) struct Touched<'a> {
    pub(crate) reads: Option<&'a Memory>,
    pub(crate) writes: Option<&'a Memory>,
}

impl<'a> Touched<'a> {
    pub(crate) const fn reads(memory: &'a Memory) -> Self {
        Self {
            reads: Some(memory),
            writes: None,
        }
    }

    pub(crate) const fn writes(memory: &'a Memory) -> Self {
        Self {
            reads: None,
            writes: Some(memory),
        }
    }

    fn each(self) -> impl Iterator<Item = (&'a Memory, Access)> {
        let reads = self.reads.map(|memory| (memory, Access::Read));
        let writes = self.writes.map(|memory| (memory, Access::Write));
        reads.into_iter().chain(writes)
    }

    /// Makes the CPU wait for all that this work has to come after.
    pub(crate) fn synchronize(self) -> Result<(), Error> {
        for (memory, access) in self.each() {
            memory.pending().synchronize(access, None)?;
        }
        Ok(())
    }

    /// Makes `stream` wait for all that this work has to come after.
    fn wait(self, stream: &Stream) -> Result<Vec<Place<'a>>, Error> {
        let mut places = Vec::with_capacity(2);
        for (memory, access) in self.each() {
            places.push(Place {
                memory,
                access,
                earlier: come_after(stream, memory, access)?,
            });
        }
        Ok(places)
    }
}

/// Makes `stream` wait for all that work with this access has to come after, and says what that is.
pub(crate) fn come_after(
    stream: &Stream,
    memory: &Memory,
    access: Access,
) -> Result<Vec<Mark>, Error> {
    let earlier = memory.pending().before(access);
    for mark in &earlier {
        // A write replaces what failed, and a read that failed left the content as it was.
        let may_fail = access == Access::Write || mark.access == Access::Read;
        let failed = may_fail && mark.event.is_done().is_err();
        if mark.stream != *stream && !failed {
            stream.wait(&mark.event)?;
        }
    }
    Ok(earlier)
}

/// A memory that some work touches, and the work that it waited for.
struct Place<'a> {
    memory: &'a Memory,
    access: Access,
    earlier: Vec<Mark>,
}

/// Remembers that work ends at the present end of `stream`.
fn enter(stream: &Stream, places: &[Place<'_>]) -> Result<(), Error> {
    let event = stream.record()?;
    for place in places {
        let mark = Mark {
            stream: stream.clone(),
            event: event.clone(),
            access: place.access,
        };
        place.memory.pending().enter(mark, &place.earlier);
    }
    Ok(())
}

/// Does work by a hook of `maker`'s plugin: at once without a stream, else in the stream's order.
///
/// A stream of another plugin is kept in order too: the work goes to a stream of the maker, between
/// two events.
pub(crate) fn run(
    maker: &Device,
    stream: Option<&Stream>,
    touched: Touched<'_>,
    work: impl FnOnce(StreamHandle) -> Result<(), Error>,
) -> Result<(), Error> {
    let Some(stream) = stream else {
        touched.synchronize()?;
        return work(StreamHandle::NONE);
    };
    if Arc::ptr_eq(stream.device().plugin(), maker.plugin()) {
        return queue(stream, touched, work);
    }
    match Stream::default_of(maker) {
        Ok(own) => {
            own.wait(&stream.record()?)?;
            queue(&own, touched, work)?;
            stream.wait(&own.record()?).map(drop)
        }
        Err(error) if error.is_unsupported() => {
            stream.record()?.synchronize(None)?;
            touched.synchronize()?;
            work(StreamHandle::NONE)
        }
        Err(error) => Err(error),
    }
}

/// Puts work on a stream of the plugin that does it.
fn queue(
    stream: &Stream,
    touched: Touched<'_>,
    work: impl FnOnce(StreamHandle) -> Result<(), Error>,
) -> Result<(), Error> {
    let places = touched.wait(stream)?;
    stream.take_turn(work)?;
    let entered = enter(stream, &places);
    if entered.is_err() {
        // The work is there and nothing remembers it: it has to end before its memories can go.
        stream.synchronize(None)?;
    }
    entered
}

/// Makes the CPU wait for all that is on `stream`, because work is to come that cannot follow it.
pub(crate) fn settle(stream: Option<&Stream>) -> Result<(), Error> {
    stream.map_or(Ok(()), |stream| stream.record()?.synchronize(None))
}

/// Makes `stream` wait for what work of others that is to come on it depends on.
pub(crate) fn wait(stream: &Stream, touched: Touched<'_>) -> Result<(), Error> {
    touched.wait(stream).map(drop)
}

/// Remembers work of others that is on `stream`, and that its caller has put into order.
pub(crate) fn note(stream: &Stream, touched: Touched<'_>) -> Result<(), Error> {
    let place = |(memory, access)| Place {
        memory,
        access,
        earlier: Vec::new(),
    };
    enter(stream, &touched.each().map(place).collect::<Vec<_>>())
}
