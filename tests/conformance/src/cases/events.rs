//! Points in a stream, and events that the host completes.

use crossdock_sdk::abi::{Capabilities, Status};

use super::failures::tells_no_more;
use crate::case::{Case, Unmet, Verdict, answers, ensure, same_bytes, status_of};
use crate::event::{Event, LIMIT_NS, SHORT_NS};
use crate::random::pattern;
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::core(
        "an_event_that_was_never_recorded_is_done",
        "Creates an event; one that was never recorded is done.",
        never_recorded,
    ),
    Case::core(
        "a_recorded_event_happens",
        "Records the event at the stream's present end; replaces an earlier record for every later call.",
        recorded,
    ),
    Case::core(
        "a_host_event_is_pending_until_it_is_completed",
        "Creates an event that is pending until `event_complete`.",
        pending,
    ),
    Case::core(
        "a_host_event_completes_once",
        "`XD_INVALID` for another kind of event or a second completion.",
        completes_once,
    ),
    Case::core(
        "a_host_event_is_not_recorded",
        "`XD_INVALID` for an event that the host completes.",
        not_recorded,
    ),
    Case::core(
        "a_failure_of_the_host_reaches_those_who_wait",
        "Completes such an event, with `XD_OK` or a failure that its waiters then see",
        failure_is_seen,
    ),
    Case::core(
        "a_failure_from_before_the_wait_is_seen_once",
        "A stream answers it once: `stream_query` gives it until `stream_synchronize` has given \
         it",
        earlier_failure_is_seen,
    ),
    Case::core(
        "a_failure_travels_with_an_event_to_another_stream",
        "a failure travels from stream to stream.",
        failure_travels,
    ),
    Case::core(
        "a_wait_keeps_the_record_that_it_was_called_for",
        "replaces an earlier record for every later call. Waits that were called before keep the \
         earlier one.",
        recorded_again,
    ),
    Case::core(
        "a_pending_event_may_be_destroyed",
        "Destroys an event, also one that is pending.",
        destroyed_while_pending,
    ),
    Case::core(
        "events_say_how_far_they_are_apart",
        "Nanoseconds from one event to another, both done.",
        elapsed,
    ),
    Case::core(
        "no_time_is_told_before_both_events_happened",
        "`XD_INVALID` when one was never recorded … else `XD_NOT_READY` before both happened",
        elapsed_too_early,
    ),
    Case::core(
        "the_time_between_events_is_in_nanoseconds",
        "Nanoseconds from one event to another, both done.",
        elapsed_unit,
    ),
    Case::core(
        "no_time_is_told_backwards",
        "`end` happened before `start`",
        elapsed_backwards,
    ),
    Case::full(
        "a_destroyed_event_is_stale",
        "The handle or address named something that is gone.",
        stale,
    ),
];

fn never_recorded(subject: &Subject<'_>) -> Verdict {
    subject.needs_streams()?;
    let event = subject.event()?;
    ensure!(!event.handle().is_none(), "the new event is NONE");
    event.query()?;
    event.synchronize(LIMIT_NS)?;
    let stream = subject.stream()?;
    stream.wait(&event)?;
    Ok(stream.synchronize(LIMIT_NS)?)
}

fn recorded(subject: &Subject<'_>) -> Verdict {
    subject.needs_streams()?;
    let memory = subject.allocate(4096)?;
    let event = subject.event()?;
    let mut stream = subject.stream()?;
    for seed in 0..3 {
        stream.upload(&memory, pattern(seed, 4096))?;
        stream.record(&event)?;
        event.synchronize(LIMIT_NS)?;
        event.query()?;
    }
    Ok(())
}

fn pending(subject: &Subject<'_>) -> Verdict {
    subject.needs_streams()?;
    subject.needs(Capabilities::HOST_EVENTS)?;
    let mut host_event = subject.host_event()?;
    answers(
        "event_query",
        &host_event.event().query(),
        &[Status::NOT_READY],
    )?;
    let early = host_event.event().synchronize(SHORT_NS);
    answers("event_synchronize with a limit", &early, &[Status::TIMEOUT])?;
    answers(
        "event_synchronize with no time",
        &host_event.event().synchronize(0),
        &[Status::TIMEOUT],
    )?;
    host_event.complete(Status::OK)?;
    host_event.event().synchronize(LIMIT_NS)?;
    Ok(host_event.event().query()?)
}

