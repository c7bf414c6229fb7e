//! What the bytes of a plugin file must look like before the dynamic linker may map them: a library for
//! this machine, whole, with its description and its root symbol.
//!
//! The linker believes the file: a segment past the end is a bus error. A file that is whole in length
//! and damaged inside is found by the child process that probes the plugin.

use std::path::Path;

use object::{
    NativeEndian, SectionIndex,
    elf::{self, FileHeader64},
    read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _, SectionHeader as _, Sym as _},
};

use super::{
    describe::Description,
    dynamic::{Needs, read_dynamic},
    names::Names,
    preflight::{Flavour, Remark},
    refused::PreflightError,
};

type Header = FileHeader64<NativeEndian>;
pub(super) type File<'a> = ElfFile64<'a, NativeEndian>;
pub(super) type Refused<'a> = &'a dyn Fn(&str) -> PreflightError;

/// What the file says.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) description: Description,
    pub(super) flavour: Flavour,
    pub(super) needed: Vec<String>,
    pub(super) run_path: Vec<String>,
    pub(super) remarks: Vec<Remark>,
}

/// Looks at a file as `content` reads it. No bytes make it panic.
///
/// # Errors
/// The first thing that cannot be, or is missing.
pub(super) fn inspect(path: &Path, bytes: &[u8]) -> Result<Image, PreflightError> {
    check_kind(path, bytes)?;
    check_length(path, bytes)?;
    let damaged = |detail: &str| PreflightError::Damaged {
        path: path.to_owned(),
        detail: detail.to_owned(),
    };
    let file = File::parse(bytes).map_err(|error| damaged(&error.to_string()))?;
    let mut remarks = Vec::new();
    let section = description(&file, bytes, &damaged)?;
    let section = section.ok_or_else(|| PreflightError::NoDescription {
        path: path.to_owned(),
    })?;
    let description =
        Description::parse(section).map_err(|source| PreflightError::Description {
            path: path.to_owned(),
            source,
        })?;
    let Needs { needed, run_path } = read_dynamic(&file, &damaged, &mut remarks)?;
    let symbols = file.elf_dynamic_symbol_table();
    let names = linked_names(&file, symbols.string_section(), &damaged)?;
    remark_symbols(&file, names, &mut remarks);
    let flavour = find_root(path, &file, names)?;
    Ok(Image {
        description,
        flavour,
        needed,
        run_path,
        remarks,
    })
}

/// A library, and for this machine.
fn check_kind(path: &Path, bytes: &[u8]) -> Result<(), PreflightError> {
    let not = |seen| PreflightError::NotALibrary {
        path: path.to_owned(),
        seen,
    };
    let cut = |needs, part| truncated(path, bytes, needs, part);
    if bytes.is_empty() {
        return Err(cut(HEADER, "header"));
    }
    let magic = bytes.get(..MAGIC.len().min(bytes.len()));
    if magic.is_none_or(|start| !MAGIC.starts_with(start)) {
        let text = bytes
            .iter()
            .take(512)
            .all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
        return Err(not(if text { "a text" } else { "no ELF file" }));
    }
    let Some([class, order, _, ..]) = bytes.get(MAGIC.len()..) else {
        return Err(cut(HEADER, "header"));
    };
    let half = |at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let (Some(kind), Some(machine)) = (half(16), half(18)) else {
        return Err(cut(HEADER, "header"));
    };
    let native = if cfg!(target_endian = "little") { 1 } else { 2 };
    let own = MACHINES
        .iter()
        .find(|(_, name)| *name == std::env::consts::ARCH);
    let found = MACHINES.iter().find(|(number, _)| *number == machine);
    if *class != 2 || *order != native || own.is_some_and(|(number, _)| *number != machine) {
        let bits = if *class == 1 { ", 32 bit" } else { "" };
        let order = if *order == native {
            ""
        } else {
            ", the other byte order"
        };
        let name = found.map_or_else(
            || format!("machine {machine}"),
            |(_, name)| (*name).to_owned(),
        );
        return Err(PreflightError::WrongMachine {
            path: path.to_owned(),
            found: format!("{name}{bits}{order}"),
            wanted: std::env::consts::ARCH.to_owned(),
        });
    }
    match kind {
        3 => Ok(()),
        1 => Err(not("an object file that was not linked")),
        2 => Err(not("a program")),
        4 => Err(not("a core dump")),
        _ => Err(not("an ELF file of no kind that loads")),
    }
}

