//! The end of a plugin, on a second open of its own.

use std::sync::Arc;

use crossdock::{Error, Hooks};
use crossdock_sdk::abi::{Capabilities, Status};

use super::peer::peers;
use crate::allocation::{Allocation, Place, fill};
use crate::case::{Case, Unmet, Verdict, answers, ensure, same_bytes, skipped};
use crate::event::{Event, HostEvent, LIMIT_NS, SHORT_NS};
use crate::front::Front;
use crate::host_call::HostCall;
use crate::host_memory::HostMemory;
use crate::random::pattern;
use crate::registration::Registration;
use crate::stream::Stream;
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::full(
        "a_retired_plugin_refuses_work_and_frees_memory",
        "Refuses new work, drains or gives up after `deadline_ns`, releases vendor objects. \
         Memory stays freeable.",
        retired,
    ),
    Case::full(
        "a_retired_plugin_begins_nothing",
        "Hooks that begin something answer `XD_RETIRED` from then on: `allocate`, `allocate_async`, `copy`, \
         `copy_strided`, `fill`, `register_host`, `adopt`, `map`, `stream_create`, `stream_wrap`, \
         `event_create`, `event_create_host`, `stream_host_call` and `peer_enable`",
        began,
    ),
    Case::full(
        "a_retired_plugin_waits_for_its_work",
        "Refuses new work, drains or gives up after `deadline_ns`",
        drained,
    ),
    Case::full(
        "a_plugin_gives_up_work_that_does_not_end_before_the_deadline",
        "Refuses new work, drains or gives up after `deadline_ns` … work that ran on past the \
         deadline can still be waited for",
        gave_up,
    ),
    Case::full(
        "a_retired_plugin_still_tells_of_work_that_failed",
        "A stream answers it once: `stream_query` gives it until `stream_synchronize` has given \
         it",
        failed_before,
    ),
    Case::full(
        "a_retired_plugin_enables_no_link_and_ends_those_that_are",
        "Hooks that begin something answer `XD_RETIRED` from then on: … and `peer_enable` … Those that end, ask \
         or wait go on: … `peer_can_access`, `peer_disable`",
        linked,
    ),
    Case::full(
        "a_closed_plugin_fails_the_host_events_that_are_pending",
        "That call, and `close`, complete an event that is still pending with a failure.",
        closed,
    ),
    Case::full(
        "a_closed_plugin_has_no_work_left",
        "Host events that are pending are completed with a failure, and work that is left is waited for.",
        left,
    ),
];

fn retired(subject: &Subject<'_>) -> Verdict {
    on_another(subject, retire)
}

fn drained(subject: &Subject<'_>) -> Verdict {
    subject.needs_streams()?;
    subject.needs(Capabilities::ASYNC_COPY)?;
    on_another(subject, drain)
}

fn gave_up(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    on_another(subject, give_up)
}

fn failed_before(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    on_another(subject, fail)
}

fn linked(subject: &Subject<'_>) -> Verdict {
    let peers = peers(subject)?;
    let mut fresh = opened(subject)?;
    let verdict = unlink((subject.device(), &peers), &fresh);
    let closed = fresh.close();
    verdict?;
    Ok(closed?)
}

/// Retires with a link.
fn unlink((device, peers): (u32, &[u32]), fresh: &Hooks) -> Verdict {
    for peer in peers {
        fresh.peer_enable(device, *peer)?;
    }
    fresh.retire(LIMIT_NS)?;
    for peer in peers {
        let enabled = fresh.peer_enable(device, *peer);
        answers("peer_enable after retire", &enabled, &[Status::RETIRED])?;
        ensure!(
            fresh.peer_can_access(device, *peer)?,
            "the link to device {peer} is gone"
        );
        fresh.peer_disable(device, *peer)?;
    }
    Ok(())
}

fn began(subject: &Subject<'_>) -> Verdict {
    on_another(subject, begin)
}

/// Asks for what begins something, where the device has it.
fn begin(subject: &Subject<'_>, fresh: &Hooks) -> Verdict {
    let memory = Arc::new(Allocation::new(fresh, subject.request(BYTES as u64))?);
    let streams = fresh.table().streams();
    let stream = streams.map(|_group| Stream::create(fresh, subject.device()));
    let stream = stream.transpose()?;
    fresh.retire(LIMIT_NS)?;
    is_refused("copy", memory.write(0, &[1; 64]))?;
    if subject.can(Capabilities::FILL) {
        let mut place = Place::Memory(&memory, 0);
        is_refused("fill", fill(fresh, &mut place, 64, [1; 16], 1))?;
    }
    if fresh.table().map().is_some() {
        is_refused("map", memory.through_map(|_bytes| {}))?;
    }
    if fresh.table().register().is_some() {
        let registered = Registration::new(fresh, subject.device(), HostMemory::new(&[1; 4096]));
        is_refused("register_host", registered)?;
    }
    stream.map_or(Ok(()), |stream| begin_on(subject, (fresh, &memory), stream))
}

