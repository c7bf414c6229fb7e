//! Strided copies against a slow model.

use crossdock_sdk::abi::{Capabilities, Status};

use crate::allocation::{Place, copy_strided};
use crate::case::{Case, Unmet, Verdict, answers, ensure, failed, is_unsupported, same_bytes};
use crate::layout::{Choice, Region};
use crate::random::{Random, pattern};
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::core("pitched_rows_are_copied", CONTRACT, |subject| {
        // What every vendor's rectangle copy can do must work where the capability is claimed.
        let done = sweep(subject, Choice::PITCHED, &WHOLE_BYTES)?;
        ensure!(
            done > 0,
            "STRIDED_COPY is claimed, but every region was UNSUPPORTED"
        );
        Ok(())
    }),
    Case::core(
        "permuted_axes_are_copied_or_unsupported",
        CONTRACT,
        |subject| sweep(subject, Choice::PERMUTED, &WHOLE_BYTES).map(drop),
    ),
    Case::core(
        "negative_strides_are_copied_or_unsupported",
        CONTRACT,
        |subject| sweep(subject, Choice::NEGATIVE, &WHOLE_BYTES).map(drop),
    ),
    Case::core(
        "a_source_that_repeats_is_copied_or_unsupported",
        CONTRACT,
        |subject| sweep(subject, Choice::BROADCAST, &WHOLE_BYTES).map(drop),
    ),
    Case::core(
        "many_dimensions_are_copied_or_unsupported",
        CONTRACT,
        |subject| sweep(subject, Choice::DEEP, &[8, 32]).map(drop),
    ),
    Case::core(
        "elements_below_a_byte_are_packed_or_unsupported",
        "`copy_strided` packs sub-byte elements: the first of a byte lies in its lowest bits",
        sub_byte,
    ),
    Case::full(
        "a_strided_copy_that_leaves_its_allocation_is_refused",
        "`XD_INVALID` and `XD_NOT_OWNER` as `copy` answers them, and `XD_INVALID` too where a side reaches \
         before the beginning.",
        leaves_allocation,
    ),
];

const CONTRACT: &str = "Copies an n-dimensional region in stream order, or at once without a \
                        stream. … `XD_UNSUPPORTED` for a pattern it cannot make: nothing was changed.";
const WHOLE_BYTES: [u32; 5] = [8, 16, 32, 64, 128];
/// Regions for each element size and direction.
const ROUNDS: u64 = 6;

#[derive(Debug, Clone, Copy)]
enum Direction {
    FromHost,
    ToHost,
    Inside,
}

impl Direction {
    const fn name(self) -> &'static str {
        match self {
            Self::FromHost => "a copy from the host",
            Self::ToHost => "a copy to the host",
            Self::Inside => "a copy inside the device",
        }
    }
}

fn sub_byte(subject: &Subject<'_>) -> Verdict {
    let done = sweep(subject, Choice::PERMUTED, &[1, 2, 4])?;
    let claimed = subject.can(Capabilities::SUB_BYTE_STRIDES);
    ensure!(
        !claimed || done > 0,
        "SUB_BYTE_STRIDES is claimed, but every region was UNSUPPORTED"
    );
    Ok(())
}

/// Two rows of 16 bytes that lie at `pitch` in the device's memory, and one behind the other in the host's.
fn rows(pitch: i64) -> Region {
    Region {
        element_bits: 8,
        shape: vec![2, 16],
        dst_strides: vec![pitch, 1],
        src_strides: vec![16, 1],
    }
}

fn turned(region: &Region) -> Region {
    Region {
        dst_strides: region.src_strides.clone(),
        src_strides: region.dst_strides.clone(),
        ..region.clone()
    }
}

