//! One question to an executable: which Python it is, and where its library should be.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::finding::probe_cache::Entry;
use crate::finding::question;
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

/// Asks an executable what it is, unless it has said so before.
pub(crate) fn probe(executable: &Path) -> Result<Answer, Reason> {
    let entry = Entry::of(executable, QUESTION);
    if let Some(kept) = entry.as_ref().and_then(|entry| read(&entry.read()?)) {
        return Ok(kept);
    }
    let mut command = Command::new(executable);
    command.args(["-I", "-c", QUESTION]);
    let said = question::ask(command).map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => Reason::Late(question::LIMIT.as_secs()),
        _ => Reason::NotStarted(error.to_string()),
    })?;
    let answer = read(&said).ok_or_else(|| Reason::NoAnswer(question::reason(&said)))?;
    if let Some(entry) = entry {
        entry.write(&said);
    }
    Ok(answer)
}

fn read(said: &[u8]) -> Option<Answer> {
    let fields = question::answer(said)?;
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
