//! `doctor` on files that no host should meet: each is one error, never a signal.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by it, in what it shares too"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

#[path = "shared/c_plugin.rs"]
mod c_plugin;

fn doctor(plugin: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_crossdock"))
        .args(["doctor", "--plugin"])
        .arg(plugin)
        .env("CROSSDOCK_PROBE_LIMIT_MS", "5000")
        .env_remove("CROSSDOCK_PLUGIN_PATH")
        .env("CROSSDOCK_COSTS", "off")
        .output()
        .unwrap()
}

/// The C plugin, with something more done when it is loaded and when it is probed.
fn build(folder: &Path, at_load: &str, at_probe: &str) -> PathBuf {
    build_as("hostile", folder, (at_load, at_probe), &[])
}

fn build_as(name: &str, folder: &Path, code: (&str, &str), flags: &[&str]) -> PathBuf {
    let (at_load, at_probe) = code;
    let code = c_plugin::Code {
        at_load,
        first_in: ("ext_probe", at_probe),
        flags,
    };
    c_plugin::build(folder, name, &code)
}

fn assert_one_error(plugin: &Path, part: &str) {
    let output = doctor(plugin);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        output.status.code(),
        Some(1),
        "{}: {text}",
        plugin.display()
    );
    assert_eq!(text.matches("error: ").count(), 1, "{text}");
    assert!(
        text.contains("\n  why: ") && text.contains("\n  try: "),
        "{text}"
    );
    assert!(text.contains(plugin.to_str().unwrap()), "{text}");
    assert!(text.contains(part), "{text} has no {part}");
    assert!(!text.contains("panicked"), "{text}");
}

#[test]
fn a_good_plugin_is_well() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = build(folder.path(), "", "");
    let output = doctor(&plugin);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains("ext_dev:0"));
}

#[test]
fn a_plugin_that_panics_when_it_is_asked_for_its_memory_is_broken() {
    let folder = tempfile::tempdir().unwrap();
    let panics = r#"return xd_plugin_fail(XD_PANIC, "memory_info", "it panicked", error);"#;
    let code = c_plugin::Code {
        at_load: "",
        first_in: ("ext_memory_info", panics),
        flags: &[],
    };
    let plugin = c_plugin::build(folder.path(), "panics", &code);
    let output = doctor(&plugin);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("one of its hooks panicked"), "{told}");
    assert!(told.contains("try: run `crossdock conform "), "{told}");
}

#[test]
fn the_driver_that_a_plugin_starts_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let plain = build_as("plain", folder.path(), ("", ""), &[]);
    let source = fs::read_to_string(folder.path().join("plain.c")).unwrap();
    let source = source.replace(
        "XD_PLUGIN_DESCRIBE(",
        "XD_PLUGIN_DESCRIBE_DRIVER(\"driver=libmade_up.so.3\", ",
    );
    let with = c_plugin::compile(folder.path(), "with", &source, &[]);
    let output = Command::new(env!("CARGO_BIN_EXE_crossdock"))
        .args(["doctor", "--json", "--plugin-path"])
        .arg(folder.path())
        .env_remove("CROSSDOCK_PLUGIN_PATH")
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let drivers = report["plugins"].as_array().unwrap().iter();
    let of = |file: &Path| {
        let mut named = drivers
            .clone()
            .filter(|row| row["path"] == file.to_str().unwrap());
        named.next().map(|row| row["driver"].clone())
    };
    assert_eq!(of(&plain), Some(serde_json::Value::Null));
    assert_eq!(of(&with), Some("libmade_up.so.3".into()));
}

#[test]
fn files_that_are_no_plugins_are_refused_before_they_are_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("text.so"), "not a library\n").unwrap();
    fs::create_dir(at("folder.so")).unwrap();
    std::os::unix::fs::symlink(at("nowhere"), at("dangling.so")).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(at("fifo.so"))
            .status()
            .unwrap()
            .success()
    );
    for name in [
        "text.so",
        "folder.so",
        "dangling.so",
        "fifo.so",
        "missing.so",
    ] {
        assert_one_error(&at(name), "");
    }
}

