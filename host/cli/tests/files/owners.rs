//! Whose files are believed: Pythons, plugins, and the links that lead to them.

use std::{
    fs,
    os::unix::fs::{chown, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    c_plugin,
    program::{crossdock, err, given_to_nobody, out, set_mode},
};

/// An environment whose Python leaves a mark when it is started.
struct Trap {
    folder: tempfile::TempDir,
    environment: PathBuf,
}

impl Trap {
    /// In a folder such as /tmp, in which everybody may make files.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let environment = folder.path().join("shared/.venv");
        fs::create_dir_all(environment.join("bin")).unwrap();
        fs::create_dir(folder.path().join("shared/work")).unwrap();
        fs::write(environment.join("pyvenv.cfg"), "home = /usr/bin\n").unwrap();
        let python = environment.join("bin/python3");
        let mark = folder.path().join("mark");
        fs::write(&python, format!("#!/bin/sh\n: > '{}'\n", mark.display())).unwrap();
        for path in [folder.path(), &environment, &python] {
            set_mode(path, 0o755);
        }
        set_mode(&folder.path().join("shared"), 0o1777);
        Self {
            folder,
            environment,
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Whether `crossdock run` starts the Python, and what it says.
    fn run(&self) -> (bool, String) {
        let mut command = crossdock(&["run", "-c", "pass"]);
        command.current_dir(self.at("shared/work")).env("PATH", "");
        for name in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
            command.env_remove(name);
        }
        let output = command.env("HOME", self.folder.path()).output().unwrap();
        let started = fs::remove_file(self.at("mark")).is_ok();
        (started, err(&output))
    }
}

#[test]
fn an_environment_of_ones_own_below_a_sticky_folder_is_started() {
    let (started, told) = Trap::new().run();
    assert!(started, "{told}");
}

#[test]
fn a_python_of_another_user_is_not_started_whatever_of_it_is_theirs() {
    let parts = ["", "pyvenv.cfg", "bin", "bin/python3"];
    for part in parts {
        let trap = Trap::new();
        let at = trap.environment.join(part);
        if !given_to_nobody(&[&at]) {
            return;
        }
        let (started, told) = trap.run();
        assert!(!started, "{part}: {told}");
        assert!(told.contains("belongs to user 65534"), "{part}: {told}");
        let at = at.display().to_string();
        assert!(told.contains(at.trim_end_matches('/')), "{part}: {told}");
    }
}

#[test]
fn a_python_that_other_users_could_have_replaced_is_not_started() {
    for part in ["", "pyvenv.cfg", "bin", "bin/python3"] {
        let trap = Trap::new();
        let at = trap.environment.join(part);
        // Root can give it to a group that is not the user's own.
        let mode = if chown(&at, None, Some(12_345)).is_ok() {
            0o775
        } else {
            0o757
        };
        set_mode(&at, mode);
        let (started, told) = trap.run();
        assert!(!started && told.contains("chmod go-w"), "{part}: {told}");
    }
    let trap = Trap::new();
    set_mode(&trap.at("shared"), 0o777);
    let (started, told) = trap.run();
    assert!(!started, "{told}");
}

#[test]
fn a_python_that_came_with_the_program_is_trusted_as_the_program_is() {
    let trap = Trap::new();
    let program = trap.at("app/crossdock-copy");
    let shipped = trap.at("app/crossdock/python");
    fs::create_dir_all(shipped.parent().unwrap()).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_crossdock"), &program).unwrap();
    fs::rename(&trap.environment, &shipped).unwrap();
    let started = || {
        let mut command = Command::new(&program);
        command.args(["run", "-c", "pass"]).env("PATH", "");
        for name in [
            "VIRTUAL_ENV",
            "CONDA_PREFIX",
            "CROSSDOCK_PYTHON",
            "CROSSDOCK_TRUST_PATHS",
        ] {
            command.env_remove(name);
        }
        let output = command.env("HOME", trap.folder.path()).output().unwrap();
        (fs::remove_file(trap.at("mark")).is_ok(), err(&output))
    };
    set_mode(&shipped, 0o777);
    let (is_started, told) = started();
    assert!(
        !is_started && told.contains("all users can write"),
        "{told}"
    );
    // Who can replace the program needs no Python to run code here.
    set_mode(&trap.at("app"), 0o777);
    let (is_started, told) = started();
    assert!(is_started, "{told}");
}

#[test]
fn a_link_of_another_user_leads_to_no_python() {
    let trap = Trap::new();
    let (real, link) = (trap.at("real"), trap.environment.clone());
    fs::rename(&link, &real).unwrap();
    symlink(&real, &link).unwrap();
    assert!(trap.run().0);
    if !given_to_nobody(&[&link]) {
        return;
    }
    let (started, told) = trap.run();
    assert!(!started, "{told}");
}

/// What the command says to a plugin that is named.
fn devices(plugin: &Path) -> (bool, String) {
    let mut command = crossdock(&["devices", "--plugin"]);
    let output = command.arg(plugin).output().unwrap();
    (output.status.success(), out(&output) + &err(&output))
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    set_mode(folder.path(), 0o755);
    for name in ["open", "plugins"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let plugins = folder.path().join("plugins");
    let plugin = c_plugin::build(&plugins, "mine", &c_plugin::Code::default());
    (folder, plugin)
}

#[test]
fn a_link_that_others_could_have_made_leads_to_no_plugin() {
    let (folder, plugin) = place();
    let open = folder.path().join("open");
    let direct = open.join("direct.so");
    let second = folder.path().join("second.so");
    symlink(&plugin, &direct).unwrap();
    symlink(&direct, &second).unwrap();
    symlink(folder.path().join("plugins"), open.join("folder")).unwrap();
    let through = open.join("folder").join(plugin.file_name().unwrap());
    let links = [&direct, &second, &through];
    for link in links {
        let (good, told) = devices(link);
        assert!(good, "{told}");
    }
    set_mode(&open, 0o777);
    for link in links {
        let (good, told) = devices(link);
        let named = format!("`{}`", open.display());
        assert!(!good && told.contains(&named), "{}: {told}", link.display());
    }
    // Nobody can replace another's link in a folder such as /tmp.
    set_mode(&open, 0o1777);
    for link in links {
        let (good, told) = devices(link);
        assert!(good, "{told}");
    }
    if given_to_nobody(&[&direct]) {
        for link in [&direct, &second] {
            let (good, told) = devices(link);
            assert!(!good, "{}: {told}", link.display());
        }
    }
}

#[test]
fn a_file_of_another_user_is_not_looked_into() {
    let (folder, _plugin) = place();
    let text = folder.path().join("text.so");
    fs::write(&text, "not a library\n").unwrap();
    if !given_to_nobody(&[&text]) {
        return;
    }
    for command in ["devices", "doctor"] {
        let mut command = crossdock(&[command, "--plugin"]);
        let told = err(&command.arg(&text).output().unwrap());
        assert!(told.contains("belongs to user 65534"), "{told}");
        assert!(!told.contains("a text"), "{told}");
    }
}
