//! Probing a plugin file in a process of its own, whatever that process does.

use std::{
    env,
    ffi::OsString,
    fs::File,
    io,
    io::Read,
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{Command, ExitStatus},
    sync::mpsc::{self, Receiver},
    time::Duration,
};

use crossdock_sdk::child::Child;
use crossdock_sdk::threads::Thread;

use crate::command::{
    probe::child::{Answer, closed, failed, own_failure},
    probe::process,
};
use crate::failure::{Problem, one_line};

/// What probing one file gave.
#[derive(Debug)]
pub(crate) struct Probed {
    pub(crate) result: Result<Answer, Problem>,
    /// Bytes that the plugin printed.
    pub(crate) printed: u64,
}

/// Probes one file, with these variables beside the usual ones; never fails, crashes or hangs, whatever the file is.
pub(crate) fn probe(path: &Path, kept: &[OsString]) -> Probed {
    let mut printed = 0;
    let result = run(path, kept, &mut printed);
    Probed {
        result: result.unwrap_or_else(|error| Err(cannot(path, &error))),
        printed,
    }
}

fn run(path: &Path, kept: &[OsString], printed: &mut u64) -> io::Result<Result<Answer, Problem>> {
    let folder = tempfile::tempdir()?;
    let answer_file = folder.path().join("answer.json");
    File::create(failed(&answer_file, 0))?;
    let mut command = Command::new(env::current_exe()?);
    command.arg("probe-child").args([path, &answer_file]);
    process::prepare(&mut command, kept);
    let (from_stdout, stdout) = io::pipe()?;
    let (from_stderr, stderr) = io::pipe()?;
    let outputs = [drain(from_stdout)?, drain(from_stderr)?];
    let child = Child::start_group(command.stdout(stdout).stderr(stderr))?;
    // It holds our copies of the ends that write.
    drop(command);
    let limit = limit();
    let has_ended = child.ends_within(Some(limit))?;
    // What it started ends with it.
    child.kill();
    let mut last_words = String::new();
    for output in outputs {
        // A process that left the group may hold the pipe for as long as it likes.
        if let Ok((kept, count)) = output.recv_timeout(GRACE) {
            *printed += count;
            last_words = last_line(&kept).unwrap_or(last_words);
        }
    }
    if !has_ended {
        return Ok(Err(hung(path, limit)));
    }
    let status = child.status()?;
    if let Some(error) = own_failure(&answer_file) {
        return Err(error);
    }
    let read = |file: &Path| serde_json::from_slice(&std::fs::read(file).ok()?).ok();
    let outcome = match read(&closed(&answer_file)) {
        Some(answer) => Outcome::Closed(Box::new(answer)),
        None if answer_file.exists() => Outcome::Answered,
        None => Outcome::Silent,
    };
    Ok(judge(path, status, outcome, &last_words))
}

/// How far the child came.
enum Outcome {
    /// The plugin was neither loaded nor refused.
    Silent,
    /// It was, and not closed.
    Answered,
    /// All was done.
    Closed(Box<Answer>),
}

fn judge(
    path: &Path,
    status: ExitStatus,
    outcome: Outcome,
    last_words: &str,
) -> Result<Answer, Problem> {
    let when = match outcome {
        Outcome::Silent => "while it was loaded or probed",
        Outcome::Answered | Outcome::Closed(_) => "after it was probed",
    };
    let said = match last_words {
        "" => String::new(),
        words => format!("; its last words: {words}"),
    };
    let problem = |why: String| {
        let hint = "remove the file, or report this to the plugin's author; a host that loads it ends \
                    the same way";
        Problem::new(
            format!("probe plugin `{}`", path.display()),
            why + &said,
            hint,
        )
    };
    if let Some(number) = status.signal() {
        return Err(problem(format!(
            "it crashed with {} {when}",
            signal_name(number)
        )));
    }
    match outcome {
        Outcome::Closed(answer) if status.success() => Ok(*answer),
        Outcome::Silent | Outcome::Answered | Outcome::Closed(_) => {
            let code = status.code().unwrap_or(-1);
            Err(problem(format!(
                "it ended the process with code {code} {when}"
            )))
        }
    }
}

fn hung(path: &Path, limit: Duration) -> Problem {
    let why = format!(
        "it hangs: it gave no answer within {} ms and was ended",
        limit.as_millis()
    );
    let hint = "check the driver that it waits for, or remove the file";
    Problem::new(format!("probe plugin `{}`", path.display()), why, hint)
}

fn cannot(path: &Path, error: &io::Error) -> Problem {
    let hint = "check that processes and temporary files can be made";
    let folder = env::temp_dir();
    Problem::new(
        format!("probe plugin `{}`", path.display()),
        format!(
            "{error}, in a process or a file of `doctor` itself (temporary files are in `{}`)",
            folder.display()
        ),
        hint,
    )
}

/// Reads, so that the writer never blocks, and keeps the first bytes only. A writer of more than the
/// limit finds the pipe closed.
fn drain(mut pipe: impl Read + Send + 'static) -> io::Result<Receiver<(Vec<u8>, u64)>> {
    let (send, receive) = mpsc::channel();
    let read = move || {
        let mut kept = Vec::new();
        let first = pipe.by_ref().take(KEPT_BYTES).read_to_end(&mut kept);
        let more = first.and_then(|_| io::copy(&mut pipe.take(MOST_BYTES), &mut io::sink()));
        let count = more.unwrap_or(0).saturating_add(kept.len() as u64);
        drop(send.send((kept, count)));
    };
    Thread::named("probe-read").spawn(read)?;
    Ok(receive)
}

fn last_line(output: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(output);
    let line = text
        .lines()
        .rev()
        .map(one_line)
        .find(|line| !line.is_empty())?;
    Some(line.chars().take(200).collect())
}

pub(crate) fn signal_name(number: i32) -> String {
    let names = [
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGSYS, "SIGSYS"),
    ];
    let known = names.iter().find(|(known, _)| *known == number);
    known.map_or_else(
        || format!("signal {number}"),
        |(_, name)| (*name).to_owned(),
    )
}

/// Ten seconds, or what a test asks for.
fn limit() -> Duration {
    let asked = env::var("CROSSDOCK_PROBE_LIMIT_MS")
        .ok()
        .and_then(|text| text.parse().ok());
    asked.map_or(Duration::from_secs(10), Duration::from_millis)
}

const KEPT_BYTES: u64 = 64 << 10;
const MOST_BYTES: u64 = 64 << 20;
const GRACE: Duration = Duration::from_secs(1);
