//! Hints are commands: what stands there can be pasted, whatever a path holds.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt as _, path::Path, process::Command};

use crate::{
    c_plugin,
    program::{crossdock, err, set_mode},
};

/// What stands behind `try:`, run by a shell that people use.
fn paste(told: &str) {
    let line = told
        .lines()
        .find_map(|line| line.trim_start().strip_prefix("try: "));
    let line = line.unwrap_or_else(|| unreachable!("{told}"));
    let command = line.split(", or set").next().unwrap();
    let done = Command::new("bash").args(["-c", command]).output().unwrap();
    assert!(done.status.success(), "{command}: {}", err(&done));
}

#[test]
fn the_hint_of_a_file_that_others_can_write_can_be_pasted() {
    let names: [&[u8]; 5] = [
        b"it's",
        b"a b$(x)`y`\"",
        b"-x'\\'",
        b"\x1b[1mx\n'",
        b"\xff'",
    ];
    for name in names {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join(OsStr::from_bytes(name));
        fs::create_dir(&inside).unwrap();
        let plugin = c_plugin::build(&inside, "mine", &c_plugin::Code::default());
        let devices = |plugin: &Path| {
            let mut command = crossdock(&["devices", "--plugin"]);
            command.arg(plugin).output().unwrap()
        };
        for at in [&inside, &plugin] {
            set_mode(at, 0o777);
            let refused = devices(&plugin);
            assert_eq!(refused.status.code(), Some(1), "{name:?}");
            paste(&err(&refused));
            assert_eq!(devices(&plugin).status.code(), Some(0), "{name:?}");
        }
    }
}

#[test]
fn the_hint_of_an_environment_whose_python_is_gone_can_be_pasted() {
    let folder = tempfile::tempdir().unwrap();
    let environment = folder.path().join("it's\n$(x)");
    fs::create_dir_all(environment.join("bin")).unwrap();
    fs::write(environment.join("pyvenv.cfg"), "home = /gone\n").unwrap();
    fs::write(environment.join("bin/python3"), "").unwrap();
    let mut command = crossdock(&["run", "--python"]);
    let told = err(&command
        .arg(&environment)
        .args(["-c", "pass"])
        .output()
        .unwrap());
    let (_, line) = told.split_once("python3 -m venv --clear ").unwrap();
    let word = line.lines().next().unwrap();
    let shown = Command::new("bash")
        .args(["-c", &format!("printf %s {word}")])
        .output()
        .unwrap();
    assert_eq!(shown.stdout, environment.as_os_str().as_bytes(), "{told}");
}
