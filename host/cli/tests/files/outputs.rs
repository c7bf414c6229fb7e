//! What the command writes: each file once, never over an input, whole or not at all, as the umask says.

use std::{
    collections::HashSet,
    ffi::OsStr,
    fs,
    io::{BufRead as _, BufReader},
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _, fs::symlink},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use crate::{
    c_plugin,
    program::{crossdock, err, npy, npz, out},
};

/// A folder with arrays of different content, by name.
fn arrays(names: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (number, name) in names.iter().enumerate() {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let number = u8::try_from(number).unwrap();
        fs::write(path, npy("4, 6", "False", &[number; 96])).unwrap();
    }
    folder
}

fn copy(files: &[PathBuf], to: &Path) -> Output {
    let mut command = crossdock(&["copy", "--to", "cpu:0", "--out"]);
    command.arg(to).args(files).output().unwrap()
}

fn refused(output: &Output, why: &str) {
    let told = err(output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains(why) && !told.contains("wrote"), "{told}");
}

#[test]
fn two_inputs_are_never_written_to_one_file() {
    let folder = arrays(&["x/a.npy", "y/a.npy", "z.a.npy"]);
    let at = |name: &str| folder.path().join(name);
    let back = at("out");
    refused(&copy(&[at("x/a.npy"), at("y/a.npy")], &back), "two of them");
    assert!(!back.exists());
    let (one, two) = (npy("1,", "False", &[1; 4]), npy("1,", "False", &[2; 4]));
    npz(&at("z.npz"), &[("b/c.npy", &one), ("b_c.npy", &two)]);
    refused(&copy(&[at("z.npz")], &back), "two of them");
    npz(&at("z.npz"), &[("a.npy", &one)]);
    refused(&copy(&[at("z.npz"), at("z.a.npy")], &back), "two of them");
    assert!(!back.exists());
}

#[test]
fn a_copy_replaces_no_input_by_whatever_name() {
    let folder = arrays(&["a.npy", "b.npy"]);
    let at = |name: &str| folder.path().join(name);
    let (a, b) = (
        fs::read(at("a.npy")).unwrap(),
        fs::read(at("b.npy")).unwrap(),
    );
    for make in [link_of, symlink_of] {
        let back = tempfile::tempdir_in(folder.path()).unwrap();
        // The second input lies where the first is to be written.
        make(&at("b.npy"), &back.path().join("a.npy"));
        refused(
            &copy(&[at("a.npy"), at("b.npy")], back.path()),
            "being read",
        );
        assert_eq!(fs::read(at("a.npy")).unwrap(), a);
        assert_eq!(fs::read(at("b.npy")).unwrap(), b);
    }
    refused(&copy(&[at("a.npy")], folder.path()), "being read");
}

fn link_of(file: &Path, link: &Path) {
    fs::hard_link(file, link).unwrap();
}

fn symlink_of(file: &Path, link: &Path) {
    symlink(file, link).unwrap();
}

#[test]
fn an_output_replaces_no_input_and_no_other_output() {
    let folder = arrays(&["a.npy"]);
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (array, linked, page) = (at("a.npy"), at("linked.npy"), at("page"));
    fs::hard_link(&array, &linked).unwrap();
    let before = fs::read(&array).unwrap();
    for output in ["--html", "--json"] {
        for name in [&array, &linked] {
            refused(
                &crossdock(&["matrix", &array, output, name])
                    .output()
                    .unwrap(),
                "being read",
            );
        }
    }
    assert_eq!(fs::read(&array).unwrap(), before);
    let both = ["matrix", &array, "--html", &page, "--json", &page];
    let twice = crossdock(&both).output().unwrap();
    assert_eq!(twice.status.code(), Some(2), "{}", err(&twice));
    assert!(err(&twice).contains("two of them"), "{}", err(&twice));
    assert!(!Path::new(&page).exists());
    let plugin = c_plugin::build(folder.path(), "mine", &c_plugin::Code::default());
    let (plugin, known) = (plugin.to_str().unwrap().to_owned(), at("known"));
    fs::write(&known, "").unwrap();
    let before = fs::read(&plugin).unwrap();
    for file in [&plugin, &known] {
        let line = [
            "conform",
            &plugin,
            "--level",
            "core",
            "--junit",
            file,
            "--known-failures",
            &known,
        ];
        refused(&crossdock(&line).output().unwrap(), "being read");
    }
    assert_eq!(fs::read(&plugin).unwrap(), before);
}

