//! A campaign: trials one after the other, each kind of finding made small once and written down.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::child::Trials;
use crate::kinds::Kind;
use crate::plan::Plan;
use crate::program::Case;
use crate::shrink::smallest;
use crate::table::{Row, describe};
use crate::verdict::{Finding, Verdict, What};

/// How long a call may take while a program that hangs is made small.
const IMPATIENCE: Duration = Duration::from_secs(2);

/// Runs the cases of a kind; each finding is told to `tell` as soon as it is small.
pub fn campaign(
    kind: Kind,
    devices: &[String],
    plan: &Plan,
    trials: &mut Trials,
    tell: &dyn Fn(&str),
) -> Row {
    let begun = Instant::now();
    let mut row = Row {
        name: match kind {
            Kind::Blocked => format!("{}, {}", kind.name(), plan.language.name()),
            _ => kind.name().to_owned(),
        },
        ..Row::default()
    };
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    let mut shrunk = Duration::ZERO;
    let (part, parts) = plan.part;
    let count = kind.count(devices, plan);
    // Neighbours in the scattered order are of all sorts, so a part is a run of them.
    let border = |part: usize| (u128::from(count) * part as u128 / parts as u128) as u64;
    for position in border(part - 1)..border(part) {
        let searched = begun.elapsed().saturating_sub(shrunk);
        if plan.searching.is_some_and(|limit| searched > limit) {
            break;
        }
        let case = kind.case(devices, plan, scattered(position, count));
        let is_meant = |part: &String| case.name.contains(part);
        if !plan.only.as_ref().is_none_or(is_meant) {
            continue;
        }
        row.add(&case);
        match trials.verdict(&case) {
            Verdict::Passed {
                refused, reached, ..
            } => row.passed(refused, reached),
            Verdict::Found(finding) => {
                row.found += 1;
                let times = known.entry(sort_of(&finding)).or_insert(0);
                *times += 1;
                if *times == 1 {
                    let (found, ops) = (Instant::now(), case.ops());
                    let small = reduced(&case, &finding, plan, trials);
                    let took = found.elapsed();
                    shrunk += took;
                    tell(&format!(
                        "found after {:.1} s of search in program {} of {ops} operations, made small in {:.1} s:\n{small}",
                        searched.as_secs_f64(),
                        row.programs,
                        took.as_secs_f64(),
                    ));
                }
            }
        }
    }
    for (sort, times) in known {
        tell(&format!("{times} times: {sort}"));
    }
    row.took = begun.elapsed();
    row
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

/// Makes a finding small, and writes it down.
#[must_use]
pub fn reduced(case: &Case, finding: &Finding, plan: &Plan, trials: &mut Trials) -> String {
    let end = Instant::now() + plan.shrinking;
    let (small, finding) = match finding.what {
        What::Hang => smallest_hang(case, finding, end, trials),
        _ => smallest(case, finding, end, &mut |case| trials.attempt(case)),
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
        let verdict = trials.attempt(case);
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
