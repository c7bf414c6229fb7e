//! Calls that may wait for work on their memory, and never for other work.

use std::sync::Arc;

use crossdock::Error;
use crossdock_sdk::abi::{AdoptFlags, Capabilities, Status};

use crate::allocation::Allocation;
use crate::case::{Case, Unmet, Verdict, answers, failed, same_bytes, skipped};
use crate::event::HostEvent;
use crate::host_memory::HostMemory;
use crate::names;
use crate::random::pattern;
use crate::registration::Registration;
use crate::stream::Stream;
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::core(
        "a_free_does_not_wait_for_work_on_other_memory",
        "Frees what `allocate` gave, at its base. … may: for work on this memory, never for other work.",
        frees,
    ),
    Case::core(
        "the_end_of_a_registration_does_not_wait_for_work_on_other_memory",
        "Undoes `register_host`. … may: for work on this memory, never for other work.",
        unregisters,
    ),
    Case::core(
        "the_end_of_an_adoption_does_not_wait_for_work_on_other_memory",
        "Ends an adoption; host memory then holds what the device wrote. … may: for work on this memory, \
         never for other work.",
        releases,
    ),
    Case::core(
        "the_end_of_a_mapping_does_not_wait_for_work_on_other_memory",
        "Ends a mapping; the device sees what the host wrote. … may: for work on this memory, never for \
         other work.",
        unmaps,
    ),
];

const BYTES: usize = 40_000;

/// Makes a call while a stream has work on other memory, which the host holds up.
fn beside_work(
    subject: &Subject<'_>,
    what: &str,
    call: impl FnOnce() -> Result<(), Error>,
) -> Verdict {
    let other = subject.allocate(BYTES as u64)?;
    let (mut stream, mut host_event) = held(subject)?;
    stream.upload(&other, pattern(151, BYTES))?;
    stream.download(&other)?;
    host_event.pending_during(what, call)??;
    answers("stream_query", &stream.query(), &[Status::NOT_READY])?;
    host_event.complete(Status::OK)?;
    for bytes in stream.finish()? {
        same_bytes("what came back", &bytes, &pattern(151, BYTES))?;
    }
    Ok(())
}

/// A stream that waits for the host.
fn held<'h>(subject: &Subject<'h>) -> Result<(Stream<'h>, HostEvent<'h>), Unmet> {
    let (stream, host_event) = (subject.stream()?, subject.host_event()?);
    stream.wait_host_event(&host_event)?;
    Ok((stream, host_event))
}

fn frees(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    for kind in subject.kinds() {
        let memory = subject.allocate_kind(kind, BYTES as u64)?;
        // Its own work is over.
        memory.write(0, &pattern(152, BYTES))?;
        let memory = alone(memory)?;
        beside_work(
            subject,
            &format!("free of kind {}", names::kind(kind)),
            || memory.free(),
        )?;
    }
    Ok(())
}

fn unregisters(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    subject.needs(Capabilities::REGISTER)?;
    let host = HostMemory::new(&pattern(153, BYTES));
    let registered = Registration::new(subject.hooks(), subject.device(), host)?;
    beside_work(subject, "unregister_host", || {
        registered.unregister().map(drop)
    })
}

fn releases(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    subject.needs(Capabilities::ADOPT_HOST)?;
    let host = HostMemory::new(&pattern(154, BYTES));
    let (hooks, device) = (subject.hooks(), subject.device());
    let adopted = Allocation::adopt(hooks, device, host, AdoptFlags::empty())?;
    adopted.write(0, &pattern(155, BYTES))?;
    beside_work(subject, "release_adopted", || adopted.release().map(drop))
}

fn unmaps(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    if subject.hooks().table().map().is_none() {
        return skipped("the plugin has no group `map`");
    }
    let memory = subject.allocate(BYTES as u64)?;
    memory.write(0, &pattern(156, BYTES))?;
    let view = subject.or_skip("map", memory.map())?;
    beside_work(subject, "unmap", || memory.unmap(view))
}

/// Memory that nobody else holds.
fn alone(memory: Arc<Allocation<'_>>) -> Result<Allocation<'_>, Unmet> {
    Arc::into_inner(memory).map_or_else(|| failed("the memory is still in use"), Ok)
}