#[test]
fn outputs_have_the_mode_that_the_umask_says() {
    let folder = arrays(&["a.npy"]);
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for (mask, mode) in [("022", 0o644), ("077", 0o600), ("007", 0o660)] {
        let back = at(mask);
        fs::create_dir(&back).unwrap();
        let (page, json, report) = (at("page"), at("json"), at("report"));
        let script = format!("umask {mask}; exec \"$0\" \"$@\"");
        let lines: [&[&str]; 3] = [
            &["copy", "--to", "cpu:0", "--out", &back, &at("a.npy")],
            &["matrix", &at("a.npy"), "--html", &page, "--json", &json],
            &["conform", "builtin", "--level", "core", "--junit", &report],
        ];
        for line in lines {
            let mut command = Command::new("sh");
            command
                .args(["-c", &script, env!("CARGO_BIN_EXE_crossdock")])
                .args(line);
            let output = command.env("CROSSDOCK_COSTS", "off").output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        }
        for file in [
            Path::new(&back).join("a.npy"),
            page.into(),
            json.into(),
            report.into(),
        ] {
            let found = fs::metadata(&file).unwrap().mode() & 0o777;
            assert_eq!(found, mode, "{mask}: {}", file.display());
            fs::remove_file(file).unwrap();
        }
    }
}

#[test]
fn a_name_that_is_no_utf8_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let name = OsStr::from_bytes(b"a\xff\xfe.npy");
    let (file, back) = (folder.path().join(name), folder.path().join("out"));
    fs::write(&file, npy("4, 6", "False", &[7; 96])).unwrap();
    let output = copy(std::slice::from_ref(&file), &back);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(fs::read(back.join(name)).unwrap(), fs::read(&file).unwrap());
}

#[test]
fn a_plugin_that_prints_spoils_no_result() {
    let folder = arrays(&["a.npy"]);
    let prints = "puts(\"noise\"); fflush(stdout); puts(\"noise at the end\");";
    for function in ["", "ext_open", "ext_memory_info", "ext_close"] {
        let code = c_plugin::Code {
            at_load: if function.is_empty() { prints } else { "" },
            first_in: (function, if function.is_empty() { "" } else { prints }),
            ..c_plugin::Code::default()
        };
        let plugin = c_plugin::build(folder.path(), "prints", &code);
        let plugin = plugin.to_str().unwrap();
        let run = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let mut command = crossdock(&words);
            let output = command.current_dir(&folder).output().unwrap();
            assert!(output.status.success(), "{line}: {}", err(&output));
            assert!(!out(&output).contains("noise"), "{line}: {}", out(&output));
            assert!(err(&output).contains("noise"), "{line}: {}", err(&output));
            out(&output)
        };
        for line in [
            "devices --json --plugin",
            "conform --json --level core --in-process",
        ] {
            let json = run(&format!("{line} {plugin}"));
            assert!(
                serde_json::from_str::<serde_json::Value>(&json).is_ok(),
                "{json}"
            );
        }
        if function == "ext_memory_info" {
            let json = run(&format!("bench --json --plugin {plugin}"));
            assert!(
                serde_json::from_str::<serde_json::Value>(&json).is_ok(),
                "{json}"
            );
        }
        if function != "ext_memory_info" {
            run(&format!("route cpu:0 ext_dev:0 --plugin {plugin}"));
            run(&format!("copy a.npy --to ext_dev:0 --plugin {plugin}"));
        }
    }
}

