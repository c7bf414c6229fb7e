//! The headers under `include/crossdock` against the Rust types, through the C compiler of this machine.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "every function of this file is part of a test"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crossdock_sdk::abi::{
    ABI_MAJOR, ABI_MINOR, AddressForm, AdoptFlags, Capabilities, DESCRIPTION_MAGIC, DefaultStream,
    MemoryKind, PointerFlags, ProbeState, QueryCost, Status, StreamHandle,
};

#[path = "layouts/abi.rs"]
mod layouts;

/// A folder of this test and process alone, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let name = format!("crossdock-c-header-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A test that fails leaves through here as well: a second panic would hide the first.
        let _left_behind = std::fs::remove_dir_all(&self.0);
    }
}

fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// Runs a compiler with every warning an error.
fn compile(compiler: &str, arguments: &[&str]) {
    let output = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"])
        .arg(include())
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{compiler} does not start: {error}"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{compiler} {arguments:?}:\n{complaint}"
    );
}

/// Every constant of the header with the number that Rust has for it.
fn constants() -> BTreeMap<String, u64> {
    let mut constants = BTreeMap::new();
    let mut put = |prefix: &str, name: &str, number: u64| {
        let twice = constants.insert(format!("XD_{prefix}{name}"), number);
        assert_eq!(twice, None, "{prefix}{name}");
    };
    for (status, name) in Status::ALL {
        put("", name, u64::try_from(status.raw()).unwrap());
    }
    for (bit, name) in Capabilities::NAMES {
        put("CAP_", name, bit.0);
    }
    for (bit, name) in PointerFlags::NAMES {
        put("POINTER_", name, bit.0.into());
    }
    for (bit, name) in AdoptFlags::NAMES {
        put("ADOPT_", name, bit.0.into());
    }
    for (name, number) in [
        ("MEMORY_UNOWNED", MemoryKind::UNOWNED.0),
        ("MEMORY_DEVICE", MemoryKind::DEVICE.0),
        ("MEMORY_PINNED", MemoryKind::PINNED.0),
        ("MEMORY_MANAGED", MemoryKind::MANAGED.0),
        ("MEMORY_HOST", MemoryKind::HOST.0),
        ("QUERY_DRIVER", QueryCost::DRIVER.0),
        ("QUERY_TABLE", QueryCost::TABLE.0),
        ("ADDRESS_POINTER", AddressForm::POINTER.0),
        ("ADDRESS_HANDLE", AddressForm::HANDLE.0),
        ("PROBE_NOT_LOOKED_AT", ProbeState::NOT_LOOKED_AT.0),
        ("PROBE_READY", ProbeState::READY.0),
        ("PROBE_ABSENT", ProbeState::ABSENT.0),
        ("PROBE_BROKEN", ProbeState::BROKEN.0),
        ("DEFAULT_STREAM_LEGACY", DefaultStream::LEGACY.0),
        ("DEFAULT_STREAM_PER_THREAD", DefaultStream::PER_THREAD.0),
        ("ABI_MAJOR", ABI_MAJOR),
        ("ABI_MINOR", ABI_MINOR),
    ] {
        put("", name, number.into());
    }
    put("", "STREAM_NONE", StreamHandle::NONE.raw());
    constants
}

/// Every C expression of the comparison with the number that Rust has for it.
fn facts() -> BTreeMap<String, u64> {
    let mut facts = constants();
    for (module, layout) in layouts::all() {
        if module != "abi" {
            continue;
        }
        let name = layout.c_name;
        let twice = facts.insert(format!("sizeof({name})"), layout.size as u64);
        assert_eq!(twice, None, "{} shares its C name", layout.rust_name);
        facts.insert(format!("ALIGN_OF({name})"), layout.align as u64);
        for (field, offset) in layout.fields {
            facts.insert(format!("offsetof({name}, {field})"), offset as u64);
        }
    }
    facts
}

#[test]
fn every_size_place_and_number_is_the_one_of_rust() {
    let ours = facts();
    let mut source = String::from(
        "#include <crossdock/plugin.h>\n#include <stddef.h>\n#include <stdio.h>\n\
         #define ALIGN_OF(T) offsetof(struct { char c; T t; }, t)\nint main(void) {\n",
    );
    for fact in ours.keys() {
        writeln!(
            source,
            "printf(\"{fact}=%llu\\n\", (unsigned long long)({fact}));"
        )
        .unwrap();
    }
    source.push_str("return 0; }\n");
    let folder = Folder::new("facts");
    let file = folder.write("facts.c", &source);
    let program = folder.0.join("facts");
    let (file, program) = (file.to_str().unwrap(), program.to_str().unwrap());
    compile("cc", &["-std=c99", file, "-o", program]);
    let printed = String::from_utf8(Command::new(program).output().unwrap().stdout).unwrap();
    let theirs: BTreeMap<String, u64> = printed
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(fact, value)| (fact.to_owned(), value.parse().unwrap()))
        .collect();
    assert_eq!(ours, theirs);
}

