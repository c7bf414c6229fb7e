//! What `Seeded` chooses: by its seed, from when it was set.

use crossdock_sim_engine::{Config, Policy, Schedule, Site, Step, Stream};

use crate::machine::{LIMIT, Machine, address, address_mut};

fn seeded(seed: u64) -> Machine {
    Machine::with(config(seed))
}

fn config(seed: u64) -> Config {
    Config {
        policy: Policy::Seeded,
        seed,
        idle: None,
        ..Config::default()
    }
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

fn by(config: Config) -> (Vec<usize>, Schedule) {
    let machine = Machine::with(config);
    let streams: Vec<Stream> = (0..8).map(|_| machine.stream()).collect();
    (order(&machine, &streams), machine.0.choices())
}

#[test]
fn choices_that_were_written_down_let_the_same_happen_by_another_seed() {
    for seed in 0..20 {
        let mut noted = config(seed);
        noted.notes_choices = true;
        let (plain, none) = by(config(seed));
        let (order, choices) = by(noted);
        assert_eq!(order, plain, "writing them down changes nothing");
        assert!(none.is_empty() && !choices.is_empty());
        let mut given = config(seed + 100);
        given.schedule = Some(choices.clone());
        given.notes_choices = true;
        assert_eq!(by(given), (order, choices));
    }
}

#[test]
fn without_a_choice_the_oldest_comes_first_and_one_choice_is_one_difference() {
    let mut oldest = config(1);
    (oldest.schedule, oldest.notes_choices) = (Some(Schedule::new()), true);
    let in_order: Vec<usize> = (0..8).collect();
    assert_eq!(by(oldest.clone()), (in_order, Schedule::new()));
    // The first choice is made after eight copies were submitted, in the last of their calls.
    let machine = seeded(1);
    let streams: Vec<Stream> = (0..8).map(|_| machine.stream()).collect();
    let calls = (streams.len() * 2) as u64;
    let third = Step {
        call: calls,
        nth: 2,
    };
    oldest.schedule = Some(Schedule::from([(third, 3)]));
    assert_eq!(by(oldest).0, [0, 1, 5, 2, 3, 4, 6, 7]);
}

/// How many of 40 copies are left when the last one was submitted.
fn left(seed: u64) -> usize {
    let machine = seeded(seed);
    let (source, mut target) = ([1_u8; 40], [0_u8; 40]);
    let (from, to) = (address(&source), address_mut(&mut target));
    let stream = machine.stream();
    for at in 0..40 {
        machine.copy("copy", stream, to + at, from + at, 1);
    }
    let left = machine.0.pending();
    machine.0.drain(LIMIT).unwrap();
    left
}

#[test]
fn of_three_seeds_in_a_row_one_is_soon_done_and_one_hardly_begins() {
    for first in 1..20 {
        let mut left = [first, first + 1, first + 2].map(left);
        left.sort_unstable();
        assert!(left[0] < 20 && left[2] > 35, "from {first}: {left:?}");
    }
}

#[test]
fn who_asks_again_and_again_learns_the_end_by_any_seed() {
    for seed in 1..20 {
        let machine = seeded(seed);
        let (source, mut target) = ([1_u8], [0_u8]);
        let (stream, event) = (machine.stream(), machine.event());
        let to = address_mut(&mut target);
        machine.copy("copy", stream, to, address(&source), 1);
        machine.record(event, stream);
        let asked = (0..10_000).find(|_| {
            let asked = machine.0.query_event(Site::here("query"), event);
            asked.expect("an answer")
        });
        assert!(asked.is_some(), "seed {seed}");
    }
}
