//! The file of `conform --junit`, written anew as cases begin and end: a job of CI that is ended keeps what was
//! found.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use crossdock_conformance::{Report, junit};

use crate::command::conform::ran::{Ran, Words};
use crate::{failure::Failure, outputs::Outputs, screen};

/// Where the report goes, if anywhere.
#[derive(Debug)]
pub(super) struct Junit {
    path: Option<PathBuf>,
    outputs: Outputs,
}

impl Junit {
    /// Minutes of cases are not spent for a report that cannot be written.
    pub(super) fn claim(path: Option<&Path>, mut outputs: Outputs) -> Result<Self, Failure> {
        if let Some(path) = path.filter(|path| !is_stdout(path)) {
            outputs.claim(path)?;
            drop(outputs.begin(path)?);
        }
        Ok(Self {
            path: path.map(Path::to_owned),
            outputs,
        })
    }

    /// Whether stdout is for the report and for nothing else.
    pub(super) fn is_on_stdout(&self) -> bool {
        self.path.as_deref().is_some_and(is_stdout)
    }

    /// Writes the file with what there is so far.
    pub(super) fn write<'a>(
        &mut self,
        reports: impl IntoIterator<Item = &'a Report>,
    ) -> Result<(), Failure> {
        match self.path.as_deref().filter(|path| !is_stdout(path)) {
            Some(path) => self.outputs.write(path, &junit(reports)),
            None => Ok(()),
        }
    }

    /// The same with what has begun. It counts as failed until it ends: where the command is ended before, the
    /// file says in what, and not that all was well.
    pub(super) fn write_begun(&mut self, ran: &Ran, words: Words) -> Result<(), Failure> {
        match self.path {
            Some(_) => self.write(&ran.with(words, UNDER_WAY, Duration::ZERO)),
            None => Ok(()),
        }
    }

    /// Writes the whole report.
    pub(super) fn finish(&mut self, reports: &[Report]) -> Result<(), Failure> {
        if self.is_on_stdout() {
            screen::program(&junit(reports))
        } else {
            self.write(reports)
        }
    }
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

const UNDER_WAY: &str = "the command was ended while this went on";