#[test]
fn a_plugin_truncated_anywhere_is_an_error_and_no_signal() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read(build(folder.path(), "", "")).unwrap();
    for tenth in 0..10 {
        let cut = folder.path().join(format!("cut{tenth}.so"));
        fs::write(&cut, &whole[..whole.len() * tenth / 10]).unwrap();
        assert_one_error(&cut, "");
    }
}

#[test]
fn a_probe_that_aborts_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    assert_one_error(&build(folder.path(), "", "abort();"), "SIGABRT");
}

#[test]
fn a_constructor_that_aborts_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    assert_one_error(&build(folder.path(), "abort();", ""), "SIGABRT");
}

#[test]
fn a_probe_that_hangs_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    assert_one_error(&build(folder.path(), "", "for (;;) pause();"), "hangs");
}

#[test]
fn a_probe_that_ends_the_process_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    assert_one_error(&build(folder.path(), "", "_exit(0);"), "code 0");
}

#[test]
fn a_close_that_ends_the_process_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let code = c_plugin::Code {
        first_in: ("ext_close", "_exit(0);"),
        ..c_plugin::Code::default()
    };
    let plugin = c_plugin::build(folder.path(), "leaves", &code);
    assert_one_error(&plugin, "code 0 after it was probed");
}

#[test]
fn a_probe_that_prints_a_megabyte_neither_blocks_nor_floods() {
    let folder = tempfile::tempdir().unwrap();
    // Each letter for stderr is a call of the system.
    let print = "for (int i = 0; i < 1 << 20; i++) putchar('x'); fflush(stdout);\
                 for (int i = 0; i < 1 << 17; i++) fputc('y', stderr);";
    let output = doctor(&build(folder.path(), "", print));
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.stdout.len() + output.stderr.len() < 16 << 10);
}

#[test]
fn a_plugin_that_others_can_write_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let plugin = build(folder.path(), "", "");
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o666)).unwrap();
    assert_one_error(&plugin, "");
}

fn text(output: &Output) -> String {
    let streams = [&output.stdout, &output.stderr];
    streams.map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

#[test]
fn each_bad_plugin_is_contained_and_the_others_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let bad = [
        (
            "garbage",
            "",
            "memset(out, 0x7f, sizeof *out); return XD_OK;",
        ),
        ("crash", "", "*(volatile int *)8 = 1;"),
        ("loop", "", "for (;;) pause();"),
        ("leave", "", "exit(0);"),
    ];
    let odd = [
        ("good", "", ""),
        (
            "handlers",
            "signal(SIGSEGV, SIG_IGN); signal(SIGTERM, SIG_IGN);",
            "",
        ),
        (
            "locale",
            "setlocale(LC_ALL, \"C.UTF-8\"); chdir(\"/\");",
            "",
        ),
    ];
    for (name, at_load, at_probe) in bad.iter().chain(&odd) {
        let _plugin = build_as(name, folder.path(), (at_load, at_probe), &[]);
    }
    let output = Command::new(env!("CARGO_BIN_EXE_crossdock"))
        .args(["doctor", "--json", "--plugin-path"])
        .arg(folder.path())
        .env("CROSSDOCK_PROBE_LIMIT_MS", "3000")
        .env_remove("CROSSDOCK_PLUGIN_PATH")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for file in report["files"].as_array().unwrap() {
        let path = file["path"].as_str().unwrap();
        let is_bad = bad.iter().any(|(name, ..)| path.contains(name));
        assert_eq!(file["state"] != "ready", is_bad, "{file}");
    }
    assert_eq!(text(&output).matches("error: ").count(), bad.len());
}

