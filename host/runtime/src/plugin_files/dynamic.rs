//! The dynamic section of a plugin file: what the linker will follow.

use object::{
    SectionIndex, elf,
    read::elf::{Dynamic, SectionHeader as _},
};

use super::image::{File, Refused, linked_names};
use super::names::Names;
use super::preflight::Remark;
use super::refused::PreflightError;

/// `DF_STATIC_TLS`.
const STATIC_TLS: u64 = 0x10;

/// More text than any list of libraries and folders, which bounds how long it is looked at.
const MOST_TEXT: usize = 1 << 20;

/// The libraries that a file needs, and the folders of its own where they may be.
pub(super) struct Needs {
    pub(super) needed: Vec<String>,
    pub(super) run_path: Vec<String>,
}

/// Reads the dynamic section.
pub(super) fn read_dynamic(
    file: &File<'_>,
    damaged: Refused<'_>,
    remarks: &mut Vec<Remark>,
) -> Result<Needs, PreflightError> {
    let table = file
        .elf_dynamic_table()
        .map_err(|error| damaged(&error.to_string()))?;
    let entries: Vec<_> = table.iter().collect();
    if entries.is_empty() {
        return Err(damaged("its dynamic section is missing or blank"));
    }
    let mut flags = entries.iter().filter(|entry| entry.tag == elf::DT_FLAGS);
    if flags.any(|entry| entry.val & STATIC_TLS != 0) {
        remarks.push(Remark::StaticTls);
    }
    let sections = file.elf_section_table().iter();
    let mut sections =
        sections.filter(|section| section.sh_type(file.endian()) == elf::SHT_DYNAMIC);
    let linked = sections
        .next()
        .map_or(0, |section| section.sh_link(file.endian()));
    let names = linked_names(file, SectionIndex(linked as usize), damaged)?;
    needed_libraries(names, &entries, damaged, remarks)
}

/// The libraries that it needs; a run path that is not relative to the file is remarked.
fn needed_libraries(
    names: Names<'_>,
    entries: &[Dynamic],
    damaged: Refused<'_>,
    remarks: &mut Vec<Remark>,
) -> Result<Needs, PreflightError> {
    let (mut needed, mut run_path) = (Vec::new(), Vec::new());
    let mut left = MOST_TEXT;
    for entry in entries {
        if ![elf::DT_NEEDED, elf::DT_RUNPATH, elf::DT_RPATH].contains(&entry.tag) {
            continue;
        }
        let text = names.at(entry.val, left + 1);
        let text = text.ok_or_else(|| damaged("it needs a library whose name is not there"))?;
        left = left
            .checked_sub(text.len() + 1)
            .ok_or_else(|| damaged("the names of the libraries that it needs have no end"))?;
        let text = String::from_utf8_lossy(text).into_owned();
        if entry.tag != elf::DT_NEEDED {
            let odd = |part: &&str| part.is_empty() || part.starts_with('/');
            let parts = text.split(':').filter(odd);
            remarks.extend(parts.map(|part| Remark::RunPath {
                entry: part.to_owned(),
            }));
            run_path.extend(text.split(':').map(ToOwned::to_owned));
        } else if text.is_empty() {
            return Err(damaged("it needs a library without a name"));
        } else {
            needed.push(text);
        }
    }
    Ok(Needs { needed, run_path })
}
