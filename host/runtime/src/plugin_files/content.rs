//! The parts of a file that are looked at: its headers, and the sections that say what it is. Code, which may be
//! gigabytes of it for a device, is not read, nor are holes: neither takes memory.
#![expect(unsafe_code, reason = "asks where a file has holes")]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;

use memmap2::MmapMut;
use object::{
    NativeEndian, SectionIndex,
    elf::{self, FileHeader64},
    read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _},
};

use super::image::DESCRIPTION;
use super::names::Names;

type Header = FileHeader64<NativeEndian>;
type Ranges = Vec<Range<u64>>;
/// Finds where parts lie, by those that were read.
type Part = fn(&[u8]) -> Option<Ranges>;

/// So much of the start says what it is, also where that is a text.
const START: u64 = 4096;

/// A file of this length, with zeros for what is not looked at. In memory of our own: a mapped file that is
/// shortened ends the process.
pub(super) fn read(file: &File, length: u64) -> io::Result<MmapMut> {
    let mut bytes = MmapMut::map_anon(usize::try_from(length).map_err(too_large)?)?;
    // Each part says where the next ones lie; of a long list the first entry says how long it is.
    read_range(file, &mut bytes, 0..START.min(length))?;
    let parts: [Part; 4] = [lists, lists, tables, description];
    for part in parts {
        for range in apart(part(&bytes).unwrap_or_default(), length) {
            read_range(file, &mut bytes, range)?;
        }
    }
    Ok(bytes)
}

/// The lists of segments and of sections.
fn lists(bytes: &[u8]) -> Option<Ranges> {
    let header = Header::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let list = |at: u64, count: u32, size: u16| {
        let bytes = u64::from(count.max(1)).saturating_mul(size.into());
        at..at.saturating_add(bytes)
    };
    let segments = header.phnum(endian, bytes).unwrap_or(0);
    let sections = header.shnum(endian, bytes).unwrap_or(0);
    Some(vec![
        list(header.e_phoff(endian), segments, header.e_phentsize(endian)),
        list(header.e_shoff(endian), sections, header.e_shentsize(endian)),
    ])
}

/// The dynamic section, the symbols that are linked, and the names of both and of the sections.
fn tables(bytes: &[u8]) -> Option<Ranges> {
    let header = Header::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, bytes).ok()?.iter();
    let segments = segments.filter(|segment| segment.p_type(endian) == elf::PT_DYNAMIC);
    let dynamic = segments.map(|segment| segment.file_range(endian));
    let names = header.shstrndx(endian, bytes).unwrap_or(0) as usize;
    let sections = header
        .section_headers(endian, bytes)
        .ok()?
        .iter()
        .enumerate();
    let sections = sections.filter(|(index, section)| match section.sh_type(endian) {
        elf::SHT_DYNAMIC | elf::SHT_DYNSYM => true,
        elf::SHT_STRTAB => *index == names || section.sh_flags(endian).contains(elf::SHF_ALLOC),
        _ => *index == names,
    });
    let sections = sections.filter_map(|(_, section)| section.file_range(endian));
    let all = dynamic.chain(sections);
    Some(all.map(|(at, size)| at..at.saturating_add(size)).collect())
}

/// The plugin's description.
fn description(bytes: &[u8]) -> Option<Ranges> {
    let header = Header::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, bytes).ok()?;
    let names = header.shstrndx(endian, bytes).ok()? as usize;
    let names = sections
        .section(SectionIndex(names))
        .ok()?
        .data(endian, bytes)
        .ok()?;
    let names = Names::new(names)?;
    let named = sections.iter();
    let named = named.filter(|section| names.is(section.sh_name(endian).into(), DESCRIPTION));
    let ranges = named.filter_map(|section| section.file_range(endian));
    Some(
        ranges
            .map(|(at, size)| at..at.saturating_add(size))
            .collect(),
    )
}

/// The same bytes as ranges that do not overlap, so that a file whose sections all name all of it is read once.
fn apart(mut ranges: Ranges, length: u64) -> Ranges {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut apart = Ranges::new();
    for range in ranges {
        let end = range.end.min(length);
        match apart.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(end),
            _ if range.start < end => apart.push(range.start..end),
            _ => {}
        }
    }
    apart
}

