//! A case of `conform` about the end of a process: the child starts a process for it, which opens the
//! plugin and ends.

use std::{
    env,
    fs::File,
    io::{self, PipeReader, Read as _},
    mem::ManuallyDrop,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use clap::Args;
use crossdock::{Device, Error};
use crossdock_conformance::{Outcome, Subject, cases, end_after, tell_at_exit};
use crossdock_sdk::child::Child;
use rustix::process::Signal;

use crate::command::{
    conform::child::Told,
    conform::command::{open, own_devices},
    conform::left::OF_ENDING,
    conform::process,
};
use crate::{
    exit::{self, Exit},
    failure::{Failure, Problem},
    followed::{Word, ended, take_stdout, tell},
};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    plugin: PathBuf,
    /// The plugin's device that the case uses.
    device: u32,
    case: String,
}

/// How the case ended, in a process of its own.
pub(super) fn outcome(plugin: &Path, device: u32, case: &str) -> Result<Outcome, Problem> {
    ran(plugin, device, case).map_err(|error| Problem::child("run a case in a process", &error))
}

fn ran(plugin: &Path, device: u32, case: &str) -> io::Result<Outcome> {
    let (words, pipe) = io::pipe()?;
    let mut process = Command::new(env::current_exe()?);
    let process = process.arg("conform-ending").arg(plugin);
    let process = process.arg(device.to_string()).arg(case);
    let process = process.env(OF_ENDING, "1");
    let child = Child::start(process.stdin(Stdio::null()).stdout(pipe))?;
    Ok(judged(child.status()?, &written(&words)?))
}

/// What was written into a pipe by now: a process that the plugin left behind may hold it for longer.
fn written(words: &PipeReader) -> io::Result<String> {
    rustix::io::ioctl_fionbio(words, true)?;
    let mut text = Vec::new();
    match words.take(MOST_BYTES).read_to_end(&mut text) {
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Ok(String::from_utf8_lossy(&text).into_owned()),
    }
}

/// What the process told, and how it ended: an exit proves nothing without the last word.
fn judged(status: ExitStatus, words: &str) -> Outcome {
    let mut told = words
        .lines()
        .map_while(|line| match serde_json::from_str(line) {
            Ok(Word::Told(told)) => Some(told),
            _ => None,
        });
    let (mut has_run, mut is_over) = (false, false);
    let failure = told.find_map(|word| match word {
        Told::End { outcome, .. } => {
            has_run = true;
            (outcome != Outcome::Passed).then_some(outcome)
        }
        Told::Refused(problem) => Some(Outcome::Failed(problem.to_string())),
        Told::Done => {
            is_over = true;
            None
        }
        _ => None,
    });
    match failure {
        Some(failure) => failure,
        None if status.signal() == Some(libc::SIGALRM) => {
            Outcome::Failed(if has_run { HANGS } else { HANGS_BEFORE }.to_owned())
        }
        None if is_over && status.success() => Outcome::Passed,
        None => Outcome::Failed(format!("at its exit {}", ended(status))),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    // Both first, as the file may hang when it is loaded.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).ok();
    end_after(process::limit(None) / 2);
    let told = take_stdout()?;
    told.try_clone()
        .and_then(|told| tell_at_exit(told, last_word))
        .map_err(|error| Problem::child("notice the exit of the process", &error))?;
    let outcome = run_case(arguments, &told);
    let told = &mut &told;
    match outcome {
        Ok(outcome) => tell(
            told,
            &Told::End {
                outcome,
                seconds: 0.0,
            },
        )?,
        Err(failure) => tell(told, &Told::Refused(failure.into_problem()))?,
    }
    Ok(exit::DONE)
}

fn run_case(arguments: &Arguments, told: &File) -> Result<Outcome, Failure> {
    // What is open stays so until the process has ended.
    let case = cases().iter().find(|case| case.name == arguments.case);
    let ending = case.and_then(|case| case.ending);
    let device = device(&arguments.plugin, arguments.device)?.map(ManuallyDrop::new);
    let (Some(ending), Some(device)) = (ending, device) else {
        let hint = "`crossdock conform` starts this by itself";
        return Err(Problem::new("run a case", "no such device, or no such case", hint).into());
    };
    let subject = Subject::new(device.plugin().hooks(), device.index())?;
    let open_anew = || self::device(&arguments.plugin, arguments.device);
    let tell_failure = |outcome| {
        // Without it the parent says how the child of the fork ended.
        let _written = tell(
            &mut &*told,
            &Told::End {
                outcome,
                seconds: 0.0,
            },
        );
    };
    Ok(ending.run(&subject, limit(), open_anew, tell_failure))
}

/// A device of the plugin that is checked, in a runtime that stays open.
fn device(plugin: &Path, index: u32) -> Result<Option<Device>, Error> {
    let runtime = ManuallyDrop::new(open(plugin)?);
    let mut devices = own_devices(&runtime, plugin).into_iter();
    Ok(devices.find(|device| device.index() == index))
}

/// Before the limit of the cases, so that what is told names the end of the process.
fn limit() -> Duration {
    process::limit(None) / 3
}

/// That the process came to its end, and what was wrong with that.
fn last_word(outcome: Outcome) -> Vec<u8> {
    let mut word = Vec::new();
    let told = match outcome {
        Outcome::Failed(_) => Told::End {
            outcome,
            seconds: 0.0,
        },
        _ => Told::Done,
    };
    // Without the word the case fails, which is all that can be done.
    let _written = tell(&mut word, &told);
    word
}

/// More than the words of a case.
const MOST_BYTES: u64 = 1 << 20;

const HANGS_BEFORE: &str = "the case does not come to its end in a process of its own: mostly a hook waits longer \
    than its limit, also when the file is loaded or the plugin opened";
const HANGS: &str = "the process does not come to its end: mostly `at_exit` waits for a thread that \
    waits for the driver, or for a lock that another thread holds";
