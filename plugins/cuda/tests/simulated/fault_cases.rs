//! One call fails in an exchange, over the whole runtime: the error names the call, nothing is left, nobody hangs,
//! and the next exchange works.
//!
//! A case is an exchange with what fails in it: a hook of the plugin (`hook copy@2=VENDOR`), or a function of the
//! driver (`cuMemAlloc_v2@1=2`; `exec:` before it for the work that it put on a stream, `!` behind the number where
//! the device is lost by it). All cases are known once each exchange was made without a fault and its calls were
//! counted. Of these `CASES` are drawn by seeds; `CROSSDOCK_LONG=1` runs all, `CROSSDOCK_FAULT_POLICY=N` with it those of
//! one policy (0 to 2), and `CROSSDOCK_FAULT_BEHIND=CASE` those behind one. One alone:
//!
//! ```sh
//! CROSSDOCK_FAULT_CASE='link cuMemcpyPeerAsync@2=719!' cargo test -p crossdock-plugin-cuda --test simulated fault_cases
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use crossdock::{Device, Plugin, counted_leaks, trace};
use crossdock_sdk::abi::Status;

use crate::driver::Driver;
use crate::exchanges::{EXCHANGES, Exchange, Foreign, LIMIT, Rig, round, use_of};
use crate::fault_case::{CODES, Case, STATUSES};
use crate::{POLICIES, is_long, run_over};

/// The calls of one name that are made to fail: the first so many.
const MOST_CALLS: u64 = 50;
/// Cases of each test, of all that there are.
const CASES: usize = 250;
/// So many are made in one process: the simulator uses no address again.
const BATCH: usize = 1000;
/// More are not looked for.
const MOST_FAILURES: usize = 40;
/// A case that takes longer hangs.
const CASE_LIMIT: Duration = Duration::from_secs(60);

const ONE: &str = "CROSSDOCK_FAULT_CASE";
/// Cases behind this one only.
const BEHIND: &str = "CROSSDOCK_FAULT_BEHIND";
/// Which of the policies it is; only this one where it is set from outside.
const POLICY: &str = "CROSSDOCK_FAULT_POLICY";

/// How often each hook and each function of the driver is called in an exchange.
fn count(driver: &Driver, exchange: Exchange) -> [BTreeMap<String, u64>; 2] {
    let foreign = Foreign::new(driver);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.json");
    driver.take_calls();
    trace::start(&file).unwrap();
    let rig = Rig::open(&[], &foreign).unwrap();
    exchange(&rig).unwrap();
    rig.runtime.wait_for_releases(LIMIT).unwrap();
    let plugin = Arc::downgrade(rig.cuda[0].plugin());
    drop(rig);
    assert!(
        is_closed_soon(driver, &plugin, 0),
        "the plugin is not closed"
    );
    trace::stop().unwrap();
    let functions = driver.take_calls();
    foreign.end(driver, false);
    let text = std::fs::read(file).unwrap();
    let events: Vec<serde_json::Value> = serde_json::from_slice(&text).unwrap();
    let mut hooks = BTreeMap::new();
    for event in events {
        if event["cat"] == "hook" && event["args"]["plugin"] == "cuda" {
            let name = event["name"].as_str().unwrap();
            // No layer is around these.
            if !["probe", "open"].contains(&name) {
                *hooks.entry(name.to_owned()).or_default() += 1;
            }
        }
    }
    [hooks, functions]
}

/// Whether the plugin is closed, which the last thread does that has work of it. What was leaked may keep it open.
fn is_closed_soon(driver: &Driver, plugin: &Weak<Plugin>, leaked: u64) -> bool {
    let limit = match leaked {
        0 => CASE_LIMIT / 2,
        _ => Duration::from_millis(200),
    };
    let begun = Instant::now();
    while plugin.strong_count() > 0 || has_threads() {
        if begun.elapsed() > limit {
            return false;
        }
        // A call keeps the simulator from running by itself what nobody waits for.
        driver.progress();
        std::thread::yield_now();
    }
    true
}

