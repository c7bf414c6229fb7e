//! Memory that is given back in the order of streams while their work is pending, for a driver that refuses that once.

use crate::generate::Random;
use crate::program::{Call, Element, Op};

/// How often it is done on each device.
const ROUNDS: usize = 2;

/// The function that gives memory back in the order of a stream, of each vendor: the one refusal of a driver after
/// which a plugin has to do it again at its close.
const FREES: [(&str, &str); 2] = [("cuda", "cuMemFreeAsync"), ("rocm", "hipFreeAsync")];
/// A wrong argument, not permitted, not supported and unknown: the same numbers for both vendors.
const CODES: [&str; 4] = ["1", "304", "801", "999"];

/// One refusal by a vendor of which there are devices.
pub(super) fn refused_free(random: &mut Random, devices: &[String]) -> String {
    let is_here = |vendor: &str| devices.iter().any(|name| name.starts_with(vendor));
    let here = FREES.iter().filter(|(vendor, _)| is_here(vendor));
    let here: Vec<&str> = here.map(|(_, function)| *function).collect();
    let (function, code) = (random.one(&here), random.one(&CODES));
    // There are as many at least.
    let most = (ROUNDS * devices.len().min(2)) as u64;
    format!("{function}@{}={code}", 1 + random.below(most))
}

/// Such calls on each of these devices that a driver has: a bit for each.
pub(super) fn freed_in_order(random: &mut Random, drivers: u64) -> Vec<Op> {
    let devices = (0..u64::BITS as usize).filter(|device| drivers >> device & 1 == 1);
    let rounds = devices.flat_map(|device| [device; ROUNDS]);
    let calls: Vec<Call> = rounds.flat_map(|device| round(random, device)).collect();
    let op = |call| Op {
        thread: 0,
        runtime: 0,
        call,
    };
    calls.into_iter().map(op).collect()
}

fn round(random: &mut Random, device: usize) -> Vec<Call> {
    let (t, s, e) = (0, 0, 0);
    let make = Call::Make {
        t,
        device,
        element: random.one(&[Element::One, Element::Four, Element::Sixteen]),
        shape: vec![random.one(&[1, 300, 5000])],
        seed: 1,
    };
    let (fails, stream) = (false, Some(s));
    let mut calls = vec![Call::Stream { s, device }, make];
    if !random.once_in(3) {
        calls.push(Call::Hold { e, s, fails });
    }
    let seed = 2;
    calls.extend([Call::Fill { t, seed, stream }, Call::DropTensor { t }]);
    match random.below(3) {
        0 => calls.push(Call::DropStream { s }),
        1 => calls.extend([Call::Open { e }, Call::SyncStream { s }]),
        _ => {}
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_each_device_of_a_driver_is_given_back_behind_work() {
        let ops = freed_in_order(&mut Random::new(1), 0b110);
        let count =
            |is_meant: fn(&Call) -> bool| ops.iter().filter(|op| is_meant(&op.call)).count();
        for device in [1, 2] {
            let is_made =
                |op: &&Op| matches!(&op.call, Call::Make { device: on, .. } if *on == device);
            assert_eq!(ops.iter().filter(is_made).count(), ROUNDS);
        }
        let fills = count(|call| {
            matches!(
                call,
                Call::Fill {
                    stream: Some(_),
                    ..
                }
            )
        });
        let drops = count(|call| matches!(call, Call::DropTensor { .. }));
        assert_eq!((fills, drops), (2 * ROUNDS, 2 * ROUNDS));
    }

    #[test]
    fn only_a_vendor_that_is_there_refuses_and_only_once() {
        let devices = ["cpu", "rocm:0"].map(str::to_owned);
        for seed in 0..50 {
            let fault = refused_free(&mut Random::new(seed), &devices);
            assert!(fault.starts_with("hipFreeAsync@"), "{fault}");
            assert!(!fault.contains(['!', '+', ',']), "{fault}");
        }
    }
}
