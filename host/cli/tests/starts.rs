//! The command however its parent starts it: each subcommand works, or says what the system refused.
#![expect(
    unsafe_code,
    clippy::unwrap_used,
    reason = "sets what a process inherits, in tests"
)]

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

#[path = "shared/c_plugin.rs"]
mod c_plugin;
#[path = "shared/starts.rs"]
mod starts;

use starts::{STARTS, Start, limit, start_with};

/// Every subcommand; `PLUGIN` and `ARRAY` are files.
const LINES: [&str; 12] = [
    "devices",
    "doctor --plugin PLUGIN",
    "inspect PLUGIN",
    "route cpu:0 cpu:0",
    "copy ARRAY --to cpu:0",
    "matrix ARRAY --route best",
    "run -c print(6*7)",
    "conform PLUGIN --case a_process_exits_well",
    "conform PLUGIN --case a_child_of_a_fork_opens",
    "new-plugin fresh --c",
    "bench --json",
    "completions bash",
];

/// The subcommand in a folder without caches, started so.
fn run(line: &str, folder: &Path, start: Start) -> Output {
    let here = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_crossdock"));
    for word in line.split(' ') {
        command.arg(match word {
            "PLUGIN" => folder.join("libcrossdock_plugin_fine.so").into_os_string(),
            "ARRAY" => folder.join("array.npy").into_os_string(),
            word => word.into(),
        });
    }
    command
        .current_dir(&here)
        .env("XDG_CACHE_HOME", here.path())
        .env("CROSSDOCK_COSTS", "off")
        .env_remove("CROSSDOCK_PLUGIN_PATH")
        .stdin(Stdio::null());
    start_with(&mut command, start).output().unwrap()
}

/// The files that the lines name.
fn files() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    c_plugin::build(folder.path(), "fine", &c_plugin::Code::default());
    let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (4096,), }";
    let header = format!("{header:117}\n");
    let array = [b"\x93NUMPY\x01\x00\x76\x00", header.as_bytes(), &[7; 4096]].concat();
    fs::write(folder.path().join("array.npy"), array).unwrap();
    folder
}

#[test]
fn every_subcommand_works_however_it_is_started() {
    let folder = files();
    for (name, start) in STARTS {
        for line in LINES {
            let output = run(line, folder.path(), start);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success(),
                "{line}: {name}: {}: {said}",
                output.status
            );
            let result = String::from_utf8_lossy(&output.stdout);
            let wanted = match line.split_once(' ').map_or(line, |(first, _)| first) {
                "run" => "42",
                "conform" => "1 passed",
                _ => "",
            };
            assert!(result.contains(wanted), "{line}: {name}: {result}{said}");
        }
    }
}

#[test]
fn too_few_descriptors_are_an_error_that_names_what_needed_one() {
    let folder = files();
    // Fewer do not start a program.
    let starts: [Start; 5] = [
        || limit(libc::RLIMIT_NOFILE, 5),
        || limit(libc::RLIMIT_NOFILE, 6),
        || limit(libc::RLIMIT_NOFILE, 7),
        || limit(libc::RLIMIT_NOFILE, 8),
        || limit(libc::RLIMIT_NOFILE, 10),
    ];
    let mut refused = 0;
    for start in starts {
        // `bench` takes seconds, and starts no process.
        for line in LINES.iter().filter(|line| !line.starts_with("bench")) {
            let output = run(line, folder.path(), start);
            let said = String::from_utf8_lossy(&output.stderr);
            match output.status.code() {
                Some(0) => {}
                Some(1) => {
                    refused += 1;
                    assert!(said.contains("Too many open files"), "{line}: {said}");
                    assert!(!said.contains("write the output"), "{line}: {said}");
                }
                _ => panic!("{line}: {}: {said}", output.status),
            }
        }
    }
    assert!(refused > 0);
}

#[test]
fn a_file_that_grows_too_large_is_an_error() {
    let folder = files();
    let lines = [
        ("copy ARRAY --to cpu:0 --out .", "array.npy"),
        ("matrix ARRAY --route best --html page.html", "page.html"),
        ("new-plugin fresh --c", "fresh"),
        // The cache of Pythons is not written, and needs not be.
        ("run -c print(6*7)", ""),
    ];
    for (line, file) in lines {
        let output = run(line, folder.path(), || limit(libc::RLIMIT_FSIZE, 16));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), None, "{line}: {said}");
        let is_well = file.is_empty();
        assert_eq!(output.status.success(), is_well, "{line}: {said}");
        assert!(
            is_well || said.contains(file) && said.contains("File too large"),
            "{line}: {said}"
        );
    }
}

#[test]
fn a_case_that_hangs_ends_where_signals_are_blocked() {
    let folder = tempfile::tempdir().unwrap();
    let code = c_plugin::Code {
        first_in: ("ext_at_exit", "for (;;) pause();"),
        ..c_plugin::Code::default()
    };
    c_plugin::build(folder.path(), "fine", &code);
    let line = "conform PLUGIN --limit 3 --case a_process_exits_well";
    let output = run(line, folder.path(), STARTS[2].1);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("does not come to its end"), "{said}");
}
