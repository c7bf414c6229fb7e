//! A campaign: trials one after the other, in turns, each kind of finding made small once and written down.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::child::Trials;
use crate::kinds::Kind;
use crate::plan::Plan;
use crate::program::Case;
use crate::shrink::smallest;
use crate::table::{Row, describe};
use crate::time_slices::TimeSliced;
use crate::verdict::{Finding, Verdict, What};

/// How long a call may take while a program that hangs is made small.
const IMPATIENCE: Duration = Duration::from_secs(2);

/// A campaign of one kind, which goes on from turn to turn.
pub struct Campaign<'a> {
    kind: Kind,
    devices: &'a [String],
    plan: Plan,
    /// Its own, so that what the last turn opened is there in the next one.
    trials: Trials,
    tell: &'a dyn Fn(&str),
    row: Row,
    known: BTreeMap<String, usize>,
    /// How many cases there are.
    count: u64,
    /// The positions that are to come.
    left: Range<u64>,
}

impl fmt::Debug for Campaign<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Campaign");
        shown.field("row", &self.row).field("left", &self.left);
        shown.finish_non_exhaustive()
    }
}

impl<'a> Campaign<'a> {
    /// The cases of a kind; each finding is told to `tell` as soon as it is small.
    #[must_use]
    pub fn new(
        kind: Kind,
        devices: &'a [String],
        plan: Plan,
        trials: Trials,
        tell: &'a dyn Fn(&str),
    ) -> Self {
        let name = match kind {
            Kind::Blocked => format!("{}, {}", kind.name(), plan.language.name()),
            _ => kind.name().to_owned(),
        };
        let (part, parts) = plan.part;
        let count = kind.count(devices, &plan);
        // Neighbours in the scattered order are of all sorts, so a part is a run of them.
        let border = |part: usize| (u128::from(count) * part as u128 / parts as u128) as u64;
        Self {
            kind,
            devices,
            trials,
            tell,
            row: Row {
                name,
                ..Row::default()
            },
            known: BTreeMap::new(),
            count,
            left: border(part - 1)..border(part),
            plan,
        }
    }

    /// The next case.
    fn next(&mut self) -> Option<Case> {
        let position = self.left.next()?;
        let position =
            (u128::from(position) + u128::from(self.plan.begin)) % u128::from(self.count);
        let number = scattered(position as u64, self.count);
        Some(self.kind.case(self.devices, &self.plan, number))
    }

    /// Tries a case; how long a finding took to be made small.
    fn try_one(&mut self, case: &Case, searched: Duration) -> Duration {
        let is_meant = |part: &String| case.name.contains(part);
        if !self.plan.only.as_ref().is_none_or(is_meant) {
            return Duration::ZERO;
        }
        self.row.add(case);
        let finding = match self.trials.verdict(case) {
            Verdict::Passed {
                refused, reached, ..
            } => {
                self.row.passed(refused, reached);
                return Duration::ZERO;
            }
            Verdict::Found(finding) => finding,
        };
        self.row.found += 1;
        let times = self.known.entry(sort_of(&finding)).or_insert(0);
        *times += 1;
        if *times > 1 {
            return Duration::ZERO;
        }
        let (found, ops) = (Instant::now(), case.ops());
        let small = reduced(case, &finding, &self.plan, &mut self.trials);
        let took = found.elapsed();
        (self.tell)(&format!(
            "found after {:.1} s of search in program {} of {ops} operations, made small in {:.1} s:\n{small}",
            searched.as_secs_f64(),
            self.row.programs,
            took.as_secs_f64(),
        ));
        took
    }

    /// Its row, at its end.
    #[must_use]
    pub fn end(self) -> Row {
        for (sort, times) in self.known {
            (self.tell)(&format!("{times} times: {sort}"));
        }
        self.row
    }
}

