//! What queries and waits answer for work that failed.

use crossdock_sdk::abi::{Capabilities, Status};

use crate::case::{Case, Unmet, Verdict, answers, ensure, same_bytes, status_of};
use crate::lane::Lane;
use crate::point::{Gate, LIMIT_NS, Point};
use crate::random::pattern;
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
];

fn destroyed_while_pending(subject: &Subject<'_>) -> Verdict {
    subject.needs_gates()?;
    let memory = subject.allocate(4096)?;
    let mut lane = subject.lane()?;
    let point = subject.point()?;
    let gate = subject.gate()?;
    lane.wait_gate(&gate)?;
    lane.upload(&memory, pattern(63, 4096))?;
    lane.record(&point)?;
    gate.destroy()?;
    let told = point.synchronize(LIMIT_NS);
    if status_of(&told) == Status::TIMEOUT {
        // A stream that hangs is not waited for once more.
        lane.abandon();
    } else {
        stays(&point, Status::VENDOR)?;
        let at_stream = lane.synchronize(LIMIT_NS);
        answers("stream_synchronize", &at_stream, &[Status::VENDOR])?;
        lane.upload(&memory, pattern(64, 4096))?;
        tells_no_more(&lane)?;
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
    subject.needs_gates()?;
    let memory = subject.allocate(4096)?;
    let mut lane = subject.lane()?;
    let point = subject.point()?;
    let mut gate = subject.gate()?;
    lane.wait_gate(&gate)?;
    lane.upload(&memory, pattern(65, 4096))?;
    lane.record(&point)?;
    gate.complete(Status::DEVICE_LOST)?;
    let told = point.synchronize(LIMIT_NS);
    answers("event_synchronize", &told, &[Status::DEVICE_LOST])?;
    stays(&point, Status::DEVICE_LOST)?;
    let at_stream = lane.synchronize(LIMIT_NS);
    answers("stream_synchronize", &at_stream, &[Status::DEVICE_LOST])?;
    lane.upload(&memory, pattern(66, 4096))?;
    tells_no_more(&lane)?;
    same_bytes("the memory", &memory.read(0, 4096)?, &pattern(66, 4096))?;
    // The stream was told of it and went on; the events still say what became of their work.
    stays(&point, Status::DEVICE_LOST)?;
    stays(gate.point(), Status::DEVICE_LOST)?;
    // Another record is about other work.
    lane.record(&point)?;
    Ok(point.synchronize(LIMIT_NS)?)
}

fn three_statuses(subject: &Subject<'_>) -> Verdict {
    subject.needs_gates()?;
    for &(given, _) in Status::ALL.iter().filter(|(status, _)| !status.is_ok()) {
        let lane = subject.lane()?;
        let mut gate = subject.gate()?;
        lane.wait_gate(&gate)?;
        gate.complete(given)?;
        let wanted = given.as_failure_of_work();
        ended(&gate, wanted)?;
        let at_stream = status_of(&lane.synchronize(LIMIT_NS));
        ensure!(
            at_stream == wanted,
            "stream_synchronize answered {at_stream} and not {wanted} after the failure {given}"
        );
    }
    Ok(())
}

/// Demands that a stream whose wait told of a failure goes on without it.
pub(super) fn tells_no_more(lane: &Lane<'_>) -> Verdict {
    let again = lane.synchronize(LIMIT_NS);
    let what = "stream_synchronize, again, after it told of the failure,";
    answers(what, &again, &[Status::OK])?;
    let what = "stream_query, after stream_synchronize told of the failure,";
    answers(what, &lane.query(), &[Status::OK])
}

/// Demands that a completed event answers so.
fn ended(gate: &Gate<'_>, wanted: Status) -> Verdict {
    answers("event_query", &gate.point().query(), &[wanted])?;
    let told = gate.point().synchronize(LIMIT_NS);
    answers("event_synchronize", &told, &[wanted])
}

/// Demands that an event goes on telling of its failure.
fn stays(point: &Point<'_>, failure: Status) -> Verdict {
    for _ in 0..2 {
        answers("event_query, asked again", &point.query(), &[failure])?;
        let told = point.synchronize(LIMIT_NS);
        answers("event_synchronize, asked again", &told, &[failure])?;
    }
    Ok(())
}
