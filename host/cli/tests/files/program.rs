//! The command as a program: its environment, its words, its files.

use std::{
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
};

/// The command, in an environment that nobody's settings reach.
pub(crate) fn crossdock(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crossdock"));
    clean(&mut command).args(arguments);
    command
}

/// The command under a limit of a shell, such as `ulimit -d 100000`, and of 30 s.
pub(crate) fn limited(limit: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    let script = format!("{limit}; exec timeout 30 \"$0\" \"$@\"");
    clean(&mut command).args(["-c", &script, env!("CARGO_BIN_EXE_crossdock")]);
    command.args(arguments);
    command
}

fn clean(command: &mut Command) -> &mut Command {
    for name in ["LOG", "PLUGIN_PATH", "PYTHON", "TRACE", "TRUST_PATHS"] {
        command.env_remove(format!("CROSSDOCK_{name}"));
    }
    // A thread's stack counts as memory, and machines differ in how many there are.
    command.env("CROSSDOCK_CPU_THREADS", "1");
    command.env_remove("NO_COLOR").env("CROSSDOCK_COSTS", "off")
}

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// An array of float32 as NumPy writes it.
pub(crate) fn npy(shape: &str, order: &str, bytes: &[u8]) -> Vec<u8> {
    with_header(
        &format!("{{'descr': '<f4', 'fortran_order': {order}, 'shape': ({shape}), }}"),
        bytes,
    )
}

/// A file of NumPy's format with this text for a header.
pub(crate) fn with_header(text: &str, bytes: &[u8]) -> Vec<u8> {
    let mut header = text.to_owned();
    while !(10 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), bytes].concat()
}

/// An archive as `numpy.savez` writes it, or for a bomb as `savez_compressed`.
pub(crate) fn npz(path: &Path, members: &[(&str, &[u8])]) {
    let is_bomb = members.iter().any(|(_, bytes)| bytes.len() > 16 << 20);
    archive(path, members, is_bomb);
}

/// An archive as `numpy.savez_compressed` writes it.
pub(crate) fn packed_npz(path: &Path, members: &[(&str, &[u8])]) {
    archive(path, members, true);
}

fn archive(path: &Path, members: &[(&str, &[u8])], is_packed: bool) {
    use std::io::Write as _;
    use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};
    let method = match is_packed {
        true => CompressionMethod::Deflated,
        false => CompressionMethod::Stored,
    };
    let mut zip = ZipWriter::new(std::fs::File::create(path).unwrap());
    for (name, bytes) in members {
        let options = SimpleFileOptions::default().compression_method(method);
        zip.start_file(*name, options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap();
}

pub(crate) fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Gives files to the user `nobody`; says why where that cannot be.
pub(crate) fn given_to_nobody(paths: &[&Path]) -> bool {
    for path in paths {
        if let Err(error) = std::os::unix::fs::lchown(path, Some(NOBODY), None) {
            skip(&format!("nobody gets the file: {error}"));
            return false;
        }
    }
    true
}

#[expect(
    clippy::print_stderr,
    reason = "this is what the reader of a test run sees"
)]
pub(crate) fn skip(why: &str) {
    eprintln!("skipped: {why}");
}

/// The user `nobody`, who owns no file.
pub(crate) const NOBODY: u32 = 65534;
