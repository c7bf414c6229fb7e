//! `crossdock/crossdock.h` against the types of this crate, through the compilers of this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crossdock_sdk::dlpack::{DeviceType, DtypeCode};

use crate::layouts_for_tests::{constants, signatures, structs};

fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../capi/include")
}

fn header() -> String {
    let text = std::fs::read_to_string(include().join("crossdock/crossdock.h")).unwrap();
    let mut code = String::new();
    let mut rest = text.as_str();
    while let Some((before, comment)) = rest.split_once("/*") {
        code.push_str(before);
        rest = comment.split_once("*/").unwrap().1;
    }
    code + rest
}

/// Runs a compiler with every warning an error.
fn compile(compiler: &str, arguments: &[&str]) {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/include");
    let output = Command::new(compiler)
        .args([
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Wconversion",
            "-Werror",
            "-I",
        ])
        .arg(include())
        .arg("-I")
        .arg(sdk)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{compiler} does not start: {error}"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{compiler} {arguments:?}:\n{complaint}"
    );
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What a C program prints for each of these expressions.
fn printed(before: &str, facts: &BTreeSet<String>, flags: &[&str]) -> BTreeMap<String, u64> {
    let mut source = format!(
        "{before}\n#include <stddef.h>\n#include <stdio.h>\n\
         #define ALIGN_OF(T) offsetof(struct {{ char c; T t; }}, t)\nint main(void) {{\n"
    );
    for fact in facts {
        let line = format!("printf(\"{fact}=%llu\\n\", (unsigned long long)({fact}));");
        writeln!(source, "{line}").unwrap();
    }
    source.push_str("return 0; }\n");
    let folder = tempfile::tempdir().unwrap();
    let (file, program) = (folder.path().join("facts.c"), folder.path().join("facts"));
    std::fs::write(&file, source).unwrap();
    let arguments = ["-std=c99", path(&file), "-o", path(&program)];
    compile("cc", &[flags, &arguments].concat());
    let printed = Command::new(&program).output().unwrap().stdout;
    let printed = String::from_utf8(printed).unwrap();
    let lines = printed.lines().filter_map(|line| line.split_once('='));
    lines
        .map(|(fact, value)| (fact.to_owned(), value.parse().unwrap()))
        .collect()
}

#[test]
fn every_size_place_and_number_is_the_one_of_rust() {
    let mut ours: BTreeMap<String, u64> = constants()
        .into_iter()
        .map(|(name, number)| (name.to_owned(), number))
        .collect();
    for of in structs() {
        ours.insert(format!("sizeof({})", of.name), of.size as u64);
        ours.insert(format!("ALIGN_OF({})", of.name), of.align as u64);
        for (field, offset) in of.fields {
            ours.insert(format!("offsetof({}, {field})", of.name), offset as u64);
        }
    }
    let facts = ours.keys().cloned().collect();
    assert_eq!(
        ours,
        printed("#include <crossdock/crossdock.h>", &facts, &[])
    );
}

#[test]
fn the_header_defines_no_constant_that_rust_lacks() {
    let header = header();
    let defined = header
        .lines()
        .filter_map(|line| line.strip_prefix("#define XD_"));
    let theirs: BTreeSet<String> = defined
        .filter_map(|line| line.split_whitespace().next())
        .map(|name| format!("XD_{name}"))
        .collect();
    let ours: BTreeSet<String> = constants().into_keys().map(str::to_owned).collect();
    assert_eq!(ours, theirs);
}

/// `xd_error *(*name)(const xd_tensor *tensor, uint64_t limit_ns);` in the form of `signatures`.
fn member(line: &str) -> (String, String) {
    let (answer, rest) = line.split_once("(*").unwrap();
    let (name, rest) = rest.split_once(")(").unwrap();
    let parameters = rest.strip_suffix(')').unwrap();
    let parameters: Vec<_> = parameters.split(", ").map(without_name).collect();
    let signature = format!("{} ({})", answer.trim(), parameters.join(", "));
    (name.to_owned(), signature)
}

fn without_name(parameter: &str) -> &str {
    match parameter.rfind(['*', ' ']) {
        Some(end) => parameter.split_at(end + 1).0.trim_end(),
        None => parameter,
    }
}

