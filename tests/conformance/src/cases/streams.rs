//! Work in order on a stream, and between two.

use crossdock_sdk::abi::{Status, StreamHandle};

use crate::case::{Case, Verdict, answers, same_bytes, status_of};
use crate::event::{LIMIT_NS, SHORT_NS};
use crate::front::Front;
use crate::random::pattern;
use crate::stream::Stream;
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::core(
        "a_fresh_stream_has_no_work",
        "Says whether the stream's work is done: `XD_OK` or `XD_NOT_READY`.",
        fresh,
    ),
    Case::core(
        "copies_on_a_stream_run_in_order",
        "Copies bytes between host and device or between devices of this plugin, in stream order, \
         or at once without a stream.",
        in_order,
    ),
    Case::core(
        "an_event_orders_two_streams",
        "Makes the stream wait for an event of the same plugin",
        across_streams,
    ),
    Case::core(
        "a_stream_behind_the_host_does_nothing_yet",
        "Creates an event that is pending until `event_complete`. … Makes the stream wait for an \
         event of the same plugin, as it is at this call: for its last record, or for the host.",
        waits_for_host,
    ),
    Case::core(
        "a_copy_behind_the_host_does_not_wait_for_it",
        "On a stream it does not wait, for pageable host memory neither",
        never_waits,
    ),
    Case::core(
        "a_wait_without_time_answers_for_work_that_is_over",
        "with 0 it does not wait, and still answers for work that is over.",
        no_time,
    ),
    Case::core(
        "a_wait_for_a_stream_does_not_wait_for_what_another_one_does_later",
        "Makes the calling thread wait until the stream's work is done.",
        waits_for_its_own,
    ),
    Case::core(
        "work_on_a_destroyed_stream_completes",
        "Destroys a stream; work already on it completes.",
        destroyed_with_work,
    ),
    Case::core(
        "the_default_stream_works_or_is_unsupported",
        "`XD_UNSUPPORTED` when the device has no such default.",
        default_stream,
    ),
    Case::core(
        "streams_are_created_and_destroyed_many_times",
        "the caller owns the stream until `stream_destroy`.",
        many,
    ),
    Case::core(
        "a_stream_on_a_device_that_is_not_there_is_refused",
        "Creates a stream on a device.",
        no_device,
    ),
    Case::core(
        "live_streams_with_one_number_are_one_stream",
        "Live streams of a device with equal integers are one stream",
        one_number,
    ),
    Case::full(
        "a_destroyed_stream_is_stale",
        "The handle or address named something that is gone.",
        stale,
    ),
];

const BYTES: usize = 100_000;
/// More than a driver takes along with a command.
const LARGE: usize = 4 << 20;
/// How long work takes at most that waits for nothing; what takes longer counts as work that waits.
const A_WHILE_NS: u64 = 300_000_000;

fn fresh(subject: &Subject<'_>) -> Verdict {
    subject.needs_streams()?;
    let stream = subject.stream()?;
    crate::case::ensure!(!stream.handle().is_none(), "the new stream is NONE");
    stream.query()?;
    Ok(stream.synchronize(LIMIT_NS)?)
}

fn in_order(subject: &Subject<'_>) -> Verdict {
    subject.needs_streams()?;
    let (first, second) = (
        subject.allocate(BYTES as u64)?,
        subject.allocate(BYTES as u64)?,
    );
    let mut stream = subject.stream()?;
    for seed in 0..8 {
        stream.upload(&first, pattern(seed, BYTES))?;
        stream.transfer(&second, &first)?;
        stream.download(&second)?;
    }
    for (seed, bytes) in (0..).zip(stream.finish()?) {
        same_bytes(&format!("round {seed}"), &bytes, &pattern(seed, BYTES))?;
    }
    Ok(())
}

