//! What `Seeded` chooses: by its seed, from when it was set.

use crossdock_sim_engine::{Config, Policy, Stream};

use crate::machine::{Machine, address, address_mut};

fn seeded(seed: u64) -> Machine {
    Machine::with(Config {
        policy: Policy::Seeded,
        seed,
        idle: None,
        ..Config::default()
    })
}

/// The order in which copies of several streams run.
fn order(machine: &Machine, streams: &[Stream]) -> Vec<usize> {
    let (source, mut target) = ([1_u8], vec![0_u8; streams.len()]);
    let target_at = address_mut(&mut target);
    machine.0.hold();
    for (slot, stream) in streams.iter().enumerate() {
        machine.copy(
            "copy",
            *stream,
            target_at + slot as u64,
            address(&source),
            1,
        );
    }
    machine.0.release();
    let mut order = Vec::new();
    while machine.0.progress(1) == 1 {
        let ran = |slot: &usize| target[*slot] == 1 && !order.contains(slot);
        order.push((0..target.len()).find(ran).unwrap());
    }
    order
}

#[test]
fn a_seed_begins_the_choices_anew_whatever_was_chosen_before() {
    let of = |seed: u64, before: usize| {
        let machine = seeded(3);
        let streams: Vec<Stream> = (0..8).map(|_| machine.stream()).collect();
        for _ in 0..before {
            order(&machine, &streams);
        }
        machine.0.reseed(seed);
        order(&machine, &streams)
    };
    assert_eq!(of(7, 0).len(), 8);
    assert_eq!(of(7, 0), of(7, 5));
    assert_ne!(of(7, 5), of(8, 5));
}
