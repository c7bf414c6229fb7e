//! Random programs: without faults, with each status at 3 %, over each number of hardware queues,
//! alone and in a crowd. One in eight of those with faults has none but host events that fail, with which it begins.
//! Over simulated drivers three quarters of the others have them in the driver: up to three calls of its functions fail,
//! or lose their device; or work fails as it runs, and they begin with work that has no stream; or one return of memory in
//! the order of a stream is refused, and they begin with such returns.

use crossdock_sdk::abi::Status;

use super::failures::failing_events;
use super::refused::{freed_in_order, refused_free};
use super::synchronous::synchronous_calls;
use crate::generate::{Random, Setup, drivers, program};
use crate::plan::Plan;
use crate::program::{Case, Ending, Engine, Language};

/// Hooks that work calls; those of loading are left out, for else most programs would not begin.
const HOOKS: [&str; 26] = [
    "allocate",
    "free",
    "copy",
    "copy_strided",
    "fill",
    "pointer_query",
    "adopt",
    "release_adopted",
    "map",
    "unmap",
    "stream_create",
    "stream_default",
    "stream_destroy",
    "stream_synchronize",
    "stream_query",
    "stream_wait_event",
    "event_create",
    "event_destroy",
    "event_record",
    "event_query",
    "event_synchronize",
    "event_create_host",
    "event_complete",
    "stream_host_call",
    "register_host",
    "unregister_host",
];

/// What is made to fail in a driver, by the names of both vendors. What gives things back is left out, because a
/// caller that is refused may leave them; `super::refused` has stream-ordered frees. A name has at most one `*`, for
/// any text: the simulator refuses two.
const FUNCTIONS: [&str; 22] = [
    "cuStreamCreate",
    "hipStreamCreateWithFlags",
    "cuEventCreate",
    "hipEventCreateWithFlags",
    "*EventRecord",
    "*StreamWaitEvent",
    "cuStreamWaitValue32_v2",
    "hipStreamWaitValue32",
    "*LaunchHostFunc",
    "*FromPoolAsync",
    "cuMemHostAlloc",
    "hipHostMalloc",
    "cuMemHostRegister_v2",
    "hipHostRegister",
    "cuMemcpy*",
    "hipMemcpy*",
    "cuMemset*",
    "hipMemset*",
    "*EventQuery",
    "*StreamQuery",
    "*StreamSynchronize",
    "*EventSynchronize",
];
/// Operations that fail as they run. A call with pageable memory waits, and tells of the failure itself: so calls
/// without are named too.
const WORK: [&str; 10] = [
    "cuMemcpy*",
    "hipMemcpy*",
    "cuMemcpyDtoD*",
    "*MemcpyPeerAsync",
    "cuMemcpy2D*",
    "cuMemcpy3D*",
    "hipMemcpy2DAsync",
    "hipMemcpy3DAsync",
    "cuMemset*",
    "hipMemset*",
];
/// Out of memory, a wrong argument, not supported and unknown, the same numbers for both vendors; a launch that failed,
/// by which the device is lost.
const CODES: [&str; 5] = ["2", "1", "801", "999", "719!"];
/// Up to which call the one is drawn that fails.
const LAST_FAULTY_CALL: u64 = 16;
/// The same of work, of which each name has less.
const LAST_FAULTY_OPERATION: u64 = 6;
/// The turns of faults in a driver: of work as it runs, and of returns of memory; the first are those of calls.
const WORKS: u64 = 2;
const FREES: u64 = 3;
const QUEUES: [u32; 3] = [1, 2, 8];
const POLICIES: [&str; 3] = ["seeded", "lazy", "threads"];

/// The program of each seed, over each number of queues, without faults and with each status. A search goes on with as
/// many programs without faults: where any call may fail, most answers are right.
pub(super) fn count(plan: &Plan) -> u64 {
    let statuses = plan.faults.statuses().len() as u64;
    let more = plan.searching.map_or(0, |_| statuses - 1);
    plan.programs() * QUEUES.len() as u64 * (statuses + more)
}

