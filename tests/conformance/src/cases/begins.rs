//! Work on a stream begins when the stream gets there, and not at the call.

use std::sync::Arc;

use crossdock::Error;
use crossdock_sdk::abi::{Capabilities, Status};

use crate::allocation::Allocation;
use crate::case::{Case, Verdict, ensure, same_bytes};
use crate::event::LIMIT_NS;
use crate::random::pattern;
use crate::stream::Stream;
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::core(
        "a_copy_begins_when_its_stream_gets_there",
        "Copies bytes between host and device or between devices of this plugin, in stream order, or at \
         once without a stream.",
        copies,
    ),
    Case::core(
        "a_fill_begins_when_its_stream_gets_there",
        "Repeats a pattern over a range in stream order, or at once without a stream.",
        fills,
    ),
    Case::core(
        "a_strided_copy_begins_when_its_stream_gets_there",
        "Copies an n-dimensional region in stream order, or at once without a stream.",
        copies_rows,
    ),
];

fn copies(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    let memory = subject.allocate(BYTES as u64)?;
    memory.write(0, &pattern(91, BYTES))?;
    let mut stream = subject.stream()?;
    let mut host_event = subject.host_event()?;
    stream.wait_host_event(&host_event)?;
    stream.download(&memory)?;
    // Where the bytes arrive the host sees them without the device, which may have no room beside the
    // stream that waits.
    let is_early = stream.has_arrived();
    host_event.complete(Status::OK)?;
    for bytes in stream.finish()? {
        same_bytes("the bytes", &bytes, &pattern(91, BYTES))?;
    }
    ensure!(
        !is_early,
        "bytes arrived while the stream waited for the host"
    );
    Ok(())
}

fn fills(subject: &Subject<'_>) -> Verdict {
    subject.needs(Capabilities::FILL)?;
    is_last(subject, &[92; BYTES], |stream, memory| {
        stream.fill(memory, 92)
    })
}

fn copies_rows(subject: &Subject<'_>) -> Verdict {
    subject.needs(Capabilities::STRIDED_COPY)?;
    let (source, wanted) = subject.pitched(93)?;
    is_last(subject, &wanted, |stream, memory| {
        stream.pack(memory, &source)
    })
}

/// Puts work on a stream behind a copy to the same memory that the host holds up: of what begins too
/// early that copy leaves nothing.
fn is_last<'h>(
    subject: &Subject<'h>,
    wanted: &[u8],
    work: impl FnOnce(&mut Stream<'h>, &Arc<Allocation<'h>>) -> Result<(), Error>,
) -> Verdict {
    subject.needs_host_events()?;
    let memory = subject.allocate(wanted.len() as u64)?;
    let mut stream = subject.stream()?;
    let mut host_event = subject.host_event()?;
    stream.wait_host_event(&host_event)?;
    stream.upload(&memory, pattern(90, wanted.len()))?;
    let submitted = work(&mut stream, &memory);
    host_event.complete(Status::OK)?;
    stream.synchronize(LIMIT_NS)?;
    subject.or_skip("the work", submitted)?;
    same_bytes("the memory", &memory.read(0, wanted.len())?, wanted)
}

const BYTES: usize = 4096;