fn completes_once(subject: &Subject<'_>) -> Verdict {
    subject.needs_streams()?;
    subject.needs(Capabilities::HOST_EVENTS)?;
    let mut host_event = subject.host_event()?;
    host_event.complete(Status::OK)?;
    answers(
        "the second completion",
        &host_event.complete(Status::OK),
        &[Status::INVALID],
    )?;
    let event = subject.event()?;
    let answer = subject.hooks().event_complete(event.handle(), Status::OK);
    answers(
        "completing an event of a stream",
        &answer,
        &[Status::INVALID],
    )
}

fn not_recorded(subject: &Subject<'_>) -> Verdict {
    subject.needs_streams()?;
    subject.needs(Capabilities::HOST_EVENTS)?;
    let stream = subject.stream()?;
    let host_event = subject.host_event()?;
    answers(
        "recording a host event",
        &stream.record(host_event.event()),
        &[Status::INVALID],
    )
}

fn failure_is_seen(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    let stream = subject.stream()?;
    let mut host_event = subject.host_event()?;
    stream.wait_host_event(&host_event)?;
    host_event.complete(Status::VENDOR)?;
    for (what, answer) in [
        ("event_query", host_event.event().query()),
        (
            "event_synchronize",
            host_event.event().synchronize(LIMIT_NS),
        ),
        (
            "stream_synchronize of a stream that waits",
            stream.synchronize(LIMIT_NS),
        ),
    ] {
        let status = status_of(&answer);
        let blind = [
            Status::OK,
            Status::NOT_READY,
            Status::TIMEOUT,
            Status::UNSUPPORTED,
        ];
        ensure!(
            !blind.contains(&status),
            "{what} answered {status} after a failure"
        );
    }
    // The device itself is unharmed.
    let memory = subject.allocate(64)?;
    Ok(memory.write(0, &[1; 64])?)
}

fn earlier_failure_is_seen(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    let memory = subject.allocate(64)?;
    let mut stream = subject.stream()?;
    let mut host_event = subject.host_event()?;
    host_event.complete(Status::VENDOR)?;
    stream.wait_host_event(&host_event)?;
    let told = stream.synchronize(LIMIT_NS);
    answers("stream_synchronize", &told, &[Status::VENDOR])?;
    // After that the same stream goes on.
    stream.upload(&memory, pattern(62, 64))?;
    tells_no_more(&stream)?;
    same_bytes("the memory", &memory.read(0, 64)?, &pattern(62, 64))
}

fn failure_travels(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    let (stream, other) = (subject.stream()?, subject.stream()?);
    let event = subject.event()?;
    let mut host_event = subject.host_event()?;
    stream.wait_host_event(&host_event)?;
    stream.record(&event)?;
    other.wait(&event)?;
    host_event.complete(Status::DEVICE_LOST)?;
    let at_event = event.synchronize(LIMIT_NS);
    answers("event_synchronize", &at_event, &[Status::DEVICE_LOST])?;
    let at_other = other.synchronize(LIMIT_NS);
    answers("stream_synchronize", &at_other, &[Status::DEVICE_LOST])
}

fn recorded_again(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    let (recorder, waiter) = (subject.stream()?, subject.stream()?);
    let (event, passed) = (subject.event()?, subject.event()?);
    let (mut first, mut second) = (subject.host_event()?, subject.host_event()?);
    recorder.wait_host_event(&first)?;
    recorder.record(&event)?;
    waiter.wait(&event)?;
    waiter.record(&passed)?;
    recorder.wait_host_event(&second)?;
    recorder.record(&event)?;
    answers("event_query", &passed.query(), &[Status::NOT_READY])?;
    first.complete(Status::OK)?;
    let told = passed.synchronize(LIMIT_NS);
    let later = event.query();
    second.complete(Status::OK)?;
    answers(
        "event_synchronize behind a wait for the first record",
        &told,
        &[Status::OK],
    )?;
    answers(
        "event_query before the second record happened",
        &later,
        &[Status::NOT_READY],
    )?;
    Ok(event.synchronize(LIMIT_NS)?)
}

