//! The shared library as a file: its name for the loader, what it exports, and what it needs.
#![expect(
    clippy::unwrap_used,
    reason = "every function of this file is part of a test"
)]

use std::collections::BTreeSet;

use crossdock_api::XdApi;
use object::elf::{DT_NEEDED, DT_SONAME, DynamicTag};
use object::read::elf::{Dyn as _, ElfFile64};
use object::{Endianness, Object as _, ObjectSymbol as _};

/// The library as cargo built it for this test.
fn bytes() -> Vec<u8> {
    let test = std::env::current_exe().unwrap();
    std::fs::read(test.parent().unwrap().join("libcrossdock_capi.so")).unwrap()
}

/// The texts of the dynamic section with this tag.
fn dynamic_texts(tag: DynamicTag) -> Vec<String> {
    let bytes = bytes();
    let file = ElfFile64::<Endianness>::parse(&*bytes).unwrap();
    let (endian, data) = (file.endian(), file.data());
    let sections = file.elf_section_table();
    let (entries, strings) = sections.dynamic(endian, data).unwrap().unwrap();
    let strings = sections.strings(endian, data, strings).unwrap();
    let with_tag = entries.iter().filter(|entry| entry.tag(endian) == tag);
    with_tag
        .map(|entry| String::from_utf8(entry.string(endian, strings).unwrap().to_vec()).unwrap())
        .collect()
}

#[test]
fn the_loader_knows_it_as_libcrossdock_so_1() {
    assert_eq!(dynamic_texts(DT_SONAME), ["libcrossdock.so.1"]);
}

#[test]
fn it_needs_the_system_and_neither_python_nor_a_vendor() {
    for needed in dynamic_texts(DT_NEEDED) {
        let system = [
            "libc.so",
            "libm.so",
            "libgcc_s.so",
            "libdl.so",
            "libpthread.so",
            "ld-linux",
        ];
        assert!(
            system.iter().any(|name| needed.starts_with(name)),
            "{needed}"
        );
    }
}

#[test]
fn it_leaves_no_symbol_of_python_open() {
    let bytes = bytes();
    let file = ElfFile64::<Endianness>::parse(&*bytes).unwrap();
    let open = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_undefined());
    let names = open.map(|symbol| symbol.name().unwrap());
    let of_python = names.filter(|name| name.starts_with("Py") || name.starts_with("_Py"));
    assert_eq!(of_python.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn it_exports_the_functions_of_the_table_and_nothing_else() {
    let bytes = bytes();
    let file = ElfFile64::<Endianness>::parse(&*bytes).unwrap();
    let theirs: BTreeSet<String> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
        .map(|symbol| symbol.name().unwrap().to_owned())
        .collect();
    let functions = XdApi::FUNCTIONS.iter();
    let mut ours: BTreeSet<String> = functions.map(|(name, _)| format!("xd_{name}")).collect();
    ours.insert("xd_get_api".to_owned());
    let difference: Vec<_> = ours.symmetric_difference(&theirs).collect();
    assert!(
        difference.is_empty(),
        "exported, or in `host/api/src/table.rs`, but not both: {difference:?}"
    );
}

/// The compiler sees to it that each field has a function of its type, but not which.
#[test]
fn each_field_of_the_table_is_the_function_of_its_name() {
    let source = include_str!("../src/functions/table.rs");
    let fields = source.split_once("static API: XdApi = XdApi {").unwrap().1;
    let fields = fields.split_once("};").unwrap().0;
    let theirs: Vec<_> = fields
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .split(',')
        .map(|field| field.trim().to_owned())
        .filter(|field| field.contains(": xd_"))
        .collect();
    let functions = XdApi::FUNCTIONS.iter();
    let ours: Vec<_> = functions
        .map(|(name, _)| format!("{name}: xd_{name}"))
        .collect();
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(
            ours, theirs,
            "left `host/api/src/table.rs`, right `host/capi/src/functions/table.rs`"
        );
    }
    assert_eq!(ours.len(), theirs.len());
}
