//! What the bytes of a plugin file must look like before the dynamic linker may map them.
//!
//! The linker believes the file: a segment past the end is a bus error, a blank relocation a jump to
//! nowhere. Each part that it reads is looked at here first. Zeroed code or data that the file's
//! structure does not show is found by the child process that probes the plugin.

use std::path::Path;

use object::{
    NativeEndian, SectionIndex,
    elf::{self, FileHeader64, Rela64, Sym64},
    read::elf::{
        ElfFile64, FileHeader as _, ProgramHeader as _, Rela as _, SectionHeader as _, Sym as _,
    },
};

use super::{
    describe::Description,
    dynamic::{Needs, check_dynamic},
    names::Names,
    preflight::{Flavour, Remark},
    refused::PreflightError,
    root_symbol,
    segments::Segments,
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

/// Looks at a whole file. No bytes make it panic.
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
    let section = check_sections(&file, bytes, &damaged, &mut remarks)?;
    let section = section.ok_or_else(|| PreflightError::NoDescription {
        path: path.to_owned(),
    })?;
    let description =
        Description::parse(section).map_err(|source| PreflightError::Description {
            path: path.to_owned(),
            source,
        })?;
    let Needs { needed, run_path } = check_dynamic(&file, &damaged, &mut remarks)?;
    let symbols = file.elf_dynamic_symbol_table();
    let names = linked_names(&file, symbols.string_section(), &damaged)?;
    check_symbols(&file, names, &damaged, &mut remarks)?;
    check_relocations(&file, bytes, &damaged, &mut remarks)?;
    let flavour = find_root(path, &file, names, &damaged)?;
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
    let mut total: u64 = 0;
    for section in sections {
        if let Some((offset, size)) = section.file_range(endian) {
            inside(offset, size, "section")?;
            total = total.saturating_add(size);
        }
    }
    // No byte is looked at twice, however many sections say that it is theirs.
    if total > has {
        return Err(damaged(&"its sections lie over each other"));
    }
    Ok(())
}

/// Sections that can be read. Blank ones, and tables of zeros in code, may have been built so. Gives
/// the plugin's description.
fn check_sections<'a>(
    file: &File<'a>,
    bytes: &'a [u8],
    damaged: Refused<'_>,
    remarks: &mut Vec<Remark>,
) -> Result<Option<&'a [u8]>, PreflightError> {
    let (endian, sections) = (file.endian(), file.elf_section_table());
    let names = file.elf_header().shstrndx(endian, bytes);
    let names = names.map_err(|error| damaged(&error.to_string()))?;
    let names = linked_names(file, SectionIndex(names as usize), damaged)?;
    let mut description = None;
    for (index, section) in sections.iter().enumerate().skip(1) {
        let name = names.at(section.sh_name(endian).into(), LONGEST_NAME);
        let name = name.unwrap_or_default();
        if section.sh_type(endian) == elf::SHT_NULL || name.is_empty() {
            let part = format!("section {index}");
            remarks.push(Remark::Blank { part });
            continue;
        }
        if name == b".crossdock" && description.is_none() {
            description = section.data(endian, bytes).ok();
        }
        let code = elf::SHF_EXECINSTR.0;
        if section.sh_flags(endian).0 & code == 0 || section.sh_type(endian) != elf::SHT_PROGBITS {
            continue;
        }
        let data = section
            .data(endian, bytes)
            .map_err(|error| damaged(&error.to_string()))?;
        if data
            .chunks_exact(BLANK / 2)
            .map(is_blank)
            .collect::<Vec<_>>()
            .windows(2)
            .any(|w| w == [true, true])
        {
            let name = String::from_utf8_lossy(name);
            let part = format!("code (`{name}`), for {BLANK} bytes or more,");
            remarks.push(Remark::Blank { part });
        }
    }
    Ok(description)
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

/// Each dynamic symbol has a name.
fn check_symbols(
    file: &File<'_>,
    names: Names<'_>,
    damaged: Refused<'_>,
    remarks: &mut Vec<Remark>,
) -> Result<(), PreflightError> {
    let (endian, symbols) = (file.endian(), file.elf_dynamic_symbol_table());
    if symbols.is_empty() {
        return Err(damaged("its table of dynamic symbols is missing"));
    }
    let (mut unique, mut exports) = (Vec::new(), Vec::new());
    for (index, symbol) in symbols.enumerate().filter(|(index, _)| index.0 != 0) {
        let at = u64::from(symbol.st_name(endian));
        let name = names.at(at, LONGEST_NAME).unwrap_or_default();
        if name.is_empty() && symbol.st_type() != elf::STT_SECTION {
            return Err(damaged(&format!("its dynamic symbol {index} has no name")));
        }
        let is_root = [C_ROOT, RUST_ROOT]
            .iter()
            .any(|root| names.is(at, root.as_bytes()));
        if !symbol.is_undefined(endian) && symbol.st_bind() == elf::STB_GLOBAL && !is_root {
            exports.push(String::from_utf8_lossy(name).into_owned());
        }
        if symbol.st_bind() == elf::STB_GNU_UNIQUE {
            unique.push(String::from_utf8_lossy(name).into_owned());
        }
    }
    if !unique.is_empty() {
        remarks.push(Remark::UniqueSymbols { names: unique });
    }
    if !exports.is_empty() {
        remarks.push(Remark::Exports { names: exports });
    }
    Ok(())
}