fn destroyed_while_pending(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    let (stream, other) = (subject.stream()?, subject.stream()?);
    let mut host_event = subject.host_event()?;
    let event = subject.event()?;
    stream.wait_host_event(&host_event)?;
    stream.record(&event)?;
    other.wait(&event)?;
    answers("event_query", &event.query(), &[Status::NOT_READY])?;
    event.destroy()?;
    host_event.complete(Status::OK)?;
    stream.synchronize(LIMIT_NS)?;
    Ok(other.synchronize(LIMIT_NS)?)
}

fn elapsed(subject: &Subject<'_>) -> Verdict {
    subject.needs_streams()?;
    subject.needs(Capabilities::TIMING)?;
    let memory = subject.allocate(1 << 20)?;
    let (start, end) = (subject.event()?, subject.event()?);
    let mut stream = subject.stream()?;
    stream.record(&start)?;
    stream.upload(&memory, pattern(61, 1 << 20))?;
    stream.record(&end)?;
    stream.synchronize(LIMIT_NS)?;
    let time = start.elapsed_until(&end)?;
    // A negative time shows as a huge one.
    ensure!(
        time < LIMIT_NS,
        "{time} nanoseconds are longer than the case may take"
    );
    Ok(())
}

fn elapsed_too_early(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    subject.needs(Capabilities::TIMING)?;
    let stream = subject.stream()?;
    let mut host_event = subject.host_event()?;
    let (start, end, never) = (subject.event()?, subject.event()?, subject.event()?);
    stream.record(&start)?;
    stream.wait_host_event(&host_event)?;
    stream.record(&end)?;
    let early = start.elapsed_until(&end);
    answers(
        "event_elapsed to a pending event",
        &early,
        &[Status::NOT_READY],
    )?;
    let unrecorded = start.elapsed_until(&never);
    answers(
        "event_elapsed to an unrecorded event",
        &unrecorded,
        &[Status::INVALID],
    )?;
    host_event.complete(Status::OK)?;
    Ok(stream.synchronize(LIMIT_NS)?)
}

/// Two events on a stream that stood still for [`SHORT_NS`] at least between them.
fn apart<'h>(subject: &Subject<'h>) -> Result<(Event<'h>, Event<'h>), Unmet> {
    subject.needs_host_events()?;
    subject.needs(Capabilities::TIMING)?;
    let (start, end, stream) = (subject.event()?, subject.event()?, subject.stream()?);
    let mut host_event = subject.host_event()?;
    stream.record(&start)?;
    start.synchronize(LIMIT_NS)?;
    stream.wait_host_event(&host_event)?;
    stream.record(&end)?;
    // The stream stands still for this long at least.
    answers(
        "synchronizing behind the host",
        &stream.synchronize(SHORT_NS),
        &[Status::TIMEOUT],
    )?;
    host_event.complete(Status::OK)?;
    stream.synchronize(LIMIT_NS)?;
    Ok((start, end))
}

fn elapsed_unit(subject: &Subject<'_>) -> Verdict {
    let (start, end) = apart(subject)?;
    let time = start.elapsed_until(&end)?;
    // Two clocks: half of it tells nanoseconds from a coarser unit.
    ensure!(
        (SHORT_NS / 2..LIMIT_NS).contains(&time),
        "{time} nanoseconds passed, and not {SHORT_NS} at least"
    );
    Ok(())
}

fn elapsed_backwards(subject: &Subject<'_>) -> Verdict {
    let (start, end) = apart(subject)?;
    let backwards = end.elapsed_until(&start);
    answers(
        "event_elapsed to an earlier event",
        &backwards,
        &[Status::INVALID],
    )
}

fn stale(subject: &Subject<'_>) -> Verdict {
    subject.needs_streams()?;
    let hooks = subject.hooks();
    let handle = hooks.event_create(subject.device())?;
    hooks.event_destroy(handle)?;
    let allowed = [Status::STALE, Status::INVALID];
    answers("event_query", &hooks.event_query(handle), &allowed)?;
    answers(
        "event_synchronize",
        &hooks.event_synchronize(handle, SHORT_NS),
        &allowed,
    )?;
    answers("event_destroy", &hooks.event_destroy(handle), &allowed)?;
    let stream = subject.stream()?;
    answers(
        "stream_wait_event",
        &hooks.stream_wait_event(stream.handle(), handle),
        &allowed,
    )
}
