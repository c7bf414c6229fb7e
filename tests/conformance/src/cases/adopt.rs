//! Host memory as device memory, and device memory as host memory, without a copy.

use std::sync::Arc;

use crossdock_sdk::abi::{AdoptFlags, Capabilities, MemoryKind, PointerFlags, Status};

use crate::allocation::{Allocation, Place, copy, free_address};
use crate::case::{Case, Verdict, answers, ensure, failed, same_bytes, skipped};
use crate::host_memory::HostMemory;
use crate::random::pattern;
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::core(
        "the_device_reads_adopted_host_memory",
        "Gives device memory that aliases `size` bytes at `foreign`",
        device_reads,
    ),
    Case::core(
        "host_memory_that_is_adopted_read_only_is_read_and_stays_as_it_is",
        "Its owner forbids writes: nobody asks the plugin for one.",
        reads_read_only,
    ),
    Case::core(
        "the_host_reads_what_the_device_wrote_after_release",
        "Ends an adoption; host memory then holds what the device wrote.",
        host_reads,
    ),
    Case::core(
        "a_copy_inside_adopted_memory_is_made_whichever_end_is_called_the_hosts",
        "Copies bytes between host and device … Gives device memory that aliases `size` bytes at `foreign`",
        copies_inside,
    ),
    Case::core(
        "adopted_memory_is_known_as_foreign",
        "The plugin did not make it: the driver knows it from others in the process, or it was registered or adopted.",
        is_foreign,
    ),
    Case::full(
        "adopted_memory_is_not_freed",
        "`XD_NOT_OWNER` for another address or kind … `free` refuses it: its owner frees it, once \
         `release_adopted` has ended each adoption.",
        free_of_adopted,
    ),
    Case::core(
        "what_was_not_adopted_is_not_released",
        "`XD_NOT_OWNER` when it was not adopted.",
        release_of_others,
    ),
    Case::core(
        "a_mapping_shows_and_takes_the_bytes_of_the_device",
        "Gives the host an address where it sees `size` bytes of device memory until `unmap`. … \
         the device sees what the host wrote.",
        mapping,
    ),
    Case::core(
        "the_host_writes_adopted_memory_through_a_mapping",
        "Ends a mapping; the device sees what the host wrote.",
        mapping_of_adopted,
    ),
];

const BYTES: usize = 16_384;

fn adopt<'h>(subject: &Subject<'h>, seed: u64) -> Result<Allocation<'h>, crate::case::Unmet> {
    subject.needs(Capabilities::ADOPT_HOST)?;
    let host = HostMemory::new(&pattern(seed, BYTES));
    let flags = AdoptFlags::empty();
    Ok(Allocation::adopt(
        subject.hooks(),
        subject.device(),
        host,
        flags,
    )?)
}

fn reads_read_only(subject: &Subject<'_>) -> Verdict {
    subject.needs(Capabilities::ADOPT_HOST)?;
    let host = HostMemory::new(&pattern(78, BYTES));
    let flags = AdoptFlags::READ_ONLY;
    let adopted = Allocation::adopt(subject.hooks(), subject.device(), host, flags)?;
    same_bytes(
        "what the device reads",
        &adopted.read(0, BYTES)?,
        &pattern(78, BYTES),
    )?;
    let found = adopted.release()?.content();
    same_bytes("host memory after the release", &found, &pattern(78, BYTES))
}

fn device_reads(subject: &Subject<'_>) -> Verdict {
    let adopted = adopt(subject, 71)?;
    same_bytes(
        "what the device reads",
        &adopted.read(0, BYTES)?,
        &pattern(71, BYTES),
    )?;
    same_bytes(
        "a part of it",
        &adopted.read(100, 50)?,
        pattern(71, 150).get(100..).unwrap_or(&[]),
    )
}

fn host_reads(subject: &Subject<'_>) -> Verdict {
    let adopted = adopt(subject, 72)?;
    adopted.write(1000, &pattern(73, 5000))?;
    let found = adopted.release()?.content();
    let mut wanted = pattern(72, BYTES);
    for (place, byte) in wanted.iter_mut().skip(1000).zip(pattern(73, 5000)) {
        *place = byte;
    }
    same_bytes("host memory after the release", &found, &wanted)
}