/// The same on a stream, and for events.
fn begin_on<'h>(
    subject: &Subject<'_>,
    (fresh, memory): (&'h Hooks, &Arc<Allocation<'h>>),
    mut stream: Stream<'h>,
) -> Verdict {
    is_refused("copy on a stream", stream.upload(memory, pattern(94, 64)))?;
    if subject.can(Capabilities::FILL) {
        is_refused("fill on a stream", stream.fill(memory, 1))?;
    }
    if subject.can(Capabilities::STRIDED_COPY) {
        let source = Arc::clone(memory);
        is_refused("copy_strided on a stream", stream.pack(memory, &source))?;
    }
    if fresh.table().async_memory().is_some() {
        let memory = stream.allocate(subject.device(), 4096);
        is_refused("allocate_async", memory)?;
    }
    is_refused("event_create", Event::create(fresh, subject.device()))?;
    if subject.can(Capabilities::HOST_EVENTS) {
        let event = HostEvent::create(fresh, subject.device());
        is_refused("event_create_host", event)?;
    }
    if fresh.table().host_calls().is_some() {
        let call = HostCall::new();
        is_refused("stream_host_call", call.put_on(fresh, stream.handle()))?;
        ensure!(call.count() == 0, "a function ran that was refused");
    }
    Ok(())
}

/// What the device does not do at all begins nothing either.
fn is_refused<T>(hook: &str, answer: Result<T, Error>) -> Verdict {
    let allowed = [Status::RETIRED, Status::UNSUPPORTED];
    answers(&format!("{hook} after retire"), &answer, &allowed)
}

/// Runs a check on another open plugin of the same table, and closes it.
fn on_another(subject: &Subject<'_>, check: fn(&Subject<'_>, &Hooks) -> Verdict) -> Verdict {
    let mut fresh = opened(subject)?;
    let verdict = check(subject, &fresh);
    let closed = fresh.close();
    verdict?;
    Ok(closed?)
}

/// Retires with work on a stream, which is over then.
fn drain(subject: &Subject<'_>, fresh: &Hooks) -> Verdict {
    let front = Front::on(subject, fresh)?;
    let memory = Arc::new(Allocation::new(fresh, subject.request(BYTES as u64))?);
    let mut stream = Stream::create(fresh, subject.device())?;
    for seed in 0..8 {
        stream.upload(&memory, pattern(seed, BYTES))?;
    }
    front.put_on(&mut stream, 93)?;
    stream.download(&memory)?;
    fresh.retire(LIMIT_NS)?;
    answers("stream_query after retire", &stream.query(), &[Status::OK])?;
    for bytes in stream.finish()? {
        same_bytes("the memory", &bytes, &pattern(7, BYTES))?;
    }
    Ok(())
}

/// Retires with work that waits for the host, and then lets it go on.
fn give_up(subject: &Subject<'_>, fresh: &Hooks) -> Verdict {
    let memory = Arc::new(Allocation::new(fresh, subject.request(BYTES as u64))?);
    let mut stream = Stream::create(fresh, subject.device())?;
    let mut host_event = HostEvent::create(fresh, subject.device())?;
    stream.wait_host_event(&host_event)?;
    stream.upload(&memory, pattern(92, BYTES))?;
    stream.download(&memory)?;
    let retired = fresh.retire(SHORT_NS);
    let what = "retire while the host holds a stream";
    answers(what, &retired, &[Status::TIMEOUT])?;
    answers("stream_query", &stream.query(), &[Status::NOT_READY])?;
    host_event.complete(Status::OK)?;
    for bytes in stream.finish()? {
        same_bytes("the memory", &bytes, &pattern(92, BYTES))?;
    }
    Ok(())
}

/// Retires with a stream whose work failed and that was not told yet.
fn fail(subject: &Subject<'_>, fresh: &Hooks) -> Verdict {
    let stream = Stream::create(fresh, subject.device())?;
    let mut host_event = HostEvent::create(fresh, subject.device())?;
    stream.wait_host_event(&host_event)?;
    host_event.complete(Status::VENDOR)?;
    fresh.retire(LIMIT_NS)?;
    answers("stream_query", &stream.query(), &[Status::VENDOR])?;
    let told = stream.synchronize(LIMIT_NS);
    answers("stream_synchronize", &told, &[Status::VENDOR])
}

const BYTES: usize = 100_000;

fn closed(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
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

fn left(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    if subject.hooks().table().host_calls().is_none() {
        return skipped("the plugin has no group `host_calls`");
    }
    let (mut fresh, call) = (opened(subject)?, HostCall::that_takes_long());
    let verdict = block(subject, &fresh, &call).and_then(|()| block(subject, &fresh, &call));
    let closed = fresh.close();
    let count = call.count();
    verdict?;
    closed?;
    ensure!(
        count == 2,
        "{count} of 2 functions had run when `close` returned"
    );
    Ok(())
}

/// Another open plugin of the same table.
pub(super) fn opened(subject: &Subject<'_>) -> Result<Hooks, Unmet> {
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