/// The case of a number below the count; neighbours have other seeds.
pub(super) fn case(devices: &[String], plan: &Plan, number: u64) -> Case {
    let (programs, statuses) = (plan.programs().max(1), plan.faults.statuses());
    let (seed, turn) = (plan.seeds.start + number % programs, number / programs);
    let queues = QUEUES[turn as usize % QUEUES.len()];
    let round = turn / QUEUES.len() as u64;
    match statuses.get(round as usize) {
        Some(status) => variant(devices, seed, queues, *status),
        None => {
            let beyond = (round - statuses.len() as u64 + 1) * programs;
            variant(devices, seed + beyond, queues, Status::OK)
        }
    }
}

/// The program of a seed over so many queues, with the faults of a status.
fn variant(devices: &[String], seed: u64, queues: u32, status: Status) -> Case {
    let mut random = Random::new(seed ^ 0x5eed);
    let mut failing = Random::new(seed ^ u64::from(status.raw().unsigned_abs()) << 32 ^ 0xfa11);
    // One in four programs is a crowd: two runtimes, four threads each.
    let crowd = seed % 4 == 3;
    let is_of_host = !status.is_ok() && !crowd && failing.once_in(6);
    let turn = if drivers(devices) == 0 || status.is_ok() || is_of_host {
        0
    } else {
        failing.below(4)
    };
    let is_of_driver = turn != 0;
    let has_fault = |is_meant: bool| is_meant && !status.is_ok() && !is_of_host;
    let fault = has_fault(!is_of_driver).then(|| rules(status, seed));
    let of_driver = has_fault(is_of_driver).then(|| match turn {
        FREES => refused_free(&mut failing, devices),
        _ => driver_faults(&mut failing, turn == WORKS),
    });
    let setup = Setup {
        devices: devices.len(),
        runtimes: if crowd { 2 } else { 1 },
        threads: random.one(&[1, 1, 2, 4]),
        length: 20 + random.below(60) as usize,
        failures: seed % 8 == 2,
        drivers: drivers(devices),
    };
    let programs = if crowd { 8 } else { 1 };
    let setup = Setup {
        threads: if crowd { 1 } else { setup.threads },
        ..setup
    };
    Case {
        name: format!("b seed {seed} queues {queues} status {status}"),
        language: Language::Rust,
        devices: devices.to_vec(),
        fresh: true,
        runtimes: setup.runtimes,
        staging: random.one(&[4096, 65_536, 1 << 23]),
        fault,
        ending: Ending::Return,
        engine: Engine {
            policy: random.one(&POLICIES).to_owned(),
            seed,
            queues,
            fault: of_driver,
        },
        programs: (0..programs)
            .map(|number| {
                let mut ops = match turn {
                    WORKS => synchronous_calls(&mut failing, devices),
                    FREES => freed_in_order(&mut failing, setup.drivers),
                    _ if is_of_host => failing_events(&mut failing, devices.len()),
                    _ => Vec::new(),
                };
                ops.extend(program(seed * 8 + number, setup));
                ops
            })
            .collect(),
    }
}

fn rules(status: Status, seed: u64) -> String {
    let name = status.name().unwrap_or("VENDOR");
    let rule = |(number, hook): (u64, &&str)| format!("{hook}:p0.03@{}={name}", seed * 64 + number);
    let rules: Vec<String> = (0..).zip(&HOOKS).map(rule).collect();
    rules.join(",")
}

/// Up to three calls of the driver that fail, or as much work as it runs.
fn driver_faults(random: &mut Random, is_of_work: bool) -> String {
    let count = 1 + random.below(3);
    let fault = if is_of_work { work_fault } else { driver_fault };
    let faults: Vec<String> = (0..count).map(|_| fault(random)).collect();
    faults.join(",")
}

fn driver_fault(random: &mut Random) -> String {
    let (name, code) = (random.one(&FUNCTIONS), random.one(&CODES));
    format!("{name}@{}={code}", 1 + random.below(LAST_FAULTY_CALL))
}

