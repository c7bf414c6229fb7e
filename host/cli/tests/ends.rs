//! How the command and what it started end: by a signal, after Ctrl-Z, and beside processes of a plugin.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by it, in what it shares too"
)]

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

#[path = "shared/c_plugin.rs"]
mod c_plugin;

/// A command on the plugin, in its folder, where temporary files would be too.
fn crossdock(line: &str, plugin: &Path) -> Command {
    let folder = plugin.parent().unwrap();
    let temporary = folder.join("temporary");
    fs::create_dir_all(&temporary).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_crossdock"));
    for word in line.split(' ') {
        match word {
            "PLUGIN" => command.arg(plugin),
            word => command.arg(word),
        };
    }
    command
        .current_dir(folder)
        .env("TMPDIR", temporary)
        .env("CROSSDOCK_COSTS", "off")
        .env_remove("CROSSDOCK_PLUGIN_PATH");
    command
}

fn build(folder: &Path, at_load: &str, first_in: (&str, &str)) -> PathBuf {
    let code = c_plugin::Code {
        at_load,
        first_in,
        ..c_plugin::Code::default()
    };
    let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (64,), }";
    let header = format!("{header:117}\n");
    let array = [b"\x93NUMPY\x01\x00\x76\x00", header.as_bytes(), &[7; 64]].concat();
    fs::write(folder.join("array.npy"), array).unwrap();
    c_plugin::build(folder, "bad", &code)
}

/// A pipe with a name, which processes of a plugin keep open.
struct Watch {
    path: PathBuf,
    from: BufReader<File>,
    /// So that there is no end before a process has begun.
    own: File,
}

impl Watch {
    fn new(folder: &Path) -> Self {
        let path = folder.join("watch");
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let mut options = OpenOptions::new();
        let from = options
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&path);
        let from = from.unwrap();
        let own = OpenOptions::new().write(true).open(&path).unwrap();
        rustix::io::ioctl_fionbio(&from, false).unwrap();
        let from = BufReader::new(from);
        Self { path, from, own }
    }

    /// Code of a process that says so when it begins, and again if it is not ended.
    fn outlives(&self) -> String {
        let path = self.path.display();
        format!(
            "{{ int watch = open(\"{path}\", O_WRONLY); if (write(watch, \"begins\\n\", 7) < 0) abort(); \
             for (int left = 20; left;) left = sleep(left); \
             if (write(watch, \"outlived\\n\", 9) < 0) abort(); _exit(0); }}"
        )
    }

    fn awaits_begin(&mut self) {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        assert_eq!(line, "begins\n");
    }

    /// What processes say until all have ended.
    fn until_all_ended(mut self) -> String {
        drop(self.own);
        let mut said = String::new();
        self.from.read_to_string(&mut said).unwrap();
        said
    }
}

/// Code that runs if the process has this for its first argument.
fn only_in(child: &str, code: &str) -> String {
    format!(
        "char words[4096] = {{0}}; int line = open(\"/proc/self/cmdline\", O_RDONLY); \
         if (read(line, words, 4095) < 0) abort(); close(line); \
         if (!__builtin_strcmp(words + __builtin_strlen(words) + 1, \"{child}\")) {{ {code} }}"
    )
}

#[test]
fn a_signal_ends_every_process_and_leaves_no_temporary_file() {
    for (line, child, name, number) in [
        (
            "conform PLUGIN --level full --case a_process_exits",
            "conform-ending",
            "INT",
            2,
        ),
        ("conform PLUGIN --level core", "conform-child", "TERM", 15),
        (
            "matrix array.npy --route best --plugin PLUGIN",
            "matrix-child",
            "HUP",
            1,
        ),
        ("doctor --plugin PLUGIN", "probe-child", "INT", 2),
        ("doctor --plugin PLUGIN", "probe-child", "XCPU", 24),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut watch = Watch::new(folder.path());
        // One that stays in the group of the child, one that leaves it, and one that is an orphan besides.
        let outlives = watch.outlives();
        let starts = format!(
            "if (!fork()) {outlives} if (!fork()) {{ setsid(); if (!fork()) {outlives} {outlives} }} {outlives}"
        );
        let plugin = build(folder.path(), &only_in(child, &starts), ("", ""));
        let mut command = crossdock(line, &plugin);
        let mut started = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        for _ in 0..4 {
            watch.awaits_begin();
        }
        let id = started.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.unwrap().success());
        assert_eq!(started.wait().unwrap().signal(), Some(number), "{line}");
        assert_eq!(watch.until_all_ended(), "", "{line}: {name}");
        let mut left = fs::read_dir(folder.path().join("temporary")).unwrap();
        assert!(left.next().is_none(), "{line}: {name}");
    }
}