#[test]
fn the_header_declares_every_function_with_the_types_of_rust() {
    let header = header();
    let table = header.split_once("typedef struct xd_api {").unwrap().1;
    let table = table.split_once("} xd_api;").unwrap().0;
    let words: Vec<_> = table.split_whitespace().collect();
    let table = words.join(" ");
    let members = table
        .split(';')
        .map(str::trim)
        .filter(|line| line.contains("(*"));
    let (ours, theirs) = (signatures(), members.map(member).collect::<Vec<_>>());
    for (index, place) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(
            place.0, place.1,
            "function {index}: left `host/api/src/table.rs`, right `xd_api` in `crossdock.h`"
        );
    }
    let last = |list: &[(String, String)]| list.last().map(|(name, _)| name.clone());
    assert_eq!(
        (ours.len(), last(&ours)),
        (theirs.len(), last(&theirs)),
        "left `host/api/src/table.rs`, right `xd_api` in `crossdock.h`"
    );
}

#[test]
fn the_header_declares_the_functions_of_the_table_and_no_others() {
    let header = header();
    // Types of functions have `)` behind their names.
    let named = header
        .split('(')
        .filter_map(|before| before.rsplit([' ', '*', '\n']).next());
    let declared: BTreeSet<String> = named
        .filter(|name| name.starts_with("xd_") && !name.ends_with(')'))
        .map(str::to_owned)
        .collect();
    let functions = crate::XdApi::FUNCTIONS.iter();
    let mut ours: BTreeSet<String> = functions.map(|(name, _)| format!("xd_{name}")).collect();
    ours.insert("xd_get_api".to_owned());
    let only_ours: Vec<_> = ours.difference(&declared).collect();
    assert!(
        only_ours.is_empty(),
        "`crossdock.h` declares no {only_ours:?}, which `host/api/src/table.rs` has"
    );
    let only_theirs: Vec<_> = declared.difference(&ours).collect();
    assert!(
        only_theirs.is_empty(),
        "`crossdock.h` declares {only_theirs:?}, which `host/api/src/table.rs` lacks"
    );
}

/// What is counted, is a version or is true or not; all else that is 32 bits has a type with its numbers.
const PLAIN: [&str; 12] = [
    "ndim",
    "count",
    "level",
    "reserved",
    "read_only",
    "contiguous",
    "padded",
    "of_others",
    "major",
    "minor",
    "abi_major",
    "abi_minor",
];

#[test]
fn what_has_numbers_of_its_own_has_a_type_in_c() {
    let header = header();
    let plain = header.split("uint32_t ").skip(1);
    let names = plain.map(|rest| rest.split([';', ',', ')', '(', ' ']).next().unwrap());
    let is_plain = |name: &str| {
        // Of functions and their fields the answer is meant; lists have a pointer before their name.
        PLAIN.contains(&name)
            || name.starts_with('*')
            || name.is_empty()
            || name == "xd_abi_version"
    };
    let numbers = header_numbers(&header);
    let others: Vec<_> = names
        .filter(|name| !is_plain(name) && !numbers.contains(*name))
        .collect();
    assert!(others.is_empty(), "{others:?}");
    assert_eq!(numbers.len(), 12, "{numbers:?}");
}

/// The types that a header gives to its numbers.
fn header_numbers(header: &str) -> BTreeSet<&str> {
    let lines = header.lines();
    let types = lines.filter_map(|line| line.strip_prefix("typedef uint32_t ")?.strip_suffix(';'));
    types.collect()
}

/// Assigning each function to its field fails to compile where the two declarations differ.
#[test]
fn every_declared_function_has_the_type_of_its_field() {
    let mut source = String::from("#include <crossdock/crossdock.h>\nvoid fill(xd_api *api);\n");
    source.push_str("void fill(xd_api *api) {\n");
    for (name, _) in signatures() {
        writeln!(source, "api->{name} = xd_{name};").unwrap();
    }
    source.push_str("}\n");
    let folder = tempfile::tempdir().unwrap();
    for (compiler, standard, ending) in [("cc", "-std=c99", "c"), ("c++", "-std=c++17", "cpp")] {
        let file = folder.path().join(format!("fill.{ending}"));
        std::fs::write(&file, &source).unwrap();
        compile(compiler, &[standard, "-fsyntax-only", path(&file)]);
    }
}

