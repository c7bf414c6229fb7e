//! `campaign [--kind a|b|c|d|e|f] [--language rust|c|python] [--seeds N | --seed N]
//! [--faults all|none|STATUS] [--minutes M] [--part K/N] [--only NAME] [--devices LIST]
//! [--shrinking SECONDS] [--replay FILE] [--shrink FILE]`
//!
//! The kinds: a, calls on a held stream; b, random programs; c, exit and fork; d, layouts; e, scripts
//! of habits of Python's users; f, waits for work that nothing holds, beside work that is held.
//! `--seeds N` draws N programs for c and e, and for b N for each number of simulated hardware queues
//! (1, 2 and 8) and each fault; `--seed N` takes one seed of b, c and e.
//! The calls of a are made in each language that is here; Python needs its package in `PYTHONPATH`.
//! `--uncovered c|python` prints the functions with a stream that no case of a calls.
//! `--minutes` is the time of the search, which the kinds share by turns: b has six parts of it, each other kind, and
//! each language of a, has one. `--shrink` makes the case of a file smaller.
//!
//! Ends with 0 when nothing was found, 1 with findings, 2 when an argument is wrong.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use crossdock_campaign::campaign::{Campaign, reduced};
use crossdock_campaign::child::{Trials, serve};
use crossdock_campaign::coverage::{python_is_here, uncovered};
use crossdock_campaign::habits::{Habits, run_file};
use crossdock_campaign::kinds::Kind;
use crossdock_campaign::plan::{Faults, Plan};
use crossdock_campaign::program::{Case, Language};
use crossdock_campaign::table::{Row, describe, table};
use crossdock_campaign::time_slices::{TimeSliced, run_in_slices};
use crossdock_campaign::verdict::{Finding, Verdict};
use crossdock_campaign::world::{DEVICES, present};
use crossdock_e2e::{ext_dev, report};

const OPTIONS: &str = "--kind --language --seeds --seed --faults --minutes --begin --part --only --devices \
                       --shrinking --replay --shrink";
/// How long a call may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Programs and faults are drawn from multiples of a seed.
const MOST_SEEDS: u64 = 1 << 32;

/// How often a file is tried until something is found.
const REPLAYS: usize = 8;

struct Arguments {
    kinds: Vec<Kind>,
    has_habits: bool,
    languages: Vec<Language>,
    devices: Vec<String>,
    plan: Plan,
    replay: Option<PathBuf>,
    shrink: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [serving, limit] = arguments.as_slice()
        && serving == "--serve"
    {
        let limit = limit.parse().map_or(LIMIT, Duration::from_secs);
        return if serve(limit).is_ok() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    if let [covering, name] = arguments.as_slice()
        && covering == "--uncovered"
    {
        let missing = language(name).and_then(|language| uncovered(language, LIMIT));
        return match missing {
            Ok(missing) => {
                missing.iter().for_each(|function| report(function));
                ExitCode::from(u8::from(!missing.is_empty()))
            }
            Err(why) => wrong(&why),
        };
    }
    if arguments
        .iter()
        .any(|word| word == "-h" || word == "--help")
    {
        report(&format!(
            "campaign: CONTRIBUTING.md says what it runs; the options are {OPTIONS}"
        ));
        return ExitCode::SUCCESS;
    }
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => return wrong(&error.to_string()),
    };
    // Compiled once; the trials find it by the folder.
    let _file = ext_dev(folder.path());
    match read(&arguments, folder.path()) {
        Ok(read) => run(&read, folder.path().to_owned()),
        Err(why) => wrong(&why),
    }
}

fn wrong(why: &str) -> ExitCode {
    report(&format!("campaign: {why}"));
    ExitCode::from(2)
}

