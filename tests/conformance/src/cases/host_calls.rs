//! Functions of the host that a stream calls.

use std::sync::mpsc;
use std::time::Duration;

use crossdock_sdk::abi::Status;
use crossdock_sdk::deadline::Deadline;

use crate::case::{Case, Unmet, Verdict, answers, ensure, failed, is_unsupported, skipped};
use crate::event::{HostEvent, LIMIT_NS};
use crate::host_call::HostCall;
use crate::random::pattern;
use crate::stream::Stream;
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::core(
        "a_host_function_runs_exactly_once",
        "`function` runs exactly once",
        once,
    ),
    Case::core(
        "a_host_function_runs_when_the_stream_reaches_it",
        "Runs `function(word)` when the stream reaches it. … Blocks: no.",
        in_order,
    ),
    Case::core(
        "a_host_function_runs_also_after_a_failure",
        "`function` runs exactly once, also behind work that failed.",
        after_failure,
    ),
    Case::core(
        "a_host_function_after_a_failure_runs_where_its_stream_is_only_asked",
        "that may be as late as in the next `stream_query` of that stream.",
        asked,
    ),
    Case::core(
        "many_host_functions_each_run_once",
        "`function` runs exactly once",
        many,
    ),
    Case::core(
        "a_host_function_runs_under_no_lock_of_a_hook",
        "who calls it holds no lock that a hook takes.",
        under_no_lock,
    ),
    Case::full(
        "a_host_function_on_a_destroyed_stream_never_runs",
        "The handle or address named something that is gone. … After any error of this call \
         `function` is never called.",
        stale,
    ),
];

pub(super) fn needs(subject: &Subject<'_>) -> Verdict {
    subject.needs_streams()?;
    match subject.hooks().table().host_calls() {
        Some(_) => Ok(()),
        None => skipped("the plugin has no group `host_calls`"),
    }
}

/// Demands that the function runs, and not twice.
fn ran_once(call: &HostCall) -> Verdict {
    ensure!(call.has_run(), "the function did not run");
    ensure!(call.count() == 1, "the function ran {} times", call.count());
    Ok(())
}

fn once(subject: &Subject<'_>) -> Verdict {
    needs(subject)?;
    let (call, stream) = (HostCall::new(), subject.stream()?);
    let answer = call.put_on(subject.hooks(), stream.handle());
    if is_unsupported(&answer) {
        stream.synchronize(LIMIT_NS)?;
        ensure!(
            call.count() == 0,
            "the function ran though the hook answered UNSUPPORTED"
        );
        return skipped("stream_host_call answers UNSUPPORTED");
    }
    answer?;
    stream.synchronize(LIMIT_NS)?;
    ran_once(&call)?;
    // A later look, also at the end of the stream, finds no second run.
    stream.synchronize(LIMIT_NS)?;
    drop(stream);
    ran_once(&call)
}

fn in_order(subject: &Subject<'_>) -> Verdict {
    needs(subject)?;
    subject.needs_host_events()?;
    let memory = subject.allocate(100_000)?;
    let (call, event) = (HostCall::new(), subject.event()?);
    let mut stream = subject.stream()?;
    let mut host_event = subject.host_event()?;
    stream.wait_host_event(&host_event)?;
    stream.upload(&memory, pattern(101, 100_000))?;
    stream.record(&event)?;
    call.put_on(subject.hooks(), stream.handle())?;
    answers("stream_query", &stream.query(), &[Status::NOT_READY])?;
    ensure!(
        call.count() == 0,
        "the function ran before the work before it"
    );
    host_event.complete(Status::OK)?;
    ran_once(&call)?;
    answers(
        "event_query of the work before the function",
        &event.query(),
        &[Status::OK],
    )?;
    Ok(stream.synchronize(LIMIT_NS)?)
}

