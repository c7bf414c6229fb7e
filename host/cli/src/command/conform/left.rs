//! The processes of a plugin that was closed.

use std::{fs, thread, time::Duration};

use crossdock_sdk::child;

use crate::command::{
    conform::command::Arguments,
    conform::ran::{Around, Ran},
};
use crate::failure::Problem;

/// The processes that this one still has as children, each by its name and number. One that is about to end is
/// awaited. Those of a process that ended with the plugin open do not count.
pub(super) fn left_behind() -> Vec<String> {
    let running = || {
        let mut running = child::running();
        running.retain(|pid| !is_of_ending(*pid));
        running
    };
    for _ in 0..MOMENTS {
        if running().is_empty() {
            return Vec::new();
        }
        thread::park_timeout(MOMENT);
    }
    running().into_iter().map(named).collect()
}

/// Whether a process was started, at any remove, by the process of a case about its end.
fn is_of_ending(pid: u32) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mut variables = environment.split(|byte| *byte == 0);
    variables.any(|variable| variable == format!("{OF_ENDING}=1").as_bytes())
}

fn named(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("`{}` ({pid})", name.trim_end())
}

/// Makes a failure of those that were left.
pub(super) fn judge(ran: &mut Ran, arguments: &Arguments, left: &[String]) {
    if left.is_empty() {
        return;
    }
    let why = format!("`close` left processes running: {}", left.join(", "));
    let hint = "end each process in `close`, and wait for it by its number";
    let problem = Problem::new(arguments.what(), why, hint);
    ran.fail(Around::EndsProcesses, problem, Duration::ZERO);
}

/// Set to 1 in the process of a case about its end.
pub(super) const OF_ENDING: &str = "CROSSDOCK_CONFORM_ENDING";
/// For how many moments their end is awaited.
const MOMENTS: u32 = 100;
const MOMENT: Duration = Duration::from_millis(10);
