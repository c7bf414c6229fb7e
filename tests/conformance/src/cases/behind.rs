//! Work behind long copies: what a plugin tells of it, and that none of it comes first. No host event is
//! needed, and nothing is judged by time: what the plugin says is over has to be there, and a plugin that does
//! all work at once passes as well.

use std::sync::Arc;

use crossdock::Error;
use crossdock_sdk::abi::{Capabilities, Status};

use super::host_calls;
use crate::allocation::Allocation;
use crate::case::{Case, Verdict, answers, same_bytes, skipped, status_of};
use crate::event::{Event, LIMIT_NS, once_over};
use crate::front::Front;
use crate::host_call::HostCall;
use crate::random::pattern;
use crate::stream::Stream;
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::core(
        "a_stream_that_says_it_is_done_has_done_its_work",
        "Says whether the stream's work is done: `XD_OK` or `XD_NOT_READY`.",
        |subject| tells(subject, "stream_query", |stream, _| stream.query()),
    ),
    Case::core(
        "a_wait_for_a_stream_without_time_is_over_with_its_work",
        "Makes the calling thread wait until the stream's work is done. … with 0 it does not wait, and \
         still answers for work that is over.",
        |subject| {
            let what = "stream_synchronize with no time";
            tells(subject, what, |stream, _| stream.synchronize(0))
        },
    ),
    Case::core(
        "an_event_that_happened_has_its_work_behind_it",
        "Says whether the event happened: `XD_OK` or `XD_NOT_READY`.",
        |subject| tells(subject, "event_query", |_, event| event.query()),
    ),
    Case::core(
        "a_wait_for_an_event_without_time_is_over_with_its_work",
        "Makes the calling thread wait for the event. … with 0 it does not wait, and still answers for an \
         event that happened.",
        |subject| {
            let what = "event_synchronize with no time";
            tells(subject, what, |_, event| event.synchronize(0))
        },
    ),
    Case::core(
        "a_wait_for_an_event_is_over_with_its_work",
        "Makes the calling thread wait for the event.",
        |subject| {
            let what = "event_synchronize";
            tells(subject, what, |_, event| event.synchronize(LIMIT_NS))
        },
    ),
    Case::core(
        "a_copy_behind_long_copies_comes_after_them",
        "Copies bytes between host and device or between devices of this plugin, in stream order, or at \
         once without a stream.",
        copies,
    ),
    Case::core(
        "a_fill_behind_long_copies_comes_after_them",
        "Repeats a pattern over a range in stream order, or at once without a stream.",
        fills,
    ),
    Case::core(
        "a_strided_copy_behind_long_copies_comes_after_them",
        "Copies an n-dimensional region in stream order, or at once without a stream.",
        copies_rows,
    ),
    Case::core(
        "a_host_function_behind_long_copies_comes_after_them",
        "Runs `function(word)` when the stream reaches it.",
        calls,
    ),
    Case::core(
        "a_stream_waits_for_the_long_copies_before_an_event",
        "Makes the stream wait for an event of the same plugin, as it is at this call: for its last record",
        |subject| waits(subject, false),
    ),
    Case::core(
        "a_stream_still_waits_for_an_event_that_was_destroyed",
        "borrows both; the event may be destroyed at once.",
        |subject| waits(subject, true),
    ),
    Case::core(
        "a_long_copy_on_a_stream_returns_before_it_is_done",
        "Copies on a stream return before they are done.",
        returns,
    ),
];

const BYTES: usize = 4096;
/// A plugin that says too early that work is over says so by chance too late.
const ROUNDS: u64 = 3;

/// Asks until the work is said to be over, and looks whether it is.
fn tells(
    subject: &Subject<'_>,
    what: &str,
    ask: impl Fn(&Stream<'_>, &Event<'_>) -> Result<(), Error>,
) -> Verdict {
    subject.needs_streams()?;
    let (front, memory) = (Front::of(subject)?, subject.allocate(BYTES as u64)?);
    let event = subject.event()?;
    for seed in 0..ROUNDS {
        let wanted = pattern(160 + seed, BYTES);
        let mut stream = subject.stream()?;
        // An event that happened before, and is recorded once more.
        stream.record(&event)?;
        front.put_on(&mut stream, 170)?;
        stream.upload(&memory, wanted.clone())?;
        stream.download(&memory)?;
        stream.record(&event)?;
        let told = once_over(|| ask(&stream, &event));
        // That it is over by then is promised for a wait alone.
        let pending = [Status::OK, Status::NOT_READY, Status::TIMEOUT];
        answers(what, &told, &pending)?;
        if told.is_ok() {
            let seen = format!("what had come when {what} said that the work is over");
            for bytes in stream.brought() {
                same_bytes(&seen, bytes, &wanted)?;
            }
        }
        for bytes in stream.finish()? {
            same_bytes("what came", &bytes, &wanted)?;
        }
    }
    Ok(())
}

