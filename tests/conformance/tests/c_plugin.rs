//! The suite on a plugin that is written in C.

#![expect(
    clippy::expect_used,
    reason = "a test fails where there is no C compiler"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

use crossdock::Runtime;
use crossdock_conformance::{Level, Subject, run};

/// Compiles `tests/plugins/NAME.c` to a plugin file.
fn compile(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
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
        .arg(root.join(format!("tests/plugins/{name}.c")))
        .arg("-o")
        .arg(&out)
        .status()
        .expect("a C compiler");
    assert!(status.success(), "cc: {status}");
    out
}

#[test]
fn plugins_in_c_pass_the_suite() {
    for (name, level) in [("ext_dev", Level::Core), ("lends", Level::Full)] {
        let runtime = Runtime::builder().search(false).open().unwrap();
        let plugin = runtime.load(&compile(name)).unwrap();
        let count = plugin.hooks().device_count().unwrap();
        assert!(count > 0, "the plugin offers no device");
        for device in 0..count {
            let subject = Subject::new(plugin.hooks(), device).unwrap();
            let report = run(&subject, level, None);
            println!("{report}");
            assert!(report.passed(), "{report}");
        }
    }
}
