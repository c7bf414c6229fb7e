//! The suite on plugins that are written in C.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails where its plugin or the C compiler does"
)]
#![expect(clippy::print_stdout, reason = "the report is what a reader looks for")]

use std::path::{Path, PathBuf};
use std::process::Command;

use crossdock::Runtime;
use crossdock_conformance::{Level, Subject, run};

/// Compiles a file of the checkout to a plugin file.
fn compile(source: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let source = root.join(source);
    let name = source.file_stem().expect("a file").display();
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("libcrossdock_plugin_{name}.so"));
    let status = Command::new("cc")
        .args([
            "-std=c99",
            "-O2",
            "-fPIC",
            "-shared",
            "-fvisibility=hidden",
            "-I",
        ])
        .arg(root.join("sdk/include"))
        .arg(&source)
        .arg("-o")
        .arg(&out)
        .status()
        .expect("a C compiler");
    assert!(status.success(), "cc: {status}");
    out
}

fn passes(source: &str, level: Level) {
    let runtime = Runtime::builder().search(false).open().unwrap();
    let plugin = runtime.load(&compile(source)).unwrap();
    let count = plugin.hooks().device_count().unwrap();
    assert!(count > 0, "the plugin offers no device");
    for device in 0..count {
        let subject = Subject::new(plugin.hooks(), device).unwrap();
        let report = run(&subject, level, None);
        println!("{report}");
        assert!(report.passed(), "{report}");
    }
}

#[test]
fn a_plugin_in_c_passes_the_core_of_the_suite() {
    passes("tests/plugins/ext_dev.c", Level::Core);
}

#[test]
fn a_plugin_in_c_that_maps_and_adopts_passes_every_case() {
    passes("tests/plugins/lends.c", Level::Full);
}

#[test]
fn a_plugin_in_c_with_handles_beside_addresses_passes_every_case() {
    passes("tests/plugins/two_forms.c", Level::Full);
}

#[test]
fn a_plugin_in_c_with_its_memory_in_another_process_passes_every_case() {
    passes("examples/plugin-c/remote.c", Level::Full);
}
