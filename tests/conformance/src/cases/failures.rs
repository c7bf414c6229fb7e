//! What queries and waits answer for work that failed.

use crossdock_sdk::abi::{Capabilities, Status};

use crate::case::{Case, Unmet, Verdict, answers, ensure, same_bytes, status_of};
use crate::event::{Event, HostEvent, LIMIT_NS, SHORT_NS, once_over};
use crate::random::pattern;
use crate::stream::Stream;
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::core(
        "a_host_event_destroyed_while_pending_fails_those_who_wait",
        "A host event that is pending is completed with the failure `XD_VENDOR`, which its waiters see; \
         their streams go on.",
        destroyed_while_pending,
    ),
    Case::core(
        "a_thread_that_waits_for_a_host_event_sees_its_end",
        "A host event that is pending is completed with the failure `XD_VENDOR`, which its waiters see; \
         their streams go on.",
        destroyed_while_waited_for,
    ),
    Case::core(
        "a_failure_of_work_stays_on_its_event_and_the_stream_goes_on",
        "An event answers it each time: every later call of `event_query` and `event_synchronize` gives \
         the same status.",
        sticky,
    ),
    Case::core(
        "only_three_statuses_say_that_work_failed",
        "A query or a wait answers `XD_VENDOR`, `XD_DEVICE_LOST` or `XD_OOM_DEVICE` for work that failed, never \
         another status.",
        three_statuses,
    ),
    Case::core(
        "a_failure_is_not_told_while_later_work_runs",
        "Errors: the first failure of the stream's work, once all of it is over.",
        told_when_over,
    ),
    Case::core(
        "a_wait_that_runs_out_of_time_tells_of_no_failure",
        "`XD_TIMEOUT`, which tells of no failure yet; the first failure of the stream's work, \
         once",
        kept_past_a_limit,
    ),
    Case::core(
        "work_behind_failed_work_still_runs",
        "Work that failed is over, and the work behind it on its stream still runs.",
        goes_on,
    ),
    Case::core(
        "a_failure_is_told_by_an_event_that_is_looked_at_late",
        "An event answers it each time: every later call of `event_query` and `event_synchronize` gives \
         the same status. … A wait of a stream for an event that failed is work that failed with the same \
         status",
        looked_at_late,
    ),
    Case::core(
        "an_event_that_is_recorded_behind_failed_work_has_its_failure",
        "An event that is recorded behind failed work on its stream, and before `stream_synchronize` told of \
         the failure, has that failure too.",
        recorded_behind,
    ),
    Case::core(
        "an_event_before_failed_work_has_no_failure",
        "the failure of the work before it, the same each time.",
        recorded_before,
    ),
    Case::core(
        "a_failure_is_told_by_an_event_of_a_destroyed_stream",
        "Destroys a stream; work already on it completes. … the failure of the work before it, the same \
         each time.",
        stream_is_gone,
    ),
];

fn destroyed_while_pending(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    let memory = subject.allocate(4096)?;
    let mut stream = subject.stream()?;
    let event = subject.event()?;
    let host_event = subject.host_event()?;
    stream.wait_host_event(&host_event)?;
    stream.upload(&memory, pattern(63, 4096))?;
    stream.record(&event)?;
    host_event.destroy()?;
    let told = event.synchronize(LIMIT_NS);
    if status_of(&told) == Status::TIMEOUT {
        // A stream that hangs is not waited for once more.
        stream.abandon();
    } else {
        stays(&event, Status::VENDOR)?;
        let at_stream = stream.synchronize(LIMIT_NS);
        answers("stream_synchronize", &at_stream, &[Status::VENDOR])?;
        stream.upload(&memory, pattern(64, 4096))?;
        tells_no_more(&stream)?;
        same_bytes("the memory", &memory.read(0, 4096)?, &pattern(64, 4096))?;
    }
    answers("event_synchronize", &told, &[Status::VENDOR])
}

fn destroyed_while_waited_for(subject: &Subject<'_>) -> Verdict {
    subject.needs_streams()?;
    subject.needs(Capabilities::HOST_EVENTS)?;
    let hooks = subject.hooks();
    let handle = hooks.event_create_host(subject.device())?;
    let (destroyed, told) = std::thread::scope(|scope| {
        let waits = scope.spawn(|| hooks.event_synchronize(handle, LIMIT_NS));
        // Whether the thread waits by now or comes too late: both have to end.
        let destroyed = hooks.event_destroy(handle);
        (destroyed, waits.join())
    });
    destroyed?;
    let told = told.map_err(|_panic| Unmet::Failed("the waiting thread panicked".to_owned()))?;
    let allowed = [Status::VENDOR, Status::STALE, Status::INVALID];
    answers("event_synchronize", &told, &allowed)
}

