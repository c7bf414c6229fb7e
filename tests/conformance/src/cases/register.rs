//! Host memory that is locked for a device.

use std::sync::Arc;

use crossdock_sdk::abi::{Address, Capabilities, MemoryKind, PointerFlags, Status};

use crate::allocation::{Allocation, free_address};
use crate::case::{Case, Unmet, Verdict, answers, ensure, failed, same_bytes};
use crate::host_memory::HostMemory;
use crate::names;
use crate::random::pattern;
use crate::registration::{Registration, unregister_word};
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::core(
        "copies_from_registered_memory_are_right",
        "Locks `size` bytes of host memory for the device, so that copies between the two are fast",
        copies,
    ),
    Case::core(
        "copies_on_a_stream_from_registered_memory_are_right",
        "Locks `size` bytes of host memory for the device, so that copies between the two are fast",
        stream_copies,
    ),
    Case::core(
        "registrations_do_not_overlap",
        "`XD_CONFLICT` when it overlaps an earlier registration",
        overlaps,
    ),
    Case::core(
        "memory_is_registered_again_after_it_was_unregistered",
        "the memory stays the caller's and outlives the registration. … Undoes `register_host`.",
        again,
    ),
    Case::core(
        "work_that_is_in_flight_at_the_end_of_its_registration_is_made",
        "The host may call this while work that uses the memory is in flight, because another thread can submit \
         work at any time. While such work needs the memory locked, the hook returns `XD_NOT_READY`: the memory \
         stays registered, and the host calls again later.",
        ends_beside_work,
    ),
    Case::core(
        "what_was_not_registered_is_not_unregistered",
        "`XD_NOT_OWNER` when it was not registered;",
        unregister_of_others,
    ),
    Case::core(
        "registered_memory_is_known_as_foreign",
        "The plugin did not make it: the driver knows it from others in the process, or it was registered or adopted.",
        is_foreign,
    ),
    Case::full(
        "registered_memory_is_not_freed",
        "Frees what `allocate` gave, at its base. … `XD_NOT_OWNER` for another address or kind",
        free_of_registered,
    ),
    Case::full(
        "memory_that_was_allocated_is_not_unregistered",
        "`XD_NOT_OWNER` when it was not registered;",
        unregister_of_allocated,
    ),
    Case::core(
        "what_was_adopted_of_registered_memory_stays_adopted",
        "Undoes `register_host`. Adopted memory stays adopted.",
        adopted_stays,
    ),
    Case::core(
        "memory_is_not_registered_with_a_device_that_is_not_there",
        "a hook answers `XD_INVALID` to any other, in its arguments too.",
        no_device,
    ),
];

const BYTES: usize = 40_000;

fn register<'h>(subject: &Subject<'h>, seed: u64) -> Result<Registration<'h>, Unmet> {
    subject.needs(Capabilities::REGISTER)?;
    let memory = HostMemory::new(&pattern(seed, BYTES));
    Ok(Registration::new(
        subject.hooks(),
        subject.device(),
        memory,
    )?)
}

fn copies(subject: &Subject<'_>) -> Verdict {
    let registered = register(subject, 111)?;
    let device = subject.allocate(BYTES as u64)?;
    device.write(0, registered.bytes())?;
    same_bytes(
        "what the device got",
        &device.read(0, BYTES)?,
        &pattern(111, BYTES),
    )?;
    let memory = registered.unregister()?;
    same_bytes(
        "host memory afterwards",
        &memory.content(),
        &pattern(111, BYTES),
    )
}

fn stream_copies(subject: &Subject<'_>) -> Verdict {
    subject.needs_streams()?;
    let (from, to) = (
        Arc::new(register(subject, 112)?),
        Arc::new(register(subject, 113)?),
    );
    let device = subject.allocate(BYTES as u64)?;
    let mut stream = subject.stream()?;
    stream.upload_registered(&device, &from)?;
    stream.download_registered(&to, &device)?;
    stream.finish()?;
    same_bytes("what came back", to.bytes(), &pattern(112, BYTES))?;
    let memory = Arc::into_inner(to).map(Registration::unregister);
    let Some(memory) = memory.transpose()? else {
        return failed("the registration is still in use");
    };
    same_bytes(
        "host memory afterwards",
        &memory.content(),
        &pattern(112, BYTES),
    )
}

fn ends_beside_work(subject: &Subject<'_>) -> Verdict {
    subject.needs_host_events()?;
    let (from, to) = (
        Arc::new(register(subject, 121)?),
        Arc::new(register(subject, 122)?),
    );
    let device = subject.allocate(BYTES as u64)?;
    let (mut stream, mut host_event) = (subject.stream()?, subject.host_event()?);
    stream.wait_host_event(&host_event)?;
    stream.upload_registered(&device, &from)?;
    stream.download_registered(&to, &device)?;
    host_event.completed_during(|| from.end_beside_work().and(to.end_beside_work()))??;
    stream.finish()?;
    same_bytes(
        "what the device got",
        &device.read(0, BYTES)?,
        &pattern(121, BYTES),
    )?;
    same_bytes("what came back", to.bytes(), &pattern(121, BYTES))
}

