//! What is reported as the process ends, and standstills before: each report as text, and all of them as lines of
//! JSON in the folder that `CROSSDOCK_SIM_DIR` names, `PID.reports`, by which `scripts/with-sim` knows of them.
#![expect(unsafe_code, reason = "registers what runs at the exit")]

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crossdock_sim_engine::{End, Line, LinkUse, Place, Report, ReportKind, Site, threads};
use serde_json::json;

use crate::fence::{fence, say};
use crate::process::Process;

/// How often the process is looked at for standstills.
const LOOKS: Duration = Duration::from_millis(200);

/// Lets the exit of this process report.
pub(crate) fn register() {
    // SAFETY: it takes nothing and unwinds nowhere (`fence`), and this library is never unloaded (`build.rs`).
    if unsafe { libc::atexit(report) } != 0 {
        say!("crossdock-sim: the exit of the process will report nothing");
    }
}

/// Reports standstills as they come, since a program that hangs never gets to its exit.
pub(crate) fn tell_of_standstills(process: &'static Process) {
    let tell = move || {
        while !Process::is_exiting() && !process.is_forked() {
            std::thread::park_timeout(LOOKS);
            let mut reports = process.engine.reports();
            reports.retain(|report| report.kind == ReportKind::Standstill);
            tell_new(reports);
            // Of work that ran outside of calls.
            process.journal.note(process);
        }
    };
    if threads::spawn("sim-reports", tell).is_err() {
        say!("crossdock-sim: standstills are told at the exit alone");
    }
}

extern "C" fn report() {
    let _caught = fence(|| {
        let Ok(process) = Process::get() else { return };
        if process.is_forked() {
            return;
        }
        Process::exits();
        process.engine.judge_what_is_left();
        tell_new(process.engine.reports());
        tell_new(process.leaks());
        process.journal.pages().close();
        write_choices(process);
        if process.tells_waits {
            for wait in process.waits().iter() {
                say!("crossdock-sim: {wait} waited for all work of a device");
            }
        }
    });
}

/// Says why there is no simulator in this process, on stderr and in the folder: nothing that runs here is checked.
pub(crate) fn report_unusable(why: &str) {
    say!("crossdock-sim: {why}");
    if let Some(folder) = std::env::var_os("CROSSDOCK_SIM_DIR") {
        let file = PathBuf::from(folder).join(format!("{}.refused", std::process::id()));
        if let Err(error) = std::fs::write(&file, why) {
            say!("crossdock-sim: {}: {error}", file.display());
        }
    }
}

/// Tells of those reports that were not told, on stderr and in the folder.
fn tell_new(reports: Vec<Report>) {
    static TOLD: Mutex<Vec<(ReportKind, Site, Option<Site>)>> = Mutex::new(Vec::new());
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    for report in reports {
        let calls = (report.kind, report.first, report.second);
        if told.contains(&calls) {
            continue;
        }
        told.push(calls);
        say!("crossdock-sim: {report}");
        if let Some(folder) = std::env::var_os("CROSSDOCK_SIM_DIR") {
            let file = PathBuf::from(folder).join(format!("{}.reports", std::process::id()));
            if let Err(error) = write(&file, &report) {
                say!("crossdock-sim: {}: {error}", file.display());
            }
        }
    }
}

/// Writes the choices down that the word `choices` asks for, as the word `schedule` takes them.
fn write_choices(process: &Process) {
    let folder = std::env::var_os("CROSSDOCK_SIM_DIR");
    let Some(folder) = folder.filter(|_| process.engine.config().notes_choices) else {
        return;
    };
    let choices = process.engine.choices().into_iter();
    let words: Vec<String> = choices
        .map(|(step, choice)| format!("{step}:{choice}"))
        .collect();
    let file = PathBuf::from(folder).join(format!("{}.choices", std::process::id()));
    if let Err(error) = std::fs::write(&file, words.join(",")) {
        say!("crossdock-sim: {}: {error}", file.display());
    }
}

fn write(file: &Path, report: &Report) -> std::io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    writeln!(file, "{}", json(report))
}

/// A report as an object of JSON, one line.
pub(crate) fn json(report: &Report) -> serde_json::Value {
    json!({
        "kind": format!("{:?}", report.kind),
        "first": call(report.first),
        "second": report.second.map(call),
        "address": report.bytes.map(|(address, _)| address),
        "bytes": report.bytes.map(|(_, bytes)| bytes),
        "streams": report.streams.map(|(first, second)| [first, second]),
        "detail": report.detail,
    })
}

/// The use of a link as an object of JSON, one line.
pub(crate) fn link(used: &LinkUse) -> serde_json::Value {
    let end = |end: End| match end {
        End::Device(number) => json!(number),
        _ => json!("host"),
    };
    json!({
        "from": end(used.from),
        "to": end(used.to),
        "device": used.device,
        "operations": used.operations,
        "bytes": used.bytes,
        "busy_ns": used.busy_ns,
        "first_ns": used.first_ns,
        "last_ns": used.last_ns,
    })
}

/// A call as an object of JSON.
pub(crate) fn call(site: Site) -> serde_json::Value {
    let native = site.place().and_then(Place::native);
    let native = native.map(|native| {
        let (name, behind) = native.function.unzip();
        json!({ "module": native.module, "offset": native.offset, "function": name, "behind": behind })
    });
    let in_words =
        |line: &Line| json!({ "file": line.file, "line": line.number, "function": line.function });
    let line = |of: fn(&Place) -> Option<&Line>| site.place().and_then(of).map(in_words);
    json!({
        "function": site.name(),
        "number": site.number(),
        "native": native,
        "python": line(|place| place.line.as_ref()),
        "program": line(|place| place.program.as_ref()),
    })
}
