//! The parent's side of `conform`: a crash or a hang in a case is that case's failure, and the cases
//! after it run in a new process.

use std::{env, process::Command, sync::mpsc::RecvTimeoutError, time::Duration};

use crossdock_conformance::{CaseReport, Level, Outcome, Report, selected};

use crate::command::{
    conform::child::Told,
    conform::command::{Arguments, Ran},
    conform::shown::Shown,
};
use crate::{
    failure::{Failure, Problem},
    followed::{Followed, Word, ended},
};

/// Runs the cases in processes of their own, and never fails, crashes or hangs as they may.
pub(super) fn run(arguments: &Arguments, quiet: bool, shown: &mut Shown) -> Result<Ran, Failure> {
    let mut run = Run {
        level: arguments.level.into(),
        reports: Vec::new(),
        types: Vec::new(),
        open: None,
        refused: None,
    };
    loop {
        let finished = run.finished();
        let end = run.follow(start(arguments, quiet, finished)?, shown)?;
        if let Some(problem) = run.refused.take() {
            return Err(problem.into());
        }
        let Some(why) = end else {
            run.name_missing(arguments.case.as_deref());
            let (reports, types) = (run.reports, run.types);
            return Ok(Ran { reports, types });
        };
        match run.open.take() {
            Some(name) => {
                run.end(&name, Outcome::Failed(why), Duration::ZERO);
                shown.show_all(&run.reports)?;
            }
            // It did not come as far as a case, so the next one would not either.
            None => return Err(Problem::new(arguments.what(), why, HINT).into()),
        }
    }
}

/// What the children have told so far.
struct Run {
    level: Level,
    reports: Vec<Report>,
    /// The types of the devices.
    types: Vec<String>,
    /// The case that has begun and not ended.
    open: Option<String>,
    /// Why no case could be run.
    refused: Option<Problem>,
}

impl Run {
    fn finished(&self) -> usize {
        self.reports.iter().map(|report| report.cases.len()).sum()
    }

    /// Listens until the child ends; the reason where it ended before its work was done. An exit
    /// without a failure proves nothing, since plugins can exit as well: the final word does.
    fn follow(
        &mut self,
        child: Followed<Told>,
        shown: &mut Shown,
    ) -> Result<Option<String>, Failure> {
        let limit = limit();
        let mut is_done = false;
        let hangs = loop {
            match child.words.recv_timeout(limit) {
                Ok(Word::Over) | Err(RecvTimeoutError::Disconnected) => break None,
                Ok(Word::Told(Told::Done)) => is_done = true,
                Ok(Word::Told(told)) => {
                    self.hear(told);
                    if let Err(failure) = shown.show_all(&self.reports) {
                        child.kill();
                        return Err(failure);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    child.kill();
                    break Some(hangs(limit, self.open.as_deref()));
                }
            }
        };
        let status = child.status()?;
        let is_well = is_done && status.success();
        Ok(hangs.or_else(|| (!is_well).then(|| ended(status))))
    }

    fn hear(&mut self, told: Told) {
        match told {
            Told::Device {
                plugin,
                device,
                device_name,
                ty,
            } => {
                self.types.push(ty);
                self.device(plugin, device, device_name);
            }
            Told::Absent { plugin, detail } => {
                self.reports
                    .push(Report::absent(plugin, self.level, detail));
            }
            Told::Begin(name) => {
                if let Some(before) = self.open.replace(name) {
                    self.end(&before, Outcome::Failed(NO_WORD.to_owned()), Duration::ZERO);
                }
            }
            Told::End { outcome, seconds } => {
                if let Some(name) = self.open.take() {
                    self.end(&name, outcome, Duration::from_secs_f64(seconds.max(0.0)));
                }
            }
            Told::Refused(problem) => self.refused = Some(problem),
            Told::Done => {}
        }
    }

    /// Makes a failure of each case that was to run and of which nothing came.
    fn name_missing(&mut self, filter: Option<&str>) {
        let mut reports = self.reports.iter_mut();
        for report in reports.by_ref().filter(|report| !report.is_absent()) {
            for case in selected(self.level, filter) {
                if report.cases.iter().all(|told| told.name != case.name) {
                    let outcome = Outcome::Failed(NO_WORD.to_owned());
                    report
                        .cases
                        .push(CaseReport::new(case, outcome, Duration::ZERO));
                }
            }
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

fn start(arguments: &Arguments, quiet: bool, finished: usize) -> Result<Followed<Told>, Failure> {
    let mut command = Command::new(env::current_exe()?);
    command.arg("conform-child").arg(&arguments.plugin);
    command.args(["--level", arguments.level.name()]);
    command.args(["--skip", &finished.to_string()]);
    if quiet {
        command.arg("--quiet");
    }
    if let Some(case) = &arguments.case {
        command.args(["--case", case]);
    }
    Ok(Followed::start(command)?)
}

/// What is seen of a hang, what mostly makes one, and how to see where it is.
fn hangs(limit: Duration, case: Option<&str>) -> String {
    let seconds = limit.as_secs();
    let case = case.map_or_else(String::new, |name| format!(" --case {name}"));
    format!(
        "it hangs: no answer within {seconds} s; mostly a hook waits longer than its limit, or with a \
         lock that another hook needs, or a stream never goes on behind its event: `crossdock conform \
         --in-process{case}` in a debugger shows which hook it is in"
    )
}

/// A minute for each case, or what a test asks for.
pub(super) fn limit() -> Duration {
    let asked = env::var("CROSSDOCK_CASE_LIMIT_MS").ok();
    let asked = asked.and_then(|text| text.parse().ok());
    asked.map_or(Duration::from_secs(60), Duration::from_millis)
}

const NO_WORD: &str =
    "no word came of how it ended; does the plugin write into files that are not its own?";

const HINT: &str =
    "run `crossdock doctor --plugin` on it, or `crossdock conform --in-process` in a debugger";