#[test]
fn a_probed_plugin_inherits_no_secret_no_file_and_writes_no_core() {
    let folder = tempfile::tempdir().unwrap();
    let check = "struct rlimit core; getrlimit(RLIMIT_CORE, &core);\
                 if (getenv(\"MY_SECRET\") || !getenv(\"CUDA_VISIBLE_DEVICES\")) abort();\
                 if (core.rlim_cur != 0) abort();\
                 for (int i = 3; i < 20; i++) if (fcntl(i, F_GETFD) != -1) { char name[64], to[256] = {0};\
                 snprintf(name, sizeof name, \"/proc/self/fd/%d\", i); readlink(name, to, 255);\
                 if (!strstr(to, \"hostile\")) abort(); }";
    let plugin = build(folder.path(), "", check);
    let output = Command::new("sh")
        .args(["-c", "exec \"$0\" doctor --plugin \"$1\" 9</etc/passwd"])
        .arg(env!("CARGO_BIN_EXE_crossdock"))
        .arg(&plugin)
        .env("MY_SECRET", "word")
        .env("CUDA_VISIBLE_DEVICES", "0")
        .env_remove("CROSSDOCK_PLUGIN_PATH")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

#[test]
fn a_variable_that_is_named_is_left_to_the_plugins() {
    let folder = tempfile::tempdir().unwrap();
    let asks = "if (!getenv(\"MY_VARIABLE\")) abort();";
    let plugin = build(folder.path(), "", asks);
    let with = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crossdock"));
        command
            .args(["doctor", "--plugin"])
            .arg(&plugin)
            .args(arguments);
        command.env("MY_VARIABLE", "1").env("OTHER_VARIABLE", "1");
        command
            .env_remove("CROSSDOCK_PLUGIN_PATH")
            .output()
            .unwrap()
    };
    let without = with(&[]);
    assert_eq!(without.status.code(), Some(1), "{}", text(&without));
    let kept = with(&["--env", "MY_VARIABLE"]);
    assert_eq!(kept.status.code(), Some(0), "{}", text(&kept));
    let told = String::from_utf8_lossy(&kept.stderr).into_owned();
    assert!(
        told.contains("variables of the environment") && told.contains("--env"),
        "{told}"
    );
    let json = with(&["--json", "--env", "MY_VARIABLE"]);
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let cleared = report["cleared"].as_array().unwrap();
    assert!(cleared.contains(&"OTHER_VARIABLE".into()) && !cleared.contains(&"MY_VARIABLE".into()));
}

#[test]
fn run_paths_outside_the_plugins_folder_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-Wl,-rpath,/opt/mine::$ORIGIN"];
    let plugin = build_as("paths", folder.path(), ("", ""), &flags);
    let output = doctor(&plugin);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("`/opt/mine` is absolute"), "{text}");
    assert!(text.contains("empty entry"), "{text}");
    assert!(!text.contains("`$ORIGIN` is"), "{text}");
}

#[test]
fn what_a_constructor_changes_in_the_process_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at_load =
        "if (chdir(\"/\")) abort(); setenv(\"MY_SETTING\", \"1\", 1); unsetenv(\"HOME\");";
    let plugin = build_as("changes", folder.path(), (at_load, ""), &[]);
    let output = doctor(&plugin);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("changed the working folder to `/`"), "{text}");
    assert!(
        text.contains("changed the environment of the process (`HOME`, `MY_SETTING`)"),
        "{text}"
    );
    let plain = doctor(&build(folder.path(), "", ""));
    assert!(!self::text(&plain).contains("changed"), "{plain:?}");
}

#[test]
fn static_thread_storage_is_told_before_it_fails() {
    let folder = tempfile::tempdir().unwrap();
    let at_load = "static __thread volatile char little[8]; little[1] = 1;";
    let flags = ["-ftls-model=initial-exec"];
    let plugin = build_as("tls", folder.path(), (at_load, ""), &flags);
    let output = doctor(&plugin);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("DF_STATIC_TLS"), "{}", text(&output));
}

#[test]
fn a_missing_library_is_named_with_the_plugin_that_needs_it() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libgone.so");
    let source = folder.path().join("gone.c");
    fs::write(&source, "int gone(void) { return 1; }").unwrap();
    let built = Command::new("cc")
        .args([
            "-shared",
            "-fPIC",
            "-Wl,-soname,libcrossdock_gone.so.7",
            "-o",
        ])
        .args([&library, &source])
        .status()
        .unwrap();
    assert!(built.success());
    let flags = ["-Wl,--no-as-needed", library.to_str().unwrap()];
    let plugin = build_as("needy", folder.path(), ("", ""), &flags);
    assert_one_error(&plugin, "libcrossdock_gone.so.7");
    assert!(
        text(&doctor(&plugin)).contains("it needs `libcrossdock_gone.so.7`, which was not found")
    );
}

