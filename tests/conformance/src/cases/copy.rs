//! Contiguous copies that are done when they return.

use crossdock_sdk::abi::{Address, AddressForm, Side, Status};

use crate::allocation::{Place, copy};
use crate::case::{Case, Verdict, answers, is_unsupported, same_bytes, skipped, status_of};
use crate::random::pattern;
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::core(
        "bytes_come_back_as_they_went",
        "Copies bytes between host and device or between devices of this plugin, in stream order, \
         or at once without a stream.",
        round_trip,
    ),
    Case::core(
        "a_copy_changes_its_range_only",
        "Length; never 0.",
        neighbours_are_kept,
    ),
    Case::core(
        "a_mebibyte_comes_back_as_it_went",
        "Copies bytes between host and device or between devices of this plugin, in stream order, \
         or at once without a stream.",
        large_round_trip,
    ),
    Case::core(
        "bytes_move_between_allocations",
        "Copies bytes between host and device or between devices of this plugin, in stream order, \
         or at once without a stream.",
        between_allocations,
    ),
    Case::core(
        "bytes_move_inside_an_allocation",
        "Copies bytes between host and device or between devices of this plugin, in stream order, \
         or at once without a stream. … `XD_INVALID` for overlap.",
        inside_an_allocation,
    ),
    Case::full(
        "an_overlapping_copy_is_refused",
        "`XD_INVALID` for overlap.",
        overlap,
    ),
    Case::full(
        "a_copy_that_reaches_past_its_allocation_is_refused",
        "`XD_INVALID` too where a side reaches past the end of its allocation, with the offset of a handle, \
         and `XD_NOT_OWNER` where it begins in none: nothing was copied.",
        past_the_end,
    ),
    Case::core(
        "host_memory_is_copied_to_host_memory_or_unsupported",
        "`XD_UNSUPPORTED` for a pair it cannot reach: nothing was changed",
        host_to_host,
    ),
    Case::core(
        "a_handle_that_nobody_vouched_for_is_not_copied",
        "no word is dereferenced on trust.",
        unknown_handle,
    ),
];

const SIZES: [usize; 4] = [1, 3, 255, 4097];
const OFFSETS: [u64; 4] = [0, 1, 7, 64];

fn round_trip(subject: &Subject<'_>) -> Verdict {
    let memory = subject.allocate(8192)?;
    for (seed, size) in (1..).zip(SIZES) {
        for offset in OFFSETS {
            let bytes = pattern(seed + offset * 100, size);
            memory.write(offset, &bytes)?;
            let what = format!("{size} bytes at offset {offset}");
            same_bytes(&what, &memory.read(offset, size)?, &bytes)?;
        }
    }
    Ok(())
}

fn neighbours_are_kept(subject: &Subject<'_>) -> Verdict {
    let memory = subject.allocate(8192)?;
    for (seed, size) in (1..).zip(SIZES) {
        for offset in OFFSETS {
            let mut all = pattern(7, 8192);
            memory.write(0, &all)?;
            let bytes = pattern(seed + 50, size);
            memory.write(offset, &bytes)?;
            let start = usize::try_from(offset).unwrap_or(0);
            for (place, byte) in all.iter_mut().skip(start).zip(&bytes) {
                *place = *byte;
            }
            let what = format!("all bytes after {size} were written at offset {offset}");
            same_bytes(&what, &memory.read(0, 8192)?, &all)?;
        }
    }
    Ok(())
}

fn large_round_trip(subject: &Subject<'_>) -> Verdict {
    let bytes = pattern(9, 1 << 20);
    let memory = subject.allocate(1 << 20)?;
    memory.write(0, &bytes)?;
    same_bytes("a mebibyte", &memory.read(0, 1 << 20)?, &bytes)
}

fn between_allocations(subject: &Subject<'_>) -> Verdict {
    let (from, to) = (subject.allocate(8192)?, subject.allocate(8192)?);
    for (seed, size) in (1..).zip(SIZES) {
        for (src_offset, dst_offset) in OFFSETS.into_iter().zip(OFFSETS.into_iter().rev()) {
            let bytes = pattern(seed * 11, size);
            from.write(src_offset, &bytes)?;
            let mut dst = Place::Memory(&to, dst_offset);
            let mut src = Place::Memory(&from, src_offset);
            copy(subject.hooks(), &mut dst, &mut src, size as u64)?;
            let what = format!("{size} bytes from offset {src_offset} to {dst_offset}");
            same_bytes(&what, &to.read(dst_offset, size)?, &bytes)?;
        }
    }
    Ok(())
}

