//! The parent's side of `conform`: a crash or a hang in a case is that case's failure, and the cases
//! after it run in a new process.

use std::{
    env,
    io::{self, BufRead as _, BufReader},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use crossdock_conformance::{CaseReport, Level, Outcome, Report};
use rustix::process::{Pid, Signal};

use super::{conform::Arguments, conform_child::Told, probe::signal_name};
use crate::failure::{Failure, Problem};

/// Runs the cases in processes of their own, and never fails, crashes or hangs as they may.
pub(crate) fn run(arguments: &Arguments) -> Result<Vec<Report>, Failure> {
    let mut run = Run {
        level: arguments.level.into(),
        reports: Vec::new(),
        open: None,
        refused: None,
    };
    loop {
        let finished = run.finished();
        let mut child = start(arguments, finished)?;
        let end = run.follow(&mut child)?;
        if let Some(problem) = run.refused.take() {
            return Err(problem.into());
        }
        let Some(why) = end else {
            return Ok(run.reports);
        };
        match run.open.take() {
            Some(name) => run.end(&name, Outcome::Failed(why), Duration::ZERO),
            // It did not come as far as a case, so the next one would not either.
            None => return Err(Problem::new(arguments.what(), why, HINT).into()),
        }
    }
}

/// What the children have told so far.
struct Run {
    level: Level,
    reports: Vec<Report>,
    /// The case that has begun and not ended.
    open: Option<String>,
    /// Why no case could be run.
    refused: Option<Problem>,
}

impl Run {
    fn finished(&self) -> usize {
        self.reports.iter().map(|report| report.cases.len()).sum()
    }

    /// Listens until the child ends; the reason where it ended before its work was done.
    fn follow(&mut self, child: &mut Child) -> Result<Option<String>, Failure> {
        let lines = child.stdout.take().map(lines).transpose()?;
        let limit = limit();
        let mut why = None;
        while let Some(lines) = &lines {
            match lines.recv_timeout(limit) {
                Ok(line) => self.hear(&line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    why = Some(format!("it hangs: no answer within {} s", limit.as_secs()));
                    break;
                }
            }
        }
        if why.is_some() {
            // Where the group is gone already there is nothing to end.
            let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            id.map(|id| rustix::process::kill_process_group(id, Signal::KILL).ok());
        }
        let status = child.wait()?;
        Ok(why.or_else(|| (!status.success()).then(|| ended(status))))
    }

    fn hear(&mut self, line: &str) {
        // A line that is none of ours was cut off by the end of the process.
        match serde_json::from_str(line) {
            Ok(Told::Device {
                plugin,
                device,
                device_name,
            }) => self.device(plugin, device, device_name),
            Ok(Told::Begin(name)) => self.open = Some(name),
            Ok(Told::End { outcome, seconds }) => {
                if let Some(name) = self.open.take() {
                    self.end(&name, outcome, Duration::from_secs_f64(seconds.max(0.0)));
                }
            }
            Ok(Told::Refused(problem)) => self.refused = Some(problem),
            Err(_) => {}
        }
    }

    /// A child that goes on after another names the device again.
    fn device(&mut self, plugin: String, device: u32, name: String) {
        if self.reports.iter().all(|report| report.device != device) {
            self.reports
                .push(Report::new(plugin, device, name, self.level));
        }
    }

    fn end(&mut self, name: &str, outcome: Outcome, time: Duration) {
        let case = crossdock_conformance::cases()
            .iter()
            .find(|case| case.name == name);
        if let (Some(case), Some(report)) = (case, self.reports.last_mut()) {
            report.cases.push(CaseReport::new(case, outcome, time));
        }
    }
}

fn start(arguments: &Arguments, finished: usize) -> Result<Child, Failure> {
    let mut command = Command::new(env::current_exe()?);
    command.arg("conform-child").arg(&arguments.plugin);
    command.args(["--level", arguments.level.name()]);
    command.args(["--skip", &finished.to_string()]);
    if let Some(case) = &arguments.case {
        command.args(["--case", case]);
    }
    // A group of its own, so that what it starts ends with it.
    let command = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0);
    Ok(command.spawn()?)
}

fn lines(stdout: ChildStdout) -> io::Result<Receiver<String>> {
    let (send, receive) = mpsc::channel();
    let read = move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // Nobody listens any more once the limit is over.
            if send.send(line).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().spawn(read)?;
    Ok(receive)
}

fn ended(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(number), _) => format!("it crashed with {}", signal_name(number)),
        (None, code) => format!("it ended the process with code {}", code.unwrap_or(-1)),
    }
}

/// A minute for each case, or what a test asks for.
fn limit() -> Duration {
    let asked = env::var("CROSSDOCK_CASE_LIMIT_MS").ok();
    let asked = asked.and_then(|text| text.parse().ok());
    asked.map_or(Duration::from_secs(60), Duration::from_millis)
}

const HINT: &str =
    "run `crossdock doctor --plugin` on it, or `crossdock conform --in-process` in a debugger";