fn copies(subject: &Subject<'_>) -> Verdict {
    subject.needs_streams()?;
    let (front, memory) = (Front::of(subject)?, subject.allocate(BYTES as u64)?);
    let last = front.last();
    last.write(last.size() - BYTES as u64, &[173; BYTES])?;
    let mut stream = subject.stream()?;
    front.put_on(&mut stream, 172)?;
    stream.transfer_end(&memory, last)?;
    stream.synchronize(LIMIT_NS)?;
    same_bytes("the memory", &memory.read(0, BYTES)?, &[172; BYTES])
}

fn fills(subject: &Subject<'_>) -> Verdict {
    subject.needs(Capabilities::FILL)?;
    is_last(subject, &[175; BYTES], |stream, memory| {
        stream.fill(memory, 175)
    })
}

fn copies_rows(subject: &Subject<'_>) -> Verdict {
    subject.needs(Capabilities::STRIDED_COPY)?;
    let (source, wanted) = subject.pitched(176)?;
    is_last(subject, &wanted, |stream, memory| {
        stream.pack(memory, &source)
    })
}

fn calls(subject: &Subject<'_>) -> Verdict {
    host_calls::needs(subject)?;
    let (front, memory) = (Front::of(subject)?, subject.allocate(BYTES as u64)?);
    let wanted = pattern(179, BYTES);
    let (call, mut stream) = (HostCall::new(), subject.stream()?);
    front.put_on(&mut stream, 170)?;
    stream.upload(&memory, wanted.clone())?;
    stream.download(&memory)?;
    let queued = call.put_on(subject.hooks(), stream.handle());
    subject.or_skip("stream_host_call", queued)?;
    let has_run = || call.count() > 0;
    let told = once_over(|| if has_run() { Ok(()) } else { stream.query() });
    answers("stream_query", &told, &[Status::OK, Status::NOT_READY])?;
    // A stream may be over a moment before the function is, and that it runs is the matter of another case.
    for bytes in stream.brought().iter().filter(|_| has_run()) {
        same_bytes("what had come when the function ran", bytes, &wanted)?;
    }
    Ok(stream.synchronize(LIMIT_NS)?)
}

/// Puts work on a stream behind a copy to the same memory, which is behind long ones: of what begins too
/// early that copy leaves nothing.
fn is_last<'h>(
    subject: &Subject<'h>,
    wanted: &[u8],
    work: impl FnOnce(&mut Stream<'h>, &Arc<Allocation<'h>>) -> Result<(), Error>,
) -> Verdict {
    subject.needs_streams()?;
    let (front, memory) = (Front::of(subject)?, subject.allocate(wanted.len() as u64)?);
    let mut stream = subject.stream()?;
    front.put_on(&mut stream, 170)?;
    stream.upload(&memory, pattern(171, wanted.len()))?;
    let submitted = work(&mut stream, &memory);
    stream.synchronize(LIMIT_NS)?;
    subject.or_skip("the work", submitted)?;
    same_bytes("the memory", &memory.read(0, wanted.len())?, wanted)
}

fn waits(subject: &Subject<'_>, is_destroyed: bool) -> Verdict {
    subject.needs_streams()?;
    let (front, memory) = (Front::of(subject)?, subject.allocate(BYTES as u64)?);
    memory.write(0, &pattern(177, BYTES))?;
    let event = subject.event()?;
    let (mut writer, mut reader) = (subject.stream()?, subject.stream()?);
    front.put_on(&mut writer, 170)?;
    writer.upload(&memory, pattern(178, BYTES))?;
    writer.record(&event)?;
    let chained = reader.wait(&event);
    if status_of(&chained) == Status::UNSUPPORTED {
        return skipped("stream_wait_event answers UNSUPPORTED");
    }
    chained?;
    if is_destroyed {
        event.destroy()?;
    }
    reader.download(&memory)?;
    for bytes in reader.finish()? {
        same_bytes("what the second stream read", &bytes, &pattern(178, BYTES))?;
    }
    Ok(writer.synchronize(LIMIT_NS)?)
}

/// One copy that is not done yet shows that its call did not wait. A device that is done at once shows
/// nothing, and neither does a call that waits.
fn returns(subject: &Subject<'_>) -> Verdict {
    subject.needs_streams()?;
    subject.needs(Capabilities::ASYNC_COPY)?;
    let front = Front::of(subject)?;
    for _ in 0..8 {
        let mut stream = subject.stream()?;
        front.put_on(&mut stream, 170)?;
        let told = stream.query();
        let allowed = [Status::OK, Status::NOT_READY];
        answers("stream_query", &told, &allowed)?;
        stream.synchronize(LIMIT_NS)?;
        if told.is_err() {
            return Ok(());
        }
    }
    skipped(
        "every long copy was done when its call returned: the device is done at once, or its copies wait, \
         against ASYNC_COPY; with `host_events` the suite tells which",
    )
}
