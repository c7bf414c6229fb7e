//! Cached memory: what is counted, and what a trim gives back.

use std::sync::Arc;

use crossdock_sdk::abi::{MemoryUsage, Status};

use crate::allocation::Allocation;
use crate::case::{Case, Unmet, Verdict, answers, ensure, failed, same_bytes, skipped};
use crate::event::once_over;
use crate::random::pattern;
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::core(
        "usage_counts_an_allocation_and_its_end",
        "Device memory counts with at least the size that was asked for, from the call that \
         allocates it on until `free` returned",
        counts,
    ),
    Case::core(
        "what_is_used_is_reserved_and_below_its_peak",
        "Of the numbers that are known `used` is at most `reserved`, and neither is above its peak.",
        in_order,
    ),
    Case::core(
        "peaks_keep_the_most_and_begin_anew",
        "The most that `used` was. … Begins both peaks anew, with what is reserved and used now.",
        peaks,
    ),
    Case::core(
        "a_trim_leaves_no_more_cached_memory_than_it_may",
        "Gives cached memory back, until at most `keep_bytes` bytes of it are left.",
        gives_back,
    ),
    Case::core(
        "a_trim_takes_no_more_than_it_has_to",
        "Without cached memory beyond `keep_bytes` it does nothing.",
        keeps,
    ),
    Case::core(
        "a_trim_leaves_allocated_memory_as_it_is",
        "Memory that is allocated keeps its address and its bytes.",
        leaves_live,
    ),
    Case::core(
        "a_trim_waits_for_no_work",
        "It gives back what is free now and waits for no stream of the plugin: memory that a \
         stream has not freed yet stays",
        behind_work,
    ),
    Case::core(
        "no_memory_is_counted_of_a_device_that_is_not_there",
        "a hook answers `XD_INVALID` to any other, in its arguments too.",
        no_device,
    ),
];

/// Large enough to be kept by a plugin that keeps memory.
const BYTES: u64 = 1 << 20;

fn needs(subject: &Subject<'_>) -> Verdict {
    match subject.hooks().table().pool() {
        Some(_) => Ok(()),
        None => skipped("the plugin has no group `pool`"),
    }
}

fn usage(subject: &Subject<'_>) -> Result<MemoryUsage, Unmet> {
    Ok(subject.hooks().memory_usage(subject.device())?)
}

fn trim(subject: &Subject<'_>, keep: u64) -> Verdict {
    Ok(subject.hooks().memory_trim(subject.device(), keep)?)
}

/// A number that the plugin knows; the case is skipped where it does not.
fn known(number: u64, name: &str) -> Result<u64, Unmet> {
    if number == u64::MAX {
        return skipped(format!("the plugin does not know what is {name}"));
    }
    Ok(number)
}

fn used(subject: &Subject<'_>) -> Result<u64, Unmet> {
    known(usage(subject)?.used, "used")
}

/// Memory that is reserved and not used.
fn cached(subject: &Subject<'_>) -> Result<u64, Unmet> {
    let now = usage(subject)?;
    let reserved = known(now.reserved, "reserved")?;
    Ok(reserved.saturating_sub(known(now.used, "used")?))
}

fn free(memory: Arc<Allocation<'_>>) -> Verdict {
    match Arc::into_inner(memory) {
        Some(memory) => Ok(memory.free()?),
        None => failed("the memory is still in use"),
    }
}

fn counts(subject: &Subject<'_>) -> Verdict {
    needs(subject)?;
    let before = used(subject)?;
    for size in [1, 60_000, BYTES] {
        let memory = subject.allocate(size)?;
        let with = used(subject)?;
        ensure!(
            with >= before.saturating_add(size),
            "{before} bytes were used, and {with} with {size} more"
        );
        free(memory)?;
        let after = used(subject)?;
        ensure!(
            after == before,
            "{before} bytes were used, and {after} when {size} more were freed"
        );
    }
    Ok(())
}

fn in_order(subject: &Subject<'_>) -> Verdict {
    needs(subject)?;
    let check = || {
        let now = usage(subject)?;
        let is_below = |part: u64, whole| part == u64::MAX || part <= whole;
        ensure!(
            is_below(now.used, now.reserved)
                && is_below(now.used, now.peak_used)
                && is_below(now.reserved, now.peak_reserved),
            "{now:?}"
        );
        Ok(())
    };
    check()?;
    let memory = subject.allocate(BYTES)?;
    check()?;
    free(memory)?;
    check()?;
    trim(subject, 0)?;
    check()?;
    subject.hooks().memory_reset_peaks(subject.device())?;
    check()
}