fn read(arguments: &[String], folder: &Path) -> Result<Arguments, String> {
    let mut out = Arguments {
        kinds: Kind::ALL.to_vec(),
        has_habits: python_is_here(),
        languages: languages_here(),
        devices: Vec::new(),
        plan: Plan {
            seeds: 0..200,
            language: Language::Rust,
            faults: Faults::All,
            searching: None,
            begin: 0,
            part: (1, 1),
            only: None,
            shrinking: Duration::from_secs(120),
            folder: PathBuf::from("target/campaign"),
        },
        replay: None,
        shrink: None,
    };
    let mut names: Vec<String> = DEVICES.map(str::to_owned).to_vec();
    let (mut has_one_seed, mut begin) = (false, None);
    let mut left = arguments.iter();
    while let Some(option) = left.next() {
        let value = left
            .next()
            .ok_or_else(|| format!("{option} needs a value"))?;
        let number = || {
            value
                .parse::<u64>()
                .map_err(|_error| format!("{option} {value}: it takes a whole number"))
        };
        match option.as_str() {
            "--kind" => (out.kinds, out.has_habits) = kinds(value)?,
            "--language" => out.languages = vec![language(value)?],
            "--seeds" => out.plan.seeds = 0..number()?,
            "--seed" => {
                let seed = number()?;
                out.plan.seeds = seed..seed.saturating_add(1);
                has_one_seed = true;
            }
            "--minutes" => {
                let seconds = number()?.saturating_mul(60);
                out.plan.searching = Some(Duration::from_secs(seconds));
            }
            "--begin" => begin = Some(number()?),
            "--shrinking" => out.plan.shrinking = Duration::from_secs(number()?),
            "--faults" => out.plan.faults = Faults::of(value)?,
            "--only" => out.plan.only = Some(value.clone()),
            "--part" => out.plan.part = part(value)?,
            "--devices" => names = value.split(',').map(str::to_owned).collect(),
            "--shrink" => out.shrink = Some(PathBuf::from(value)),
            "--replay" => out.replay = Some(PathBuf::from(value)),
            other => return Err(format!("unknown option {other}; the options are {OPTIONS}")),
        }
    }
    seeded(&mut out, has_one_seed)?;
    out.plan.begin = begin.unwrap_or_else(|| beginning(&out.plan));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    out.devices = present(&names, folder);
    Ok(out)
}

/// One seed is one of the kinds that have seeds.
fn seeded(out: &mut Arguments, has_one_seed: bool) -> Result<(), String> {
    if has_one_seed {
        out.kinds.retain(|kind| kind.has_seeds());
    }
    if out.kinds.is_empty() && !out.has_habits {
        return Err("--seed: only the kinds b, c and e have seeds".to_owned());
    }
    if out.plan.seeds.end > MOST_SEEDS {
        return Err(format!("a seed is a number below {MOST_SEEDS}"));
    }
    Ok(())
}

/// The kinds of a letter, and whether it is that of the habits, which are no [`Kind`]: they have no cases.
fn kinds(letter: &str) -> Result<(Vec<Kind>, bool), String> {
    match letter {
        "e" if !python_is_here() => Err(without_python("--kind e")),
        "e" => Ok((Vec::new(), true)),
        _ => Kind::of(letter)
            .map(|kind| (vec![kind], false))
            .ok_or_else(|| "a kind is a, b, c, d, e or f".to_owned()),
    }
}

fn without_python(option: &str) -> String {
    format!(
        "{option}: there is no package crossdock in PYTHONPATH; scripts/python-package makes one"
    )
}

/// The languages without Python, where its package is not here.
fn languages_here() -> Vec<Language> {
    let mut languages = Language::ALL.to_vec();
    languages.retain(|language| *language != Language::Python || python_is_here());
    languages
}

fn language(name: &str) -> Result<Language, String> {
    match Language::of(name) {
        Some(Language::Python) if !python_is_here() => Err(without_python("--language python")),
        Some(language) => Ok(language),
        None => Err(format!("--language {name}: it is rust, c or python")),
    }
}

/// Where the cases begin that nobody gave a place for: a search begins somewhere else each time.
fn beginning(plan: &Plan) -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs() % MOST_SEEDS);
    plan.searching.map_or(0, |_| now)
}

fn part(text: &str) -> Result<(usize, usize), String> {
    let read = text
        .split_once('/')
        .and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
    read.filter(|&(k, n)| 0 < k && k <= n)
        .ok_or_else(|| format!("--part {text}: it is K/N, from 1/N to N/N"))
}