fn too_large(_overflow: std::num::TryFromIntError) -> io::Error {
    io::Error::from(io::ErrorKind::FileTooLarge)
}

fn read_range(file: &File, bytes: &mut MmapMut, range: Range<u64>) -> io::Result<()> {
    let mut at = range.start;
    while let Some((begin, end)) = next_data(file, at, range.end) {
        let part =
            usize::try_from(begin).map_err(too_large)?..usize::try_from(end).map_err(too_large)?;
        if let Some(part) = bytes.get_mut(part) {
            file.read_exact_at(part, begin)?;
        }
        at = end;
    }
    Ok(())
}

/// Where the next bytes that were written begin and end; all of them where the system does not say.
fn next_data(file: &File, at: u64, length: u64) -> Option<(u64, u64)> {
    if at >= length {
        return None;
    }
    match seek(file, at, libc::SEEK_DATA) {
        Ok(begin) if begin >= length => None,
        Ok(begin) => {
            let end = seek(file, begin, libc::SEEK_HOLE).unwrap_or(length);
            Some((begin, end.clamp(begin + 1, length)))
        }
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => None,
        Err(_unknown) => Some((at, length)),
    }
}

fn seek(file: &File, from: u64, whence: i32) -> io::Result<u64> {
    let from = i64::try_from(from).unwrap_or(i64::MAX);
    // SAFETY: no pointer is passed; nobody else uses the position of this open file.
    let found = unsafe { libc::lseek(file.as_raw_fd(), from, whence) };
    u64::try_from(found).map_err(|_negative| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// What is read of a file as it would be for the whole of it.
    fn read_all(file: &File, length: u64) -> MmapMut {
        let mut bytes = MmapMut::map_anon(usize::try_from(length).unwrap()).unwrap();
        read_range(file, &mut bytes, 0..length).unwrap();
        bytes
    }

    #[test]
    fn the_bytes_are_those_of_the_file_with_its_holes() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 5000]).unwrap();
        file.set_len(300_000).unwrap();
        file.write_all_at(&[8; 10], 200_000).unwrap();
        let mut expected = vec![0; 300_000];
        expected[..5000].fill(7);
        expected[200_000..200_010].fill(8);
        assert!(read_all(&file, 300_000)[..] == expected);
        expected[4096..].fill(0);
        assert!(
            read(&file, 300_000).unwrap()[..] == expected,
            "it is no library"
        );
        assert!(read(&file, 300_001).is_ok_and(|bytes| bytes[300_000] == 0));
    }

    #[test]
    fn of_a_library_its_code_is_not_read() {
        // The library that this program is linked with.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let path = maps.lines().find_map(|line| {
            line.split_whitespace()
                .nth(5)
                .filter(|path| path.contains("libc.so"))
        });
        let Some(path) = path else { return };
        let file = File::open(path).unwrap();
        let length = file.metadata().unwrap().len();
        let (all, some) = (read_all(&file, length), read(&file, length).unwrap());
        let written = |bytes: &[u8]| bytes.iter().filter(|byte| **byte != 0).count();
        assert!(
            written(&some) * 4 < written(&all),
            "{} of {}",
            written(&some),
            written(&all)
        );
        let parsed = |bytes: &[u8]| {
            let file = object::read::elf::ElfFile64::<NativeEndian>::parse(bytes).unwrap();
            let symbols = file.elf_dynamic_symbol_table();
            let names = symbols
                .iter()
                .map(|symbol| symbols.symbol_name(file.endian(), symbol));
            let names: Vec<_> = names.map(|name| name.unwrap().to_vec()).collect();
            let entries = file.elf_dynamic_table().unwrap();
            (
                names,
                entries.iter().map(|entry| entry.val).collect::<Vec<_>>(),
            )
        };
        assert_eq!(parsed(&some), parsed(&all));
    }

    #[test]
    fn ranges_that_overlap_are_read_once() {
        assert_eq!(
            apart(vec![5..9, 0..2, 1..3, 8..20, 30..40], 15),
            [0..3, 5..15]
        );
    }
}