fn peaks(subject: &Subject<'_>) -> Verdict {
    needs(subject)?;
    let peak = || known(usage(subject)?.peak_used, "used at most");
    let before = used(subject)?;
    free(subject.allocate(BYTES)?)?;
    let most = peak()?;
    ensure!(
        most >= before.saturating_add(BYTES),
        "at most {most} bytes were used, where {BYTES} more than {before} were"
    );
    subject.hooks().memory_reset_peaks(subject.device())?;
    let (most, now) = (peak()?, used(subject)?);
    ensure!(
        most == now,
        "the peak began anew with {most} bytes while {now} are used"
    );
    let now = usage(subject)?;
    ensure!(
        now.peak_reserved == now.reserved,
        "the peak began anew with {} bytes while {} are reserved",
        now.peak_reserved,
        now.reserved
    );
    Ok(())
}

/// Fills a cache with several freed blocks, as far as it keeps them.
fn fill_cache(subject: &Subject<'_>) -> Verdict {
    let memories: Result<Vec<_>, _> = (0..8).map(|_| subject.allocate(BYTES)).collect();
    memories?.into_iter().try_for_each(free)
}

fn gives_back(subject: &Subject<'_>) -> Verdict {
    needs(subject)?;
    trim(subject, 0)?;
    // What hangs together with memory that is used elsewhere stays.
    let stays = cached(subject)?;
    for keep in [3 * BYTES, BYTES / 2, 0, 0] {
        fill_cache(subject)?;
        let filled = cached(subject)?;
        trim(subject, keep)?;
        let left = cached(subject)?;
        ensure!(
            left <= stays.saturating_add(keep),
            "a trim that may leave {keep} of {filled} bytes left {left}"
        );
        trim(subject, keep)?;
        let again = cached(subject)?;
        ensure!(
            again == left,
            "the second trim to {keep} bytes left {again} of {left}"
        );
    }
    Ok(())
}

fn keeps(subject: &Subject<'_>) -> Verdict {
    needs(subject)?;
    fill_cache(subject)?;
    let filled = cached(subject)?;
    for keep in [u64::MAX, filled] {
        trim(subject, keep)?;
        let left = cached(subject)?;
        ensure!(
            left == filled,
            "a trim that may leave {keep} of {filled} bytes left {left}"
        );
    }
    Ok(())
}

fn leaves_live(subject: &Subject<'_>) -> Verdict {
    needs(subject)?;
    let (first, second) = (subject.allocate(BYTES)?, subject.allocate(BYTES)?);
    let bytes = pattern(141, 60_000);
    first.write(7, &bytes)?;
    let (before, id) = (usage(subject)?.used, first.query(0)?.allocation_id);
    free(second)?;
    let after = usage(subject)?.used;
    trim(subject, 0)?;
    ensure!(
        usage(subject)?.used == after,
        "a trim changed what is used: {after} of {before} bytes"
    );
    ensure!(
        first.query(0)?.allocation_id == id,
        "the memory is another one after a trim"
    );
    // Others get what was given back, and it is not this.
    let third = subject.allocate(BYTES)?;
    third.write(0, &pattern(142, 60_000))?;
    same_bytes("the memory", &first.read(7, bytes.len())?, &bytes)
}

fn behind_work(subject: &Subject<'_>) -> Verdict {
    needs(subject)?;
    subject.needs_host_events()?;
    let bytes = pattern(143, 60_000);
    let size = bytes.len() as u64;
    let before = usage(subject)?.used;
    let mut stream = subject.stream()?;
    let mut host_event = subject.host_event()?;
    let can_free = subject.hooks().table().async_memory().is_some();
    let memory = if can_free {
        stream.allocate(subject.device(), size)?
    } else {
        subject.allocate(size)?
    };
    stream.wait_host_event(&host_event)?;
    stream.upload(&memory, bytes.clone())?;
    stream.download(&memory)?;
    if can_free {
        stream.free(memory)?;
    }
    host_event.pending_during("memory_trim", || trim(subject, 0))??;
    answers("stream_query", &stream.query(), &[Status::NOT_READY])?;
    // Who takes the memory that a trim gave back too early writes over it.
    let other = subject.allocate(size)?;
    host_event.complete(Status::OK)?;
    other.write(0, &pattern(144, bytes.len()))?;
    once_over(|| stream.query())?;
    trim(subject, 0)?;
    for read in stream.finish()? {
        same_bytes("what came back", &read, &bytes)?;
    }
    free(other)?;
    let after = usage(subject)?.used;
    ensure!(
        !can_free || after == before,
        "{before} bytes were used, and {after} when a stream had freed {size} more"
    );
    Ok(())
}

fn no_device(subject: &Subject<'_>) -> Verdict {
    needs(subject)?;
    let (hooks, device) = (subject.hooks(), subject.hooks().device_count()?);
    let refused = [Status::INVALID];
    answers("memory_usage", &hooks.memory_usage(device), &refused)?;
    answers("memory_trim", &hooks.memory_trim(device, 0), &refused)?;
    answers(
        "memory_reset_peaks",
        &hooks.memory_reset_peaks(device),
        &refused,
    )
}