#[test]
fn the_headers_define_no_constant_that_rust_lacks() {
    let macros = [
        "XD_EXPORT",
        "XD_PLUGIN_DESCRIBE",
        "XD_PLUGIN_DESCRIBE_DRIVER",
    ];
    let mut theirs = BTreeSet::new();
    for name in [
        "plugin.h",
        "plugin_types.h",
        "plugin_groups.h",
        "plugin_peer.h",
    ] {
        let text = std::fs::read_to_string(include().join("crossdock").join(name)).unwrap();
        for line in text
            .lines()
            .filter_map(|line| line.strip_prefix("#define XD_"))
        {
            let end = line.find([' ', '(']).unwrap_or(line.len());
            theirs.insert(format!("XD_{}", &line[..end]));
        }
    }
    let ours: BTreeSet<String> = constants()
        .into_keys()
        .chain(macros.map(str::to_owned))
        .collect();
    assert_eq!(ours, theirs);
}

/// One of two files of a program: the headers twice, then the parts that a plugin uses.
const TWICE: &str = r#"
#include <crossdock/plugin.h>
#include <crossdock/plugin.h>
#include <crossdock/plugin_support.h>
#include <crossdock/plugin_support.h>

XD_PLUGIN_DESCRIBE("name=twice", "vendor=me", "version=0.1.0", "devices=ext_dev");

const uint8_t *NAME(void);
const uint8_t *NAME(void) { return (const uint8_t *)crossdock_description; }
"#;

#[test]
fn the_headers_are_clean_in_c99_and_cpp11_twice_and_in_two_files() {
    let folder = Folder::new("twice");
    let standards = [
        ("cc", "-std=c99", "c"),
        ("c++", "-std=c++11", "cpp"),
        ("c++", "-std=c++17", "cpp"),
    ];
    for (compiler, standard, ending) in standards {
        let source = |name: &str| {
            let text = format!("#define NAME describe_{name}\n{TWICE}");
            folder.write(&format!("{name}.{ending}"), &text)
        };
        let (one, two) = (source("one"), source("two"));
        let library = folder.0.join(format!("lib{standard}.so"));
        let files = [one.to_str().unwrap(), two.to_str().unwrap()];
        let output = library.to_str().unwrap();
        compile(
            compiler,
            &[
                standard, "-fPIC", "-shared", files[0], files[1], "-o", output,
            ],
        );
    }
}

/// The description that a macro with these arguments writes, behind the magic words.
fn described(macro_call: &str) -> String {
    let folder = Folder::new(&macro_call.len().to_string());
    let source = format!(
        "#include <crossdock/plugin.h>\n#include <stdio.h>\n{macro_call};\n\
        int main(void) {{\n\
        return fwrite(crossdock_description, sizeof crossdock_description, 1, stdout) != 1; }}\n"
    );
    let file = folder.write("describe.c", &source);
    let program = folder.0.join("describe");
    let (file, program) = (file.to_str().unwrap(), program.to_str().unwrap());
    compile("cc", &["-std=c99", file, "-o", program]);
    let bytes = Command::new(program).output().unwrap().stdout;
    let text = String::from_utf8(bytes).unwrap();
    text.strip_prefix(DESCRIPTION_MAGIC).unwrap().to_owned()
}

#[test]
fn the_description_is_the_one_that_hosts_read() {
    let texts = r#""name=n", "vendor=v", "version=1.2.3", "devices=ext_dev""#;
    let abi = format!("{ABI_MAJOR}.{ABI_MINOR}");
    let expected = format!("name=n\0vendor=v\0version=1.2.3\0abi={abi}\0devices=ext_dev\0");
    let plain = described(&format!("XD_PLUGIN_DESCRIBE({texts})"));
    assert_eq!(plain, format!("{expected}\0"));
    let with_driver = format!("XD_PLUGIN_DESCRIBE_DRIVER({texts}, \"driver=libcuda.so.1\")");
    let with_driver = described(&with_driver);
    assert_eq!(with_driver, format!("{expected}driver=libcuda.so.1\0\0"));
}

/// What a plugin sees that calls each function of `plugin_support.h`.
const SUPPORT: &str = r#"
#include <crossdock/plugin_support.h>

