//! The table that `matrix --md` writes, for the summaries of CI.

use crossdock_sdk::shown::escaped;

use crate::command::matrix::run::{Matrix, Outcome, Pair};
use crate::{failure::one_line, screen};

/// What is wrong, and a table for each route. Every text from outside goes through [`cell`].
pub(super) fn markdown(matrix: &Matrix) -> String {
    let tables = matrix.asked.iter().map(|asked| table(matrix, asked));
    let mut parts: Vec<String> = Vec::new();
    parts.extend(wrong(matrix));
    if matrix.devices.is_empty() {
        parts.push("### Crossdock matrix\n\nNo pair was tried.\n".to_owned());
    } else {
        parts.extend(tables);
    }
    parts.push(format!("{}\n", cell(&matrix.made.line())));
    parts.join("\n")
}

/// What no table shows.
fn wrong(matrix: &Matrix) -> Option<String> {
    let problems = matrix.problems.iter();
    let problems = problems.map(|problem| {
        let (what, why) = (cell(&problem.what), cell(&problem.why));
        format!("- **error**: {what}: {why}\n")
    });
    let (untried, all) = (matrix.untried(), matrix.count());
    let untried = (untried > 0).then(|| format!("- **{untried} of {all} pairs were not tried**\n"));
    let lines: String = problems.chain(untried).collect();
    (!lines.is_empty()).then_some(lines)
}

/// All pairs, and below them why some are not verified.
fn table(matrix: &Matrix, asked: &str) -> String {
    let mut out = format!(
        "### Crossdock matrix, by route {}\n\n\
         | from | to | route | time | GB/s | verified |\n| --- | --- | --- | ---: | ---: | --- |\n",
        cell(asked)
    );
    for pair in matrix.by_route(asked) {
        let cells = [
            cell(&pair.from),
            cell(&pair.to),
            cell(&pair.route),
            pair.seconds.map_or_else(|| "-".to_owned(), screen::seconds),
            pair.gb_per_s
                .map_or_else(|| "-".to_owned(), |rate| format!("{rate:.2}")),
            verdict(pair),
        ];
        out.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    let told = matrix.by_route(asked).filter(|pair| !pair.why.is_empty());
    for (index, pair) in told.enumerate() {
        let gap = if index == 0 { "\n" } else { "" };
        let (from, to, why) = (cell(&pair.from), cell(&pair.to), cell(&pair.why));
        out.push_str(&format!("{gap}- {from} to {to}: {why}\n"));
    }
    out
}

fn verdict(pair: &Pair) -> String {
    match pair.outcome {
        Outcome::Verified => "yes".to_owned(),
        Outcome::Refused => "-".to_owned(),
        other => format!("**{}**", other.name()),
    }
}

/// One line in which nothing is markup.
fn cell(text: &str) -> String {
    let mut out = String::new();
    for letter in escaped(&one_line(text)).chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' | '~' | '@' | '#' => {
                out.extend(['\\', letter])
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_from_outside_is_markup() {
        assert_eq!(cell("a|b\n<c>`_\u{1b}"), r"a\|b; &lt;c>\`\_\\u{1b}");
    }
}
