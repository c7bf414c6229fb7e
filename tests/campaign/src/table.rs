//! What the campaigns came to: one line each, then the findings.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::program::Case;
use crate::verdict::Finding;

/// What one campaign did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Row {
    /// Which campaign.
    pub name: String,
    /// Programs that ran.
    pub programs: usize,
    /// Operations in them.
    pub ops: usize,
    /// Calls that were refused with a reason.
    pub refused: usize,
    /// How many programs failed.
    pub found: usize,
    /// How long it took.
    pub took: Duration,
    /// Programs by the simulated hardware queues they ran over.
    pub by_queues: BTreeMap<u32, usize>,
    /// Programs with two runtimes in one process, and four threads each.
    pub crowds: usize,
    /// Programs that came to states which few reach.
    pub reached: BTreeMap<String, usize>,
}

impl Row {
    /// Counts what a program came to in which nothing was found.
    pub fn passed(&mut self, refused: usize, reached: BTreeSet<String>) {
        self.refused += refused;
        for name in reached {
            *self.reached.entry(name).or_insert(0) += 1;
        }
    }

    /// How many programs reached which states.
    fn states(&self) -> String {
        if self.reached.is_empty() {
            return String::new();
        }
        let reached = self.reached.iter();
        let reached: Vec<String> = reached
            .map(|(name, programs)| format!("{name}: {programs}"))
            .collect();
        format!(
            "{}: programs that reached {}\n",
            self.name,
            reached.join(", ")
        )
    }

    /// Counts a program that is going to run.
    pub fn add(&mut self, case: &Case) {
        self.programs += 1;
        self.ops += case.ops();
        *self.by_queues.entry(case.engine.queues).or_insert(0) += 1;
        self.crowds += usize::from(case.is_crowd());
    }

    /// What kind of programs they were, where they were not all of one.
    fn sorts(&self) -> String {
        if self.by_queues.len() < 2 {
            return String::new();
        }
        let queues = self.by_queues.iter();
        let queues: Vec<String> = queues
            .map(|(queues, programs)| format!("K={queues}: {programs}"))
            .collect();
        format!(
            "{}: programs by hardware queues: {}; two runtimes, four threads each: {}\n",
            self.name,
            queues.join(", "),
            self.crowds
        )
    }
}

/// Operations of one finding that are printed.
const MOST_LINES: usize = 40;

/// The rows under a head, then what kinds of programs ran.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let head = [
        "campaign", "programs", "ops", "refused", "findings", "seconds",
    ]
    .map(str::to_owned);
    let line = |[name, rest @ ..]: &[String; 6]| {
        let numbers: String = rest.iter().map(|cell| format!(" {cell:>9}")).collect();
        format!("{name:<26}{numbers}\n")
    };
    let cells = |row: &Row| {
        let numbers =
            [row.programs, row.ops, row.refused, row.found].map(|number| number.to_string());
        let [programs, ops, refused, found] = numbers;
        [
            row.name.clone(),
            programs,
            ops,
            refused,
            found,
            format!("{:.1}", row.took.as_secs_f64()),
        ]
    };
    let sorts: String = rows.iter().map(|row| row.sorts() + &row.states()).collect();
    rows.iter()
        .map(cells)
        .fold(line(&head), |text, row| text + &line(&row))
        + &sorts
}

/// A finding with the smallest program.
#[must_use]
pub fn describe(case: &Case, finding: &Finding) -> String {
    let mut text = format!(
        "{:?}: {}\n  {} on {:?}",
        finding.what, finding.text, case.name, case.devices
    );
    if case.runtimes > 1 {
        text += &format!(", {} runtimes", case.runtimes);
    }
    if let Some(fault) = &case.fault {
        text += &format!("\n  fault {fault}");
    }
    text += &format!(
        "\n  ending {:?}, {:?}, stages of {} bytes\n",
        case.ending, case.engine, case.staging
    );
    let lines = case.programs.iter().enumerate();
    let lines = lines.flat_map(|(number, program)| program.iter().map(move |op| (number, op)));
    for (line, (number, op)) in lines.enumerate() {
        if line == MOST_LINES {
            text += &format!(
                "  .. {} operations in all, which the file has\n",
                case.ops()
            );
            break;
        }
        text += &format!("  {number}.{} r{} {:?}\n", op.thread, op.runtime, op.call);
    }
    text
}
