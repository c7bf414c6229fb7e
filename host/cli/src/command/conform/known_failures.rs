//! The list of cases that are known to fail: what it excuses, and what in it is out of date.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

use crossdock_conformance::{Outcome, Report};
use crossdock_sdk::regular;

use crate::failure::{Failure, Problem};

/// More than the names of all cases with a remark each.
const LONGEST: u64 = 1 << 20;

/// Names of cases, one a line; what comes after a `#` is a remark.
#[derive(Debug, Default)]
pub(crate) struct KnownFailures {
    path: PathBuf,
    names: Vec<String>,
}

impl KnownFailures {
    /// Reads a list; a name that no case has is an error, since it would excuse nothing.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let mut text = String::new();
        let read =
            regular::open(path).and_then(|file| file.take(LONGEST).read_to_string(&mut text));
        read.map_err(|error| Problem::file("read", path, &error))?;
        let lines = text
            .lines()
            .map(|line| line.split('#').next().unwrap_or(""));
        let names: Vec<String> = lines
            .map(|line| line.trim().to_owned())
            .filter(|name| !name.is_empty())
            .collect();
        for name in &names {
            if !crossdock_conformance::cases()
                .iter()
                .any(|case| case.name == name)
            {
                let what = format!("find the case `{name}` of `{}`", path.display());
                let hint = "run `crossdock conform builtin -v`, which shows the names of all";
                return Err(Problem::new(what, "no case has this name", hint).into());
            }
        }
        Ok(Self {
            path: path.to_owned(),
            names,
        })
    }

    /// Whether every case that failed is in the list, on every device.
    pub(crate) fn excuses(&self, reports: &[Report]) -> bool {
        let known = |name: &str| self.names.iter().any(|one| one == name);
        let mut failures = reports.iter().flat_map(Report::failures);
        failures.all(|case| known(case.name))
    }

    /// A case of the list that passes everywhere: the list would hide its next failure.
    pub(crate) fn out_of_date(&self, reports: &[Report]) -> Option<Problem> {
        for name in &self.names {
            let mut runs = reports
                .iter()
                .flat_map(|report| &report.cases)
                .filter(|case| case.name == name)
                .peekable();
            let ran = runs.peek().is_some();
            if ran && runs.all(|case| matches!(case.outcome, Outcome::Passed)) {
                let what = format!("expect the case `{name}` to fail");
                let hint = format!("remove its line from `{}`", self.path.display());
                return Some(Problem::new(what, "it passes", hint));
            }
        }
        None
    }
}
