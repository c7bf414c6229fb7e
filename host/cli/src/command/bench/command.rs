//! `crossdock bench`: what exchange and copies cost on this machine.

use clap::Args;

use crate::command::bench::run::{Bench, CopyRow, SIZES, run_all};
use crate::{
    exit::Exit,
    failure::{Failure, Problem},
    globals::Globals,
    screen, session,
    table::{Cell, Table},
    text::Text,
};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print JSON (schema in docs/command.md).
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, globals: &Globals) -> Result<Exit, Failure> {
    let runtime = session::open_for_work(globals)?;
    if runtime.devices().is_empty() {
        let hint = "run `crossdock doctor` for the state of the plugins";
        return Err(Problem::new("time copies", "there is no device", hint).into());
    }
    let bench = run_all(&runtime, globals.quiet)?;
    if arguments.json {
        screen::json(&bench)?;
    } else {
        screen::result(text(&bench))?;
    }
    let failed: Vec<&CopyRow> = bench.copies.iter().filter(|row| row.is_failed).collect();
    for row in &failed {
        let what = format!("copy from {} to {} ({})", row.from, row.to, row.route);
        let hint = "run `crossdock conform` on the plugins of both devices";
        screen::problem(&Problem::new(what, &row.why, hint));
    }
    Ok(Exit::broken_if(!failed.is_empty()))
}

fn text(bench: &Bench) -> Text {
    let mut calls = Table::new(&["CALL", "DEVICE", "TIME"]);
    for call in &bench.calls {
        calls.row(vec![
            Cell::left(call.call),
            Cell::left(&call.device),
            Cell::right(screen::seconds(call.seconds)),
        ]);
    }
    let headings = ["FROM", "TO", "ROUTE", "4 KiB", "1 MiB", "64 MiB", "GB/s"];
    let mut copies = Table::new(&headings);
    for rows in bench.copies.chunks(SIZES.len()) {
        // A route that there is not fails for each size alike; the JSON says why.
        if let Some(first) = rows.first().filter(|row| row.seconds.is_some()) {
            copies.row(line(first, rows));
        }
    }
    let mut out = calls.text();
    out.plain("\n").append(copies.text());
    out
}

/// The sizes of one route side by side, and the bandwidth of the largest.
fn line(first: &CopyRow, rows: &[CopyRow]) -> Vec<Cell> {
    let none = || "-".to_owned();
    let times = rows
        .iter()
        .map(|row| Cell::right(row.seconds.map_or_else(none, screen::seconds)));
    let rate = rows.last().and_then(|row| row.gb_per_s);
    let rate = rate.map_or_else(none, |rate| format!("{rate:.2}"));
    [&first.from, &first.to, &first.route]
        .map(Cell::left)
        .into_iter()
        .chain(times)
        .chain([Cell::right(rate)])
        .collect()
}