fn sticky(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    let memory = subject.allocate(4096)?;
    let mut stream = subject.stream()?;
    let event = subject.event()?;
    let mut host_event = subject.host_event()?;
    stream.wait_host_event(&host_event)?;
    stream.upload(&memory, pattern(65, 4096))?;
    stream.record(&event)?;
    host_event.complete(Status::DEVICE_LOST)?;
    let told = event.synchronize(LIMIT_NS);
    answers("event_synchronize", &told, &[Status::DEVICE_LOST])?;
    stays(&event, Status::DEVICE_LOST)?;
    let at_stream = stream.synchronize(LIMIT_NS);
    answers("stream_synchronize", &at_stream, &[Status::DEVICE_LOST])?;
    stream.upload(&memory, pattern(66, 4096))?;
    tells_no_more(&stream)?;
    same_bytes("the memory", &memory.read(0, 4096)?, &pattern(66, 4096))?;
    // The stream was told of it and went on; the events still say what became of their work.
    stays(&event, Status::DEVICE_LOST)?;
    stays(host_event.event(), Status::DEVICE_LOST)?;
    // Another record is about other work.
    stream.record(&event)?;
    Ok(event.synchronize(LIMIT_NS)?)
}

fn three_statuses(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    for &(given, _) in Status::ALL.iter().filter(|(status, _)| !status.is_ok()) {
        let stream = subject.stream()?;
        let mut host_event = subject.host_event()?;
        stream.wait_host_event(&host_event)?;
        host_event.complete(given)?;
        let wanted = given.as_failure_of_work();
        ended(&host_event, wanted)?;
        let at_stream = status_of(&stream.synchronize(LIMIT_NS));
        ensure!(
            at_stream == wanted,
            "stream_synchronize answered {at_stream} and not {wanted} after the failure {given}"
        );
    }
    Ok(())
}

fn told_when_over(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    let memory = subject.allocate(4096)?;
    let mut stream = subject.stream()?;
    let mut host_event = fail_and_hold(subject, &stream)?;
    stream.upload(&memory, pattern(67, 4096))?;
    not_over(&stream)?;
    host_event.complete(Status::OK)?;
    tells_of_failure(&stream)?;
    same_bytes("the memory", &memory.read(0, 4096)?, &pattern(67, 4096))
}

fn kept_past_a_limit(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    let stream = subject.stream()?;
    let event = subject.event()?;
    let mut first = fail_and_hold(subject, &stream)?;
    let mut second = subject.host_event()?;
    not_over(&stream)?;
    // The point that the wait did not come to is passed now, and the stream still has work.
    stream.wait_host_event(&second)?;
    first.complete(Status::OK)?;
    not_over(&stream)?;
    stream.record(&event)?;
    second.complete(Status::OK)?;
    let at_event = event.synchronize(LIMIT_NS);
    answers("event_synchronize", &at_event, &[Status::VENDOR])?;
    tells_of_failure(&stream)?;
    Ok(stream.synchronize(LIMIT_NS)?)
}

fn goes_on(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    let (early, late) = (subject.allocate(4096)?, subject.allocate(100_000)?);
    let mut stream = subject.stream()?;
    let failure = subject.event()?;
    let mut host_event = subject.host_event()?;
    stream.wait_host_event(&host_event)?;
    stream.record(&failure)?;
    stream.upload(&early, pattern(68, 4096))?;
    host_event.complete(Status::VENDOR)?;
    let told = failure.synchronize(LIMIT_NS);
    answers("event_synchronize", &told, &[Status::VENDOR])?;
    stream.upload(&late, pattern(69, 100_000))?;
    let told = stream.synchronize(LIMIT_NS);
    answers("stream_synchronize", &told, &[Status::VENDOR])?;
    let what = "what was copied by work that was there at the failure";
    same_bytes(what, &early.read(0, 4096)?, &pattern(68, 4096))?;
    let what = "what was copied by work that came after the failure";
    same_bytes(what, &late.read(0, 100_000)?, &pattern(69, 100_000))
}

fn looked_at_late(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    let memory = subject.allocate(4096)?;
    let (mut stream, waiter) = (subject.stream()?, subject.stream()?);
    let (asked, waited) = (subject.event()?, subject.event()?);
    let mut host_event = subject.host_event()?;
    stream.wait_host_event(&host_event)?;
    stream.record(&asked)?;
    stream.upload(&memory, pattern(70, 4096))?;
    stream.record(&waited)?;
    host_event.complete(Status::VENDOR)?;
    let told = stream.synchronize(LIMIT_NS);
    answers("stream_synchronize", &told, &[Status::VENDOR])?;
    // The stream has told of it, does other work, and nobody has asked the events so far.
    stream.upload(&memory, pattern(71, 4096))?;
    tells_no_more(&stream)?;
    stays(&asked, Status::VENDOR)?;
    waiter.wait(&waited)?;
    let at_waiter = waiter.synchronize(LIMIT_NS);
    let what = "stream_synchronize of a stream that waits for an event which failed before";
    answers(what, &at_waiter, &[Status::VENDOR])?;
    stays(&waited, Status::VENDOR)
}

