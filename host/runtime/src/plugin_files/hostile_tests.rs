//! Files made to take long: everything in them names everything else.

use std::{
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::Duration,
};

use super::preflight_tests::{Made, look};
use super::*;

/// The look is over long before anybody would give it up.
fn soon(path: PathBuf) -> Result<Preflight, PreflightError> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        // Nobody listens any more once the time is up.
        drop(tell.send(look(&path)));
    });
    told.recv_timeout(Duration::from_secs(15))
        .expect("the look takes for ever")
}

/// A file under construction: more is put behind its end, and its headers are pointed there.
struct Elf(Vec<u8>);

const SEGMENTS: (usize, usize, usize) = (32, 56, 56);
const SECTIONS: (usize, usize, usize) = (40, 60, 64);
const LOAD: u64 = 1;
const RELA: u32 = 4;
const DYNAMIC: u32 = 6;
const NOTE: u32 = 7;
const DYNSYM: u32 = 11;

impl Elf {
    fn number(&self, at: usize, bytes: usize) -> u64 {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&self.0[at..at + bytes]);
        u64::from_le_bytes(word)
    }

    fn set(&mut self, at: usize, bytes: usize, value: u64) {
        self.0[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
    }

    /// Puts bytes behind the end, and says where.
    fn append(&mut self, bytes: &[u8]) -> u64 {
        self.0.resize(self.0.len().next_multiple_of(16), 0);
        let at = self.0.len() as u64;
        self.0.extend_from_slice(bytes);
        at
    }

    /// The entries of a table of headers: where it is named, counted, and how long one is.
    fn table(&self, (place, count, size): (usize, usize, usize)) -> Vec<u8> {
        let at = usize::try_from(self.number(place, 8)).unwrap();
        let length = usize::try_from(self.number(count, 2)).unwrap() * size;
        self.0[at..at + length].to_vec()
    }

    fn set_table(&mut self, (place, count, size): (usize, usize, usize), entries: &[u8]) {
        let at = self.append(entries);
        self.set(place, 8, at);
        self.set(count, 2, (entries.len() / size) as u64);
    }

    /// The header of a section: as the first one of its kind, or where there is none as given.
    fn section(&self, kind: u32) -> Option<usize> {
        let at = usize::try_from(self.number(SECTIONS.0, 8)).unwrap();
        let headers =
            (0..usize::try_from(self.number(SECTIONS.1, 2)).unwrap()).map(|n| at + n * 64);
        headers
            .into_iter()
            .find(|at| self.number(at + 4, 4) == u64::from(kind))
    }

    fn linked(&self, section: usize) -> usize {
        let index = usize::try_from(self.number(section + 40, 4)).unwrap();
        usize::try_from(self.number(SECTIONS.0, 8)).unwrap() + index * 64
    }

    /// Replaces what is in a section by its bytes and more.
    fn extend(&mut self, section: usize, more: &[u8]) {
        let (at, size) = (self.number(section + 24, 8), self.number(section + 32, 8));
        let at = usize::try_from(at).unwrap();
        let mut bytes = self.0[at..at + usize::try_from(size).unwrap()].to_vec();
        bytes.extend_from_slice(more);
        let at = self.append(&bytes);
        self.set(section + 24, 8, at);
        self.set(section + 32, 8, bytes.len() as u64);
    }

    /// Segments that map nothing, before the true ones.
    fn add_segments(&mut self, count: usize) {
        let mut entry = [0; 56];
        entry[..8].copy_from_slice(&(LOAD | 4 << 32).to_le_bytes());
        let true_ones = self.table(SEGMENTS);
        self.set_table(SEGMENTS, &[entry.repeat(count), true_ones].concat());
    }

    /// Sections of one kind over the same bytes.
    fn add_sections(&mut self, kind: u32, place: (u64, u64), names: impl Iterator<Item = u32>) {
        let mut headers = self.table(SECTIONS);
        for name in names {
            let mut header = [0; 64];
            header[..4].copy_from_slice(&name.to_le_bytes());
            header[4..8].copy_from_slice(&kind.to_le_bytes());
            header[24..32].copy_from_slice(&place.0.to_le_bytes());
            header[32..40].copy_from_slice(&place.1.to_le_bytes());
            header[56..64].copy_from_slice(&24_u64.to_le_bytes());
            headers.extend_from_slice(&header);
        }
        self.set_table(SECTIONS, &headers);
    }

    /// Relocations of the last address that is mapped.
    fn add_relocations(&mut self, count: usize) -> (u64, u64) {
        let rela = self.section(RELA).unwrap();
        let at = usize::try_from(self.number(rela + 24, 8)).unwrap();
        let entry = self.0[at..at + 24].repeat(count);
        (self.append(&entry), entry.len() as u64)
    }
}

