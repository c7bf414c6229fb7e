//! Exit and fork in the middle of a random program, mostly while a client captures or its context is current.

use crate::generate::{Random, Setup, drivers, ops_beside_clients, program};
use crate::plan::Plan;
use crate::program::{Case, Ending, Engine, Language};

/// An exit and a fork for each seed.
pub(super) const fn count(plan: &Plan) -> u64 {
    plan.programs() * 2
}

/// Exits have even numbers, forks odd ones.
pub(super) fn case(devices: &[String], plan: &Plan, number: u64) -> Case {
    let seed = plan.seeds.start + number / 2;
    let mut random = Random::new(seed ^ 0xe417);
    let length = 10 + random.below(40) as usize;
    let moment = random.below(length as u64) as usize;
    let setup = Setup {
        devices: devices.len(),
        runtimes: 1,
        threads: random.one(&[1, 2, 4]),
        length,
        failures: false,
        drivers: drivers(devices),
    };
    let ops = program(seed + 1_000_000, setup);
    let ops_beside_clients = ops_beside_clients(&ops);
    // Mostly in the middle of what a client does, where there is one.
    let moment = match ops_beside_clients.is_empty() || random.once_in(3) {
        true => moment,
        false => random.one(&ops_beside_clients),
    };
    let is_exit = number.is_multiple_of(2);
    Case {
        name: format!("c seed {seed} {}", if is_exit { "exit" } else { "fork" }),
        language: Language::Rust,
        devices: devices.to_vec(),
        fresh: true,
        runtimes: 1,
        staging: 65_536,
        fault: None,
        ending: if is_exit {
            Ending::Exit(moment)
        } else {
            Ending::Fork(moment)
        },
        engine: Engine {
            policy: "threads".to_owned(),
            seed,
            queues: 8,
            fault: None,
        },
        programs: vec![ops],
    }
}