/// Whether there is a thread that the runtime made: one may be the last to let go of the plugin.
fn has_threads() -> bool {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let mut names = threads.filter_map(|thread| {
        // One that ends meanwhile has no name any more.
        std::fs::read_to_string(thread.ok()?.path().join("comm")).ok()
    });
    names.any(|name| name.starts_with("crossdock-"))
}

/// Whether a function puts work on a stream, which can fail later.
fn puts_work(function: &str) -> bool {
    ["cuMemcpy", "cuMemset"]
        .iter()
        .any(|head| function.starts_with(head))
        && function.contains("Async")
}

/// All cases with hooks, or all with functions of the driver.
fn all(driver: &Driver, of_hooks: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for (exchange, make) in EXCHANGES {
        let [hooks, functions] = count(driver, make);
        let calls = if of_hooks { hooks } else { functions };
        for (call, count) in calls {
            let late = (!of_hooks && puts_work(&call)).then(|| format!("exec:{call}"));
            let answers: &[&str] = if of_hooks { &STATUSES } else { &CODES };
            let moments = [Some(call), late].into_iter().flatten();
            for (call, nth) in moments
                .flat_map(|call| (1..=count.min(MOST_CALLS)).map(move |nth| (call.clone(), nth)))
            {
                cases.extend(answers.iter().map(|answer| Case {
                    exchange,
                    is_hook: of_hooks,
                    call: call.clone(),
                    nth,
                    answer: (*answer).to_owned(),
                }));
            }
        }
    }
    cases
}

/// A number of a seed: the finaliser of `SplitMix64`.
fn scatter(seed: usize) -> usize {
    let mut word = (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    usize::try_from(word >> 33).unwrap()
}

/// The case that runs, for whoever tells of a failure.
static NOW: Mutex<Option<(usize, String, Instant)>> = Mutex::new(None);

/// Tells of the case that runs where the process panics, or ends it where that hangs.
fn watch() {
    let tell = |what: &str| {
        let now = NOW.lock().unwrap().clone();
        if let Some((number, case, _)) = now {
            println!("\ncase {number} of this run {what}; alone: {ONE}='{case}'");
        }
    };
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell("failed");
        before(panic);
    }));
    std::thread::spawn(move || {
        loop {
            std::thread::park_timeout(Duration::from_millis(500));
            let now = NOW.lock().unwrap().clone();
            if now.is_some_and(|(_, _, begun)| begun.elapsed() > CASE_LIMIT) {
                tell("did not end");
                std::process::exit(9);
            }
        }
    });
}

/// How a case went.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// Nothing failed: the call was not made.
    Unmade,
    /// The call failed, and the exchange worked all the same.
    Mended,
    /// The exchange failed.
    Failed,
    /// So many things are leaked and counted, because nobody could tell that their work is over. They keep the
    /// plugin open.
    Leaked(u64),
}