#[test]
fn the_header_is_clean_in_c99_c11_and_cpp17_in_any_order_with_dlpack_and_the_plugin_header() {
    let ours = "#include <crossdock/crossdock.h>\n";
    let others = [
        "#include <crossdock/dlpack.h>\n",
        "#include <crossdock/plugin.h>\n",
    ];
    let folder = tempfile::tempdir().unwrap();
    let orders = [
        ours.repeat(2),
        format!("{ours}{}", others.concat()),
        format!("{}{ours}", others.concat()),
    ];
    for (compiler, standard, ending) in [
        ("cc", "-std=c99", "c"),
        ("cc", "-std=c11", "c"),
        ("c++", "-std=c++17", "cpp"),
    ] {
        let mut files = Vec::new();
        for (index, order) in orders.iter().enumerate() {
            let file = folder.path().join(format!("order{index}.{ending}"));
            let function = format!("const xd_api *order{index}(void);\n");
            let body = format!("const xd_api *order{index}(void) {{ return xd_get_api(); }}\n");
            std::fs::write(&file, format!("{order}{function}{body}")).unwrap();
            files.push(file);
        }
        let library = folder.path().join(format!("orders-{ending}.so"));
        let mut arguments = vec![standard, "-fPIC", "-shared", "-o", path(&library)];
        arguments.extend(files.iter().map(|file| path(file)));
        compile(compiler, &arguments);
    }
}

/// Expressions over DLPack's types whose values both headers must agree on.
/// What is in our header and came after DLPack 1.3, with the numbers that Rust has for it.
const NEWER: [(&str, i32); 4] = [
    ("kDLTPU", DeviceType::TPU.raw()),
    ("kDLTPUHost", DeviceType::TPU_HOST.raw()),
    ("kDLAscend", DeviceType::ASCEND.raw()),
    ("kDLBcomplex", DtypeCode::BCOMPLEX.raw() as i32),
];

fn dlpack_facts() -> BTreeSet<String> {
    let structs: [(&str, &[&str]); 7] = [
        ("DLPackVersion", &["major", "minor"]),
        ("DLDevice", &["device_type", "device_id"]),
        ("DLDataType", &["code", "bits", "lanes"]),
        (
            "DLTensor",
            &[
                "data",
                "device",
                "ndim",
                "dtype",
                "shape",
                "strides",
                "byte_offset",
            ],
        ),
        ("DLManagedTensor", &["dl_tensor", "manager_ctx", "deleter"]),
        (
            "DLManagedTensorVersioned",
            &["version", "manager_ctx", "deleter", "flags", "dl_tensor"],
        ),
        (
            "DLPackExchangeAPI",
            &[
                "header.version",
                "header.prev_api",
                "managed_tensor_allocator",
                "managed_tensor_from_py_object_no_sync",
                "managed_tensor_to_py_object_no_sync",
                "dltensor_from_py_object_no_sync",
                "current_work_stream",
            ],
        ),
    ];
    let mut facts = BTreeSet::new();
    for (name, fields) in structs {
        facts.insert(format!("sizeof({name})"));
        facts.extend(
            fields
                .iter()
                .map(|field| format!("offsetof({name}, {field})")),
        );
    }
    let header = std::fs::read_to_string(include().join("crossdock/dlpack.h")).unwrap();
    let words = header.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let numbers = words.filter(|word| {
        word.starts_with("kDL")
            || word.starts_with("DLPACK_FLAG_")
            || matches!(*word, "DLPACK_MAJOR_VERSION" | "DLPACK_MINOR_VERSION")
    });
    facts.extend(numbers.map(str::to_owned));
    facts
}

#[test]
fn our_dlpack_header_agrees_with_the_published_one_and_with_rust() {
    let facts = dlpack_facts();
    let ours = printed("#include <crossdock/dlpack.h>", &facts, &[]);
    let sizes = [
        (
            "sizeof(DLManagedTensor)",
            size_of::<crate::DLManagedTensor>(),
        ),
        (
            "sizeof(DLManagedTensorVersioned)",
            size_of::<crate::DLManagedTensorVersioned>(),
        ),
    ];
    for (fact, size) in sizes {
        assert_eq!(ours[fact], size as u64, "{fact}");
    }
    for (name, number) in NEWER {
        assert_eq!(ours[name], u64::try_from(number).unwrap(), "{name}");
    }
    let Some(folder) = std::env::var_os("CROSSDOCK_DLPACK_HEADER_DIR") else {
        println!("skipped: CROSSDOCK_DLPACK_HEADER_DIR is not set");
        return;
    };
    let flags = ["-isystem", folder.to_str().unwrap()];
    let is_published = |name: &String| NEWER.iter().all(|(newer, _)| newer != name);
    let facts: BTreeSet<String> = facts.into_iter().filter(is_published).collect();
    let ours: BTreeMap<_, _> = ours
        .into_iter()
        .filter(|(name, _)| is_published(name))
        .collect();
    let theirs = printed("#include <dlpack/dlpack.h>", &facts, &flags);
    assert_eq!(ours, theirs);
    let both = "#include <crossdock/crossdock.h>\n#include <dlpack/dlpack.h>\n#include <crossdock/dlpack.h>";
    assert_eq!(theirs, printed(both, &facts, &flags));
}
