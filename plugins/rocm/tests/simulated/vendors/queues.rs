//! Both directions at once over few hardware queues: nothing stands still.

use std::thread;

use crossdock::{Device, RouteChoice, RouteKind, Stream, Target, Tensor};
use crossdock_sdk::abi::MemoryKind;

use super::{BYTES, Both, LIMIT, both_are_built, content, layout};
use crate::{is_long, over};

const ROUNDS: usize = 6;

/// Tensors go there and back: behind work of one stream, in the order of a stream of either end and of none, through
/// chunks and through pinned memory of either vendor.
fn go_there_and_back(ends: [&Device; 2], seed: usize) {
    let [here, there] = ends.map(|device| Stream::new(device).unwrap());
    let pinned = ends.map(|device| Target::new(device, MemoryKind::PINNED));
    let usual = ends.map(|device| Target::new(device, MemoryKind::DEVICE));
    let copy = RouteChoice::Copy;
    for round in 0..ROUNDS {
        let wanted = content(BYTES, seed * 100 + round);
        let first = Tensor::from_bytes(ends[0], &layout(BYTES), &wanted).unwrap();
        let (behind, _) = first.to_on(ends[0], copy, &here).unwrap();
        let streams = [None, Some(&here), Some(&there)];
        for (at, stream) in streams.into_iter().enumerate() {
            let staged = RouteChoice::Only(RouteKind::Staged);
            let (moved, _) = behind.move_to(&usual[1], staged, stream).unwrap();
            let on = streams[(at + round) % 3];
            let (through, _) = moved.move_to(&pinned[round % 2], copy, on).unwrap();
            let (back, _) = through.move_to(&usual[0], copy, stream).unwrap();
            // What comes later on each stream comes after the other one's.
            here.wait(&there.record().unwrap()).unwrap();
            there.wait(&here.record().unwrap()).unwrap();
            assert!(back.read().unwrap() == wanted);
        }
    }
    here.synchronize(LIMIT).unwrap();
    there.synchronize(LIMIT).unwrap();
}

#[test]
fn both_directions_go_on_at_once_over_any_number_of_hardware_queues() {
    let name = "vendors::queues::both_directions_go_on_at_once_over_any_number_of_hardware_queues";
    let seeds: &[&str] = if is_long() {
        &["1", "2", "3", "4", "5", "6", "7"]
    } else {
        &["1"]
    };
    let mut runs = Vec::new();
    for policy in ["lazy", "seeded", "threads"] {
        for queues in ["1", "2", "8"] {
            for seed in seeds {
                runs.push([
                    "--cuda", "1", "--rocm", "1", "--policy", policy, "--queues", queues, "--seed",
                    seed,
                ]);
            }
        }
    }
    let runs: Vec<&[&str]> = runs.iter().map(<[&str; 10]>::as_slice).collect();
    if !both_are_built() || !over(name, &runs) {
        return;
    }
    let both = Both::open();
    thread::scope(|scope| {
        for (at, ends) in both
            .directions()
            .into_iter()
            .chain(both.directions())
            .enumerate()
        {
            scope.spawn(move || go_there_and_back(ends, at));
        }
    });
}
