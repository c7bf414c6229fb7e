//! Streams made of the vendor's own integer.

use std::sync::Arc;

use crossdock_sdk::abi::Status;

use crate::allocation::Allocation;
use crate::case::{Case, Unmet, Verdict, answers, ensure, same_bytes, skipped};
use crate::event::LIMIT_NS;
use crate::random::pattern;
use crate::stream::Stream;
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::core(
        "work_on_a_wrapped_stream_follows_that_of_its_owner",
        "Makes a stream of the integer that the vendor's API uses.",
        follows,
    ),
    Case::core(
        "a_wrapped_stream_waits_where_its_owner_waits",
        "Makes a stream of the integer that the vendor's API uses.",
        waits,
    ),
    Case::core(
        "a_wait_without_time_answers_for_a_wrapped_stream_that_is_over",
        "with 0 it does not wait, and still answers for work that is over.",
        no_time,
    ),
    Case::core(
        "a_stream_outlives_what_wraps_it",
        "the stream stays the caller's; the plugin never destroys it and may retain it.",
        outlives,
    ),
    Case::core(
        "a_wrapped_stream_on_a_device_that_is_not_there_is_refused",
        "`XD_INVALID` for a number that can be no stream, and when it belongs to another device and the \
         vendor can say so",
        no_device,
    ),
    Case::core(
        "a_number_below_all_addresses_is_a_stream_that_works_or_refused",
        "A number that can be no stream, as 0 of OpenCL, is `XD_INVALID`, and is not followed as an address.",
        small_numbers,
    ),
];

const BYTES: usize = 50_000;

/// A stream of the vendor and memory for its work, or a skip where there is no `wrap`.
fn owner<'h>(subject: &Subject<'h>) -> Result<(Stream<'h>, Arc<Allocation<'h>>), Unmet> {
    subject.needs_streams()?;
    if subject.hooks().table().wrap().is_none() {
        return skipped("the plugin has no group `wrap`");
    }
    Ok((subject.stream()?, subject.allocate(BYTES as u64)?))
}

fn follows(subject: &Subject<'_>) -> Verdict {
    let (mut owner, memory) = owner(subject)?;
    owner.upload(&memory, pattern(91, BYTES))?;
    let mut wrapped = owner.wrap(subject.device())?;
    ensure!(
        wrapped.handle() != owner.handle(),
        "the wrapped stream has the word of its owner"
    );
    wrapped.download(&memory)?;
    for bytes in wrapped.finish()? {
        same_bytes("what the wrapped stream read", &bytes, &pattern(91, BYTES))?;
    }
    Ok(())
}

fn waits(subject: &Subject<'_>) -> Verdict {
    let (owner, memory) = owner(subject)?;
    subject.needs_host_events()?;
    memory.write(0, &pattern(92, BYTES))?;
    let mut host_event = subject.host_event()?;
    owner.wait_host_event(&host_event)?;
    let mut wrapped = owner.wrap(subject.device())?;
    wrapped.upload(&memory, pattern(93, BYTES))?;
    answers(
        "querying the wrapped stream",
        &wrapped.query(),
        &[Status::NOT_READY],
    )?;
    host_event.complete(Status::OK)?;
    wrapped.synchronize(LIMIT_NS)?;
    same_bytes("the memory", &memory.read(0, BYTES)?, &pattern(93, BYTES))
}

fn no_time(subject: &Subject<'_>) -> Verdict {
    let (owner, memory) = owner(subject)?;
    let mut wrapped = owner.wrap(subject.device())?;
    for seed in 0..4 {
        wrapped.upload(&memory, pattern(seed, BYTES))?;
        wrapped.synchronize(LIMIT_NS)?;
        let over = wrapped.synchronize(0);
        answers("stream_synchronize once more", &over, &[Status::OK])?;
    }
    Ok(())
}

fn outlives(subject: &Subject<'_>) -> Verdict {
    let (mut owner, memory) = owner(subject)?;
    let event = subject.event()?;
    for seed in 94..97 {
        let mut wrapped = owner.wrap(subject.device())?;
        wrapped.upload(&memory, pattern(seed, BYTES))?;
        wrapped.record(&event)?;
        wrapped.destroy_before(&event, None)?;
        owner.download(&memory)?;
    }
    for (seed, bytes) in (94..).zip(owner.finish()?) {
        same_bytes(&format!("round {seed}"), &bytes, &pattern(seed, BYTES))?;
    }
    Ok(())
}

fn small_numbers(subject: &Subject<'_>) -> Verdict {
    let (_, memory) = owner(subject)?;
    for number in [0, 1, 2] {
        let what = format!("stream_wrap of {number}");
        let answer = Stream::wrap_small(subject.hooks(), subject.device(), number);
        let Ok(mut stream) = answer else {
            answers(&what, &answer, &[Status::INVALID, Status::UNSUPPORTED])?;
            continue;
        };
        stream.upload(&memory, pattern(98, BYTES))?;
        stream.download(&memory)?;
        for bytes in stream.finish()? {
            same_bytes(&what, &bytes, &pattern(98, BYTES))?;
        }
    }
    Ok(())
}

fn no_device(subject: &Subject<'_>) -> Verdict {
    let (owner, _) = owner(subject)?;
    let device = subject.hooks().device_count()?;
    answers(
        &format!("stream_wrap on device {device}"),
        &owner.wrap(device),
        &[Status::INVALID],
    )
}
