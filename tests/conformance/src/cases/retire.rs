//! The end of a plugin, on a second open of its own.

use crossdock::Hooks;
use crossdock_sdk::abi::Status;

use crate::allocation::Allocation;
use crate::case::{Case, Unmet, Verdict, answers, ensure, skipped};
use crate::host_call::HostCall;
use crate::point::LIMIT_NS;
use crate::random::pattern;
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::full(
        "a_retired_plugin_refuses_work_and_frees_memory",
        "Refuses new work, drains or gives up after `deadline_ns`. Memory stays freeable.",
        retired,
    ),
    Case::full(
        "a_closed_plugin_fails_the_host_events_that_are_pending",
        "That call, and `close`, complete an event that is still pending with a failure.",
        closed,
    ),
];

fn retired(subject: &Subject<'_>) -> Verdict {
    let mut fresh = opened(subject)?;
    let verdict = retire(subject, &fresh);
    let closed = fresh.close();
    verdict?;
    Ok(closed?)
}

fn closed(subject: &Subject<'_>) -> Verdict {
    subject.needs_gates()?;
    if subject.hooks().table().host_calls().is_none() {
        return skipped("the plugin has no group `host_calls`");
    }
    let (mut fresh, call) = (opened(subject)?, HostCall::new());
    let verdict = block(subject, &fresh, &call);
    let closed = fresh.close();
    verdict?;
    closed?;
    ensure!(call.has_run(), "a stream still waits for the host");
    ensure!(call.count() == 1, "the function ran {} times", call.count());
    Ok(())
}

/// Leaves a stream behind whose work waits for the host.
fn block(subject: &Subject<'_>, fresh: &Hooks, call: &HostCall) -> Verdict {
    let stream = fresh.stream_create(subject.device())?;
    let event = fresh.event_create_host(subject.device())?;
    fresh.stream_wait_event(stream, event)?;
    let queued = call.put_on(fresh, stream);
    subject.or_skip("stream_host_call", queued)
}

/// Another open plugin of the same table.
fn opened(subject: &Subject<'_>) -> Result<Hooks, Unmet> {
    let hooks = subject.hooks();
    let mut fresh = Hooks::new(hooks.name().to_owned(), *hooks.table());
    match fresh.open() {
        Ok(()) => Ok(fresh),
        Err(error) => skipped(format!("the plugin does not open twice: {}", error.why())),
    }
}

fn retire(subject: &Subject<'_>, fresh: &Hooks) -> Verdict {
    let memory = Allocation::new(fresh, subject.request(4096))?;
    memory.write(0, &pattern(91, 4096))?;
    fresh.retire(LIMIT_NS)?;
    let refused = fresh.allocate(subject.request(4096));
    answers("allocate after retire", &refused, &[Status::RETIRED])?;
    if fresh.table().streams().is_some() {
        let stream = fresh.stream_create(subject.device());
        answers("stream_create after retire", &stream, &[Status::RETIRED])?;
    }
    memory.free()?;
    // The plugin that is looked at is another open one, and goes on.
    let other = subject.allocate(64)?;
    Ok(other.write(0, &[1; 64])?)
}