static void show(xd_plugin_error *error) {
    if (!error) {
        puts("none");
        return;
    }
    printf("%d %lld [%.*s] [%.*s] [%.*s]\n", (int)error->status, (long long)error->native_code,
           (int)error->operation.len, (const char *)error->operation.ptr,
           (int)error->native_name.len, (const char *)error->native_name.ptr,
           (int)error->message.len, (const char *)error->message.ptr);
    xd_plugin_error_free(error);
}

static void print_line(void *context, uint32_t level, xd_text target, xd_text message) {
    (void)context;
    printf("%u %.*s: %.*s\n", (unsigned)level, (int)target.len, (const char *)target.ptr,
           (int)message.len, (const char *)message.ptr);
}

int main(void) {
    xd_plugin_error *error = NULL;
    char name[] = "VENDOR_BUSY", operation[] = "vendorCopy";
    uint8_t field[6];
    xd_host_services host = {sizeof host, 3, NULL, print_line};
    xd_address place = {100, 5, XD_ADDRESS_POINTER, 0};
    printf("%d ", xd_plugin_fail(XD_STALE, "free", "it is gone", &error));
    show(error);
    printf("%d\n", xd_plugin_fail(XD_STALE, "free", "it is gone", NULL));
    xd_plugin_fail_native(XD_VENDOR, operation, -7, name, &error, "device %d of %s", 3, "four");
    memset(name, 0, sizeof name);
    memset(operation, 0, sizeof operation);
    show(error);
    xd_plugin_fail_native(XD_VENDOR, "v", INT64_MIN, NULL, &error, "%s", "");
    show(error);
    printf("%d\n", xd_plugin_fail_native(XD_VENDOR, "v", 1, NULL, NULL, "%d", 1));
    memset(field, 'x', sizeof field);
    xd_plugin_copy_text(field, sizeof field, "ab");
    printf("%s %d\n", (const char *)field, field[5]);
    xd_plugin_copy_text(field, sizeof field, "abcd\xc3\xa9");
    printf("%s\n", (const char *)field);
    xd_plugin_copy_text(field, sizeof field, "abcdefg");
    printf("%s\n", (const char *)field);
    xd_plugin_log(&host, 3, "mine", "an information");
    xd_plugin_log(&host, 4, "mine", "nobody asked for it");
    printf("%d", (int)xd_plugin_pointer(&place));
    place.form = XD_ADDRESS_HANDLE;
    printf(" %d", (int)xd_plugin_pointer(&place));
    place.form = XD_ADDRESS_POINTER;
    place.offset = UINT64_MAX;
    printf(" %d\n", (int)xd_plugin_pointer(&place));
    printf("%d%d%d%d\n", xd_plugin_inside(0, 8, 8), xd_plugin_inside(8, 1, 8),
           xd_plugin_inside(4, UINT64_MAX, 8), xd_plugin_inside(9, 0, 8));
    printf("%d%d%d%d\n", xd_plugin_overlap(8, 0, 8), xd_plugin_overlap(0, 7, 8),
           xd_plugin_overlap(7, 0, 8), xd_plugin_overlap(5, 5, 1));
    return 0;
}
"#;

#[test]
fn the_functions_for_plugins_do_the_same_in_c_and_cpp() {
    let folder = Folder::new("support");
    for (compiler, standard, ending) in [("cc", "-std=c99", "c"), ("c++", "-std=c++11", "cpp")] {
        let file = folder.write(&format!("support.{ending}"), SUPPORT);
        let program = folder.0.join(ending);
        let (file, output) = (file.to_str().unwrap(), program.to_str().unwrap());
        compile(compiler, &[standard, file, "-o", output]);
        let ran = Command::new(&program).output().unwrap();
        assert!(ran.status.success(), "{}", ran.status);
        let least = i64::MIN;
        let expected = format!(
            "12 12 0 [free] [] [it is gone]\n12\n\
             22 -7 [vendorCopy] [VENDOR_BUSY] [device 3 of four]\n\
             22 {least} [v] [] []\n22\nab 0\nabcd\nabcde\n3 mine: an information\n\
             105 0 0\n1000\n0111\n"
        );
        assert_eq!(String::from_utf8_lossy(&ran.stdout), expected, "{compiler}");
    }
}

#[test]
fn the_c_plugin_compiles_clean() {
    let folder = Folder::new("ext-dev");
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = manifest.join("../tests/plugins/ext_dev.c");
    let library = folder.0.join("libext_dev.so");
    let (source, library) = (source.to_str().unwrap(), library.to_str().unwrap());
    let flags = [
        "-std=c99",
        "-O2",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        "-pthread",
    ];
    compile("cc", &[&flags[..], &[source, "-o", library]].concat());
}