impl TimeSliced for Campaign<'_> {
    fn weight(&self) -> u32 {
        self.kind.weight()
    }

    fn turn(
        &mut self,
        before: Duration,
        limit: Option<Duration>,
    ) -> Result<(Duration, bool), String> {
        let begun = Instant::now();
        let (mut searched, mut shrunk) = (Duration::ZERO, Duration::ZERO);
        let is_over = loop {
            if limit.is_some_and(|limit| searched > limit) {
                break false;
            }
            let Some(case) = self.next() else {
                break true;
            };
            shrunk += self.try_one(&case, before + searched);
            searched = begun.elapsed().saturating_sub(shrunk);
        };
        self.row.took += begun.elapsed();
        Ok((searched, is_over))
    }
}

/// The number of the case at a position. Any run of positions meets cases of all sorts: their numbers
/// are steps of the golden ratio apart, made coprime to the count.
const fn scattered(position: u64, count: u64) -> u64 {
    let mut step = (count as u128 * 618 / 1000) as u64;
    while !is_coprime(step, count) {
        step += 1;
    }
    (position as u128 * step as u128 % count as u128) as u64
}

const fn is_coprime(mut one: u64, mut other: u64) -> bool {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one == 1
}

/// Makes a finding small, and writes it down. Each try is in a fresh process, as a replay of the file is.
#[must_use]
pub fn reduced(case: &Case, finding: &Finding, plan: &Plan, trials: &mut Trials) -> String {
    let end = Instant::now() + plan.shrinking;
    let (small, finding) = match finding.what {
        What::Hang => smallest_hang(case, finding, end, trials),
        _ => smallest(case, finding, end, &mut |case| trials.alone(case)),
    };
    let file = write(&small, &plan.folder);
    let replay = match file {
        Ok(file) => format!(
            "  replay: scripts/check campaign --replay {}\n",
            file.display()
        ),
        Err(error) => format!("  no file to replay it: {error}\n"),
    };
    describe(&small, &finding) + &replay
}

/// A hang is made small with less patience, and believed only with all of it.
fn smallest_hang(
    case: &Case,
    finding: &Finding,
    end: Instant,
    trials: &mut Trials,
) -> (Case, Finding) {
    let patience = trials.limit();
    trials.set_limit(IMPATIENCE);
    // Each that hung, the smaller the later.
    let mut hung = vec![case.clone()];
    let mut attempt = |case: &Case| {
        let verdict = trials.alone(case);
        if matches!(&verdict, Verdict::Found(finding) if finding.what == What::Hang) {
            hung.push(case.clone());
        }
        verdict
    };
    let (small, _) = smallest(case, finding, end, &mut attempt);
    trials.set_limit(patience);
    hung.push(small);
    // On a busy machine some were only slow: half as far back, until one hangs for good.
    while hung.len() > 1 {
        if let Some(small) = hung.last()
            && let Verdict::Found(again) = trials.alone(small)
            && again.what == What::Hang
        {
            return (small.clone(), again);
        }
        hung.truncate(hung.len().div_ceil(2));
    }
    (case.clone(), finding.clone())
}

fn write(case: &Case, folder: &Path) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let name: String = case
        .name
        .chars()
        .map(|c| if c.is_alphanumeric() { c } else { '-' })
        .collect();
    let file = folder.join(format!("{name}.json"));
    std::fs::write(&file, serde_json::to_string_pretty(case)?)?;
    Ok(file)
}

/// Findings that are told once: alike but for words with numbers in them, at the same call.
fn sort_of(finding: &Finding) -> String {
    let (text, call) = finding
        .text
        .rsplit_once("(operation")
        .unwrap_or((&finding.text, ""));
    let call = call.split([':', '{']).nth(1).unwrap_or_default();
    let words = text
        .split_whitespace()
        .filter(|word| !word.contains(|c: char| c.is_ascii_digit()));
    let words: Vec<&str> = words.take(6).collect();
    format!("{:?} {}{call}", finding.what, words.join(" "))
}