fn recorded_behind(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    let (stream, event) = (subject.stream()?, subject.event()?);
    let mut host_event = subject.host_event()?;
    stream.wait_host_event(&host_event)?;
    host_event.complete(Status::OOM_DEVICE)?;
    let over = once_over(|| stream.query());
    answers("stream_query", &over, &[Status::OOM_DEVICE])?;
    // All is over, and the stream keeps the failure for who waits for it.
    stream.record(&event)?;
    let told = event.synchronize(LIMIT_NS);
    answers("event_synchronize", &told, &[Status::OOM_DEVICE])?;
    let told = stream.synchronize(LIMIT_NS);
    answers("stream_synchronize", &told, &[Status::OOM_DEVICE])?;
    stays(&event, Status::OOM_DEVICE)
}

fn recorded_before(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    let memory = subject.allocate(4096)?;
    let (mut stream, event) = (subject.stream()?, subject.event()?);
    let mut host_event = subject.host_event()?;
    stream.upload(&memory, pattern(72, 4096))?;
    stream.record(&event)?;
    stream.wait_host_event(&host_event)?;
    host_event.complete(Status::VENDOR)?;
    let told = stream.synchronize(LIMIT_NS);
    answers("stream_synchronize", &told, &[Status::VENDOR])?;
    answers("event_query", &event.query(), &[Status::OK])?;
    let told = event.synchronize(LIMIT_NS);
    answers("event_synchronize", &told, &[Status::OK])
}

fn stream_is_gone(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    let hooks = subject.hooks();
    let event = subject.event()?;
    let mut host_event = subject.host_event()?;
    let stream = hooks.stream_create(subject.device())?;
    let queued = hooks
        .stream_wait_event(stream, host_event.event().handle())
        .and_then(|()| hooks.event_record(event.handle(), stream));
    hooks.stream_destroy(stream)?;
    queued?;
    host_event.complete(Status::VENDOR)?;
    let told = event.synchronize(LIMIT_NS);
    answers("event_synchronize", &told, &[Status::VENDOR])?;
    stays(&event, Status::VENDOR)
}

/// Fails the first work of a stream, and holds what comes next until the host event is completed.
fn fail_and_hold<'h>(subject: &Subject<'h>, stream: &Stream<'h>) -> Result<HostEvent<'h>, Unmet> {
    let failure = subject.event()?;
    let (mut failing, holding) = (subject.host_event()?, subject.host_event()?);
    stream.wait_host_event(&failing)?;
    stream.record(&failure)?;
    stream.wait_host_event(&holding)?;
    failing.complete(Status::VENDOR)?;
    let told = failure.synchronize(LIMIT_NS);
    answers("event_synchronize", &told, &[Status::VENDOR])?;
    Ok(holding)
}

/// Demands that a stream whose work failed tells of that: a query once all is over, and the next wait.
fn tells_of_failure(stream: &Stream<'_>) -> Verdict {
    let over = once_over(|| stream.query());
    answers("stream_query", &over, &[Status::VENDOR])?;
    let told = stream.synchronize(LIMIT_NS);
    answers("stream_synchronize", &told, &[Status::VENDOR])
}

/// Demands that a stream which the host holds says so, whatever became of its earlier work.
fn not_over(stream: &Stream<'_>) -> Verdict {
    let held = "while the host holds the stream";
    let query = format!("stream_query {held}");
    answers(&query, &stream.query(), &[Status::NOT_READY])?;
    for limit in [SHORT_NS, 0] {
        let wait = format!("stream_synchronize {held}");
        answers(&wait, &stream.synchronize(limit), &[Status::TIMEOUT])?;
    }
    answers(&query, &stream.query(), &[Status::NOT_READY])
}

/// Demands that a stream whose wait told of a failure goes on without it.
pub(super) fn tells_no_more(stream: &Stream<'_>) -> Verdict {
    let again = stream.synchronize(LIMIT_NS);
    let what = "stream_synchronize, again, after it told of the failure,";
    answers(what, &again, &[Status::OK])?;
    let what = "stream_query, after stream_synchronize told of the failure,";
    answers(what, &stream.query(), &[Status::OK])
}

/// Demands that a completed event answers so.
fn ended(host_event: &HostEvent<'_>, wanted: Status) -> Verdict {
    answers("event_query", &host_event.event().query(), &[wanted])?;
    let told = host_event.event().synchronize(LIMIT_NS);
    answers("event_synchronize", &told, &[wanted])
}

/// Demands that an event goes on telling of its failure.
fn stays(event: &Event<'_>, failure: Status) -> Verdict {
    for _ in 0..2 {
        answers("event_query, asked again", &event.query(), &[failure])?;
        let told = event.synchronize(LIMIT_NS);
        answers("event_synchronize, asked again", &told, &[failure])?;
    }
    Ok(())
}