fn across_streams(subject: &Subject<'_>) -> Verdict {
    subject.needs_streams()?;
    let memory = subject.allocate(BYTES as u64)?;
    memory.write(0, &pattern(51, BYTES))?;
    let event = subject.event()?;
    let (mut writer, mut reader) = (subject.stream()?, subject.stream()?);
    let host_event = if subject.needs_host_events().is_ok() {
        Some(subject.host_event()?)
    } else {
        None
    };
    if let Some(host_event) = &host_event {
        writer.wait_host_event(host_event)?;
    }
    writer.upload(&memory, pattern(52, BYTES))?;
    writer.record(&event)?;
    reader.wait(&event)?;
    reader.download(&memory)?;
    if let Some(mut host_event) = host_event {
        answers("the waiting stream", &reader.query(), &[Status::NOT_READY])?;
        let early = reader.synchronize(SHORT_NS);
        answers("synchronizing it with a limit", &early, &[Status::TIMEOUT])?;
        host_event.complete(Status::OK)?;
    }
    for bytes in reader.finish()? {
        same_bytes("what the second stream read", &bytes, &pattern(52, BYTES))?;
    }
    Ok(writer.synchronize(LIMIT_NS)?)
}

fn waits_for_host(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    let memory = subject.allocate(BYTES as u64)?;
    let mut stream = subject.stream()?;
    let mut host_event = subject.host_event()?;
    stream.wait_host_event(&host_event)?;
    stream.upload(&memory, pattern(53, BYTES))?;
    answers("stream_query", &stream.query(), &[Status::NOT_READY])?;
    answers(
        "stream_synchronize with a limit",
        &stream.synchronize(SHORT_NS),
        &[Status::TIMEOUT],
    )?;
    host_event.complete(Status::OK)?;
    stream.synchronize(LIMIT_NS)?;
    stream.query()?;
    same_bytes("the memory", &memory.read(0, BYTES)?, &pattern(53, BYTES))
}

fn never_waits(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    let memory = subject.allocate(LARGE as u64)?;
    let mut stream = subject.stream()?;
    let mut host_event = subject.host_event()?;
    stream.wait_host_event(&host_event)?;
    let bytes = pattern(56, LARGE);
    let copied = host_event.pending_during("a copy on a stream", || {
        stream
            .upload(&memory, bytes)
            .and_then(|()| stream.download(&memory))
    })?;
    copied?;
    host_event.complete(Status::OK)?;
    for bytes in stream.finish()? {
        same_bytes("the bytes", &bytes, &pattern(56, LARGE))?;
    }
    Ok(())
}

fn no_time(subject: &Subject<'_>) -> Verdict {
    subject.needs_streams()?;
    let memory = subject.allocate(BYTES as u64)?;
    let event = subject.event()?;
    let mut stream = subject.stream()?;
    let fresh = stream.synchronize(0);
    answers("stream_synchronize with no work", &fresh, &[Status::OK])?;
    for seed in 0..4 {
        stream.upload(&memory, pattern(seed, BYTES))?;
        stream.record(&event)?;
        stream.synchronize(LIMIT_NS)?;
        let over = stream.synchronize(0);
        answers("stream_synchronize once more", &over, &[Status::OK])?;
        let happened = event.synchronize(0);
        answers("event_synchronize after that", &happened, &[Status::OK])?;
    }
    Ok(())
}

/// Also where all streams share one hardware queue: what the wait is for stands before the other stream's wait there.
fn waits_for_its_own(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    let memory = subject.allocate(BYTES as u64)?;
    let (mut stream, later) = (subject.stream()?, subject.stream()?);
    let mut host_event = subject.host_event()?;
    stream.upload(&memory, pattern(59, BYTES))?;
    stream.download(&memory)?;
    later.wait_host_event(&host_event)?;
    let wait = || stream.synchronize(LIMIT_NS);
    host_event.pending_during("stream_synchronize", wait)??;
    answers("stream_query", &later.query(), &[Status::NOT_READY])?;
    host_event.complete(Status::OK)?;
    later.synchronize(LIMIT_NS)?;
    for bytes in stream.finish()? {
        same_bytes("what came", &bytes, &pattern(59, BYTES))?;
    }
    Ok(())
}

fn destroyed_with_work(subject: &Subject<'_>) -> Verdict {
    subject.needs_streams()?;
    let (front, memory) = (Front::of(subject)?, subject.allocate(BYTES as u64)?);
    let event = subject.event()?;
    let mut stream = subject.stream()?;
    // Where nothing holds the work up, it is long enough not to be over before the stream is destroyed.
    let host_event = subject
        .needs_host_events()
        .is_ok()
        .then(|| subject.host_event());
    let host_event = host_event.transpose()?;
    if let Some(host_event) = &host_event {
        stream.wait_host_event(host_event)?;
    }
    let bytes = pattern(54, BYTES);
    front.put_on(&mut stream, 50)?;
    stream.upload(&memory, bytes)?;
    stream.record(&event)?;
    stream.destroy_before(&event, host_event)?;
    same_bytes("the memory", &memory.read(0, BYTES)?, &pattern(54, BYTES))
}

