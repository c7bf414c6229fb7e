//! The parent's side of `conform`: a crash or a hang in a case is that case's failure, and the cases
//! after it run in a new process.

use std::{
    env,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use crossdock_conformance::{Case, CaseReport, Level, Outcome, Report, selected};
use crossdock_sdk::shown::shell_word;

use crate::command::{
    conform::child::Told,
    conform::command::Arguments,
    conform::left,
    conform::ran::{Around, Ran},
    conform::shown::Shown,
};
use crate::{
    failure::{Failure, Problem},
    followed::{Followed, Word, ended, start_limit, this_program},
};

/// Runs the cases in processes of their own, and never fails, crashes or hangs as they may.
pub(super) fn run(arguments: &Arguments, quiet: bool, shown: &mut Shown) -> Result<Ran, Failure> {
    let level = arguments.level.into();
    let mut run = Run {
        arguments,
        level,
        ran: Ran::new(&arguments.plugin, level),
        finished: 0,
        open: None,
        is_closing: false,
        refused: None,
        left: Vec::new(),
    };
    loop {
        let (finished, started) = (run.finished, Instant::now());
        let end = run.follow(start(arguments, quiet, finished)?, shown)?;
        let stopped = match (run.refused.take(), end, run.open.take()) {
            (Some(problem), ..) => (Around::Opens, problem),
            (None, None, _) => {
                run.name_missing(NO_WORD);
                let left = std::mem::take(&mut run.left);
                left::judge(&mut run.ran, arguments, &left);
                return Ok(run.ran);
            }
            (None, Some(why), Some(begun)) => {
                run.end(&begun, Outcome::Failed(why), begun.at.elapsed());
                shown.show_all(&run.ran.reports)?;
                continue;
            }
            (None, Some(why), None) => (run.around(finished), run.problem(why)),
        };
        let (around, problem) = stopped;
        if matches!(around, Around::StaysBetweenCases) {
            run.ran.fail(around, problem, Duration::ZERO);
            continue;
        }
        let why = format!("it was not run: {}", problem.why);
        run.ran.fail(around, problem, started.elapsed());
        // Another process would come no further than this one.
        if run.finished > 0 {
            run.name_missing(&why);
        }
        return Ok(run.ran);
    }
}

/// What the children have told so far.
struct Run<'a> {
    arguments: &'a Arguments,
    level: Level,
    ran: Ran,
    /// How many cases of all devices together have ended.
    finished: usize,
    /// The case that has begun and not ended.
    open: Option<Begun>,
    /// Whether all cases are over, and the plugin is being closed.
    is_closing: bool,
    /// Why no case could be run.
    refused: Option<Problem>,
    /// The processes that run on though the plugin was closed.
    left: Vec<String>,
}

struct Begun {
    name: String,
    at: Instant,
}

/// How it went to listen to a child.
enum Heard {
    /// It ended, with its final word or without it.
    All { is_done: bool },
    /// It told nothing for as long as it may.
    NothingWithin(Duration),
}