/// Each has a thread of its own: a context that the driver did not take off stays on it.
fn run(driver: &Driver, case: &Case) -> Ended {
    std::thread::scope(|scope| {
        let ended = scope.spawn(|| run_here(driver, case)).join();
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn run_here(driver: &Driver, case: &Case) -> Ended {
    let foreign = Foreign::new(driver);
    if !case.is_hook {
        driver.arm(&format!("{}@{}={}", case.call, case.nth, case.answer));
    }
    let leaks = counted_leaks();
    let opened = Rig::open(&case.layers(), &foreign);
    let done = opened
        .as_ref()
        .map_or_else(|error| Err(error.clone()), |rig| case.exchange()(rig));
    if let Ok(rig) = &opened {
        rig.runtime.wait_for_releases(LIMIT).unwrap();
    }
    let struck = driver.disarm();
    if let Err(error) = &done {
        let told = format!("{error}: {}", error.why());
        assert!(case.is_named_by(error), "{told}");
    }
    // Where it could not be opened, the next try can.
    let rig = opened.or_else(|_| Rig::open(&[], &foreign)).unwrap();
    goes_on(driver, &rig, case);
    let plugin = Arc::downgrade(rig.cuda[0].plugin());
    drop(rig);
    let leaked = counted_leaks() - leaks;
    if !is_closed_soon(driver, &plugin, leaked) {
        assert!(leaked > 0, "the plugin is not closed");
        let is_any_lost = [0, 1].iter().any(|device| driver.is_lost(*device));
        let reports = driver.take_reports();
        assert!(is_any_lost || reports.is_empty(), "reports: {reports}");
        return Ended::Leaked(leaked);
    }
    let is_lost = driver.is_lost(0);
    // The checker waits for the end of what a lost device was doing, which nobody can tell.
    let is_any_lost = is_lost || driver.is_lost(1);
    driver.give_back();
    foreign.end(driver, is_lost);
    let reports = driver.take_reports();
    assert!(is_any_lost || reports.is_empty(), "reports: {reports}");
    assert_eq!(driver.list_leaks(), "", "leaks");
    match done {
        Err(_) => Ended::Failed,
        Ok(()) if struck == 0 && !case.is_hook => Ended::Unmade,
        Ok(()) => Ended::Mended,
    }
}

/// The next exchange works, where devices are lost among the others.
fn goes_on(driver: &Driver, rig: &Rig<'_>, case: &Case) {
    let is_lost = |device: &Device| {
        driver.is_lost(device.index())
            || case.answer == "DEVICE_LOST"
                && use_of(device).err().and_then(|error| error.status())
                    == Some(Status::DEVICE_LOST)
    };
    let (lost, well): (Vec<_>, Vec<_>) = rig.cuda.iter().partition(|device| is_lost(device));
    for device in lost {
        for again in [false, true] {
            let error = use_of(device).unwrap_err();
            let told = format!("{error}: {}", error.why());
            assert_eq!(error.status(), Some(Status::DEVICE_LOST), "{told}");
            assert!(
                !again || told.contains(&format!("`{device}` was lost; ")),
                "{told}"
            );
            assert!(case.is_named_by(&error), "{told}");
        }
    }
    round(rig, &well).unwrap_or_else(|error| panic!("the next exchange: {error}: {}", error.why()));
}

/// The cases of this process, in their order.
fn cases_of_process(all: &[Case]) -> Vec<&Case> {
    let policy: u64 = std::env::var(POLICY).map_or(0, |policy| policy.parse().unwrap());
    let mut cases: Vec<&Case> = if is_long() {
        // Each policy has a third of them, and each code with some calls of each function.
        let is_mine =
            |case: &&Case| (case.nth + case.code() as u64) % POLICIES.len() as u64 == policy;
        all.iter().filter(is_mine).collect()
    } else {
        let drawn = (0..CASES).map(|seed| scatter(seed) % all.len());
        drawn.filter_map(|number| all.get(number)).collect()
    };
    cases.sort_by_key(|case| case.sort_key());
    cases.dedup();
    if let Ok(behind) = std::env::var(BEHIND) {
        let behind = Case::parse(&behind);
        cases.retain(|case| case.sort_key() > behind.sort_key());
    }
    cases
}

/// Runs the cases of this process over the simulator.
fn run_all(of_hooks: bool) {
    watch();
    let driver = Driver::open();
    let set = |number, now: &Case| {
        // Whoever finds that the process was ended by a signal has this line.
        println!("case {number} is {ONE}='{now}'");
        *NOW.lock().unwrap() = Some((number, now.to_string(), Instant::now()));
    };
    if let Ok(one) = std::env::var(ONE) {
        let case = Case::parse(&one);
        if case.is_hook == of_hooks {
            set(0, &case);
            println!("{case}: {:?}", run(&driver, &case));
        }
        return;
    }
    let all = all(&driver, of_hooks);
    let cases = cases_of_process(&all);
    let begun = Instant::now();
    let mut ended = BTreeMap::<String, [usize; 3]>::new();
    for (at, case) in cases.iter().take(BATCH).enumerate() {
        set(at, case);
        let how = run(&driver, case);
        let key = format!("{}={}", case.call, case.answer);
        let counts = ended.entry(key).or_default();
        counts[match how {
            Ended::Failed => 0,
            Ended::Mended => 1,
            Ended::Unmade => 2,
            Ended::Leaked(count) => {
                println!("\ncase {at} of this run leaked {count}: {ONE}='{case}'");
                // Another process goes on.
                std::process::exit(0);
            }
        }] += 1;
    }
    *NOW.lock().unwrap() = None;
    if let Some(last) = cases.get(BATCH - 1).filter(|_| cases.len() > BATCH) {
        println!(
            "case {} of this run is the last of its process: {ONE}='{last}'",
            BATCH - 1
        );
    }
    for (what, [failed, mended, unmade]) in ended {
        println!("ended: {what}: {failed} failed, {mended} mended, {unmade} unmade");
    }
    println!(
        "{} of {} cases in {:?}",
        cases.len().min(BATCH),
        all.len(),
        begun.elapsed()
    );
}

/// Runs cases in a process over the simulator, and tells what came of them.
fn over(test: &str, of_hooks: bool) {
    if crate::is_inside(test) {
        run_all(of_hooks);
        return;
    }
    let policies = if is_long() {
        &POLICIES[..]
    } else {
        &POLICIES[..1]
    };
    let asked = std::env::var(POLICY).ok();
    let is_there = |asked: &String| (0..policies.len()).any(|index| *asked == index.to_string());
    assert!(
        asked.as_ref().is_none_or(is_there),
        "{POLICY} is 0, 1 or 2, and needs CROSSDOCK_LONG=1"
    );
    for (index, policy) in policies.iter().enumerate() {
        let index = index.to_string();
        if asked.as_ref().is_some_and(|asked| *asked != index) {
            continue;
        }
        let (mut behind, mut failures) = (std::env::var(BEHIND).ok(), Vec::new());
        loop {
            let mut words = vec![(POLICY, index.as_str())];
            words.extend(behind.as_deref().map(|behind| (BEHIND, behind)));
            let Some((code, told)) = run_over(test, policy, &words) else {
                return;
            };
            let told_of = told.lines().find(|line| line.contains(" of this run "));
            if code == Some(0) && told_of.is_none() {
                println!("{told}");
                break;
            }
            // A process that was ended by a signal told which case it began.
            let last = told_of.or_else(|| told.lines().rfind(|line| line.contains(ONE)));
            let case = last.and_then(|line| line.split_once("='")?.1.split_once('\''));
            let (Some(what), Some((case, _))) = (last, case) else {
                panic!("{policy:?}: {told}");
            };
            println!("{policy:?}: {what}");
            if code != Some(0) {
                println!("{told}");
                failures.push(what.to_owned());
            }
            // Those behind it are tried too.
            behind = Some(case.to_owned());
            if failures.len() == MOST_FAILURES || std::env::var_os(ONE).is_some() {
                break;
            }
        }
        assert!(failures.is_empty(), "{policy:?}: {failures:#?}");
    }
}

#[test]
fn a_hook_that_fails_is_named_and_the_next_exchange_works() {
    let test = "fault_cases::a_hook_that_fails_is_named_and_the_next_exchange_works";
    over(test, true);
}

#[test]
fn a_function_of_the_driver_that_fails_is_named_and_the_next_exchange_works() {
    let test =
        "fault_cases::a_function_of_the_driver_that_fails_is_named_and_the_next_exchange_works";
    over(test, false);
}
