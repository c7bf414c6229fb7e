//! Which addresses a file's segments cover, for questions by the hundred thousand.

use object::{elf::PT_LOAD, read::elf::ProgramHeader as _};

use super::image::File;

/// The loaded addresses, in order and without overlaps: begin, and the first behind.
#[derive(Debug)]
pub(super) struct Segments(Vec<(u64, u64)>);

impl Segments {
    pub(super) fn of(file: &File<'_>) -> Self {
        let endian = file.endian();
        let loaded = file.elf_program_headers().iter();
        let loaded = loaded.filter(|segment| segment.p_type(endian) == PT_LOAD);
        Self::merged(loaded.map(|segment| {
            let begin = segment.p_vaddr(endian);
            (begin, begin.saturating_add(segment.p_memsz(endian)))
        }))
    }

    fn merged(ranges: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut ranges: Vec<_> = ranges.filter(|(begin, end)| begin < end).collect();
        ranges.sort_unstable();
        ranges.dedup_by(|next, last| {
            let touches = next.0 <= last.1;
            if touches {
                last.1 = last.1.max(next.1);
            }
            touches
        });
        Self(ranges)
    }

    /// Whether an address is in one.
    pub(super) fn has(&self, address: u64) -> bool {
        let behind = self.0.partition_point(|(begin, _)| *begin <= address);
        let last = behind.checked_sub(1).and_then(|index| self.0.get(index));
        last.is_some_and(|(_, end)| address < *end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_in_segments_in_any_order_that_may_overlap() {
        let ranges = [(30, 40), (10, 20), (15, 18), (20, 25), (50, 50)];
        let segments = Segments::merged(ranges.into_iter());
        assert_eq!(segments.0, [(10, 25), (30, 40)]);
        for address in 0..60 {
            let inside = ranges
                .iter()
                .any(|(begin, end)| (*begin..*end).contains(&address));
            assert_eq!(segments.has(address), inside, "{address}");
        }
        assert!(!Segments::merged([].into_iter()).has(0));
    }
}