/// No relocation that the linker makes leads outside or names a symbol that is not there, and not all
/// are blank. Those that a build kept for other tools are nobody's at load time.
fn check_relocations(
    file: &File<'_>,
    bytes: &[u8],
    damaged: Refused<'_>,
    remarks: &mut Vec<Remark>,
) -> Result<(), PreflightError> {
    let endian = file.endian();
    let symbols = file.elf_dynamic_symbol_table().len();
    let segments = Segments::of(file);
    let is_loaded = |flags: elf::SectionFlags| flags.0 & elf::SHF_ALLOC.0 != 0;
    let sections = file.elf_section_table().iter();
    for section in sections.filter(|section| is_loaded(section.sh_flags(endian))) {
        let list = section
            .rela(endian, bytes)
            .map_err(|error| damaged(&error.to_string()))?;
        let list = list.map(|(list, _)| list).unwrap_or_default();
        let is_blank = |entry: &Rela64<NativeEndian>| entry.r_type(endian, false).0 == 0;
        if !list.is_empty() && list.iter().all(is_blank) {
            return Err(damaged("its relocations are blank"));
        }
        if let Some(index) = list.iter().position(is_blank) {
            let part = format!("relocation {index}");
            remarks.push(Remark::Blank { part });
        }
        for (index, entry) in list
            .iter()
            .enumerate()
            .filter(|(_, entry)| !is_blank(entry))
        {
            let known =
                usize::try_from(entry.r_sym(endian, false)).is_ok_and(|sym| sym < symbols.max(1));
            if !known || !segments.has(entry.r_offset(endian)) {
                return Err(damaged(&format!("its relocation {index} leads outside")));
            }
        }
    }
    Ok(())
}

/// The root symbol: exported, defined here, and not blank.
fn find_root(
    path: &Path,
    file: &File<'_>,
    names: Names<'_>,
    damaged: Refused<'_>,
) -> Result<Flavour, PreflightError> {
    let (endian, symbols) = (file.endian(), file.elf_dynamic_symbol_table());
    let defined = |name: &str| -> Option<&Sym64<NativeEndian>> {
        symbols.iter().find(|symbol| {
            !symbol.is_undefined(endian) && names.is(symbol.st_name(endian).into(), name.as_bytes())
        })
    };
    let (symbol, name, flavour) = match (defined(RUST_ROOT), defined(C_ROOT)) {
        (Some(symbol), _) => (symbol, RUST_ROOT, Flavour::Rust),
        (None, Some(symbol)) => (symbol, C_ROOT, Flavour::C),
        (None, None) => {
            return Err(PreflightError::NoRoot {
                path: path.to_owned(),
            });
        }
    };
    if !root_symbol::is_found(file, names, name, damaged)? {
        return Err(damaged(
            "its hash table of symbols does not lead to the root symbol",
        ));
    }
    let content = file_bytes_at(file, symbol.st_value(endian)).and_then(|bytes| bytes.get(..8));
    // A Rust root is data, and its first words may be filled by relocations.
    if content.is_none_or(|content| flavour == Flavour::C && is_blank(content)) {
        return Err(damaged(&format!(
            "its root symbol `{name}` leads to blank bytes"
        )));
    }
    Ok(flavour)
}

/// The file's bytes from an address to the end of its segment.
pub(super) fn file_bytes_at<'a>(file: &File<'a>, address: u64) -> Option<&'a [u8]> {
    let endian = file.endian();
    file.elf_program_headers()
        .iter()
        .filter(|s| s.p_type(endian) == elf::PT_LOAD)
        .find_map(|s| {
            let data = s.data(endian, file.data()).ok()?;
            let offset = usize::try_from(address.checked_sub(s.p_vaddr(endian))?).ok()?;
            data.get(offset..).filter(|rest| !rest.is_empty())
        })
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
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

/// So much of a name of a section or a symbol is looked at.
const LONGEST_NAME: usize = 256;
const MAGIC: &[u8] = b"\x7fELF";
const HEADER: u64 = 64;

/// So many zero bytes are no instructions: a table, or a hole.
const BLANK: usize = 1024;

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
