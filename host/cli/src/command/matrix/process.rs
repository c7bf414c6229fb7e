//! The parent's side of `matrix`: a crash or a hang in a pair is that pair's result, and the pairs after
//! it run in a new process.

use std::{env, process::Command, sync::mpsc::RecvTimeoutError, time::Duration};

use crate::command::{
    matrix::child::Told,
    matrix::command::Arguments,
    matrix::run::{Begun, Matrix, Outcome},
};
use crate::{
    failure::{Failure, Problem},
    followed::{Followed, Word, ended},
    globals::Globals,
    report::DeviceRow,
};

/// What comes of the pairs, for whoever shows it.
pub(super) trait Listener {
    /// A pair begins.
    fn begin(&mut self, matrix: &Matrix, pair: &Begun);
    /// The last of the matrix's pairs has ended.
    fn end(&mut self, matrix: &Matrix) -> Result<(), Failure>;
}

/// Runs every ordered pair, and never fails, crashes or hangs as they may; beside the results is why
/// no more pairs could be run, if so.
pub(super) fn run(
    arguments: &Arguments,
    globals: &Globals,
    listener: &mut impl Listener,
) -> Result<(Matrix, Option<Problem>), Failure> {
    let routes: Vec<_> = arguments
        .routes()
        .iter()
        .map(|route| route.name())
        .collect();
    let mut run = Run {
        matrix: Matrix {
            asked: routes.iter().map(|route| (*route).to_owned()).collect(),
            devices: Vec::new(),
            tensors: Vec::new(),
            pairs: Vec::new(),
        },
        open: None,
        refused: None,
    };
    let limit = Duration::from_secs(arguments.limit);
    loop {
        let finished = run.matrix.pairs.len();
        let child = start(arguments, &routes.join(","), globals, finished)?;
        let end = run.follow(child, limit, listener)?;
        let stopped = match (run.refused.take(), end, run.open.take()) {
            (Some(problem), ..) => problem,
            (None, None, _) => return Ok((run.matrix, None)),
            (None, Some((outcome, why)), Some(begun)) => {
                let mut pair = begun.pair();
                pair.outcome = outcome;
                pair.route = "-".to_owned();
                pair.explanation.clone_from(&why);
                pair.why = why;
                run.matrix.pairs.push(pair);
                listener.end(&run.matrix)?;
                continue;
            }
            // No pair was running, so a new process would end the same way.
            (None, Some((_, why)), None) => Problem::new("move tensors", why, HINT),
        };
        // Without any result it is all that there is to tell.
        if run.matrix.pairs.is_empty() {
            return Err(stopped.into());
        }
        return Ok((run.matrix, Some(stopped)));
    }
}

/// What the children have told so far.
struct Run {
    matrix: Matrix,
    /// The pair that has begun and not ended.
    open: Option<Begun>,
    /// Why no pair can be run.
    refused: Option<Problem>,
}

impl Run {
    /// Listens until the child ends; how and why where it ended before its work was done. An exit
    /// without a failure proves nothing, since plugins can exit as well: the final word does.
    fn follow(
        &mut self,
        child: Followed<Told>,
        limit: Duration,
        listener: &mut impl Listener,
    ) -> Result<Option<(Outcome, String)>, Failure> {
        let mut is_done = false;
        let hangs = loop {
            match child.words.recv_timeout(limit) {
                Ok(Word::Over) | Err(RecvTimeoutError::Disconnected) => break false,
                Ok(Word::Told(Told::Done)) => is_done = true,
                Ok(Word::Told(told)) => {
                    if let Err(failure) = self.hear(told, listener) {
                        child.kill();
                        return Err(failure);
                    }
                    // It would go on with pairs that were never asked for.
                    if self.refused.is_some() {
                        child.kill();
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    child.kill();
                    break true;
                }
            }
        };
        let status = child.status()?;
        if hangs {
            let seconds = limit.as_secs();
            let why =
                format!("it hangs: no answer within {seconds} s; `--limit` sets another limit");
            return Ok(Some((Outcome::Hung, why)));
        }
        let is_well = is_done && status.success();
        Ok((!is_well).then(|| (Outcome::Crashed, ended(status))))
    }

    fn hear(&mut self, told: Told, listener: &mut impl Listener) -> Result<(), Failure> {
        match told {
            Told::Here { devices, tensors } => {
                self.matrix.tensors = tensors;
                self.here(devices);
            }
            Told::Begin(pair) => {
                listener.begin(&self.matrix, &pair);
                self.open = Some(pair);
            }
            Told::End(pair) => {
                self.open = None;
                self.matrix.pairs.push(pair);
                listener.end(&self.matrix)?;
            }
            Told::Refused(problem) => self.refused = Some(problem),
            Told::Done => {}
        }
        Ok(())
    }

    /// A child that goes on after another counts on the same devices.
    fn here(&mut self, devices: Vec<DeviceRow>) {
        let ids = |rows: &[DeviceRow]| {
            let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
            ids.join(", ")
        };
        let (before, now) = (ids(&self.matrix.devices), ids(&devices));
        if devices.is_empty() {
            let hint = "run `crossdock doctor` for the state of the plugins";
            self.refused = Some(Problem::new("move tensors", "there is no device", hint));
        } else if self.matrix.pairs.is_empty() {
            self.matrix.devices = devices;
        } else if before != now {
            let why = format!("the devices were {before}, and after the last pair they are {now}");
            self.refused = Some(Problem::new("move the other tensors", why, HINT));
        }
    }
}

fn start(
    arguments: &Arguments,
    routes: &str,
    globals: &Globals,
    finished: usize,
) -> Result<Followed<Told>, Failure> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["matrix-child", "--route", routes]);
    command.args(["--skip", &finished.to_string()]);
    for path in &globals.plugin {
        command.arg("--plugin").arg(path);
    }
    if let Some(folder) = &globals.plugin_path {
        command.arg("--plugin-path").arg(folder);
    }
    for ty in &globals.require {
        command.args(["--require", &ty.to_string()]);
    }
    // What the first one said of files that it skipped is known.
    if globals.quiet || finished > 0 {
        command.arg("--quiet");
    }
    command.arg("--").args(&arguments.files);
    Ok(Followed::start(command)?)
}

const HINT: &str = "run `crossdock doctor`, which names the plugin at fault";
