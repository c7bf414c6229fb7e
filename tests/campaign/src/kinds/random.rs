//! Random programs: without faults, with each status at 3 %, over each number of hardware queues,
//! alone and in a crowd.

use crossdock_sdk::abi::Status;

use crate::generate::{Random, Setup, program};
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
const QUEUES: [u32; 3] = [1, 2, 8];
const POLICIES: [&str; 3] = ["seeded", "lazy", "threads"];

/// The program of each seed, over each number of queues, without faults and with each status.
pub(super) fn count(plan: &Plan) -> u64 {
    plan.programs() * QUEUES.len() as u64 * plan.faults.statuses().len() as u64
}

/// The case of a number below the count; neighbours have other seeds.
pub(super) fn case(devices: &[String], plan: &Plan, number: u64) -> Case {
    let (programs, statuses) = (plan.programs().max(1), plan.faults.statuses());
    let (seed, turn) = (plan.seeds.start + number % programs, number / programs);
    let queues = QUEUES[turn as usize % QUEUES.len()];
    variant(
        devices,
        seed,
        queues,
        statuses[turn as usize / QUEUES.len()],
    )
}

/// The program of a seed over so many queues, with the faults of a status.
fn variant(devices: &[String], seed: u64, queues: u32, status: Status) -> Case {
    let mut random = Random::new(seed ^ 0x5eed);
    let fault = (!status.is_ok()).then(|| rules(status, seed));
    // One in four programs is a crowd: two runtimes, four threads each.
    let crowd = seed % 4 == 3;
    let setup = Setup {
        devices: devices.len(),
        runtimes: if crowd { 2 } else { 1 },
        threads: random.one(&[1, 1, 2, 4]),
        length: 20 + random.below(60) as usize,
        failures: seed % 8 == 2,
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
        },
        programs: (0..programs)
            .map(|number| program(seed * 8 + number, setup))
            .collect(),
    }
}

fn rules(status: Status, seed: u64) -> String {
    let name = status.name().unwrap_or("VENDOR");
    let rule = |(number, hook): (u64, &&str)| format!("{hook}:p0.03@{}={name}", seed * 64 + number);
    let rules: Vec<String> = (0..).zip(&HOOKS).map(rule).collect();
    rules.join(",")
}
