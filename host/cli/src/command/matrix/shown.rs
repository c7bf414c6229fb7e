//! What `matrix` prints and writes while it runs: a job of CI that is ended keeps what was found so far.

use std::{
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::command::matrix::{
    markdown::markdown,
    page::page,
    process::Listener,
    run::{Begun, Matrix, Outcome, Pair},
};
use crate::{
    failure::Failure,
    outputs::Outputs,
    progress::Progress,
    screen,
    table::{Cell, Table},
    text::Text,
};

/// In which form a file has the results.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    Json,
    Page,
    Markdown,
}

/// Rows on stdout, files, and where the work is on stderr.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) quiet: bool,
    /// What stdout is for at the end; else rows are printed.
    pub(super) on_stdout: Option<Form>,
    pub(super) outputs: Outputs,
    pub(super) files: Vec<(Form, PathBuf)>,
    pub(super) written: Option<Instant>,
    pub(super) progress: Option<Progress>,
}

impl Listener for Shown {
    fn start(&mut self, matrix: &Matrix) -> Result<(), Failure> {
        self.write(matrix)
    }

    fn here(&mut self, matrix: &Matrix) -> Result<(), Failure> {
        self.write(matrix)
    }

    fn begin(&mut self, matrix: &Matrix, pair: &Begun) {
        let Begun { asked, from, to } = pair;
        let (number, all) = (matrix.pairs.len() + 1, matrix.count());
        if !io::stderr().is_terminal() {
            // Lines, since nobody sees how a bar grows in a log.
            return screen::talk(
                self.quiet,
                &format!("{number}/{all} {from} -> {to}, {asked}"),
            );
        }
        let quiet = self.quiet;
        let bar = self.progress.get_or_insert_with(|| {
            let bytes = bytes(matrix).saturating_mul(u64::try_from(all).unwrap_or(0));
            Progress::new(bytes, quiet)
        });
        bar.begin(&format!("{from} -> {to}"));
    }

    fn end(&mut self, matrix: &Matrix) -> Result<(), Failure> {
        if let Some(bar) = &mut self.progress {
            bar.done(bytes(matrix));
        }
        if let (None, Some(pair)) = (self.on_stdout, matrix.pairs.last()) {
            let text = printed(matrix, pair);
            match &self.progress {
                Some(bar) => bar.pause(|| screen::result(text))?,
                None => screen::result(text)?,
            }
        }
        match self.written {
            Some(written) if written.elapsed() < BETWEEN => Ok(()),
            _ => {
                self.written = Some(Instant::now());
                self.write(matrix)
            }
        }
    }
}

impl Form {
    fn text(self, matrix: &Matrix) -> Result<String, Failure> {
        match self {
            Self::Json => screen::json_text(matrix),
            Self::Page => Ok(page(matrix)),
            Self::Markdown => Ok(markdown(matrix)),
        }
    }
}

impl Shown {
    /// Writes the files, each whole: what is not known yet is not known for good where this is the last time.
    fn write(&mut self, matrix: &Matrix) -> Result<(), Failure> {
        if self.files.is_empty() {
            return Ok(());
        }
        let matrix = matrix.whole("it was not tried: the command was ended before");
        for (form, path) in &self.files {
            self.outputs.write(path, &form.text(&matrix)?)?;
        }
        Ok(())
    }

    /// The same for the last time.
    pub(super) fn finish(&mut self, matrix: &Matrix) -> Result<(), Failure> {
        self.progress = None;
        self.write(matrix)?;
        let paths = self.files.iter().map(|(_, path)| path.as_path());
        paths
            .for_each(|path: &Path| screen::talk(self.quiet, &format!("wrote {}", path.display())));
        match self.on_stdout {
            Some(form) => screen::program(&form.text(matrix)?),
            None => Ok(()),
        }
    }
}

fn bytes(matrix: &Matrix) -> u64 {
    matrix.tensors.iter().map(|tensor| tensor.bytes).sum()
}

/// The last pair's row; before the first one by a route stands what is moved.
fn printed(matrix: &Matrix, pair: &Pair) -> Text {
    let ids = matrix.devices.iter().map(|device| device.id.len());
    let widest = ids.max().unwrap_or(0);
    // As wide as most values are, since those to come are not known.
    let mut table = Table::new(&HEADINGS).at_least([widest, widest, 7, 9, 9, 6, 8, 0]);
    table.row(row(pair));
    let is_first = matrix.pairs.len() == 1;
    if matrix.by_route(&pair.asked).count() > 1 {
        return table.rows();
    }
    let (count, size) = (matrix.tensors.len(), screen::bytes(bytes(matrix)));
    let (gap, asked) = (if is_first { "" } else { "\n" }, &pair.asked);
    let head = format!("{gap}{count} tensors, {size}, by route {asked}\n\n");
    let mut out = Text::from(head);
    out.append(table.text());
    out
}

fn row(pair: &Pair) -> Vec<Cell> {
    let (verified, style) = match pair.outcome {
        Outcome::Verified => ("yes", screen::GOOD),
        Outcome::Refused => ("-", screen::DIM),
        Outcome::Different => ("NO", screen::BAD),
        other => (other.name(), screen::BAD),
    };
    let shown = |text: Option<String>| Cell::right(text.unwrap_or_else(|| "-".to_owned()));
    let moved = pair.outcome.is_moved();
    vec![
        Cell::left(&pair.from),
        Cell::left(&pair.to),
        Cell::left(&pair.route),
        shown(moved.then(|| screen::bytes(pair.bytes_copied))),
        shown(pair.seconds.map(screen::seconds)),
        shown(pair.gb_per_s.map(|rate| format!("{rate:.2}"))),
        Cell::left(verified).styled(style),
        Cell::left(&pair.why),
    ]
}

const HEADINGS: [&str; 8] = [
    "FROM", "TO", "ROUTE", "COPIED", "TIME", "GB/s", "VERIFIED", "WHY NOT",
];
/// A page of many pairs is not written for each of them.
const BETWEEN: Duration = Duration::from_secs(1);