/// Everything that the headers name lies in the file.
fn check_length(path: &Path, bytes: &[u8]) -> Result<(), PreflightError> {
    let has = bytes.len() as u64;
    let inside = |offset: u64, size: u64, part| {
        let end = offset.saturating_add(size);
        if end <= has {
            Ok(())
        } else {
            Err(truncated(path, bytes, end, part))
        }
    };
    let damaged = |detail: &dyn std::fmt::Display| PreflightError::Damaged {
        path: path.to_owned(),
        detail: detail.to_string(),
    };
    inside(0, HEADER, "header")?;
    let header = Header::parse(bytes).map_err(|error| damaged(&error))?;
    let endian = header.endian().map_err(|error| damaged(&error))?;
    let table = |count: u16, size: u16| u64::from(count) * u64::from(size);
    let segments = table(header.e_phnum(endian), header.e_phentsize(endian));
    inside(header.e_phoff(endian), segments, "list of segments")?;
    let segments = header
        .program_headers(endian, bytes)
        .map_err(|error| damaged(&error))?;
    let mut loads = 0;
    for segment in segments
        .iter()
        .filter(|segment| segment.p_type(endian) == elf::PT_LOAD)
    {
        loads += 1;
        inside(
            segment.p_offset(endian),
            segment.p_filesz(endian),
            "loaded segment",
        )?;
        if segment.p_filesz(endian) > segment.p_memsz(endian) {
            return Err(damaged(&"a segment is larger in the file than in memory"));
        }
    }
    if loads == 0 {
        return Err(damaged(&"it has no segment to load"));
    }
    let sections = table(header.e_shnum(endian), header.e_shentsize(endian));
    inside(header.e_shoff(endian), sections, "list of sections")?;
    let sections = header
        .section_headers(endian, bytes)
        .map_err(|error| damaged(&error))?;
    for section in sections {
        if let Some((offset, size)) = section.file_range(endian) {
            inside(offset, size, "section")?;
        }
    }
    Ok(())
}

/// The section with the plugin's description.
fn description<'a>(
    file: &File<'a>,
    bytes: &'a [u8],
    damaged: Refused<'_>,
) -> Result<Option<&'a [u8]>, PreflightError> {
    let (endian, sections) = (file.endian(), file.elf_section_table());
    let names = file.elf_header().shstrndx(endian, bytes);
    let names = names.map_err(|error| damaged(&error.to_string()))?;
    let names = linked_names(file, SectionIndex(names as usize), damaged)?;
    let mut sections = sections.iter();
    let section = sections.find(|section| names.is(section.sh_name(endian).into(), DESCRIPTION));
    Ok(section.and_then(|section| section.data(endian, bytes).ok()))
}

/// The table of names in a section that another one links to.
pub(super) fn linked_names<'a>(
    file: &File<'a>,
    section: SectionIndex,
    damaged: Refused<'_>,
) -> Result<Names<'a>, PreflightError> {
    let section = file.elf_section_table().section(section);
    let bytes = section.and_then(|section| section.data(file.endian(), file.data()));
    let bytes = bytes.map_err(|error| damaged(&error.to_string()))?;
    Names::new(bytes).ok_or_else(|| damaged("its table of names is blank or cut off"))
}

/// What the plugin shares with others beside its root.
fn remark_symbols(file: &File<'_>, names: Names<'_>, remarks: &mut Vec<Remark>) {
    let endian = file.endian();
    let (mut unique, mut exports) = (Vec::new(), Vec::new());
    for symbol in file.elf_dynamic_symbol_table().iter() {
        let at = u64::from(symbol.st_name(endian));
        let name = || {
            let name = names.at(at, LONGEST_NAME).unwrap_or_default();
            String::from_utf8_lossy(name).into_owned()
        };
        let is_root = [C_ROOT, RUST_ROOT]
            .iter()
            .any(|root| names.is(at, root.as_bytes()));
        if !symbol.is_undefined(endian) && symbol.st_bind() == elf::STB_GLOBAL && !is_root {
            exports.push(name());
        }
        if symbol.st_bind() == elf::STB_GNU_UNIQUE {
            unique.push(name());
        }
    }
    if !unique.is_empty() {
        remarks.push(Remark::UniqueSymbols { names: unique });
    }
    if !exports.is_empty() {
        remarks.push(Remark::Exports { names: exports });
    }
}

/// How the table is found: by the root symbol that is defined here.
fn find_root(path: &Path, file: &File<'_>, names: Names<'_>) -> Result<Flavour, PreflightError> {
    let (endian, symbols) = (file.endian(), file.elf_dynamic_symbol_table());
    let defines = |name: &str| {
        let mut symbols = symbols.iter().filter(|symbol| !symbol.is_undefined(endian));
        symbols.any(|symbol| names.is(symbol.st_name(endian).into(), name.as_bytes()))
    };
    match () {
        () if defines(RUST_ROOT) => Ok(Flavour::Rust),
        () if defines(C_ROOT) => Ok(Flavour::C),
        () => Err(PreflightError::NoRoot {
            path: path.to_owned(),
        }),
    }
}

fn truncated(path: &Path, bytes: &[u8], needs: u64, part: &'static str) -> PreflightError {
    PreflightError::Truncated {
        path: path.to_owned(),
        needs,
        has: bytes.len() as u64,
        part,
    }
}

/// What a C plugin exports: a function that returns its table.
pub(super) const C_ROOT: &str = "crossdock_plugin";

/// What a Rust plugin exports: the header of its root module.
pub(crate) const RUST_ROOT: &str = "_1as_0lib_1header_0root_bmodule_bloader";

/// The section of a plugin's description.
pub(super) const DESCRIPTION: &[u8] = b".crossdock";

/// So much of a symbol's name is shown.
const LONGEST_NAME: usize = 256;
const MAGIC: &[u8] = b"\x7fELF";
const HEADER: u64 = 64;

/// `e_machine`, and the name that the standard library has for it.
const MACHINES: [(u16, &str); 9] = [
    (62, "x86_64"),
    (183, "aarch64"),
    (243, "riscv64"),
    (21, "powerpc64"),
    (22, "s390x"),
    (258, "loongarch64"),
    (3, "x86"),
    (40, "arm"),
    (8, "mips"),
];
