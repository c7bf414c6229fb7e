//! Memory that is allocated and freed in the order of a stream.

use std::sync::Arc;

use crossdock_sdk::abi::{Address, MemoryKind, Status};

use crate::case::{Case, Verdict, answers, ensure, failed, same_bytes, skipped};
use crate::event::LIMIT_NS;
use crate::host_memory::HostMemory;
use crate::names;
use crate::random::pattern;
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::core(
        "memory_allocated_on_a_stream_holds_bytes",
        "Allocates device memory that is usable in stream order.",
        holds_bytes,
    ),
    Case::core(
        "memory_is_freed_behind_the_work_before_it",
        "Frees device memory once the stream reaches this point. … Blocks: no.",
        freed_in_order,
    ),
    Case::core(
        "memory_allocated_on_a_stream_may_be_freed_at_once",
        "the caller owns the memory until `free` or `free_async`.",
        freed_at_once,
    ),
    Case::core(
        "memory_freed_on_a_stream_is_not_answered_for",
        "takes the memory, after a failure as well … Never reused in the process.",
        forgotten,
    ),
    Case::core(
        "a_free_on_a_stream_refuses_memory_of_others",
        "`XD_NOT_OWNER`; `XD_UNSUPPORTED` where this stream cannot free it.",
        free_of_others,
    ),
    Case::core(
        "memory_is_allocated_and_freed_on_a_stream_many_times",
        "the caller owns the memory until `free` or `free_async`.",
        many,
    ),
    Case::full(
        "memory_is_not_allocated_on_a_destroyed_stream",
        "The handle or address named something that is gone.",
        stale,
    ),
];

const BYTES: usize = 60_000;

fn needs(subject: &Subject<'_>) -> Verdict {
    subject.needs_streams()?;
    match subject.hooks().table().async_memory() {
        Some(_) => Ok(()),
        None => skipped("the plugin has no group `async_memory`"),
    }
}

fn holds_bytes(subject: &Subject<'_>) -> Verdict {
    needs(subject)?;
    let mut stream = subject.stream()?;
    let memory = stream.allocate(subject.device(), BYTES as u64)?;
    let info = memory.query(BYTES as u64 - 1)?;
    ensure!(
        info.kind == MemoryKind::DEVICE && info.device == subject.device(),
        "it is kind {} on device {}",
        names::kind(info.kind),
        info.device
    );
    stream.upload(&memory, pattern(121, BYTES))?;
    stream.download(&memory)?;
    stream.free(memory)?;
    for bytes in stream.finish()? {
        same_bytes("what came back", &bytes, &pattern(121, BYTES))?;
    }
    Ok(())
}

fn freed_in_order(subject: &Subject<'_>) -> Verdict {
    needs(subject)?;
    subject.needs_host_events()?;
    let (mut stream, mut other) = (subject.stream()?, subject.stream()?);
    let mut host_event = subject.host_event()?;
    let memory = stream.allocate(subject.device(), BYTES as u64)?;
    let address = memory.address();
    stream.wait_host_event(&host_event)?;
    stream.upload(&memory, pattern(122, BYTES))?;
    stream.download(&memory)?;
    stream.free(memory)?;
    answers("stream_query", &stream.query(), &[Status::NOT_READY])?;
    // Another stream gets memory meanwhile, and it is not this. Its work need not run yet: where all streams
    // share one hardware queue, it stands behind the stream that waits.
    let given = other.allocate(subject.device(), BYTES as u64)?;
    let place = given.address();
    ensure!(
        are_apart(address, place),
        "{place} is given while {address} is still in use"
    );
    other.upload(&given, pattern(123, BYTES))?;
    other.download(&given)?;
    other.free(given)?;
    host_event.complete(Status::OK)?;
    for (bytes, seed) in [(stream.finish()?, 122), (other.finish()?, 123)] {
        for bytes in bytes {
            same_bytes("what came back", &bytes, &pattern(seed, BYTES))?;
        }
    }
    Ok(())
}

/// Whether two allocations of [`BYTES`] share none.
fn are_apart(one: Address, other: Address) -> bool {
    match (one.as_pointer(), other.as_pointer()) {
        (Some(one), Some(other)) => one.abs_diff(other) >= BYTES as u64,
        _ => one.word != other.word,
    }
}

fn freed_at_once(subject: &Subject<'_>) -> Verdict {
    needs(subject)?;
    let stream = subject.stream()?;
    let memory = stream.allocate(subject.device(), BYTES as u64)?;
    stream.synchronize(LIMIT_NS)?;
    memory.write(0, &pattern(124, BYTES))?;
    same_bytes("the memory", &memory.read(0, BYTES)?, &pattern(124, BYTES))?;
    let Some(memory) = Arc::into_inner(memory) else {
        return failed("the memory is still in use");
    };
    Ok(memory.free()?)
}

fn forgotten(subject: &Subject<'_>) -> Verdict {
    needs(subject)?;
    let mut stream = subject.stream()?;
    let memory = stream.allocate(subject.device(), BYTES as u64)?;
    let (address, before) = (memory.address(), memory.query(0)?);
    stream.free(memory)?;
    stream.synchronize(LIMIT_NS)?;
    let after = subject.hooks().pointer_query(address)?;
    let same = after.kind != MemoryKind::UNOWNED && after.allocation_id == before.allocation_id;
    ensure!(!same, "freed memory is still answered for");
    answers(
        "the second free",
        &stream.free_word(address),
        &[Status::NOT_OWNER, Status::STALE],
    )
}

fn free_of_others(subject: &Subject<'_>) -> Verdict {
    needs(subject)?;
    let stream = subject.stream()?;
    let mut host = HostMemory::new(&pattern(125, BYTES));
    let word = Address::pointer(host.expose());
    answers(
        "freeing host memory",
        &stream.free_word(word),
        &[Status::NOT_OWNER, Status::UNSUPPORTED],
    )?;
    let memory = subject.allocate(BYTES as u64)?;
    memory.write(0, &pattern(126, BYTES))?;
    answers(
        "freeing from the middle",
        &stream.free_word(memory.at(256)),
        &[Status::NOT_OWNER],
    )?;
    stream.synchronize(LIMIT_NS)?;
    same_bytes("the memory", &memory.read(0, BYTES)?, &pattern(126, BYTES))
}

fn many(subject: &Subject<'_>) -> Verdict {
    needs(subject)?;
    let mut stream = subject.stream()?;
    for seed in 0..64 {
        let memory = stream.allocate(subject.device(), 4096)?;
        stream.upload(&memory, pattern(seed, 4096))?;
        stream.download(&memory)?;
        stream.free(memory)?;
    }
    for (seed, bytes) in (0..).zip(stream.finish()?) {
        same_bytes(&format!("round {seed}"), &bytes, &pattern(seed, 4096))?;
    }
    Ok(())
}

fn stale(subject: &Subject<'_>) -> Verdict {
    needs(subject)?;
    let hooks = subject.hooks();
    let handle = hooks.stream_create(subject.device())?;
    hooks.stream_destroy(handle)?;
    answers(
        "allocate_async on a destroyed stream",
        &hooks.allocate_async(handle, 4096),
        &[Status::STALE, Status::INVALID],
    )
}
