//! Reports as they come up, in `PID.N.open` of the folder for reports. An exit of the process that tells them removes
//! it; what is left there is of a process that ended by `_exit`, a signal or `exec`, and `crossdock_sim/recover.py` makes
//! reports of it. The file is locked by the process, as long as that goes on.
#![expect(unsafe_code, reason = "locks the file")]

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossdock_sim_engine::{Report, ReportKind, Site};

use crate::at_exit;
use crate::fence::say;
use crate::process::Process;

/// The reports of a process that were not told yet.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// How many reports there were ever when it was looked for some last.
    seen: AtomicU64,
    pages: Mutex<Pages>,
}

/// What is in the file.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    file: Option<(PathBuf, File)>,
    /// How many of the engine's reports were looked at.
    known: usize,
    /// Those that are written: a loop makes the same one again and again.
    written: BTreeSet<(ReportKind, Code, Option<Code>)>,
    is_over: bool,
}

/// A function and the code that called it.
type Code = (&'static str, usize);

impl Journal {
    /// Writes new reports down. Where there are none, it costs next to nothing. Each call of a driver ends by it, with
    /// no lock held: to make text of a report takes locks of others.
    pub(crate) fn note(&self, process: &Process) {
        let made = process.engine.reports_made();
        if made == self.seen.load(Ordering::Relaxed) || process.is_forked() {
            return;
        }
        let mut pages = self.pages();
        self.seen.store(made, Ordering::Relaxed);
        let new = process.engine.reports_behind(pages.known);
        pages.known += new.len();
        let lines: String = new
            .iter()
            .filter(|report| pages.written.insert(words(report)))
            .map(|report| format!("{}\n", at_exit::json(report)))
            .collect();
        if !lines.is_empty() && !pages.is_over {
            pages.write(&lines);
        }
    }

    /// What is in it. Nobody writes until that is let go.
    pub(crate) fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pages {
    /// Forgets all: somebody took the engine's reports.
    pub(crate) fn forget(&mut self) {
        self.known = 0;
        self.written.clear();
        if let Some((path, file)) = &self.file
            && let Err(error) = file.set_len(0)
        {
            say!("crossdock-sim: {}: {error}", path.display());
        }
    }

    /// Removes the file: all was told, or will be.
    pub(crate) fn close(&mut self) {
        self.is_over = true;
        if let Some((path, _locked)) = self.file.take() {
            // Whoever removed it has read it.
            let _removed = std::fs::remove_file(path);
        }
    }

    fn write(&mut self, lines: &str) {
        let Some(folder) = std::env::var_os("CROSSDOCK_SIM_DIR") else {
            return;
        };
        let written = match &mut self.file {
            Some((_, file)) => file.write_all(lines.as_bytes()),
            none => create(Path::new(&folder)).and_then(|made| {
                let (_, file) = none.insert(made);
                file.write_all(lines.as_bytes())
            }),
        };
        if let Err(error) = written {
            say!("crossdock-sim: {}: {error}", folder.display());
        }
    }
}

fn words(report: &Report) -> (ReportKind, Code, Option<Code>) {
    let code = |site: Site| {
        let place = site
            .place()
            .map_or(0, |place| std::ptr::from_ref(place).addr());
        (site.name(), place)
    };
    (report.kind, code(report.first), report.second.map(code))
}

/// Makes a file that nobody had: a program that this one took the place of by `exec` may have left one.
fn create(folder: &Path) -> std::io::Result<(PathBuf, File)> {
    let process = std::process::id();
    let mut number = 0;
    loop {
        let path = folder.join(format!("{process}.{number}.open"));
        match OpenOptions::new().append(true).create_new(true).open(&path) {
            Ok(file) => return lock(&file).map(|()| (path, file)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Locks a file for this process alone: a child of a fork does not have the lock, and an end of any kind lets it go.
fn lock(file: &File) -> std::io::Result<()> {
    // SAFETY: a struct of numbers, for which zero is a value: all bytes from the first one on.
    let mut all: libc::flock = unsafe { std::mem::zeroed() };
    all.l_type = libc::c_short::try_from(libc::F_WRLCK).unwrap_or_default();
    // SAFETY: the descriptor is the file's, and the struct is there during the call.
    let locked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLKW, &raw const all) };
    match locked {
        -1 => Err(std::io::Error::last_os_error()),
        _ => Ok(()),
    }
}