fn default_stream(subject: &Subject<'_>) -> Verdict {
    subject.needs_streams()?;
    let answer = Stream::default_of(subject.hooks(), subject.device());
    let mut stream = subject.or_skip("stream_default", answer)?;
    let again = subject.or_skip(
        "stream_default",
        Stream::default_of(subject.hooks(), subject.device()),
    )?;
    crate::case::ensure!(
        stream.handle() == again.handle(),
        "the default stream changed"
    );
    let memory = subject.allocate(BYTES as u64)?;
    stream.upload(&memory, pattern(55, BYTES))?;
    stream.download(&memory)?;
    for bytes in stream.finish()? {
        same_bytes("the bytes", &bytes, &pattern(55, BYTES))?;
    }
    Ok(())
}

fn many(subject: &Subject<'_>) -> Verdict {
    subject.needs_streams()?;
    let memory = subject.allocate(64)?;
    for seed in 0..32 {
        let mut stream = subject.stream()?;
        stream.upload(&memory, pattern(seed, 64))?;
        stream.download(&memory)?;
        for bytes in stream.finish()? {
            same_bytes(&format!("stream {seed}"), &bytes, &pattern(seed, 64))?;
        }
    }
    Ok(())
}

fn no_device(subject: &Subject<'_>) -> Verdict {
    subject.needs_streams()?;
    let device = subject.hooks().device_count()?;
    let answer = Stream::create(subject.hooks(), device);
    answers(
        &format!("stream_create on device {device}"),
        &answer,
        &[Status::INVALID],
    )?;
    let answer = subject.hooks().event_create(device);
    answers(
        &format!("event_create on device {device}"),
        &answer,
        &[Status::INVALID],
    )
}

/// Two streams may be one of the vendor's. Work on the second then comes behind that of the first, or the
/// number is made up.
fn one_number(subject: &Subject<'_>) -> Verdict {
    subject.needs_streams()?;
    let (mut first, mut second) = (subject.stream()?, subject.stream()?);
    let number = subject.or_skip("stream_native", first.native())?;
    if second.native()? != number {
        return Ok(());
    }
    let (front, memory) = (Front::of(subject)?, subject.allocate(BYTES as u64)?);
    let event = subject.event()?;
    let is_held = subject.needs_host_events().is_ok();
    let host_event = is_held.then(|| subject.host_event()).transpose()?;
    if let Some(host_event) = &host_event {
        first.wait_host_event(host_event)?;
    }
    front.put_on(&mut first, 57)?;
    first.record(&event)?;
    second.upload(&memory, pattern(57, BYTES))?;
    let limit = if is_held { A_WHILE_NS } else { LIMIT_NS };
    let over = second.synchronize(limit);
    // A query may be late to tell; a wait, also one without time, is not.
    let before = status_of(&event.synchronize(0));
    // It lets the first stream go on.
    drop(host_event);
    first.synchronize(LIMIT_NS)?;
    second.synchronize(LIMIT_NS)?;
    crate::case::ensure!(
        over.is_err() || before != Status::TIMEOUT,
        "two live streams have the number {number}, and work on one was over while work that was put on \
         the other before still ran"
    );
    Ok(())
}

fn stale(subject: &Subject<'_>) -> Verdict {
    subject.needs_streams()?;
    let hooks = subject.hooks();
    let handle = hooks.stream_create(subject.device())?;
    hooks.stream_destroy(handle)?;
    let allowed = [Status::STALE, Status::INVALID];
    answers("stream_query", &hooks.stream_query(handle), &allowed)?;
    answers(
        "stream_synchronize",
        &hooks.stream_synchronize(handle, SHORT_NS),
        &allowed,
    )?;
    answers("stream_destroy", &hooks.stream_destroy(handle), &allowed)?;
    answers(
        "stream_query of NONE",
        &hooks.stream_query(StreamHandle::NONE),
        &allowed,
    )?;
    let other = subject.stream()?;
    crate::case::ensure!(
        other.handle() != handle,
        "a new stream has the word of a destroyed one"
    );
    Ok(())
}
