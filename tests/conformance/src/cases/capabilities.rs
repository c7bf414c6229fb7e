//! A capability that is off answers `UNSUPPORTED`, and nothing was changed.

use crossdock::Error;
use crossdock_sdk::abi::{AdoptFlags, Capabilities, MemoryKind, Status, StreamHandle};

use crate::allocation::{Allocation, Place, copy_strided, fill};
use crate::case::{Case, Verdict, answers, same_bytes, skipped};
use crate::host_call::HostCall;
use crate::host_memory::HostMemory;
use crate::layout::Region;
use crate::names;
use crate::random::pattern;
use crate::registration::Registration;
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::core(
        "pinned_memory_that_is_off_is_unsupported",
        KINDS,
        |subject| kind_is_off(subject, MemoryKind::PINNED, Capabilities::PINNED),
    ),
    Case::core(
        "managed_memory_that_is_off_is_unsupported",
        KINDS,
        |subject| kind_is_off(subject, MemoryKind::MANAGED, Capabilities::MANAGED),
    ),
    Case::core("an_unknown_memory_kind_is_refused", KINDS, unknown_kind),
    Case::core("fills_that_are_off_are_unsupported", CONTRACT, fill_is_off),
    Case::core(
        "strided_copies_that_are_off_are_unsupported",
        CONTRACT,
        strided_is_off,
    ),
    Case::core(
        "adoption_that_is_off_is_unsupported",
        CONTRACT,
        adoption_is_off,
    ),
    Case::core(
        "host_events_that_are_off_are_unsupported",
        CONTRACT,
        host_events_are_off,
    ),
    Case::core(
        "streams_that_are_off_are_unsupported",
        CONTRACT,
        streams_are_off,
    ),
    Case::core(
        "groups_that_are_absent_are_unsupported",
        CONTRACT,
        groups_are_absent,
    ),
];

const CONTRACT: &str = "Not offered for these arguments. Nothing was changed; try another route.";
const KINDS: &str = "`XD_UNSUPPORTED` for a kind the device does not offer";

fn is_off(subject: &Subject<'_>, capability: Capabilities, name: &str) -> Verdict {
    if subject.can(capability) {
        skipped(format!("the device claims {name}"))
    } else {
        Ok(())
    }
}

fn unsupported<T>(what: &str, answer: &Result<T, Error>) -> Verdict {
    answers(what, answer, &[Status::UNSUPPORTED])
}

fn kind_is_off(subject: &Subject<'_>, kind: MemoryKind, capability: Capabilities) -> Verdict {
    is_off(
        subject,
        capability,
        if kind == MemoryKind::PINNED {
            "PINNED"
        } else {
            "MANAGED"
        },
    )?;
    unsupported(
        &format!("allocate of kind {}", names::kind(kind)),
        &subject.allocate_kind(kind, 4096),
    )
}

fn unknown_kind(subject: &Subject<'_>) -> Verdict {
    let answer = subject.allocate_kind(MemoryKind(99), 4096);
    answers(
        "allocate of kind 99",
        &answer,
        &[Status::UNSUPPORTED, Status::INVALID],
    )
}

fn fill_is_off(subject: &Subject<'_>) -> Verdict {
    is_off(subject, Capabilities::FILL, "FILL")?;
    let memory = subject.allocate(64)?;
    memory.write(0, &pattern(41, 64))?;
    let answer = fill(
        subject.hooks(),
        &mut Place::Memory(&memory, 0),
        64,
        [7; 16],
        1,
    );
    unsupported("fill", &answer)?;
    same_bytes("the memory", &memory.read(0, 64)?, &pattern(41, 64))
}

fn strided_is_off(subject: &Subject<'_>) -> Verdict {
    is_off(subject, Capabilities::STRIDED_COPY, "STRIDED_COPY")?;
    let memory = subject.allocate(64)?;
    memory.write(0, &pattern(42, 64))?;
    let region = Region {
        element_bits: 8,
        shape: vec![2, 4],
        dst_strides: vec![8, 1],
        src_strides: vec![4, 1],
    };
    let (mut dst, mut src) = (Place::Memory(&memory, 0), Place::Source(&[1; 8], 0));
    let answer = copy_strided(subject.hooks(), &mut dst, &mut src, &region);
    unsupported("copy_strided", &answer)?;
    same_bytes("the memory", &memory.read(0, 64)?, &pattern(42, 64))
}

fn adoption_is_off(subject: &Subject<'_>) -> Verdict {
    is_off(subject, Capabilities::ADOPT_HOST, "ADOPT_HOST")?;
    let host = HostMemory::new(&pattern(43, 8192));
    unsupported(
        "adopt",
        &Allocation::adopt(subject.hooks(), subject.device(), host, AdoptFlags::empty()),
    )
}

fn host_events_are_off(subject: &Subject<'_>) -> Verdict {
    is_off(subject, Capabilities::HOST_EVENTS, "HOST_EVENTS")?;
    unsupported("event_create_host", &subject.host_event())
}

fn streams_are_off(subject: &Subject<'_>) -> Verdict {
    if subject.hooks().table().streams().is_some() {
        return skipped("the plugin has the group `streams`");
    }
    unsupported("stream_create", &subject.stream())?;
    unsupported("event_create", &subject.event())
}

/// Groups without a capability of their own, and registration: absent or off is `UNSUPPORTED`.
fn groups_are_absent(subject: &Subject<'_>) -> Verdict {
    let (hooks, device) = (subject.hooks(), subject.device());
    let table = hooks.table();
    let mut absent = 0;
    let mut demand = |present: bool, what: &str, answer: &dyn Fn() -> Result<(), Error>| {
        if present {
            return Ok(());
        }
        absent += 1;
        unsupported(what, &answer())
    };
    demand(table.host_calls().is_some(), "stream_host_call", &|| {
        HostCall::new().put_on(hooks, StreamHandle::NONE)
    })?;
    demand(table.async_memory().is_some(), "allocate_async", &|| {
        hooks.allocate_async(StreamHandle::NONE, 4096).map(drop)
    })?;
    demand(table.attributes().is_some(), "device_attribute", &|| {
        hooks.device_attribute(device, 0).map(drop)
    })?;
    demand(
        subject.can(Capabilities::REGISTER),
        "register_host",
        &|| {
            let memory = HostMemory::new(&pattern(44, 8192));
            Registration::new(hooks, device, memory).map(drop)
        },
    )?;
    demand(table.wrap().is_some(), "stream_wrap", &|| {
        subject.stream()?.wrap(device).map(drop)
    })?;
    if absent == 0 {
        return skipped("the plugin has all of these groups");
    }
    Ok(())
}