fn inside_an_allocation(subject: &Subject<'_>) -> Verdict {
    let memory = subject.allocate(8192)?;
    let bytes = pattern(12, 1000);
    memory.write(0, &bytes)?;
    let (mut dst, mut src) = (Place::Memory(&memory, 4096), Place::Memory(&memory, 0));
    copy(subject.hooks(), &mut dst, &mut src, 1000)?;
    same_bytes("the copy", &memory.read(4096, 1000)?, &bytes)?;
    same_bytes("its source", &memory.read(0, 1000)?, &bytes)
}

fn overlap(subject: &Subject<'_>) -> Verdict {
    let memory = subject.allocate(4096)?;
    memory.write(0, &pattern(13, 4096))?;
    let (mut dst, mut src) = (Place::Memory(&memory, 100), Place::Memory(&memory, 0));
    let answer = copy(subject.hooks(), &mut dst, &mut src, 1000);
    answers(
        "a copy onto itself",
        &answer,
        &[Status::INVALID, Status::UNSUPPORTED],
    )?;
    same_bytes("the memory", &memory.read(0, 4096)?, &pattern(13, 4096))
}

fn past_the_end(subject: &Subject<'_>) -> Verdict {
    let memory = subject.allocate(4096)?;
    memory.write(0, &pattern(15, 4096))?;
    let size = memory.query(0)?.size;
    for offset in [size - 1, size - 16] {
        let mut bytes = [0xa5; 32];
        let mut src = Place::Claimed(memory.side_at(offset));
        let answer = copy(
            subject.hooks(),
            &mut Place::Target(&mut bytes, 0),
            &mut src,
            32,
        );
        let what = format!("a copy of 32 bytes from byte {offset} of {size}");
        answers(&what, &answer, &[Status::INVALID])?;
        same_bytes("the destination", &bytes, &[0xa5; 32])?;
    }
    for (offset, count) in [(size - 1, 2), (size - 8, 16)] {
        let mut dst = Place::Claimed(memory.side_at(offset));
        let answer = copy(
            subject.hooks(),
            &mut dst,
            &mut Place::Source(&[9; 16], 0),
            count,
        );
        let what = format!("a copy of {count} bytes to byte {offset} of {size}");
        answers(&what, &answer, &[Status::INVALID])?;
    }
    same_bytes("the memory", &memory.read(0, 4096)?, &pattern(15, 4096))
}

fn host_to_host(subject: &Subject<'_>) -> Verdict {
    let from = pattern(14, 500);
    let mut to = vec![0; 500];
    let (mut dst, mut src) = (Place::Target(&mut to, 0), Place::Source(&from, 0));
    let answer = copy(subject.hooks(), &mut dst, &mut src, 500);
    answers(
        "a copy from host to host",
        &answer,
        &[Status::OK, Status::UNSUPPORTED],
    )?;
    let wanted = if is_unsupported(&answer) {
        vec![0; 500]
    } else {
        from
    };
    same_bytes("the destination", &to, &wanted)
}

fn unknown_handle(subject: &Subject<'_>) -> Verdict {
    if subject.info().address_form != AddressForm::HANDLE {
        return skipped("the device's addresses are pointers");
    }
    let memory = subject.allocate(4096)?;
    let word = memory.address().word;
    for claimed in [word.wrapping_add(8), word ^ 0x10, 1] {
        let mut bytes = [0_u8; 16];
        let mut src = Place::Claimed(Side {
            address: Address::handle(claimed, 0),
            ..memory.side()
        });
        let mut dst = Place::Target(&mut bytes, 0);
        let status = status_of(&copy(subject.hooks(), &mut dst, &mut src, 16));
        crate::case::ensure!(
            [Status::NOT_OWNER, Status::STALE, Status::INVALID].contains(&status),
            "a copy from the word {claimed:#x} answered {status}"
        );
    }
    Ok(())
}
