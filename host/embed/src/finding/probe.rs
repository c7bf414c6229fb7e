//! One question to an executable: which Python it is, and where its library should be.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::finding::probe_cache::Entry;
use crate::finding::reason::Reason;

/// What an executable said of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) implementation: String,
    pub(crate) version_text: String,
    pub(crate) executable: PathBuf,
    pub(crate) prefix: PathBuf,
    pub(crate) base_prefix: PathBuf,
    pub(crate) abi_flags: String,
    pub(crate) soabi: String,
    pub(crate) free_threaded: bool,
    /// Empty where the build does not say; so are the next two.
    pub(crate) library_folder: PathBuf,
    pub(crate) library_name: PathBuf,
    pub(crate) multiarch: String,
}

/// A start file of the environment may print, so the answer stands between marks.
const BEGIN: &[u8] = b"\0crossdock:";
const END: &[u8] = b"\0:crossdock\n";

/// Runs on every version that knows `-I`, so that an old one can say that it is old.
const QUESTION: &str = r"
import os, sys, sysconfig
get = sysconfig.get_config_var
answer = [sys.implementation.name, sys.version, sys.executable, sys.prefix, sys.base_prefix,
    getattr(sys, 'abiflags', ''), get('SOABI'), get('Py_GIL_DISABLED'), get('LIBDIR'),
    get('INSTSONAME'), get('MULTIARCH')]
line = b'\0crossdock:' + b'\0'.join(os.fsencode(str(x or '')) for x in answer)
sys.stdout.buffer.write(line + b'\0:crossdock\n')
";

/// Long enough for a cold start over a network, short enough for a caller that waits.
const LIMIT: Duration = Duration::from_secs(10);

/// More than an answer with all that start files print before it.
const LONGEST: u64 = 1 << 20;

/// Asks an executable what it is, unless it has said so before.
pub(crate) fn probe(executable: &Path) -> Result<Answer, Reason> {
    let entry = Entry::of(executable, QUESTION);
    if let Some(kept) = entry.as_ref().and_then(|entry| read(&entry.read()?)) {
        return Ok(kept);
    }
    let said = ask(executable).map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => Reason::Late(LIMIT.as_secs()),
        _ => Reason::NotStarted(error.to_string()),
    })?;
    let answer = read(&said).ok_or_else(|| Reason::NoAnswer(reason(&said)))?;
    if let Some(entry) = entry {
        entry.write(&said);
    }
    Ok(answer)
}

fn ask(executable: &Path) -> io::Result<Vec<u8>> {
    let (from, to) = io::pipe()?;
    let mut command = Command::new(executable);
    command.args(["-I", "-c", QUESTION]).stdin(Stdio::null());
    command.stdout(to.try_clone()?).stderr(to);
    let (tell, told) = mpsc::channel();
    let reader = move || {
        let mut said = Vec::new();
        let read = from.take(LONGEST).read_to_end(&mut said).map(|_count| said);
        // Nobody listens any more once the time is up.
        drop(tell.send(read));
    };
    // Before there is a child, of which nobody would hear without it.
    let reader = std::thread::Builder::new().spawn(reader)?;
    let mut child = command.spawn()?;
    // It holds our copies of the end that writes, which must all close.
    drop(command);
    let said = told.recv_timeout(LIMIT);
    // A Python has ended by now; what is none may go on for ever, without a word.
    child.kill()?;
    child.wait()?;
    let Ok(said) = said else {
        return Err(io::ErrorKind::TimedOut.into());
    };
    // It has sent, so it ends; where it panicked there is nothing to read either.
    drop(reader.join());
    said
}

fn read(said: &[u8]) -> Option<Answer> {
    let begin = find(said, BEGIN)? + BEGIN.len();
    let rest = said.get(begin..)?;
    let fields = rest.get(..find(rest, END)?)?;
    let mut fields = fields.split(|byte| *byte == 0).map(<[u8]>::to_vec);
    let mut next = || fields.next().map(OsString::from_vec);
    let text = |field: OsString| field.to_string_lossy().into_owned();
    Some(Answer {
        implementation: text(next()?),
        version_text: text(next()?),
        executable: next()?.into(),
        prefix: next()?.into(),
        base_prefix: next()?.into(),
        abi_flags: text(next()?),
        soabi: text(next()?),
        free_threaded: next()? == "1",
        library_folder: next()?.into(),
        library_name: next()?.into(),
        multiarch: text(next()?),
    })
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|part| part == wanted)
}

/// What a program without an answer said first, which is mostly why; an exception's name comes last.
fn reason(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = match lines.next() {
        Some(line) if line.starts_with("Traceback") => lines.next_back(),
        line => line,
    };
    line.unwrap_or_default().chars().take(200).collect()
}