fn run(arguments: &Arguments, plugins: PathBuf) -> ExitCode {
    let Ok(program) = std::env::current_exe() else {
        return wrong("this program does not know its own file");
    };
    let new_trials = || Trials::new(program.clone(), plugins.clone(), LIMIT);
    let mut trials = new_trials();
    if let Some(file) = &arguments.replay {
        return run_habits("--replay", file, arguments).unwrap_or_else(|| {
            replay(file, &mut trials, &|case, finding, _| {
                describe(case, finding)
            })
        });
    }
    if let Some(file) = &arguments.shrink {
        return run_habits("--shrink", file, arguments).unwrap_or_else(|| {
            replay(file, &mut trials, &|case, finding, trials| {
                reduced(case, finding, &arguments.plan, trials)
            })
        });
    }
    if !arguments.languages.contains(&Language::Python) && !python_is_here() {
        report("skipped: python: there is no package crossdock in PYTHONPATH");
    }
    let rows = match rows(arguments, &new_trials) {
        Ok(rows) => rows,
        Err(why) => return wrong(&why),
    };
    if let Some(name) = &arguments.plan.only
        && rows.iter().all(|row| row.programs == 0)
    {
        return wrong(&format!(
            "--only {name}: no case that was chosen has this in its name"
        ));
    }
    report(&format!("devices: {}", arguments.devices.join(", ")));
    if arguments.plan.searching.is_some() {
        report(&format!(
            "each kind began at case {}: `--begin` begins there again",
            arguments.plan.begin
        ));
    }
    report(&table(&rows));
    ExitCode::from(u8::from(rows.iter().any(|row| row.found > 0)))
}

/// Runs each kind that was chosen.
fn rows(arguments: &Arguments, trials: &dyn Fn() -> Trials) -> Result<Vec<Row>, String> {
    // Only the calls on a held stream are made in each language.
    let languages = |kind: Kind| match kind {
        Kind::Blocked => arguments.languages.clone(),
        _ => vec![Language::Rust],
    };
    let all = arguments.kinds.iter();
    let all = all.flat_map(|kind| {
        languages(*kind)
            .into_iter()
            .map(|language| (*kind, language))
    });
    let all: Vec<(Kind, Language)> = all.collect();
    let (devices, plan) = (&arguments.devices, &arguments.plan);
    let of = |(kind, language)| {
        let plan = Plan {
            language,
            ..plan.clone()
        };
        Campaign::new(kind, devices, plan, trials(), &report)
    };
    let mut campaigns: Vec<Campaign<'_>> = all.into_iter().map(of).collect();
    let mut habits = arguments
        .has_habits
        .then(|| Habits::new(devices, plan, &report));
    let mut turned: Vec<&mut dyn TimeSliced> = Vec::new();
    for campaign in &mut campaigns {
        turned.push(campaign);
    }
    if let Some(habits) = &mut habits {
        turned.push(habits);
    }
    run_in_slices(&mut turned, plan.searching)?;
    let rows = campaigns.into_iter().map(Campaign::end);
    Ok(rows.chain(habits.map(Habits::end)).collect())
}

/// Replays a file or makes it smaller (`option`), where it is a script of habits.
fn run_habits(option: &str, file: &Path, arguments: &Arguments) -> Option<ExitCode> {
    file.extension().filter(|extension| *extension == "py")?;
    if !python_is_here() {
        return Some(wrong("there is no package crossdock in PYTHONPATH"));
    }
    Some(
        match run_file(option, file, &arguments.devices, &arguments.plan, &report) {
            Ok(is_well) => ExitCode::from(u8::from(!is_well)),
            Err(why) => wrong(&why),
        },
    )
}

/// Runs the case of a file, and says what `tell` makes of what is found.
fn replay(
    file: &Path,
    trials: &mut Trials,
    tell: &dyn Fn(&Case, &Finding, &mut Trials) -> String,
) -> ExitCode {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string());
    let case = text
        .and_then(|text| serde_json::from_str::<Case>(&text).map_err(|error| error.to_string()));
    let case = match case {
        Ok(case) => case,
        Err(why) => return wrong(&format!("{}: {why}", file.display())),
    };
    // What is not in the file may decide, so one time may not be enough.
    for time in 1..=REPLAYS {
        if let Verdict::Found(finding) = trials.alone(&case) {
            report(&tell(&case, &finding, trials));
            report(&format!("  found the {time}. time; {}", exactness(&case)));
            return ExitCode::FAILURE;
        }
    }
    report(&format!(
        "nothing was found {REPLAYS} times; {}",
        exactness(&case)
    ));
    ExitCode::SUCCESS
}

/// Whether a replay does the same each time.
fn exactness(case: &Case) -> String {
    case.why_inexact().map_or_else(
        || "each replay does the same".to_owned(),
        |why| format!("another replay may do something else: {why}"),
    )
}
