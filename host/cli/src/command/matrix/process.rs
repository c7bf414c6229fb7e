//! The parent's side of `matrix`: a crash or a hang in a pair is that pair's result, and the pairs after
//! it run in a new process.

use std::{process::Command, time::Duration};

use crate::command::{
    matrix::child::Told,
    matrix::command::Arguments,
    matrix::made::Made,
    matrix::run::{Begun, Matrix, Outcome},
};
use crate::{
    failure::{Failure, Problem, one_line},
    followed::{Followed, Word, ended, start_limit, this_program},
    globals::Globals,
    report::DeviceRow,
};

/// What comes of the pairs, for whoever shows it.
pub(super) trait Listener {
    /// Nothing is known yet.
    fn start(&mut self, matrix: &Matrix) -> Result<(), Failure>;
    /// The devices are known.
    fn here(&mut self, matrix: &Matrix) -> Result<(), Failure>;
    /// A pair begins.
    fn begin(&mut self, matrix: &Matrix, pair: &Begun);
    /// The last of the matrix's pairs has ended.
    fn end(&mut self, matrix: &Matrix) -> Result<(), Failure>;
}

/// Runs every ordered pair, and never fails, crashes or hangs as they may; with the results is why no
/// more pairs could be run, if so.
pub(super) fn run(
    arguments: &Arguments,
    globals: &Globals,
    listener: &mut impl Listener,
) -> Result<Ran, Failure> {
    let routes: Vec<_> = arguments
        .routes()
        .iter()
        .map(|route| route.name())
        .collect();
    let mut run = Run {
        arguments,
        matrix: Matrix {
            asked: routes.iter().map(|route| (*route).to_owned()).collect(),
            devices: Vec::new(),
            tensors: Vec::new(),
            pairs: Vec::new(),
            problems: Vec::new(),
            made: Made::now(),
        },
        plugins: Vec::new(),
        open: None,
        is_closing: false,
        refused: None,
    };
    listener.start(&run.matrix)?;
    let limit = Duration::from_secs(arguments.limit);
    loop {
        let finished = run.matrix.pairs.len();
        let child = start(arguments, &routes.join(","), globals, finished)?;
        let end = run.follow(child, limit, listener)?;
        let stopped = match (run.refused.take(), end, run.open.take()) {
            (Some(problem), ..) => problem,
            (None, None, _) => return Ok(run.ran()),
            (None, Some((outcome, why)), Some(begun)) => {
                run.matrix.pairs.push(begun.without(outcome, &why));
                listener.end(&run.matrix)?;
                continue;
            }
            (None, Some((_, why)), None) => Problem::new(run.doing(finished), why, HINT),
        };
        let why = format!("it was not tried: {}", one_line(&stopped.why));
        let stopped = stopped.with_plugins(globals);
        run.matrix.problems.push(stopped);
        // Without a pair it did not come as far as one, so a new process would end the same way.
        if run.is_closing || run.matrix.pairs.len() == finished {
            run.matrix = run.matrix.whole(&why);
            return Ok(run.ran());
        }
    }
}

/// What came out.
pub(super) struct Ran {
    pub(super) matrix: Matrix,
    /// Of each device, the word by which `conform` knows its plugin.
    pub(super) plugins: Vec<String>,
}

/// What the children have told so far.
struct Run<'a> {
    arguments: &'a Arguments,
    matrix: Matrix,
    plugins: Vec<String>,
    /// The pair that has begun and not ended.
    open: Option<Begun>,
    /// Whether all pairs are over, and the plugins are being closed.
    is_closing: bool,
    /// Why no pair can be run.
    refused: Option<Problem>,
}

impl Run<'_> {
    fn ran(self) -> Ran {
        let Self {
            matrix, plugins, ..
        } = self;
        Ran { matrix, plugins }
    }

    /// What a child was at that ended outside of a pair, when it began behind this many of them.
    const fn doing(&self, finished: usize) -> &'static str {
        if self.is_closing {
            "close the plugins"
        } else if self.matrix.pairs.len() > finished {
            "go on to the next pair"
        } else {
            "load and open the plugins"
        }
    }

    /// Listens until the child ends; how and why where it ended before its work was done. An exit
    /// without a failure proves nothing, since plugins can exit as well: the final word does.
    fn follow(
        &mut self,
        mut child: Followed<Told>,
        limit: Duration,
        listener: &mut impl Listener,
    ) -> Result<Option<(Outcome, String)>, Failure> {
        let (mut is_done, mut is_open) = (false, false);
        let hangs = loop {
            let limit = if is_open { limit } else { start_limit(limit) };
            match child.next_within(limit)? {
                Some(Word::Over) => break None,
                // What it said before it was killed is of pairs that were never asked for.
                Some(Word::Told(_)) if self.refused.is_some() => {}
                Some(Word::Told(Told::Done)) => is_done = true,
                Some(Word::Told(told)) => {
                    is_open = true;
                    if let Err(failure) = self.hear(told, listener) {
                        child.kill();
                        return Err(failure);
                    }
                    if self.refused.is_some() {
                        child.kill();
                    }
                }
                None => {
                    child.kill();
                    break Some(limit);
                }
            }
        };
        let status = child.status()?;
        if let Some(limit) = hangs {
            let sets = if self.open.is_some() {
                "; `--limit` sets another limit"
            } else {
                ""
            };
            let why = format!("it hangs: no answer within {} s{sets}", limit.as_secs_f64());
            return Ok(Some((Outcome::Hung, why)));
        }
        let is_well = is_done && status.success();
        Ok((!is_well).then(|| (Outcome::Crashed, ended(status))))
    }

    fn hear(&mut self, told: Told, listener: &mut impl Listener) -> Result<(), Failure> {
        match told {
            Told::Here {
                devices,
                plugins,
                tensors,
            } => {
                self.matrix.tensors = tensors;
                self.plugins = plugins;
                self.here(devices);
                listener.here(&self.matrix)?;
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
            Told::Closing => self.is_closing = true,
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
        let required = self.arguments.require_route.iter();
        if devices.is_empty() {
            let hint = "run `crossdock doctor` for the state of the plugins";
            self.refused = Some(Problem::new("move tensors", "there is no device", hint));
        } else if self.matrix.pairs.is_empty() {
            // What cannot be met is not waited for.
            let mut unmet = required.filter_map(|route| route.unreachable(&devices));
            self.refused = unmet.next();
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
    let mut command = Command::new(this_program()?);
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
