//! A page with more owners than fit a line, cut into granules with a slot each.
//!
//! A query then looks at one word of the page and one record, however many owners there are. A page
//! that was cut stays so for the life of the table.

use super::{
    arena::{Arena, GRANULE_BITS, GRANULES, Granules, PAGE_BITS, Pool},
    page::{self, Full},
    parts::{Part, index, parts},
    record::Record,
    words::AtomicU32,
};

/// The slot of an address's granule.
#[inline(always)]
pub(super) fn of(arena: &Arena, granules: u32, address: u64) -> Option<&AtomicU32> {
    let Granules(slots) = arena.granules(granules)?;
    slots.get(index(address, GRANULE_BITS) & (GRANULES - 1))
}

/// Visits the page's slot, or those of its granules that the part touches, until there is an
/// answer. The caller holds the lock.
pub(super) fn visit<T>(
    arena: &Arena,
    slot: &AtomicU32,
    part: Part,
    mut visit: impl FnMut(&AtomicU32, Part) -> Option<T>,
) -> Option<T> {
    let Some(granules) = page::granules(slot) else {
        return visit(slot, part);
    };
    parts(GRANULE_BITS, part.first, part.last)
        .find_map(|part| visit(of(arena, granules, part.first)?, part))
}

/// Cuts the page of these addresses if its list fills its line. The caller holds the lock.
///
/// # Errors
/// [`Full`] when there is no memory for it; the page is as it was.
pub(super) fn cut_if_full(
    arena: &Arena,
    pool: &mut Pool,
    slot: &AtomicU32,
    address: u64,
) -> Result<(), Full> {
    let Some(records) = page::records_of_full_line(arena, slot) else {
        return Ok(());
    };
    let granules = arena.take_granules().ok_or(Full)?;
    let start = address >> PAGE_BITS << PAGE_BITS;
    let end = start | ((1 << PAGE_BITS) - 1);
    for record in records {
        // Whatever a slot names lives as long as the lock is held.
        let entry = Record(arena.line(record).ok_or(Full)?).read().ok_or(Full)?;
        for part in parts(GRANULE_BITS, entry.base.max(start), entry.last().min(end)) {
            let slot = of(arena, granules, part.first).ok_or(Full)?;
            page::add(arena, pool, slot, part.first, record)?;
        }
    }
    page::name_granules(arena, pool, slot, granules);
    Ok(())
}
