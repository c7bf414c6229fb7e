//! Trials in processes of their own, with a limit: a crash, a hang and an exit are answers too.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::foreign::watch_exit;
use crate::program::{Case, Ending, Engine, Language};
use crate::trial::{self, EXITED, Kept};
use crate::verdict::{Finding, Verdict, What};
use crate::world::FOLDER;

/// How many trials a process makes before a new one takes over.
const TRIALS: usize = 64;

/// Makes trials, many in one process while nothing is found.
#[derive(Debug)]
pub struct Trials {
    program: PathBuf,
    plugins: PathBuf,
    limit: Duration,
    running: Option<Running>,
    trace: Option<u64>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    input: ChildStdin,
    answers: Receiver<String>,
    errors: std::fs::File,
    trials: usize,
    /// Python has one runtime a process, with these devices, and keeps their plugins open: cases of another
    /// language would meet its engine, and not theirs.
    devices: Vec<String>,
    language: Language,
    /// A process has one simulated driver, which stays as its first case chose it.
    driver: Option<Engine>,
}

impl Running {
    fn is_for(&self, case: &Case) -> bool {
        self.devices == case.devices
            && self.language == case.language
            && self.driver.as_ref() == case.driver()
    }
}

impl Trials {
    /// Trials by this program, whose calls have `limit` to answer. The plugins of the tests lie in
    /// the folder.
    #[must_use]
    pub const fn new(program: PathBuf, plugins: PathBuf, limit: Duration) -> Self {
        Self {
            program,
            plugins,
            limit,
            running: None,
            trace: None,
        }
    }

    /// What the simulated engine did up to the end of the last trial, where there was one and the process
    /// lives: equal numbers are those of runs that did the same.
    #[must_use]
    pub const fn trace(&self) -> Option<u64> {
        self.trace
    }

    /// How long a call may take.
    #[must_use]
    pub const fn limit(&self) -> Duration {
        self.limit
    }

    /// Another limit, from the next process on.
    pub fn set_limit(&mut self, limit: Duration) {
        self.stop();
        self.limit = limit;
    }

    /// Tries a case, and once more in a fresh process where something was found after others.
    ///
    /// # Panics
    /// When this program cannot be started.
    pub fn verdict(&mut self, case: &Case) -> Verdict {
        let was_used = self
            .running
            .as_ref()
            .is_some_and(|running| running.trials > 0);
        let first = self.attempt(case);
        match &first {
            Verdict::Found(_) if was_used => {
                let alone = self.alone(case);
                if let Verdict::Passed { .. } = alone {
                    // What happens only after others is believed, and cannot be cut down.
                    if let Verdict::Found(finding) = first {
                        let text = format!("{} (only after other trials)", finding.text);
                        return Verdict::Found(Finding::new(finding.what, text));
                    }
                }
                alone
            }
            _ => first,
        }
    }

    /// Tries a case in a fresh process.
    ///
    /// # Panics
    /// As [`Trials::verdict`].
    pub fn alone(&mut self, case: &Case) -> Verdict {
        self.stop();
        self.attempt(case)
    }

    /// Tries a case in the process that is there, which nothing was found in.
    ///
    /// # Panics
    /// As [`Trials::verdict`].
    pub fn attempt(&mut self, case: &Case) -> Verdict {
        let mut running = match self
            .running
            .take()
            .filter(|running| running.trials < TRIALS && running.is_for(case))
        {
            Some(running) => running,
            None => self.start(case),
        };
        self.trace = None;
        running.trials += 1;
        let line = serde_json::to_string(case).unwrap();
        // A process that has gone says so below.
        drop(writeln!(running.input, "{line}"));
        drop(running.input.flush());
        match running.answers.recv_timeout(self.patience(case)) {
            Ok(answer) => {
                let (verdict, trace) = serde_json::from_str(&answer).unwrap();
                self.trace = trace;
                if let Verdict::Passed { spent: false, .. } = verdict
                    && case.ending == Ending::Return
                {
                    self.running = Some(running);
                } else {
                    end(running);
                }
                verdict
            }
            Err(RecvTimeoutError::Timeout) => {
                end(running);
                Verdict::Found(Finding::new(What::Hang, "the process does not answer"))
            }
            Err(RecvTimeoutError::Disconnected) => ended(case, running),
        }
    }

    /// A whole trial: several calls may come near their limit before one is over it.
    fn patience(&self, case: &Case) -> Duration {
        self.limit * 3 + Duration::from_millis(40) * u32::try_from(case.ops()).unwrap_or(0)
    }

    fn start(&self, case: &Case) -> Running {
        let errors = tempfile::tempfile().unwrap();
        let mut child = Command::new(&self.program)
            .args(["--serve", &self.limit.as_secs().to_string()])
            .env(FOLDER, &self.plugins)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.try_clone().unwrap())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (send, answers) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Running {
            child,
            input,
            answers,
            errors,
            trials: 0,
            devices: case.devices.clone(),
            language: case.language,
            driver: case.driver().cloned(),
        }
    }

    /// Ends the process that is kept for the next trial.
    pub fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            end(running);
        }
    }
}

impl Drop for Trials {
    fn drop(&mut self) {
        self.stop();
    }
}

fn end(mut running: Running) {
    // It may have ended by itself.
    drop(running.child.kill());
    drop(running.child.wait());
}

/// What the end of a process says about its trial.
fn ended(case: &Case, mut running: Running) -> Verdict {
    let end = Instant::now() + Duration::from_secs(10);
    let status = loop {
        match running.child.try_wait() {
            Ok(Some(status)) => break status,
            _ if Instant::now() > end => {
                drop(running.child.kill());
                drop(running.child.wait());
                return Verdict::Found(Finding::new(What::Hang, "the process does not end"));
            }
            _ => std::thread::park_timeout(Duration::from_millis(1)),
        }
    };
    let mut said = String::new();
    // What cannot be read is left out of the report.
    drop(running.errors.rewind());
    drop(running.errors.read_to_string(&mut said));
    let last: Vec<&str> = said.lines().rev().take(3).collect();
    judge_end(case, status, &last.join(" | "))
}

fn judge_end(case: &Case, status: ExitStatus, said: &str) -> Verdict {
    if let (Ending::Exit(_), Some(EXITED)) = (case.ending, status.code()) {
        return Verdict::Passed {
            refused: 0,
            spent: true,
            reached: BTreeSet::new(),
        };
    }
    let (what, text) = match status.signal() {
        Some(signal) => (What::Signal, format!("signal {signal}: {said}")),
        None => (What::Code, format!("exit code {:?}: {said}", status.code())),
    };
    Verdict::Found(Finding::new(what, text))
}

/// Answers each case of the input by a line.
///
/// # Errors
/// Input or output that cannot be used.
pub fn serve(limit: Duration) -> std::io::Result<()> {
    trial::watch();
    watch_exit();
    let mut output = std::io::stdout();
    let mut kept = Kept::default();
    for line in std::io::stdin().lock().lines() {
        let case: Case = serde_json::from_str(&line?)?;
        let verdict = trial::run(&case, limit, &mut kept);
        let answer = serde_json::to_string(&(verdict, kept.trace()))?;
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    Ok(())
}
