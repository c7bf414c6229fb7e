//! `crossdock new-plugin`: its projects build and pass `conform` with no edits.
#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

const CROSSDOCK: &str = env!("CARGO_BIN_EXE_crossdock");

fn new_plugin(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(CROSSDOCK);
    command
        .arg("new-plugin")
        .args(arguments)
        .current_dir(folder);
    command.env_remove("CROSSDOCK_SDK").output().unwrap()
}

/// What a command says, which must end well.
fn said(command: &mut Command) -> String {
    command
        .env("CROSSDOCK", CROSSDOCK)
        .env("CROSSDOCK_COSTS", "off");
    command
        .env("CROSSDOCK_TRUST_PATHS", "1")
        .env_remove("CROSSDOCK_PLUGIN_PATH");
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{out}{err}",
        output.status
    );
    out + &err
}

fn made(folder: &Path, arguments: &[&str]) {
    let output = new_plugin(folder, arguments);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{told}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(told.contains("next: cd "), "{told}");
}

#[test]
fn a_project_in_c_builds_in_silence_and_passes() {
    let folder = tempfile::tempdir().unwrap();
    made(folder.path(), &["first_dev", "--c"]);
    made(folder.path(), &["second_dev", "--c"]);
    for name in ["first_dev", "second_dev"] {
        let mut make = Command::new("make");
        let told = said(
            make.args(["check", "CFLAGS=-O1 -g -Werror"])
                .current_dir(folder.path().join(name)),
        );
        assert!(
            told.contains("unit: 6 passed") && told.contains(" 0 failed"),
            "{told}"
        );
        assert!(!told.contains("warning"), "{told}");
    }
    // Both at once: the host gives their devices ids one after another.
    let mut devices = Command::new(CROSSDOCK);
    devices
        .env("CROSSDOCK_PLUGINS", "cpu,first_dev,second_dev")
        .arg("devices");
    for name in ["first_dev", "second_dev"] {
        let file = format!("{name}/build/libcrossdock_plugin_{name}.so");
        devices.arg("--plugin").arg(folder.path().join(file));
    }
    let told = said(&mut devices);
    for part in [
        "ext_dev:0",
        "ext_dev:1",
        "Host memory of first_dev",
        "Host memory of second_dev",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

/// What `make` says in a project, which must fail.
fn made_in_vain(project: &Path, arguments: &[&str]) -> String {
    let mut make = Command::new("make");
    make.args(arguments).current_dir(project);
    let output = make.env("CROSSDOCK", CROSSDOCK).output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    let told = String::from_utf8_lossy(&told).into_owned();
    assert!(!output.status.success(), "{told}");
    told
}

#[test]
fn unit_tests_that_crash_or_hang_end_and_name_the_test() {
    let folder = tempfile::tempdir().unwrap();
    made(folder.path(), &["bad_dev", "--c"]);
    let project = folder.path().join("bad_dev");
    let source = std::fs::read_to_string(project.join("src/plugin.c")).unwrap();
    for does in ["abort();", "for (;;);"] {
        let (before, fill) = source.split_once("static xd_status fill(").unwrap();
        let before = before.replace("<pthread.h>", "<pthread.h>\n#include <stdlib.h>");
        let fill = fill.replacen('{', &format!("{{ {does}"), 1);
        let bad = format!("{before}static xd_status fill({fill}");
        std::fs::write(project.join("src/plugin.c"), bad).unwrap();
        let told = made_in_vain(&project, &["test", "CPPFLAGS=-DSECONDS=2"]);
        let mut names = told.lines().filter(|line| line.starts_with("unit: "));
        assert_eq!(
            names.next_back(),
            Some("unit: a_fill_repeats_its_pattern"),
            "{told}"
        );
    }
}

#[test]
fn sanitizers_of_another_compiler_are_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    made(folder.path(), &["my_dev", "--c"]);
    let compiler = folder.path().join("cc");
    std::fs::write(&compiler, "#!/bin/sh\necho clang version 14\n").unwrap();
    std::fs::set_permissions(&compiler, std::fs::Permissions::from_mode(0o755)).unwrap();
    let project = folder.path().join("my_dev");
    let told = made_in_vain(
        &project,
        &["sanitize", &format!("CC={}", compiler.display())],
    );
    assert!(told.contains("say CC=gcc"), "{told}");
}

#[test]
fn a_project_finds_the_command_that_wrote_it() {
    let folder = tempfile::tempdir().unwrap();
    made(folder.path(), &["found_dev", "--c"]);
    let mut make = Command::new("make");
    make.arg("conform").env_remove("CROSSDOCK");
    // As of somebody who called the command by its path.
    make.env("PATH", "/usr/bin:/bin")
        .env("CROSSDOCK_COSTS", "off")
        .env("CROSSDOCK_TRUST_PATHS", "1");
    let project = folder.path().join("found_dev");
    let output = make.current_dir(&project).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && told.contains(CROSSDOCK),
        "{told}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn the_unit_tests_of_a_project_pass_where_addresses_are_handles() {
    let folder = tempfile::tempdir().unwrap();
    made(folder.path(), &["handle_dev", "--c"]);
    let project = folder.path().join("handle_dev");
    let unit = std::fs::read_to_string(project.join("tests/unit.c")).unwrap();
    // A word takes no arithmetic there.
    assert!(!unit.contains(".word +"), "{unit}");
    assert!(unit.contains("address.offset += offset"), "{unit}");
}

#[test]
fn a_project_in_rust_is_formatted_and_has_its_own_name() {
    let folder = tempfile::tempdir().unwrap();
    for (name, ty) in [
        ("a", "APlugin"),
        ("a_rusty_old_device", "ARustyOldDevicePlugin"),
    ] {
        made(folder.path(), &[name]);
        let project = folder.path().join(name);
        let mut format = Command::new("rustfmt");
        format.args(["--edition", "2024", "--check"]);
        format.args(["src/lib.rs", "tests/conform.rs"]);
        said(format.current_dir(&project));
        let text = std::fs::read_to_string(project.join("src/lib.rs")).unwrap();
        assert!(text.contains(&format!("struct {ty}")), "{text}");
        assert!(!text.contains("Example"), "{text}");
    }
}

#[test]
fn a_project_in_rust_builds_and_passes() {
    let folder = tempfile::tempdir().unwrap();
    made(folder.path(), &["rusty_dev"]);
    let project = folder.path().join("rusty_dev");
    // The versions that are here already, so that nothing is fetched; built where the next run finds it.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::copy(root.join("Cargo.lock"), project.join("Cargo.lock")).unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("new-plugin");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .arg("test")
        .current_dir(&project)
        .env("CARGO_TARGET_DIR", target);
    cargo
        .env("CARGO_NET_OFFLINE", "true")
        .env_remove("RUSTFLAGS");
    let told = said(&mut cargo);
    assert!(
        told.contains("the_plugin_keeps_the_contract ... ok"),
        "{told}"
    );
    assert!(
        told.contains("bytes_survive_the_way_there_and_back ... ok"),
        "{told}"
    );
    assert!(!told.contains("warning"), "{told}");
}

/// Names of folders that a shell, make, TOML or Rust could misread, or that templates have words of.
const FOLDERS: [&str; 20] = [
    "a b",
    "a#b",
    "a$b",
    "a$(b)",
    "a${b}",
    "a'b",
    "a\"b",
    "a\\b",
    "a\\#b",
    "a\\",
    "a;b",
    "a:b",
    "a&b",
    "a*b?",
    "a%b",
    "a,b",
    "\u{e4}\u{2020}",
    "-a",
    "~",
    "__name__ Example",
];

/// A folder with an sdk as small as a build reads it, and a command; the command is then one that echoes its words.
fn odd_place(place: &Path) {
    let sdk = place.join("sdk");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::create_dir_all(sdk.join("include/crossdock")).unwrap();
    std::fs::create_dir(sdk.join("src")).unwrap();
    std::fs::write(sdk.join("src/lib.rs"), "").unwrap();
    let manifest = "[package]\nname = \"crossdock-sdk\"\nversion = \"1.0.0\"\n";
    std::fs::write(sdk.join("Cargo.toml"), manifest).unwrap();
    for header in std::fs::read_dir(root.join("sdk/include/crossdock")).unwrap() {
        let header = header.unwrap();
        let copy = sdk.join("include/crossdock").join(header.file_name());
        std::fs::copy(header.path(), copy).unwrap();
    }
    let command = place.join("crossdock");
    std::fs::hard_link(CROSSDOCK, &command).unwrap();
    for words in [&["c_dev", "--c"][..], &["rust_dev"]] {
        let mut new_plugin = Command::new(&command);
        new_plugin.arg("new-plugin").args(words);
        new_plugin.arg("--into").arg(place).arg("--sdk").arg(&sdk);
        said(&mut new_plugin);
    }
    std::fs::remove_file(&command).unwrap();
    std::fs::write(&command, "#!/bin/sh\necho \"called: $*\"\n").unwrap();
    std::fs::set_permissions(&command, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A command of a project, which finds neither another sdk nor another command.
fn alone(program: &str, project: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(project).env("CROSSDOCK_COSTS", "off");
    for name in ["CROSSDOCK", "PYTHONPATH", "PKG_CONFIG_PATH", "INCLUDE"] {
        command.env_remove(name);
    }
    command
}

fn ended(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{command:?}\n{text}");
    text
}

#[test]
fn projects_build_where_the_paths_of_sdk_and_command_have_any_sign() {
    // Where the command can be linked to.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for name in FOLDERS {
        let place = folder.path().join(name);
        odd_place(&place);
        let told = ended(alone("make", &place.join("c_dev")).args(["conform", "CFLAGS=-O0"]));
        assert!(
            told.contains("called: conform build/libcrossdock_plugin_c_dev.so"),
            "{name}: {told}"
        );
        let rust = place.join("rust_dev");
        let metadata = ended(alone(env!("CARGO"), &rust).args([
            "metadata",
            "--offline",
            "--format-version",
            "1",
        ]));
        assert!(
            metadata.contains(r#""name":"crossdock-sdk","version":"1.0.0""#),
            "{name}: {metadata}"
        );
        let test = folder.path().join("conform");
        let mut compile = alone("rustc", &rust);
        compile.args(["--edition", "2024", "--test", "tests/conform.rs", "-o"]);
        ended(compile.arg(&test));
        ended(alone(test.to_str().unwrap(), &rust).env("PATH", "/nowhere"));
    }
}

#[test]
fn a_project_finds_the_headers_of_an_installation_in_a_folder_of_any_name() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let place = folder.path().join("a b");
    odd_place(&place);
    let installed = folder.path().join("in stalled#\u{e4}");
    std::fs::create_dir_all(installed.join("lib/pkgconfig")).unwrap();
    let file =
        "Name: crossdock\nDescription: -\nVersion: 1\nincludedir=${pcfiledir}/../../include\n";
    std::fs::write(installed.join("lib/pkgconfig/crossdock.pc"), file).unwrap();
    std::fs::rename(place.join("sdk/include"), installed.join("include")).unwrap();
    let mut make = alone("make", &place.join("c_dev"));
    ended(make.env("PKG_CONFIG_PATH", installed.join("lib/pkgconfig")));
}

#[test]
fn what_cannot_be_made_is_told_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str], why: &str| {
        let output = new_plugin(folder.path(), arguments);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(why) && told.contains("try: "), "{told}");
    };
    for name in [
        "My_Dev",
        "9dev",
        "a-b",
        "",
        "../x",
        "d\u{fc}",
        &"a".repeat(65),
    ] {
        refused(&[name], "letters a to z");
    }
    refused(&["cuda"], "there is a plugin of this name");
    refused(&["dev", "--sdk", "/nowhere"], "`/nowhere` has no");
    refused(&["dev", "--into", "/nowhere"], "No such file");
    let headers = folder.path().join("a\nb/include/crossdock");
    std::fs::create_dir_all(&headers).unwrap();
    std::fs::write(headers.join("plugin.h"), "").unwrap();
    refused(&["dev", "--sdk", "a\nb"], "contains a control character");
    std::fs::remove_dir_all(folder.path().join("a\nb")).unwrap();
    std::fs::write(folder.path().join("taken"), "mine").unwrap();
    refused(&["taken"], "there is something of this name already");
    assert_eq!(std::fs::read(folder.path().join("taken")).unwrap(), b"mine");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