fn work_fault(random: &mut Random) -> String {
    let (name, code) = (random.one(&WORK), random.one(&CODES));
    format!(
        "exec:{name}@{}={code}",
        1 + random.below(LAST_FAULTY_OPERATION)
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;
    use crate::plan::Faults;
    use crate::program::{Call, Op};

    fn plan(searching: Option<Duration>) -> Plan {
        Plan {
            seeds: 0..4,
            language: Language::Rust,
            faults: Faults::All,
            searching,
            begin: 0,
            part: (1, 1),
            only: None,
            shrinking: Duration::ZERO,
            folder: PathBuf::new(),
        }
    }

    #[test]
    fn half_of_a_search_has_no_faults_and_no_case_comes_twice() {
        let (seeds, plan) = (plan(None), plan(Some(Duration::from_secs(1))));
        let devices = ["cpu".to_owned(), "cuda:0".to_owned()];
        let cases: Vec<Case> = (0..count(&plan))
            .map(|number| case(&devices, &plan, number))
            .collect();
        let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names.len(), cases.len());
        let without = cases.iter().filter(|case| case.name.ends_with(" OK"));
        assert!(without.count() * 2 > cases.len());
        assert!(count(&seeds) < count(&plan), "seeds alone are no search");
    }

    fn cases(devices: &[&str]) -> Vec<Case> {
        let devices: Vec<String> = devices.iter().map(|name| (*name).to_owned()).collect();
        let variants = (0..200).flat_map(|seed| {
            let of = |status| variant(&devices, seed, 1, status);
            [Status::OK, Status::VENDOR, Status::DEVICE_LOST].map(of)
        });
        variants.collect()
    }

    #[test]
    fn most_programs_with_faults_have_them_in_a_simulated_driver() {
        let cases = cases(&["cpu", "rocm:0"]);
        let of_driver = cases.iter().filter_map(|case| case.engine.fault.as_deref());
        let of_driver: Vec<&str> = of_driver.collect();
        assert!((230..295).contains(&of_driver.len()), "{}", of_driver.len());
        let is_drawn = |function: &&str| of_driver.iter().any(|fault| fault.contains(*function));
        let mut names = FUNCTIONS.iter().chain(&WORK);
        assert!(names.clone().all(is_drawn), "{of_driver:?}");
        assert!(names.all(|name| name.matches('*').count() < 2));
        let of_work = of_driver.iter().filter(|fault| fault.contains("exec:"));
        assert!((65..125).contains(&of_work.count()), "{of_driver:?}");
        let of_frees = of_driver.iter().filter(|fault| fault.contains("FreeAsync"));
        assert!((65..125).contains(&of_frees.count()), "{of_driver:?}");
        assert!(of_driver.iter().any(|fault| fault.contains('!')));
        for case in cases {
            let faults = [&case.fault, &case.engine.fault].into_iter().flatten();
            let may_fail = |op: &Op| matches!(op.call, Call::Hold { fails: true, .. });
            // Calls that a program begins with.
            let is_of_host = case.programs[0].iter().take(8).any(may_fail);
            match faults.count() {
                0 => assert!(
                    case.name.ends_with("status OK") || is_of_host,
                    "{}",
                    case.name
                ),
                count => assert_eq!(count, 1, "{}", case.name),
            }
        }
    }

    #[test]
    fn some_programs_have_no_fault_but_host_events_that_fail() {
        let fails = |case: &Case| {
            let is_of_host = !case.has_faults() && !case.name.ends_with("status OK");
            is_of_host && case.programs.len() == 1
        };
        for devices in [vec!["cpu", "rocm:0"], vec!["cpu", "asynchronous"]] {
            let count = cases(&devices).iter().filter(|case| fails(case)).count();
            assert!((35..75).contains(&count), "{count}");
        }
    }

    #[test]
    fn without_a_driver_all_faults_are_those_of_hooks() {
        let cases = cases(&["cpu", "asynchronous"]);
        assert!(cases.iter().all(|case| case.engine.fault.is_none()));
    }
}