fn names(text: usize) -> Vec<u8> {
    let mut names = vec![b'a'; text];
    names.push(0);
    names
}

#[test]
fn relocations_sections_and_segments_are_not_multiplied() {
    let made = Made::new();
    for sections in [1, 50_000] {
        let mut elf = Elf(made.good());
        let name = u32::try_from(elf.number(elf.section(RELA).unwrap(), 4)).unwrap();
        let place = elf.add_relocations(300_000);
        elf.add_segments(60_000);
        elf.add_sections(RELA, place, std::iter::repeat_n(name, sections));
        let seen = soon(made.write("many.so", &elf.0));
        assert!(seen.is_ok(), "{seen:?}");
    }
}

#[test]
fn names_inside_names_are_not_multiplied() {
    let made = Made::new();
    let text = 6 << 20;
    // Of sections.
    let mut elf = Elf(made.good());
    let headers = usize::try_from(elf.number(SECTIONS.0, 8)).unwrap();
    let names_at = headers + usize::try_from(elf.number(62, 2)).unwrap() * 64;
    let first = u32::try_from(elf.number(names_at + 32, 8)).unwrap();
    elf.extend(names_at, &names(text));
    elf.add_sections(NOTE, (0, 0), first..first + 60_000);
    let seen = soon(made.write("sections.so", &elf.0));
    assert!(seen.is_ok(), "{seen:?}");
    // Of symbols.
    let mut elf = Elf(made.good());
    let symbols = elf.section(DYNSYM).unwrap();
    let texts = elf.linked(symbols);
    let first = u32::try_from(elf.number(texts + 32, 8)).unwrap();
    elf.extend(texts, &names(text));
    let mut more = Vec::new();
    for name in first..first + 300_000 {
        more.extend_from_slice(&name.to_le_bytes());
        more.extend_from_slice(&[0x12, 0, 1, 0]);
        more.extend_from_slice(&[0; 16]);
    }
    elf.extend(symbols, &more);
    let seen = soon(made.write("symbols.so", &elf.0)).unwrap();
    assert!(matches!(&seen.remarks[..], [Remark::Exports { names }, _] if names.len() == 300_000));
    // Of needed libraries.
    let mut elf = Elf(made.good());
    let dynamic = elf.section(DYNAMIC).unwrap();
    let texts = elf.linked(dynamic);
    let first = elf.number(texts + 32, 8);
    elf.extend(texts, &names(text));
    let at = usize::try_from(elf.number(dynamic + 24, 8)).unwrap();
    let mut entries = Vec::new();
    for name in first..first + 300_000 {
        entries.extend_from_slice(&1_u64.to_le_bytes());
        entries.extend_from_slice(&name.to_le_bytes());
    }
    entries.extend_from_slice(&elf.0[at..at + 24 * 16]);
    let begin = elf.append(&entries);
    elf.set(dynamic + 24, 8, begin);
    elf.set(dynamic + 32, 8, entries.len() as u64);
    let seen = soon(made.write("needed.so", &elf.0));
    assert!(
        matches!(seen, Err(PreflightError::Damaged { .. })),
        "{seen:?}"
    );
}

#[test]
fn the_holes_of_a_file_are_not_read() {
    let made = Made::new();
    let path = made.path("good.so");
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(3 << 30).unwrap();
    let seen = soon(path.clone());
    assert!(seen.is_ok(), "{seen:?}");
    assert!(peak_kilobytes() < 500 << 10, "{} KiB", peak_kilobytes());
    file.set_len(17 << 30).unwrap();
    let error = soon(path).unwrap_err();
    assert!(matches!(error, PreflightError::Read { .. }), "{error:?}");
}

/// The most memory that this process has had.
fn peak_kilobytes() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_file_of_another_user_is_refused_before_it_is_read() {
    let made = Made::new();
    let path = made.write("text.so", b"no library\n");
    let other = Environment {
        user: 12_345,
        ..Environment::default()
    };
    if crossdock_sdk::trust::user() == 0 {
        std::os::unix::fs::chown(&path, Some(54_321), None).unwrap();
    }
    let error = preflight(Path::new(&path), &other).unwrap_err();
    assert!(
        matches!(error, PreflightError::Untrusted { .. }),
        "{error:?}"
    );
}