fn copies_inside(subject: &Subject<'_>) -> Verdict {
    const SIZE: usize = 3000;
    let adopted = adopt(subject, 79)?;
    for (to, from) in [(0, 9000), (9000, 0), (200, 8000)] {
        for is_to_host in [true, false] {
            adopted.write(0, &pattern(79, BYTES))?;
            let (mut dst, mut src) = if is_to_host {
                (
                    Place::Beneath(&adopted, to as u64),
                    Place::Memory(&adopted, from as u64),
                )
            } else {
                (
                    Place::Memory(&adopted, to as u64),
                    Place::Beneath(&adopted, from as u64),
                )
            };
            let answer = copy(subject.hooks(), &mut dst, &mut src, SIZE as u64);
            subject.or_skip("a copy inside adopted memory", answer)?;
            let mut wanted = pattern(79, BYTES);
            wanted.copy_within(from..from + SIZE, to);
            let end = if is_to_host { "to" } else { "from" };
            let what =
                format!("the memory after a copy from {from} to {to}, {end} the host's address");
            same_bytes(&what, &adopted.read(0, BYTES)?, &wanted)?;
        }
    }
    Ok(())
}

fn is_foreign(subject: &Subject<'_>) -> Verdict {
    let adopted = adopt(subject, 74)?;
    let info = adopted.query(10)?;
    ensure!(
        info.kind != MemoryKind::UNOWNED,
        "adopted memory is UNOWNED"
    );
    ensure!(
        info.flags.contains(PointerFlags::FOREIGN),
        "adopted memory is not FOREIGN"
    );
    ensure!(
        info.device == subject.device(),
        "it belongs to device {}",
        info.device
    );
    let address = adopted.address();
    adopted.release()?;
    let after = subject.hooks().pointer_query(address)?;
    let same = after.kind != MemoryKind::UNOWNED && after.allocation_id == info.allocation_id;
    ensure!(!same, "after the release it is still answered for");
    Ok(())
}

fn free_of_adopted(subject: &Subject<'_>) -> Verdict {
    let adopted = adopt(subject, 79)?;
    for kind in [MemoryKind::DEVICE, MemoryKind::HOST] {
        answers(
            &format!("free of adopted memory as kind {}", kind.0),
            &free_address(subject.hooks(), adopted.address(), kind),
            &[Status::NOT_OWNER],
        )?;
    }
    let found = adopted.read(0, BYTES)?;
    same_bytes("what the device reads", &found, &pattern(79, BYTES))?;
    let found = adopted.release()?.content();
    same_bytes("host memory after the release", &found, &pattern(79, BYTES))
}

fn release_of_others(subject: &Subject<'_>) -> Verdict {
    if subject.hooks().table().adopt().is_none() {
        return skipped("the plugin has no group `adopt`");
    }
    let memory = subject.allocate(4096)?;
    let answer = subject
        .hooks()
        .release_adopted(subject.device(), memory.address());
    answers("releasing plain memory", &answer, &[Status::NOT_OWNER])?;
    memory.write(0, &pattern(75, 4096))?;
    same_bytes("the memory", &memory.read(0, 4096)?, &pattern(75, 4096))
}

/// Changes memory through a mapping, and compares both sides.
fn map_and_compare(subject: &Subject<'_>, memory: &Allocation<'_>, before: &[u8]) -> Verdict {
    let mut seen = Vec::new();
    let changed = pattern(77, before.len());
    let answer = memory.through_map(|bytes| {
        seen = bytes.to_vec();
        bytes.copy_from_slice(&changed);
    });
    subject.or_skip("map", answer)?;
    same_bytes("what the mapping shows", &seen, before)?;
    same_bytes(
        "what the device has after",
        &memory.read(0, changed.len())?,
        &changed,
    )
}

fn mapping(subject: &Subject<'_>) -> Verdict {
    needs_map(subject)?;
    let memory = subject.allocate(BYTES as u64)?;
    memory.write(0, &pattern(76, BYTES))?;
    map_and_compare(subject, &memory, &pattern(76, BYTES))?;
    let Some(memory) = Arc::into_inner(memory) else {
        return failed("the memory is still in use");
    };
    Ok(memory.free()?)
}

fn mapping_of_adopted(subject: &Subject<'_>) -> Verdict {
    needs_map(subject)?;
    let adopted = adopt(subject, 78)?;
    map_and_compare(subject, &adopted, &pattern(78, BYTES))?;
    let found = adopted.release()?.content();
    same_bytes("host memory after the release", &found, &pattern(77, BYTES))
}

fn needs_map(subject: &Subject<'_>) -> Verdict {
    match subject.hooks().table().map() {
        Some(_) => Ok(()),
        None => skipped("the plugin has no group `map`"),
    }
}