#[test]
fn a_process_that_left_its_group_ends_with_the_command() {
    for line in [
        "conform PLUGIN --level core --case allocat",
        "matrix array.npy --route best --plugin PLUGIN",
        "doctor --plugin PLUGIN",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let watch = Watch::new(folder.path());
        let outlives = watch.outlives();
        let starts = format!("if (!fork()) {{ setsid(); if (!fork()) {outlives} _exit(0); }}");
        // Each child of the command begins one.
        let starts =
            format!("if (access(\"begun\", F_OK)) {{ fclose(fopen(\"begun\", \"w\")); {starts} }}");
        let plugin = build(folder.path(), &starts, ("", ""));
        crossdock(line, &plugin).output().unwrap();
        let said = watch.until_all_ended();
        assert!(!said.contains("outlived"), "{line}: {said}");
    }
}

fn text(output: &Output) -> String {
    let streams = [&output.stdout, &output.stderr];
    streams.map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

/// Lines with a limit, and a function of the plugin that each calls.
const LIMITED: [(&str, &str); 3] = [
    (
        "conform PLUGIN --level core --limit LIMIT --case allocat",
        "ext_allocate",
    ),
    (
        "matrix array.npy --route best --limit LIMIT --plugin PLUGIN",
        "ext_copy",
    ),
    ("doctor --plugin PLUGIN", "ext_probe"),
];

fn limited(line: &str, seconds: u32, plugin: &Path) -> Output {
    let line = line.replace("LIMIT", &seconds.to_string());
    let mut command = crossdock(&line, plugin);
    let command = command.env("CROSSDOCK_PROBE_LIMIT_MS", format!("{seconds}000"));
    command.output().unwrap()
}

#[test]
fn a_stop_of_the_command_takes_no_time_from_a_plugin() {
    // As Ctrl-Z and `fg` do it: the children go on, in a group of their own.
    let stops = "static int calls; if (!calls++) { kill(getppid(), SIGSTOP); \
                 for (int left = 3; left;) left = sleep(left); kill(getppid(), SIGCONT); usleep(200000); }";
    let ends_meanwhile = "static int calls; pid_t stopped = getppid(); if (!calls++) { if (!fork()) { \
                          for (int left = 3; left;) left = sleep(left); kill(stopped, SIGCONT); _exit(0); } \
                          kill(stopped, SIGSTOP); }";
    for (line, function) in LIMITED {
        for code in [stops, ends_meanwhile] {
            if code == ends_meanwhile && line.starts_with("conform") {
                // There it is a process that is left behind.
                continue;
            }
            let folder = tempfile::tempdir().unwrap();
            let plugin = build(folder.path(), "", (function, code));
            let output = limited(line, 2, &plugin);
            assert_eq!(output.status.code(), Some(0), "{line}: {}", text(&output));
        }
    }
}

#[test]
fn a_line_of_other_bytes_from_a_plugin_ends_no_limit() {
    // Between the words of the child, which stand in a pipe.
    let hangs = "for (int i = 3; i < 64; i++) if (write(i, \"\\xff\\xfe\\n\", 3) < 0) continue; \
                 for (;;) pause();";
    for (line, function) in LIMITED {
        let folder = tempfile::tempdir().unwrap();
        let plugin = build(folder.path(), "", (function, hangs));
        let output = limited(line, 1, &plugin);
        assert_eq!(output.status.code(), Some(1), "{line}: {}", text(&output));
        assert!(
            text(&output).contains("no answer within 1"),
            "{}",
            text(&output)
        );
    }
}

/// A plugin whose process `starts` begins and `ends` ends.
fn with_process(folder: &Path, starts: &str, ends: &str) -> PathBuf {
    let begin = format!(
        "}} static pid_t helper; __attribute__((constructor)) static void begin(void) {{ {starts}"
    );
    build(folder, &begin, ("ext_close", ends))
}

#[test]
fn a_process_that_close_does_not_end_fails_the_plugin() {
    let runs = "{ for (int left = 60; left;) left = sleep(left); _exit(0); }";
    let child = format!("helper = fork(); if (!helper) {runs}");
    let leaves_group = format!("if (!fork()) {{ setsid(); {runs} }}");
    let orphan = format!("if (!fork()) {{ setsid(); if (!fork()) {runs} _exit(0); }} ");
    for (starts, ends, is_ended) in [
        (&child, "kill(helper, SIGKILL);", true),
        (&child, "", false),
        (&leaves_group, "", false),
        (&orphan, "", false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let plugin = with_process(folder.path(), starts, ends);
        for more in [
            "--level core --case allocat",
            "--level core --case allocat --in-process",
            "--level full --case a_process_exits",
        ] {
            let output = crossdock(&format!("conform PLUGIN {more}"), &plugin).output();
            let output = output.unwrap();
            let said = text(&output);
            assert_eq!(output.status.success(), is_ended, "{starts} {more}: {said}");
            let says = said.contains("`close` left processes running: `crossdock` (");
            assert_eq!(says, !is_ended, "{starts} {more}: {said}");
        }
    }
}