/// A subcommand that looks for plugins in this folder.
fn searching(subcommand: &str, folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_crossdock"))
        .args([subcommand, "--plugin-path"])
        .arg(folder)
        .env_remove("CROSSDOCK_PLUGIN_PATH")
        .output()
        .unwrap()
}

#[test]
fn copies_and_links_are_reported_as_duplicates() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = build(folder.path(), "", "");
    let (copy, link) = (
        folder.path().join("libcrossdock_plugin_copy.so"),
        folder.path().join("libcrossdock_plugin_link.so"),
    );
    fs::copy(&plugin, &copy).unwrap();
    std::os::unix::fs::symlink(&plugin, &link).unwrap();
    let output = searching("doctor", folder.path());
    let text = text(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert_eq!(text.matches("duplicate of").count(), 2, "{text}");
    assert_eq!(text.matches("ext_dev:0").count(), 1, "{text}");
}

#[test]
fn libraries_in_a_searched_folder_that_are_no_plugins_are_ignored_as_by_devices() {
    let folder = tempfile::tempdir().unwrap();
    let _plugin = build(folder.path(), "", "");
    fs::write(folder.path().join("libforeign.so"), "not a library\n").unwrap();
    for command in ["doctor", "devices"] {
        let output = searching(command, folder.path());
        let text = text(&output);
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(
            text.contains("ext_dev:0") && !text.contains("libforeign"),
            "{text}"
        );
    }
}

#[test]
fn a_child_that_cannot_write_its_answer_blames_no_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = build(folder.path(), "", "");
    // As on a full disk: no byte can be written to any file.
    let output = Command::new("sh")
        .args(["-c", "ulimit -f 0; exec \"$0\" doctor --plugin \"$1\""])
        .args([Path::new(env!("CARGO_BIN_EXE_crossdock")), &plugin])
        .env_remove("CROSSDOCK_PLUGIN_PATH")
        .env("CROSSDOCK_COSTS", "off")
        .output()
        .unwrap();
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains(
            "check the limits on processes, threads, open files and file sizes: ulimit -a"
        ),
        "{text}"
    );
    assert!(
        !text.contains("author") && !text.contains("crashed"),
        "{text}"
    );
}

#[test]
fn symbols_that_a_program_can_replace_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let at_load = "} __attribute__((visibility(\"default\"))) int helper(void) { return 1;";
    let output = doctor(&build_as("open", folder.path(), (at_load, ""), &[]));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("(`helper`)"), "{}", text(&output));
}

#[test]
fn files_that_are_damaged_or_made_for_others_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let good = fs::read(build(folder.path(), "", "")).unwrap();
    let write = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let abi = good.windows(7).position(|text| text == b"abi=1.0").unwrap();
    let middle = good.len() / 4..good.len() * 3 / 4;
    let zeroed = write("zeroed.so", &|bytes| bytes[middle.clone()].fill(0));
    let machine = write("machine.so", &|bytes| bytes[18] = 8);
    let newer = write("newer.so", &|bytes| bytes[abi + 4] = b'2');
    let no_root = ["-Dcrossdock_plugin=something_else"];
    let no_root = build_as("rootless", folder.path(), ("", ""), &no_root);
    assert_one_error(&zeroed, "");
    assert_one_error(&machine, "mips");
    assert_one_error(&newer, "version");
    assert_one_error(&no_root, "crossdock_plugin");
}

#[test]
fn a_plugin_whose_file_has_the_name_of_another_is_told() {
    let folder = tempfile::tempdir().unwrap();
    // It describes itself as `ext_dev`.
    let plugin = build_as("acme", folder.path(), ("", ""), &[]);
    let told = text(&doctor(&plugin));
    let remark = "a search takes it only as `libcrossdock_plugin_ext_dev.so`";
    assert!(told.contains(remark), "{told}");
    let mut devices = Command::new(env!("CARGO_BIN_EXE_crossdock"));
    devices
        .arg("devices")
        .env("CROSSDOCK_PLUGIN_PATH", folder.path())
        .env("CROSSDOCK_PLUGINS", "acme");
    let told = text(&devices.output().unwrap());
    assert!(told.contains("describes itself as `ext_dev`"), "{told}");
}
