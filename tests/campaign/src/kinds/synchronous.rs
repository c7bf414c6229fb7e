//! Work without a stream, of which the call itself has to tell whether it failed: fills and copies within a vendor's
//! devices and its pinned memory. Each result is read at once, so that a success with wrong bytes is seen.

use crate::generate::Random;
use crate::program::{Call, Element, Op, Way};

/// How often it is done: faults of work strike among the first few of a name.
const ROUNDS: usize = 4;

/// Such calls over these devices, of which each vendor has some.
pub(super) fn synchronous_calls(random: &mut Random, devices: &[String]) -> Vec<Op> {
    let vendor = random.one(&["cuda", "rocm"]);
    let of = |vendor: &str| -> Vec<usize> {
        let all = (0..devices.len()).filter(|device| devices[*device].starts_with(vendor));
        all.collect()
    };
    let own = match of(vendor) {
        none if none.is_empty() => [of("cuda"), of("rocm")].concat(),
        own => own,
    };
    let calls = (0..ROUNDS).flat_map(|_| round(random, &own));
    let op = |call| Op {
        thread: 0,
        runtime: 0,
        call,
    };
    calls.map(op).collect()
}

fn round(random: &mut Random, devices: &[usize]) -> Vec<Call> {
    let element = random.one(&Element::ALL);
    let [device, other] = [(); 2].map(|()| random.one(devices));
    let mut seed = || random.below(255) as u8 + 1;
    let seeds = [(); 3].map(|()| seed());
    let stream = None;
    let make = |t, device, seed| Call::Make {
        t,
        device,
        element,
        shape: vec![6, 4],
        seed,
    };
    let moved = |t, of, device, way| Call::To {
        t,
        of,
        device,
        way,
        stream,
    };
    let part = |t, of| Call::Slice {
        t,
        of,
        axes: vec![(0, 2, 3), (0, 1, 4)],
    };
    let copy = |t, of| Call::CopyFrom { t, of, stream };
    let fill = |t| Call::Fill {
        t,
        seed: seeds[2],
        stream,
    };
    let read = |t| Call::Read { t };
    let mut calls = vec![make(0, device, seeds[0]), make(1, other, seeds[1])];
    calls.extend(match random.below(4) {
        0 => vec![fill(0), read(0), copy(0, 1), read(0)],
        1 => vec![copy(0, 1), read(0), fill(1), read(1)],
        2 => vec![
            part(2, 0),
            part(3, 1),
            copy(2, 3),
            read(0),
            fill(3),
            read(1),
        ],
        // By way of pinned memory.
        _ => vec![moved(2, 0, other, Way::Own), read(2), copy(1, 2), read(1)],
    });
    calls
}
