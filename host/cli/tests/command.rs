//! The command as a person meets it: exit codes, streams, files.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by it, in what it shares too"
)]

use std::{
    path::Path,
    process::{Command, Output},
};

fn crossdock(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crossdock"));
    command
        .args(arguments)
        .env_remove("CROSSDOCK_PLUGIN_PATH")
        .env_remove("CROSSDOCK_LOG")
        .env("CROSSDOCK_COSTS", "off")
        .env_remove("NO_COLOR");
    command
}

fn run(arguments: &[&str]) -> Output {
    crossdock(arguments).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// An array of float32 as NumPy writes it.
fn npy(path: &Path, shape: &str, order: &str, bytes: &[u8]) {
    let mut header = format!("{{'descr': '<f4', 'fortran_order': {order}, 'shape': ({shape}), }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    let file = [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), bytes].concat();
    std::fs::write(path, file).unwrap();
}

fn safetensors(path: &Path) {
    use safetensors::{Dtype, tensor::TensorView};
    let (a, b): (Vec<u8>, Vec<u8>) = ((0..24).collect(), (100..112).collect());
    let tensors = [
        (
            "weight",
            TensorView::new(Dtype::F32, vec![2, 3], &a).unwrap(),
        ),
        ("bias", TensorView::new(Dtype::BF16, vec![6], &b).unwrap()),
    ];
    safetensors::serialize_to_file(tensors, None, path).unwrap();
}

#[test]
fn a_variable_that_is_not_understood_is_a_warning_on_stderr() {
    let wrong = [
        ("CROSSDOCK_LAYERS", "validat", "`validat`"),
        ("CROSSDOCK_DEVICE_ORDER", "first", "`first`"),
        ("CROSSDOCK_PLUGIN_PATH", "relative", "`relative`"),
        ("CROSSDOCK_STAGING_BYTES", "abc", "`abc`"),
        (
            "CROSSDOCK_TRACE",
            "/nonexistent/trace",
            "/nonexistent/trace",
        ),
        ("CROSSDOCK_LOG", "debgu", "`debgu` in `CROSSDOCK_LOG`"),
    ];
    let plain = run(&["route", "cpu", "cpu"]);
    assert_eq!(err(&plain), "");
    for (variable, value, told) in wrong {
        let with = |arguments: &[&str]| {
            let mut command = crossdock(arguments);
            command.env(variable, value).output().unwrap()
        };
        let loud = with(&["route", "cpu", "cpu"]);
        assert_eq!(loud.status.code(), Some(0), "{variable}: {}", err(&loud));
        assert!(err(&loud).contains(told), "{variable}: {}", err(&loud));
        assert_eq!(out(&loud), out(&plain), "{variable}");
        assert_eq!(err(&with(&["--quiet", "route", "cpu", "cpu"])), "");
    }
}

#[test]
fn devices_lists_the_built_in_cpu_and_what_is_absent() {
    let output = run(&["devices"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let text = out(&output);
    assert!(text.contains("cpu:0"), "{text}");
    assert!(
        text.contains("cuda") && text.contains("no plugin"),
        "{text}"
    );
    let line = |name: &str| text.lines().find(|line| line.trim().starts_with(name));
    for name in ["cuda", "rocm", "opencl"] {
        assert!(line(name).unwrap().contains("put it there"), "{text}");
    }
}

#[test]
fn devices_as_json_parses() {
    let output = run(&["devices", "--json"]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["devices"][0]["id"], "cpu:0");
}

#[test]
fn without_a_terminal_there_are_no_escape_codes() {
    assert!(!out(&run(&["devices"])).contains('\x1b'));
    let always = run(&["devices", "--color", "always"]);
    assert!(out(&always).contains('\x1b'));
    let asked_not_to = crossdock(&["devices"])
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    assert!(!out(&asked_not_to).contains('\x1b'));
}

#[test]
fn a_wrong_command_line_is_exit_code_2() {
    for arguments in [
        &["unheard-of"][..],
        &[],
        &["route", "cpu:0"],
        &["route", "x:y", "cpu:0"],
    ] {
        assert_eq!(run(arguments).status.code(), Some(2), "{arguments:?}");
    }
    assert_eq!(run(&["--version"]).status.code(), Some(0));
}

#[test]
fn a_device_type_that_does_not_exist_leads_to_those_that_are_here() {
    for arguments in [
        &["copy", "a.npy", "--to", "gpu"][..],
        &["route", "gpu:1", "cpu:0"],
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let text = err(&output);
        assert!(
            text.contains("no device type \"gpu\": `crossdock devices` lists"),
            "{text}"
        );
    }
}

#[test]
fn a_big_endian_array_is_to_be_saved_in_this_machines_byte_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("big.npy");
    npy(&path, "2,", "False", &[0; 8]);
    let mut file = std::fs::read(&path).unwrap();
    let order = file.iter().position(|byte| *byte == b'<').unwrap();
    file[order] = b'>';
    std::fs::write(&path, file).unwrap();
    let output = run(&["copy", path.to_str().unwrap(), "--to", "cpu:0"]);
    assert_eq!(output.status.code(), Some(1));
    let text = err(&output);
    assert!(
        text.contains("big-endian") && text.contains("this machine's byte order"),
        "{text}"
    );
}

#[test]
fn no_folder_below_a_file_is_advised() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let path = format!("{0}/x:{0}:{1}/new", file.display(), folder.path().display());
    let mut command = crossdock(&["devices"]);
    let output = command.env("CROSSDOCK_PLUGIN_PATH", path).output().unwrap();
    let text = out(&output);
    assert!(!text.contains(&*file.to_string_lossy()), "{text}");
    let can_be = folder.path().join("new");
    assert!(text.contains(&*can_be.to_string_lossy()), "{text}");
}

#[test]
fn a_required_type_that_is_absent_is_exit_code_1() {
    let output = run(&["devices", "--require", "cuda"]);
    assert_eq!(output.status.code(), Some(1));
    let text = err(&output);
    assert!(
        text.starts_with("error: ") && text.contains("\n  why: ") && text.contains("\n  try: ")
    );
    assert_eq!(run(&["devices", "--require", "cpu"]).status.code(), Some(0));
}

#[test]
fn the_route_to_the_same_device_is_an_alias() {
    let output = run(&["route", "cpu:0", "cpu:0", "--shape", "4x4"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let text = out(&output);
    assert!(
        text.contains("alias") && text.contains("cost: nothing"),
        "{text}"
    );
}

#[test]
fn the_cost_of_a_route_is_told_with_the_layout_that_it_is_for() {
    let folder = tempfile::tempdir().unwrap();
    let route = |more: &[&str]| {
        let words = [
            "route", "cpu:0", "cpu:0", "--route", "direct", "--shape", "64x64",
        ];
        let mut command = crossdock(&[&words, more].concat());
        command.env("CROSSDOCK_COSTS", folder.path().join("costs.json"));
        command.output().unwrap()
    };
    for (more, class) in [
        (&[][..], "measured for compact to compact memory"),
        (
            &["--strides", "100x1"],
            "measured for pitched to compact memory",
        ),
        (
            &["--strides", "-1,64"],
            "measured for scattered to compact memory",
        ),
    ] {
        let output = route(more);
        let text = out(&output);
        assert!(text.contains(class), "{text} {}", err(&output));
    }
    let output = route(&["--strides", "64"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(err(&output).lines().count(), 3, "{}", err(&output));
}

#[test]
fn a_device_that_is_not_here_is_one_error_of_three_lines() {
    let output = run(&["route", "cpu:0", "cuda:3"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(err(&output).lines().count(), 3, "{}", err(&output));
}

#[test]
fn copied_files_come_back_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..96).collect();
    let files = ["c.npy", "fortran.npy", "s.safetensors"].map(|name| folder.path().join(name));
    npy(&files[0], "4, 6", "False", &bytes);
    npy(&files[1], "4, 6", "True", &bytes);
    safetensors(&files[2]);
    let back = folder.path().join("out");
    let mut command = crossdock(&["copy", "--to", "cpu:0", "--out"]);
    let output = command.arg(&back).args(&files).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    for file in files {
        let written = std::fs::read(back.join(file.file_name().unwrap())).unwrap();
        assert_eq!(written, std::fs::read(&file).unwrap(), "{}", file.display());
    }
}

#[test]
fn a_folder_to_write_into_is_made_and_its_parents_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.npy");
    npy(&file, "4, 6", "False", &[7; 96]);
    let mut command = crossdock(&["copy", "--to", "cpu:0", "--out"]);
    command.arg(folder.path().join("missing/out")).arg(&file);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(err(&output).contains("make the folder"), "{}", err(&output));
    assert!(!folder.path().join("missing").exists());
}

#[test]
fn a_truncated_array_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("short.npy");
    npy(&file, "4, 6", "False", &[0; 95]);
    let output = crossdock(&["copy", "--to", "cpu:0"])
        .arg(&file)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("short.npy"), "{}", err(&output));
}

#[test]
fn every_pair_of_the_matrix_is_verified_and_the_page_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.safetensors");
    safetensors(&file);
    let page = folder.path().join("page.html");
    for route in ["best", "alias", "direct", "staged"] {
        let mut command = crossdock(&["matrix", "--json", "-", "--route", route, "--html"]);
        let output = command.arg(&page).arg(&file).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{route}: {}", err(&output));
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        for pair in value["pairs"].as_array().unwrap() {
            let outcome = pair["outcome"].as_str().unwrap();
            let fits = outcome == "verified" || (route != "best" && outcome == "refused");
            assert!(fits, "{route}: {pair}");
        }
    }
    assert!(std::fs::read_to_string(page).unwrap().contains("</html>"));
}

#[test]
fn conform_runs_on_the_built_in_plugin() {
    let output = run(&["conform", "builtin", "--level", "core", "--json"]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(!value[0]["cases"].as_array().unwrap().is_empty());
    assert_eq!(output.status.code(), Some(0), "{}", out(&output));
}

#[test]
fn a_closed_pipe_changes_neither_the_verdict_nor_what_is_told() {
    let closed = |arguments: &[&str]| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        crossdock(arguments).stdout(writer).output().unwrap()
    };
    let output = closed(&["devices"]);
    assert_eq!((output.status.code(), &*err(&output)), (Some(0), ""));
    for line in [
        &["doctor", "--plugin", "/nowhere/libcrossdock_plugin_x.so"][..],
        &["devices", "--require", "cuda"],
    ] {
        let (read, unread) = (run(line), closed(line));
        assert_eq!(unread.status.code(), Some(1), "{line:?}");
        assert_eq!(err(&unread), err(&read), "{line:?}");
    }
}

#[test]
fn the_members_of_an_archive_come_back_as_arrays() {
    use std::io::Write as _;
    let folder = tempfile::tempdir().unwrap();
    let array = folder.path().join("a.npy");
    npy(&array, "4, 6", "False", &(0..96).collect::<Vec<u8>>());
    let archive = folder.path().join("z.npz");
    let mut zip = zip::ZipWriter::new(std::fs::File::create(&archive).unwrap());
    let options: zip::write::SimpleFileOptions = Default::default();
    zip.start_file("a.npy", options).unwrap();
    zip.write_all(&std::fs::read(&array).unwrap()).unwrap();
    zip.finish().unwrap();
    let back = folder.path().join("out");
    let mut command = crossdock(&["copy", "--to", "cpu:0", "--out"]);
    let output = command.arg(&back).arg(&archive).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let written = std::fs::read(back.join("z.a.npy")).unwrap();
    assert_eq!(written, std::fs::read(&array).unwrap());
}

#[test]
fn bench_times_calls_and_every_route_there_is() {
    let output = run(&["bench", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let calls = value["calls"].as_array().unwrap();
    assert!(
        calls
            .iter()
            .all(|row| row["seconds"].as_f64().unwrap() > 0.0)
    );
    let names: Vec<_> = calls
        .iter()
        .map(|row| row["call"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["exchange", "device lookup", "pointer query"]);
    let copies = value["copies"].as_array().unwrap();
    assert_eq!(copies.len(), 9);
    for row in copies {
        let copied = row["gb_per_s"].as_f64().is_some();
        assert_eq!(copied, row["route"] != "alias", "{row}");
    }
}

#[test]
fn bench_prints_a_line_for_each_route() {
    let output = run(&["bench"]);
    let text = out(&output);
    for word in ["CALL", "exchange", "alias", "direct", "staged", "64 MiB"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn completions_are_printed() {
    let output = run(&["completions", "bash"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(out(&output).contains("crossdock"));
}