#[test]
fn a_fault_of_a_plugin_leaves_no_temporary_file() {
    let folder = arrays(&["a.npy"]);
    for (code, number) in [
        ("*(volatile int *)8 = 1;", libc::SIGSEGV),
        ("abort();", libc::SIGABRT),
        ("raise(SIGBUS);", libc::SIGBUS),
    ] {
        let code = c_plugin::Code {
            first_in: ("ext_copy", code),
            ..c_plugin::Code::default()
        };
        let plugin = c_plugin::build(folder.path(), "faults", &code);
        let mut command = crossdock(&["copy", "a.npy", "--to", "ext_dev:0", "--out", "out"]);
        let command = command.arg("--plugin").arg(plugin).current_dir(&folder);
        let output = command.output().unwrap();
        let ended = std::os::unix::process::ExitStatusExt::signal(&output.status);
        assert_eq!(ended, Some(number), "{}", err(&output));
        let mut left = fs::read_dir(folder.path().join("out")).unwrap();
        assert!(left.next().is_none(), "{number}");
    }
}

#[test]
fn a_signal_leaves_no_temporary_file() {
    let folder = arrays(&["a.npy"]);
    let waits = "fputs(\"here\\n\", stderr); for (;;) pause();";
    let code = c_plugin::Code {
        first_in: ("ext_copy", waits),
        ..c_plugin::Code::default()
    };
    let plugin = c_plugin::build(folder.path(), "waits", &code);
    let back = folder.path().join("out");
    fs::create_dir(&back).unwrap();
    let page = back.join("page.html");
    for (name, number) in [
        ("INT", 2),
        ("TERM", 15),
        ("HUP", 1),
        ("QUIT", 3),
        ("BUS", 7),
        ("USR1", 10),
        ("XCPU", 24),
    ] {
        for line in [
            &["copy", "--to", "ext_dev:0", "--out"][..],
            &["matrix", "--html"],
        ] {
            let mut command = crossdock(line);
            command.arg(if line.len() == 2 { &page } else { &back });
            command
                .arg(folder.path().join("a.npy"))
                .arg("--plugin")
                .arg(&plugin);
            let mut child = command
                .stderr(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let said = BufReader::new(child.stderr.take().unwrap());
            assert!(said.lines().any(|line| line.unwrap() == "here"));
            let id = child.id().to_string();
            let sent = Command::new("kill")
                .args(["-s", name, &id])
                .status()
                .unwrap();
            assert!(sent.success());
            let end = child.wait().unwrap();
            assert_eq!(
                std::os::unix::process::ExitStatusExt::signal(&end),
                Some(number)
            );
            // The page of the pairs that were done is whole, and stays.
            let left: HashSet<_> = fs::read_dir(&back)
                .unwrap()
                .map(|e| e.unwrap().path())
                .filter(|path| *path != page)
                .collect();
            assert!(left.is_empty(), "{name}: {left:?}");
        }
    }
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let full = || fs::OpenOptions::new().write(true).open("/dev/full");
    let lines: [&[&str]; 8] = [
        &["--help"],
        &["-h"],
        &["--version"],
        &["help"],
        &["help", "run"],
        &["devices", "--help"],
        &["devices"],
        &["completions", "bash"],
    ];
    for line in lines {
        let whole = crossdock(line).output().unwrap();
        assert!(
            whole.status.success() && !out(&whole).is_empty(),
            "{line:?}"
        );
        let output = crossdock(line).stdout(full().unwrap()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{line:?}");
        assert!(
            err(&output).contains("No space left"),
            "{line:?}: {}",
            err(&output)
        );
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let closed = crossdock(line).stdout(writer).output().unwrap();
        assert_eq!(
            (closed.status.code(), err(&closed)),
            (Some(0), String::new()),
            "{line:?}"
        );
    }
    let wrong = crossdock(&["unheard-of"])
        .stderr(full().unwrap())
        .output()
        .unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}
