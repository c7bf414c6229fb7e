//! Scripts of random habits of Python's users: a campaign in Python, which is started here, so that it has
//! its row in the table and its share of the time.

use std::ffi::OsString;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::plan::Plan;
use crate::table::Row;
use crate::time_slices::TimeSliced;

/// How the campaign is named in the table.
pub const NAME: &str = "e habits of Python";

/// Plugins whose devices scripts use. Python has the first in any case.
const PLUGINS: [&str; 3] = ["cpu", "opencl", "asynchronous"];

/// The campaign, which runs in one piece: its process begins anew each time.
pub struct Habits<'a> {
    devices: &'a [String],
    plan: &'a Plan,
    tell: &'a dyn Fn(&str),
    row: Option<Row>,
}

impl fmt::Debug for Habits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Habits");
        shown.field("row", &self.row).finish_non_exhaustive()
    }
}

impl<'a> Habits<'a> {
    /// The scripts of a plan on the devices that were chosen; `tell` hears what was found.
    #[must_use]
    pub const fn new(devices: &'a [String], plan: &'a Plan, tell: &'a dyn Fn(&str)) -> Self {
        Self {
            devices,
            plan,
            tell,
            row: None,
        }
    }

    /// Its row, where it has begun.
    #[must_use]
    pub fn end(self) -> Row {
        self.row.unwrap_or_else(|| Row {
            name: NAME.to_owned(),
            ..Row::default()
        })
    }
}

impl TimeSliced for Habits<'_> {
    fn weight(&self) -> u32 {
        1
    }

    fn runs_once(&self) -> bool {
        true
    }

    fn turn(
        &mut self,
        _before: Duration,
        limit: Option<Duration>,
    ) -> Result<(Duration, bool), String> {
        let row = habits(self.devices, self.plan, limit, self.tell)?;
        // Making findings small is in its time too, and its search is not longer than its limit.
        let searched = limit.map_or(row.took, |limit| row.took.min(limit));
        self.row = Some(row);
        Ok((searched, true))
    }
}

/// Runs the scripts of a plan for so long, and tells what was found: an error where it could not be started, or ended
/// without its row.
fn habits(
    devices: &[String],
    plan: &Plan,
    limit: Option<Duration>,
    tell: &dyn Fn(&str),
) -> Result<Row, String> {
    let (part, parts) = plan.part;
    let mut command = command(devices, plan)?;
    match plan.seeds.end - plan.seeds.start {
        1 => command.args(["--seed", &plan.seeds.start.to_string()]),
        _ => command.args(["--seeds", &plan.seeds.end.to_string()]),
    };
    command.args(["--part", &format!("{part}/{parts}")]);
    if parts > 1 {
        // The other parts run beside this one.
        command.args(["--at-once", "1"]);
    }
    if let Some(limit) = limit {
        command.args(["--minutes", &(limit.as_secs_f64() / 60.0).to_string()]);
    }
    if let Some(name) = &plan.only {
        command.args(["--only", name]);
    }
    let mut row = None;
    let _code = said(&mut command, &mut |line| match read(line) {
        Some(read) => row = Some(read),
        // The head of its own table.
        None if line.starts_with("campaign ") => {}
        None => tell(line),
    })?;
    row.ok_or_else(|| "the scripts of habits ended without their row".to_owned())
}

/// Replays the script of a file, or makes it smaller (`option`); whether nothing was found.
///
/// # Errors
/// It could not be started.
pub fn run_file(
    option: &str,
    file: &Path,
    devices: &[String],
    plan: &Plan,
    tell: &dyn Fn(&str),
) -> Result<bool, String> {
    let mut command = command(devices, plan)?;
    command.arg(option).arg(file);
    said(&mut command, &mut |line| tell(line)).map(|code| code == Some(0))
}

/// Python with the campaign of habits, and with those plugins that lie beside this program and were chosen.
fn command(devices: &[String], plan: &Plan) -> Result<Command, String> {
    let built = std::env::current_exe().map_err(|error| error.to_string())?;
    let built = built.parent().unwrap_or(Path::new("."));
    let python = ["CROSSDOCK_PEERS_PYTHON", "CROSSDOCK_TEST_PYTHON"];
    let python = python.into_iter().find_map(std::env::var_os);
    let mut command = Command::new(python.unwrap_or_else(|| OsString::from("python3")));
    let tests = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../python"));
    let paths = std::env::var_os("PYTHONPATH").unwrap_or_default();
    let paths = std::env::split_paths(&paths).chain([tests]);
    let paths = std::env::join_paths(paths).map_err(|error| error.to_string())?;
    command
        .args(["-m", "habits"])
        .env("PYTHONPATH", paths)
        .env("CROSSDOCK_PLUGIN_PATH", built)
        .env("CROSSDOCK_PLUGINS", plugins(devices))
        .args(["--shrinking", &plan.shrinking.as_secs().to_string()])
        .arg("--folder")
        .arg(&plan.folder);
    Ok(command)
}

/// The plugins of the devices that were chosen.
fn plugins(devices: &[String]) -> String {
    let is_chosen = |name: &&&str| {
        let mut chosen = devices.iter().filter_map(|device| device.split(':').next());
        **name == PLUGINS[0] || chosen.any(|plugin| plugin == **name)
    };
    let chosen: Vec<&str> = PLUGINS.iter().filter(is_chosen).copied().collect();
    chosen.join(",")
}

/// Gives each line to `line` as it comes, and answers the exit code.
fn said(command: &mut Command, line: &mut dyn FnMut(&str)) -> Result<Option<i32>, String> {
    let started = command.stdout(Stdio::piped()).spawn();
    let mut child: Child = started.map_err(|error| format!("python: {error}"))?;
    if let Some(out) = child.stdout.take() {
        for text in BufReader::new(out).lines().map_while(Result::ok) {
            line(&text);
        }
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    Ok(status.code())
}

/// The row of a line: its name, then programs, operations, refusals, findings and seconds.
fn read(line: &str) -> Option<Row> {
    let cells = line.strip_prefix(NAME)?.split_whitespace();
    let cells: Vec<&str> = cells.collect();
    let [programs, ops, refused, found, seconds] = cells.as_slice() else {
        return None;
    };
    Some(Row {
        name: NAME.to_owned(),
        programs: programs.parse().ok()?,
        ops: ops.parse().ok()?,
        refused: refused.parse().ok()?,
        found: found.parse().ok()?,
        took: Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?,
        ..Row::default()
    })
}
