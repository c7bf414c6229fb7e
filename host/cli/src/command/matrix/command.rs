//! `crossdock matrix`: every device to every device, as a table, as JSON and as a page.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::command::{
    matrix::page,
    matrix::run::{Matrix, Outcome, Pair, run_pairs},
    route::RouteArgument,
};
use crate::{
    exit::Exit,
    failure::{Failure, Problem},
    files,
    globals::Globals,
    outputs::Outputs,
    screen, session,
    table::{Cell, Table},
    text::Text,
};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Files with the tensors: .npy, .npz, .safetensors. Without any, a few are made up.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Take this route only; a pair without it says why, which is no failure.
    #[arg(long, value_name = "ROUTE", default_value = "best")]
    route: RouteArgument,
    /// Write JSON into this file, or to stdout for `-` (schema in docs/command.md).
    #[arg(long, value_name = "F")]
    json: Option<PathBuf>,
    /// Write a page for the browser into this file.
    #[arg(long, value_name = "F")]
    html: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, globals: &Globals) -> Result<Exit, Failure> {
    let on_stdout = arguments.json.as_deref() == Some(Path::new("-"));
    let json = arguments.json.as_deref().filter(|_| !on_stdout);
    let mut outputs = Outputs::beside(arguments.files.iter().map(PathBuf::as_path));
    for path in json.iter().copied().chain(arguments.html.as_deref()) {
        outputs.claim(path)?;
    }
    let runtime = session::open_for_work(globals)?;
    let mut tensors = Vec::new();
    for path in &arguments.files {
        tensors.extend(files::read(path)?.tensors().cloned());
    }
    if arguments.files.is_empty() {
        tensors = files::generated().map_err(|error| {
            Problem::new("make up tensors", error.to_string(), "give files instead")
        })?;
    }
    let matrix = run_pairs(&runtime, &tensors, arguments.route, globals.quiet)?;
    if on_stdout {
        screen::json(&matrix)?;
    } else {
        screen::result(text(&matrix))?;
    }
    let mut write = |path: &Path, text: &str| {
        outputs.write(path, text)?;
        screen::talk(globals.quiet, &format!("wrote {}", path.display()));
        Ok::<_, Failure>(())
    };
    if let Some(path) = json {
        write(path, &screen::json_text(&matrix)?)?;
    }
    if let Some(path) = &arguments.html {
        write(path, &page::page(&matrix))?;
    }
    let bad = matrix.pairs.iter().filter(|pair| pair.outcome.is_bad());
    let bad: Vec<&Pair> = bad.collect();
    for pair in &bad {
        let what = format!("move {} to {}", pair.from, pair.to);
        let hint = "run `crossdock conform` on the plugins of both devices";
        screen::problem(&Problem::new(what, &pair.why, hint));
    }
    Ok(Exit::broken_if(!bad.is_empty()))
}

fn text(matrix: &Matrix) -> Text {
    let headings = [
        "FROM", "TO", "ROUTE", "COPIED", "TIME", "GB/s", "VERIFIED", "WHY NOT",
    ];
    let mut table = Table::new(&headings);
    for pair in &matrix.pairs {
        let (verified, style) = match pair.outcome {
            Outcome::Verified => ("yes", screen::GOOD),
            Outcome::Refused => ("-", screen::DIM),
            Outcome::Different => ("NO", screen::BAD),
            Outcome::Failed => ("failed", screen::BAD),
        };
        let moved = pair.outcome == Outcome::Verified || pair.outcome == Outcome::Different;
        let shown = |text: String| Cell::right(if moved { text } else { "-".to_owned() });
        table.row(vec![
            Cell::left(&pair.from),
            Cell::left(&pair.to),
            Cell::left(&pair.route),
            shown(screen::bytes(pair.bytes_copied)),
            shown(screen::seconds(pair.seconds)),
            Cell::right(
                pair.gb_per_s
                    .map_or_else(|| "-".to_owned(), |rate| format!("{rate:.2}")),
            ),
            Cell::left(verified).styled(style),
            Cell::left(&pair.why),
        ]);
    }
    let mut out = Text::from(summary(matrix));
    out.append(table.text());
    out
}

fn summary(matrix: &Matrix) -> String {
    let total = matrix.tensors.iter().map(|tensor| tensor.bytes).sum();
    let count = matrix.tensors.len();
    format!(
        "{count} tensors, {}, by route {}\n\n",
        screen::bytes(total),
        matrix.asked
    )
}