fn overlaps(subject: &Subject<'_>) -> Verdict {
    let registered = register(subject, 114)?;
    for (offset, size) in [(0, BYTES as u64), (4096, 4096), (8192, BYTES as u64 - 8192)] {
        answers(
            &format!("registering {size} bytes at {offset} once more"),
            &registered.again(offset, size),
            &[Status::CONFLICT],
        )?;
    }
    // The first one stands.
    let device = subject.allocate(BYTES as u64)?;
    device.write(0, registered.bytes())?;
    registered.unregister()?;
    same_bytes(
        "what the device got",
        &device.read(0, BYTES)?,
        &pattern(114, BYTES),
    )
}

fn again(subject: &Subject<'_>) -> Verdict {
    let mut registered = register(subject, 115)?;
    for _ in 0..8 {
        let memory = registered.unregister()?;
        registered = Registration::new(subject.hooks(), subject.device(), memory)?;
    }
    let memory = registered.unregister()?;
    same_bytes("the memory", &memory.content(), &pattern(115, BYTES))
}

fn unregister_of_others(subject: &Subject<'_>) -> Verdict {
    let (hooks, device) = (subject.hooks(), subject.device());
    let registered = register(subject, 116)?;
    let inside = registered.word() + 4096;
    let wanted = [Status::NOT_OWNER];
    answers(
        "unregistering the inside of a registration",
        &unregister_word(hooks, device, inside),
        &wanted,
    )?;
    let word = registered.word();
    let memory = registered.unregister()?;
    answers(
        "unregistering a second time",
        &unregister_word(hooks, device, word),
        &wanted,
    )?;
    same_bytes("the memory", &memory.content(), &pattern(116, BYTES))
}

fn free_of_registered(subject: &Subject<'_>) -> Verdict {
    let registered = register(subject, 119)?;
    let address = Address::pointer(registered.word());
    for kind in [MemoryKind::PINNED, MemoryKind::HOST, MemoryKind::DEVICE] {
        answers(
            &format!("free of registered memory as kind {}", names::kind(kind)),
            &free_address(subject.hooks(), address, kind),
            &[Status::NOT_OWNER],
        )?;
    }
    // It is registered as before, and the caller's.
    let device = subject.allocate(BYTES as u64)?;
    device.write(0, registered.bytes())?;
    let memory = registered.unregister()?;
    same_bytes("the memory", &memory.content(), &pattern(119, BYTES))
}

fn unregister_of_allocated(subject: &Subject<'_>) -> Verdict {
    subject.needs(Capabilities::REGISTER)?;
    for kind in subject.kinds() {
        let memory = subject.allocate_kind(kind, BYTES as u64)?;
        memory.write(0, &pattern(120, BYTES))?;
        let host_pointer = memory.query(0)?.host_pointer;
        let words = [memory.address().as_pointer(), Some(host_pointer)];
        for word in words.into_iter().flatten().filter(|word| *word != 0) {
            answers(
                &format!(
                    "unregister_host of allocated memory of kind {}",
                    names::kind(kind)
                ),
                &unregister_word(subject.hooks(), subject.device(), word),
                &[Status::NOT_OWNER],
            )?;
        }
        same_bytes("the memory", &memory.read(0, BYTES)?, &pattern(120, BYTES))?;
    }
    Ok(())
}

fn is_foreign(subject: &Subject<'_>) -> Verdict {
    let registered = register(subject, 117)?;
    let address = Address::pointer(registered.word() + 10);
    let info = subject.hooks().pointer_query(address)?;
    ensure!(
        info.kind != MemoryKind::UNOWNED,
        "registered memory is UNOWNED"
    );
    ensure!(
        info.flags.contains(PointerFlags::FOREIGN),
        "registered memory is not FOREIGN"
    );
    registered.unregister()?;
    let after = subject.hooks().pointer_query(address)?;
    let same = after.kind != MemoryKind::UNOWNED && after.allocation_id == info.allocation_id;
    ensure!(!same, "unregistered memory is still answered for");
    Ok(())
}

fn adopted_stays(subject: &Subject<'_>) -> Verdict {
    subject.needs(Capabilities::ADOPT_HOST)?;
    let registered = register(subject, 119)?;
    let answer = Allocation::adopt_registered(registered, 4096, 20_000);
    let adopted = subject.or_skip("adopt, of registered memory,", answer)?;
    same_bytes(
        "what the device reads",
        &adopted.read(0, 20_000)?,
        pattern(119, 24_096).get(4096..).unwrap_or(&[]),
    )?;
    adopted.write(1000, &pattern(120, 5000))?;
    let found = adopted.release()?.content();
    let mut wanted = pattern(119, BYTES);
    for (place, byte) in wanted.iter_mut().skip(5096).zip(pattern(120, 5000)) {
        *place = byte;
    }
    same_bytes("host memory after the release", &found, &wanted)
}

fn no_device(subject: &Subject<'_>) -> Verdict {
    subject.needs(Capabilities::REGISTER)?;
    let device = subject.hooks().device_count()?;
    let memory = HostMemory::new(&pattern(118, BYTES));
    answers(
        &format!("register_host on device {device}"),
        &Registration::new(subject.hooks(), device, memory),
        &[Status::INVALID],
    )
}