impl Run<'_> {
    /// Listens until the child ends; the reason where it ended before its work was done. An exit
    /// without a failure proves nothing, since plugins can exit as well: the final word does.
    fn follow(
        &mut self,
        mut child: Followed<Told>,
        shown: &mut Shown,
    ) -> Result<Option<String>, Failure> {
        let heard = self.listen(&mut child, shown);
        if !matches!(heard, Ok(Heard::All { .. })) {
            child.kill();
        }
        let heard = heard?;
        let status = child.status()?;
        Ok(match heard {
            Heard::All { is_done: true } if status.success() => None,
            Heard::All { .. } => Some(self.advised(&ended(status), false)),
            Heard::NothingWithin(limit) => {
                let why = format!("it hangs: no answer within {} s", limit.as_secs_f64());
                Some(self.advised(&why, true))
            }
        })
    }

    fn listen(&mut self, child: &mut Followed<Told>, shown: &mut Shown) -> Result<Heard, Failure> {
        let (mut is_done, mut is_open) = (false, false);
        let limit = limit(self.arguments.limit);
        loop {
            let limit = if is_open { limit } else { start_limit(limit) };
            let word = match child.next_within(Duration::ZERO)? {
                Some(word) => Some(word),
                None => {
                    // What runs now may be the last that is heard of.
                    self.write(shown)?;
                    child.next_within(limit)?
                }
            };
            match word {
                Some(Word::Over) => return Ok(Heard::All { is_done }),
                Some(Word::Told(Told::Done)) => is_done = true,
                Some(Word::Told(told)) => {
                    is_open = true;
                    self.hear(told);
                    shown.show_all(&self.ran.reports)?;
                }
                None => return Ok(Heard::NothingWithin(limit)),
            }
        }
    }

    /// Writes the file, with what the child is at.
    fn write(&self, shown: &mut Shown) -> Result<(), Failure> {
        let case = self.open.as_ref().and_then(|begun| named(&begun.name));
        let around = if self.is_closing {
            Around::Closes
        } else {
            Around::Opens
        };
        let words = case.map_or_else(|| around.words(), |case| (case.name, case.contract));
        shown.junit.write_begun(&self.ran, words)
    }

    fn hear(&mut self, told: Told) {
        match told {
            Told::Device {
                plugin,
                device,
                device_name,
                ty,
            } => self.device(plugin, device, device_name, ty),
            Told::Absent { plugin, detail } => {
                let report = Report::absent(plugin, self.level, detail);
                self.ran.reports.push(report);
            }
            Told::Begin(name) => {
                let at = Instant::now();
                if let Some(before) = self.open.replace(Begun { name, at }) {
                    let outcome = Outcome::Failed(NO_WORD.to_owned());
                    self.end(&before, outcome, before.at.elapsed());
                }
            }
            Told::End { outcome, seconds } => {
                if let Some(begun) = self.open.take() {
                    self.end(&begun, outcome, Duration::from_secs_f64(seconds.max(0.0)));
                }
            }
            Told::Refused(problem) => self.refused = Some(problem),
            Told::Closing => self.is_closing = true,
            Told::Left(left) => self.left = left,
            Told::Done => {}
        }
    }

    /// Makes a failure of each case that was to run and of which nothing came.
    fn name_missing(&mut self, why: &str) {
        let filter = self.arguments.case.as_deref();
        let reports = self.ran.reports.iter_mut();
        for report in reports.filter(|report| !report.is_absent()) {
            for case in selected(self.level, filter) {
                if report.cases.iter().all(|told| told.name != case.name) {
                    let outcome = Outcome::Failed(why.to_owned());
                    report
                        .cases
                        .push(CaseReport::new(case, outcome, Duration::ZERO));
                }
            }
        }
    }

    /// A child that goes on after another names the device again.
    fn device(&mut self, plugin: String, device: u32, name: String, ty: String) {
        let mut known = self.ran.reports.iter();
        if known.all(|report| report.device != device) {
            self.ran.types.push(ty);
            let report = Report::new(plugin, device, name, self.level);
            self.ran.reports.push(report);
        }
    }

    fn end(&mut self, begun: &Begun, outcome: Outcome, time: Duration) {
        self.finished += 1;
        if let (Some(case), Some(report)) = (named(&begun.name), self.ran.reports.last_mut()) {
            report.cases.push(CaseReport::new(case, outcome, time));
        }
    }

    /// What a child was at that ended outside of a case, when it began behind this many of them.
    const fn around(&self, finished: usize) -> Around {
        if self.is_closing {
            Around::Closes
        } else if self.finished > finished {
            Around::StaysBetweenCases
        } else {
            Around::Opens
        }
    }

    /// What is seen of an end, what mostly makes a hang, and how to see where it is.
    fn advised(&self, why: &str, is_hang: bool) -> String {
        let Some(case) = self.open.as_ref().and_then(|begun| named(&begun.name)) else {
            return why.to_owned();
        };
        let mostly = "; mostly a hook waits longer than its limit, or with a lock that another hook needs, or a \
                      stream never goes on behind its event";
        let mostly = if is_hang { mostly } else { "" };
        // Those about the end of a process do not run in one that goes on.
        let how = case.ending.is_none().then(|| {
            let command = in_process(&self.arguments.plugin);
            let name = case.name;
            format!(": `{command} --case {name}` in a debugger shows which hook it is in")
        });
        format!("{why}{mostly}{}", how.unwrap_or_default())
    }

    /// The end of a child outside of a case.
    fn problem(&self, why: String) -> Problem {
        let file = shell_word(&self.arguments.plugin);
        let hint = format!(
            "run `crossdock doctor --plugin {file}`, or `{}` in a debugger",
            in_process(&self.arguments.plugin)
        );
        Problem::new(self.arguments.what(), why, hint)
    }
}

fn start(arguments: &Arguments, quiet: bool, finished: usize) -> Result<Followed<Told>, Failure> {
    let mut command = Command::new(this_program()?);
    command.arg("conform-child").arg(&arguments.plugin);
    command.args(["--level", arguments.level.name()]);
    command.args(["--skip", &finished.to_string()]);
    if quiet {
        command.arg("--quiet");
    }
    if let Some(case) = &arguments.case {
        command.arg(format!("--case={case}"));
    }
    let limit = limit(arguments.limit).as_millis().to_string();
    command.env(CASE_LIMIT, limit);
    Ok(Followed::start(command)?)
}

fn named(name: &str) -> Option<&'static Case> {
    let mut cases = crossdock_conformance::cases().iter();
    cases.find(|case| case.name == name)
}

/// The command that runs the cases of a plugin where a debugger sees them.
fn in_process(plugin: &Path) -> String {
    format!("crossdock conform {} --in-process", shell_word(plugin))
}

/// How long a case may take: as asked for, or as a parent or a test says, or a minute.
pub(super) fn limit(asked: Option<u64>) -> Duration {
    let said = env::var(CASE_LIMIT).ok();
    let said = said.and_then(|text| text.parse().ok());
    let said = said.map_or(Duration::from_secs(60), Duration::from_millis);
    asked.map_or(said, Duration::from_secs)
}

const CASE_LIMIT: &str = "CROSSDOCK_CASE_LIMIT_MS";

const NO_WORD: &str =
    "no word came of how it ended; does the plugin write into files that are not its own?";
