//! Repeating a pattern over memory.

use crossdock_sdk::abi::{Capabilities, Status};

use crate::allocation::{Allocation, Place, fill};
use crate::case::{Case, Verdict, answers, is_unsupported, same_bytes};
use crate::random::pattern;
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::core(
        "a_fill_repeats_its_pattern",
        "Repeats a pattern over a range in stream order, or at once without a stream.",
        every_pattern,
    ),
    Case::core(
        "a_fill_off_the_patterns_grid_is_right_or_unsupported",
        "Not offered for these arguments. Nothing was changed; try another route.",
        unaligned,
    ),
    Case::core(
        "a_fill_refuses_other_pattern_lengths",
        "`XD_INVALID` for a pattern length other than 1, 2, 4, 8, 16.",
        other_lengths,
    ),
    Case::core(
        "a_large_fill_reaches_its_end",
        "Length; a multiple of `pattern_bytes`, never 0.",
        large,
    ),
    Case::full(
        "a_fill_that_reaches_past_its_allocation_is_refused",
        "`XD_INVALID` and `XD_NOT_OWNER` for its range as `copy` answers them.",
        past_the_end,
    ),
];

const LENGTHS: [u32; 5] = [1, 2, 4, 8, 16];

fn every_pattern(subject: &Subject<'_>) -> Verdict {
    subject.needs(Capabilities::FILL)?;
    let memory = subject.allocate(4096)?;
    for length in LENGTHS {
        for repeats in [1, 3, 100] {
            let done = one_fill(subject, &memory, 64, length, repeats)?;
            crate::case::ensure!(done, "{repeats} times {length} bytes at 64 is UNSUPPORTED");
        }
    }
    Ok(())
}

fn unaligned(subject: &Subject<'_>) -> Verdict {
    subject.needs(Capabilities::FILL)?;
    let memory = subject.allocate(4096)?;
    for length in LENGTHS {
        for offset in [1, 3, 7] {
            one_fill(subject, &memory, offset, length, 33)?;
        }
    }
    Ok(())
}

/// Fills, checks all of the memory, and says whether the plugin did it.
fn one_fill(
    subject: &Subject<'_>,
    memory: &Allocation<'_>,
    offset: u64,
    length: u32,
    repeats: u32,
) -> Result<bool, crate::case::Unmet> {
    let mut all = pattern(21, 4096);
    memory.write(0, &all)?;
    let bytes = u64::from(length) * u64::from(repeats);
    let mut dst = Place::Memory(memory, offset);
    let answer = fill(subject.hooks(), &mut dst, bytes, PATTERN, length);
    let is_done = !is_unsupported(&answer);
    if is_done {
        answer?;
        let width = usize::try_from(length).unwrap_or(1);
        let start = usize::try_from(offset).unwrap_or(0);
        let count = usize::try_from(bytes).unwrap_or(0);
        let repeated = PATTERN.iter().take(width).cycle();
        for (place, byte) in all.iter_mut().skip(start).take(count).zip(repeated) {
            *place = *byte;
        }
    }
    let what = format!("all bytes around {repeats} times {length} bytes at {offset}");
    same_bytes(&what, &memory.read(0, 4096)?, &all)?;
    Ok(is_done)
}

fn other_lengths(subject: &Subject<'_>) -> Verdict {
    subject.needs(Capabilities::FILL)?;
    let memory = subject.allocate(4096)?;
    memory.write(0, &pattern(22, 4096))?;
    for length in [0, 3, 5, 32] {
        let mut dst = Place::Memory(&memory, 0);
        let answer = fill(subject.hooks(), &mut dst, 480, PATTERN, length);
        answers(
            &format!("a pattern of {length} bytes"),
            &answer,
            &[Status::INVALID],
        )?;
    }
    same_bytes("the memory", &memory.read(0, 4096)?, &pattern(22, 4096))
}

fn large(subject: &Subject<'_>) -> Verdict {
    subject.needs(Capabilities::FILL)?;
    let count = 1 << 20;
    let memory = subject.allocate(count + 16)?;
    memory.write(count, &[9; 16])?;
    fill(
        subject.hooks(),
        &mut Place::Memory(&memory, 0),
        count,
        PATTERN,
        8,
    )?;
    let mut wanted: Vec<u8> = PATTERN
        .iter()
        .take(8)
        .copied()
        .cycle()
        .take(1 << 20)
        .collect();
    wanted.extend([9; 16]);
    same_bytes(
        "a mebibyte and what follows",
        &memory.read(0, (1 << 20) + 16)?,
        &wanted,
    )
}

fn past_the_end(subject: &Subject<'_>) -> Verdict {
    subject.needs(Capabilities::FILL)?;
    let memory = subject.allocate(4096)?;
    memory.write(0, &pattern(23, 4096))?;
    let size = memory.query(0)?.size;
    for (offset, bytes, length) in [(size - 1, 2, 1), (size - 8, 16, 8), (size - 4, 8, 4)] {
        let mut dst = Place::Claimed(memory.side_at(offset));
        let answer = fill(subject.hooks(), &mut dst, bytes, PATTERN, length);
        let what = format!("a fill of {bytes} bytes from byte {offset} of {size}");
        answers(&what, &answer, &[Status::INVALID])?;
    }
    same_bytes("the memory", &memory.read(0, 4096)?, &pattern(23, 4096))
}

const PATTERN: [u8; 16] = [
    1, 35, 69, 103, 137, 171, 205, 239, 254, 220, 186, 152, 118, 84, 50, 16,
];
