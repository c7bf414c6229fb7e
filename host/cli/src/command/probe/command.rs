//! Probing a plugin file in a process of its own, whatever that process does.

use std::{
    env,
    ffi::OsString,
    fs::File,
    io,
    io::Read,
    os::{fd::AsRawFd as _, unix::process::ExitStatusExt as _},
    path::Path,
    process::{Command, ExitStatus},
    sync::mpsc::{self, Receiver},
    time::Duration,
};

use crossdock_sdk::child::Child;
use crossdock_sdk::regular;
use crossdock_sdk::threads::Thread;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::command::{
    probe::child::{Answer, CLOSED},
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
    // The child has the same limit, under which it could not tell of its own failure.
    regular::fits(LONGEST_ANSWER)?;
    let answer = File::from(memfd_create("crossdock-answer", MemfdFlags::CLOEXEC)?);
    // The child opens it by this name, so that the plugin meets no open file.
    let name = format!("/proc/{}/fd/{}", std::process::id(), answer.as_raw_fd());
    let mut command = Command::new(env::current_exe()?);
    command.arg("probe-child").arg(path).arg(name);
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
    Ok(judge(path, status, Outcome::read(&answer)?, &last_words))
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

impl Outcome {
    fn read(answer: &File) -> io::Result<Self> {
        let mut text = String::new();
        answer.take(MOST_BYTES).read_to_string(&mut text)?;
        let mut lines = text.lines();
        let answer = lines.next().map(serde_json::from_str);
        Ok(match (answer, lines.next()) {
            (Some(Ok(answer)), Some(CLOSED)) => Self::Closed(Box::new(answer)),
            (Some(_), _) => Self::Answered,
            (None, _) => Self::Silent,
        })
    }
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
    let hint = "check the limits on processes, threads, open files and file sizes: ulimit -a";
    Problem::new(
        format!("probe plugin `{}`", path.display()),
        format!("{error}, in a process of `doctor` itself"),
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
const LONGEST_ANSWER: u64 = 1 << 20;
const MOST_BYTES: u64 = 64 << 20;
const GRACE: Duration = Duration::from_secs(1);
