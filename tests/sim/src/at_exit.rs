//! What is reported as the process ends: each report as text, and all of them as JSON lines in the folder that
//! `CROSSDOCK_SIM_DIR` names, `PID.reports`, by which `scripts/with-sim` knows of them.
#![expect(unsafe_code, reason = "registers what runs at the exit")]

use std::io::Write as _;
use std::path::PathBuf;

use crossdock_sim_engine::Report;

use crate::fence::{fence, say};
use crate::process::Process;

/// Lets the exit of this process report.
pub(crate) fn register() {
    // SAFETY: the function takes nothing and stays, since this library is never unloaded by its shells' users.
    if unsafe { libc::atexit(report) } != 0 {
        say!("crossdock-sim: the exit of the process will report nothing");
    }
}

extern "C" fn report() {
    let _caught = fence(|| {
        let Ok(process) = Process::get() else { return };
        if process.is_forked() {
            return;
        }
        Process::exits();
        let reports = process.engine.reports();
        for report in &reports {
            say!("crossdock-sim: {report}");
        }
        if let Some(folder) = std::env::var_os("CROSSDOCK_SIM_DIR") {
            let file = PathBuf::from(folder).join(format!("{}.reports", std::process::id()));
            if let Err(error) = write(&file, &reports) {
                say!("crossdock-sim: {}: {error}", file.display());
            }
        }
    });
}

fn write(file: &PathBuf, reports: &[Report]) -> std::io::Result<()> {
    let mut file = std::fs::File::create(file)?;
    for report in reports {
        writeln!(file, "{}", json(report))?;
    }
    Ok(())
}

/// A report as an object of JSON, one line.
pub(crate) fn json(report: &Report) -> serde_json::Value {
    let call = |site: crossdock_sim_engine::Site| serde_json::json!({ "function": site.name(), "number": site.number() });
    serde_json::json!({
        "kind": format!("{:?}", report.kind),
        "first": call(report.first),
        "second": report.second.map(call),
        "address": report.bytes.map(|(address, _)| address),
        "bytes": report.bytes.map(|(_, bytes)| bytes),
        "detail": report.detail,
    })
}
