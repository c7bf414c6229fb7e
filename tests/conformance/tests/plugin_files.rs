//! The suite on the plugin files that were built beside this test.
//!
//! `CROSSDOCK_PLUGIN_FILES` names another folder. A file that is absent, or whose driver is, is
//! skipped, and the output says so.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails where its plugin does"
)]
#![expect(clippy::print_stdout, reason = "a skipped test says why")]

use std::path::PathBuf;

use crossdock::{PluginState, Runtime};
use crossdock_conformance::{Level, Subject, run};

/// Where plugin files lie: two folders above `target/PROFILE/deps/plugin_files-HASH`.
fn folder() -> PathBuf {
    if let Some(named) = std::env::var_os("CROSSDOCK_PLUGIN_FILES") {
        return PathBuf::from(named);
    }
    let test = std::env::current_exe().unwrap();
    test.parent()
        .and_then(|deps| deps.parent())
        .unwrap()
        .to_owned()
}

fn file_passes(name: &str) {
    let path = folder().join(format!("libcrossdock_plugin_{name}.so"));
    if !path.exists() {
        println!("skipped: {} is not built", path.display());
        return;
    }
    let runtime = Runtime::builder().search(false).open().unwrap();
    let plugin = runtime
        .load(&path)
        .unwrap_or_else(|error| panic!("{error}: {}", error.why()));
    match plugin.state() {
        PluginState::Ready => {}
        PluginState::Absent { detail } => {
            println!("skipped: the plugin `{name}` found no device: {detail}");
            return;
        }
        other => panic!("the plugin `{name}` is {other:?}"),
    }
    for device in 0..plugin.hooks().device_count().unwrap() {
        let subject = Subject::new(plugin.hooks(), device).unwrap();
        let report = run(&subject, Level::Full, None);
        println!("{report}");
        assert!(report.passed(), "{report}");
    }
}

#[test]
fn the_cpu_plugin_file_passes_every_case() {
    file_passes("cpu");
}

#[test]
fn the_opencl_plugin_file_passes_every_case() {
    file_passes("opencl");
}

#[test]
fn the_cuda_plugin_file_passes_every_case() {
    file_passes("cuda");
}

#[test]
fn the_asynchronous_plugin_file_passes_every_case() {
    file_passes("asynchronous");
}
