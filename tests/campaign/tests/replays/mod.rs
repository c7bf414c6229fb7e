//! Starts the campaign program over two simulated devices of each vendor, and replays given calls.

use std::path::Path;
use std::process::Command;

use crossdock_campaign::program::{Call, Case, Ending, Engine, Language, Op};
use crossdock_e2e::report;

/// What the campaign says over two simulated devices of each vendor, and its exit code; none where they are not built.
pub(crate) fn said(arguments: &[&str]) -> Option<(Option<i32>, String)> {
    let campaign = Path::new(env!("CARGO_BIN_EXE_campaign"));
    let file = |name: &str| campaign.with_file_name(format!("libcrossdock_{name}.so"));
    let core = file("sim");
    let plugins = ["plugin_cuda", "plugin_rocm", "plugin_asynchronous"].map(file);
    let mut files = plugins.iter().chain([&core]);
    if let Some(absent) = files.find(|file| !file.exists()) {
        report(&format!("skipped: {} is not built", absent.display()));
        return None;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(root.join("scripts/with-sim"))
        .args(["--cuda", "2", "--rocm", "2", "--"])
        .arg(campaign)
        .args(arguments)
        .env("CROSSDOCK_SIM_LIBRARY", &core)
        .output()
        .unwrap();
    let said = [output.stderr, output.stdout].concat();
    Some((
        output.status.code(),
        String::from_utf8_lossy(&said).into_owned(),
    ))
}

/// What the campaign says of these calls of one thread, and what fails in the driver; none where it is not built.
pub(crate) fn said_of(
    devices: &[&str],
    calls: &[Call],
    fault: Option<&str>,
    ending: Ending,
) -> Option<(Option<i32>, String)> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("case.json");
    let (runtime, thread) = (0, 0);
    let op = |call: &Call| Op {
        thread,
        runtime,
        call: call.clone(),
    };
    let case = Case {
        name: "some calls".to_owned(),
        language: Language::Rust,
        devices: devices.iter().map(|name| (*name).to_owned()).collect(),
        fresh: true,
        runtimes: 1,
        staging: 1 << 23,
        fault: None,
        ending,
        engine: Engine {
            fault: fault.map(str::to_owned),
            ..Engine::default()
        },
        programs: vec![calls.iter().map(op).collect()],
    };
    std::fs::write(&file, serde_json::to_string(&case).unwrap()).unwrap();
    said(&["--replay", file.to_str().unwrap()])
}