/// A function on a stream, behind a host event that failed.
fn put_behind_a_failure<'h>(
    subject: &Subject<'h>,
) -> Result<(HostCall, Stream<'h>, HostEvent<'h>), Unmet> {
    needs(subject)?;
    subject.needs_host_events()?;
    let (call, stream) = (HostCall::new(), subject.stream()?);
    let mut host_event = subject.host_event()?;
    stream.wait_host_event(&host_event)?;
    call.put_on(subject.hooks(), stream.handle())?;
    host_event.complete(Status::VENDOR)?;
    Ok((call, stream, host_event))
}

fn after_failure(subject: &Subject<'_>) -> Verdict {
    let (call, stream, _failed) = put_behind_a_failure(subject)?;
    // What the stream says of the failure is the matter of another case.
    let _seen = stream.synchronize(LIMIT_NS);
    ran_once(&call)?;
    drop(stream);
    ran_once(&call)
}

/// Asks, as the host does while it waits for the function, and calls nothing else.
fn asked(subject: &Subject<'_>) -> Verdict {
    let (call, stream, _failed) = put_behind_a_failure(subject)?;
    let limit = Deadline::after(Some(PATIENCE));
    while call.count() == 0 && !limit.is_over() {
        let _seen = stream.query();
        std::thread::yield_now();
    }
    ensure!(
        call.count() > 0,
        "the function did not run, however often `stream_query` was called for its stream"
    );
    ran_once(&call)
}

fn many(subject: &Subject<'_>) -> Verdict {
    needs(subject)?;
    let memory = subject.allocate(4096)?;
    let calls: Vec<_> = (0..64).map(|_| HostCall::new()).collect();
    let mut stream = subject.stream()?;
    for (seed, call) in (0..).zip(&calls) {
        stream.upload(&memory, pattern(seed, 4096))?;
        call.put_on(subject.hooks(), stream.handle())?;
    }
    stream.synchronize(LIMIT_NS)?;
    calls.iter().try_for_each(ran_once)
}

/// Asks for another stream while a function runs, which may be in the call that put it on its stream, or in a
/// wait for that one.
fn under_no_lock(subject: &Subject<'_>) -> Verdict {
    needs(subject)?;
    let (hooks, stream, other) = (subject.hooks(), subject.stream()?, subject.stream()?);
    let put = HostCall::new().put_on(hooks, stream.handle());
    subject.or_skip("stream_host_call", put)?;
    stream.synchronize(LIMIT_NS)?;
    let (call, (tell, told)) = (HostCall::that_lasts(), mpsc::channel());
    let other = other.handle();
    let (ran, put, told) = std::thread::scope(|scope| {
        let putting = scope.spawn(|| {
            call.put_on(hooks, stream.handle())?;
            stream.synchronize(LIMIT_NS)
        });
        let ran = call.has_run();
        // Nobody listens any more where it comes too late.
        scope.spawn(move || drop(tell.send(hooks.stream_query(other))));
        let told = told.recv_timeout(PATIENCE);
        call.end();
        (ran, putting.join(), told)
    });
    match put {
        Ok(put) => put?,
        Err(_panic) => return failed("a thread of the suite panicked"),
    }
    ensure!(ran, "the function did not run");
    match told {
        Ok(told) => answers("stream_query of another stream", &told, &[Status::OK]),
        Err(_late) => failed(
            "`stream_query` of another stream did not return while a host function ran: who called the \
             function holds a lock that the hook takes",
        ),
    }
}

/// How long a query, or what it does, may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

fn stale(subject: &Subject<'_>) -> Verdict {
    needs(subject)?;
    let (call, hooks) = (HostCall::new(), subject.hooks());
    let handle = hooks.stream_create(subject.device())?;
    hooks.stream_destroy(handle)?;
    answers(
        "stream_host_call on a destroyed stream",
        &call.put_on(hooks, handle),
        &[Status::STALE, Status::INVALID],
    )?;
    ensure!(
        call.count() == 0,
        "the function ran though the hook refused it"
    );
    Ok(())
}