fn leaves_allocation(subject: &Subject<'_>) -> Verdict {
    subject.needs(Capabilities::STRIDED_COPY)?;
    let hooks = subject.hooks();
    let memory = subject.allocate(4096)?;
    memory.write(0, &pattern(24, 4096))?;
    let size = memory.query(0)?.size;
    let (into, mut host) = (rows(64), [0xa5; 32]);
    // The last row ends with the allocation; then it would reach 4 bytes further.
    let whole = copy_strided(
        hooks,
        &mut Place::Target(&mut host, 0),
        &mut Place::Claimed(memory.side_at(size - 80)),
        &turned(&into),
    );
    subject.or_skip("a strided copy up to the end of an allocation", whole)?;
    host = [0xa5; 32];
    let end = memory.side_at(size - 76);
    let refused = copy_strided(
        hooks,
        &mut Place::Target(&mut host, 0),
        &mut Place::Claimed(end),
        &turned(&into),
    );
    let what = "a strided copy from memory that ends before its last row";
    answers(what, &refused, &[Status::INVALID])?;
    // Rows that lie backwards, the second before the allocation.
    let refused = copy_strided(
        hooks,
        &mut Place::Target(&mut host, 0),
        &mut Place::Claimed(memory.side_at(32)),
        &turned(&rows(-64)),
    );
    let what = "a strided copy from memory that begins behind its second row";
    answers(what, &refused, &[Status::INVALID, Status::UNSUPPORTED])?;
    same_bytes("the destination", &host, &[0xa5; 32])?;
    let mut src = Place::Source(&host, 0);
    let refused = copy_strided(hooks, &mut Place::Claimed(end), &mut src, &into);
    let what = "a strided copy to memory that ends before its last row";
    answers(what, &refused, &[Status::INVALID])?;
    same_bytes("the memory", &memory.read(0, 4096)?, &pattern(24, 4096))
}

/// Copies generated regions in every direction, and counts those that the plugin copied.
fn sweep(subject: &Subject<'_>, choice: Choice, element_bits: &[u32]) -> Result<u64, Unmet> {
    subject.needs(Capabilities::STRIDED_COPY)?;
    let mut random = Random::new(u64::from(choice.negative) + 2 * u64::from(choice.broadcast));
    let mut done = 0;
    for bits in element_bits {
        for _ in 0..ROUNDS {
            let region = Region::random(&mut random, choice, *bits);
            for direction in [Direction::FromHost, Direction::ToHost, Direction::Inside] {
                done += u64::from(one_copy(subject, &mut random, &region, direction)?);
            }
        }
    }
    Ok(done)
}

/// Copies one region, compares every byte of the destination, and says whether it was copied.
fn one_copy(
    subject: &Subject<'_>,
    random: &mut Random,
    region: &Region,
    direction: Direction,
) -> Result<bool, Unmet> {
    let ((dst_before, dst_after), (src_before, src_after)) = region.reach();
    let (dst_size, src_size) = (
        dst_before + dst_after + 2 * ROOM,
        src_before + src_after + 2 * ROOM,
    );
    let (dst_start, src_start) = (dst_before + ROOM, src_before + ROOM);
    let source = random.bytes(usize::try_from(src_size).unwrap_or(0));
    let before = random.bytes(usize::try_from(dst_size).unwrap_or(0));
    let (dst, src) = (subject.allocate(dst_size)?, subject.allocate(src_size)?);
    dst.write(0, &before)?;
    src.write(0, &source)?;
    let mut host = before.clone();
    let answer = {
        let mut to = match direction {
            Direction::ToHost => Place::Target(&mut host, dst_start),
            Direction::FromHost | Direction::Inside => Place::Memory(&dst, dst_start),
        };
        let mut from = match direction {
            Direction::FromHost => Place::Source(&source, src_start),
            Direction::ToHost | Direction::Inside => Place::Memory(&src, src_start),
        };
        copy_strided(subject.hooks(), &mut to, &mut from, region)
    };
    let found = match direction {
        Direction::ToHost => host,
        Direction::FromHost | Direction::Inside => dst.read(0, before.len())?,
    };
    let what = format!("{} of {region}", direction.name());
    if is_unsupported(&answer) {
        same_bytes(&format!("{what}, UNSUPPORTED"), &found, &before)?;
        return Ok(false);
    }
    if let Err(error) = answer {
        return failed(format!("{what}: {}", error.why()));
    }
    let mut wanted = before;
    region.model((&mut wanted, dst_start), (&source, src_start));
    same_bytes(&what, &found, &wanted)?;
    Ok(true)
}

/// Bytes before and behind a region that have to stay as they are.
const ROOM: u64 = 48;
