//! Host events that fail before or after streams begin to wait for them. What has to be told of the failure is known
//! exactly here, where nothing else uses the streams.

use crate::generate::Random;
use crate::program::{Call, Element, Op};

/// The places: of the stream on which the host event fails, of the one that waits for it, and of one that waits for
/// that one.
const STREAMS: [usize; 3] = [0, 1, 2];
/// The places of what fails, of the end of its stream, of another host event, and of the end of who waits.
const EVENTS: [usize; 4] = [0, 1, 2, 3];

/// How often it is done.
const ROUNDS: usize = 2;

/// Such calls over so many devices.
pub(super) fn failing_events(random: &mut Random, devices: usize) -> Vec<Op> {
    let calls = (0..ROUNDS).flat_map(|_| round(random, devices));
    let op = |call| Op {
        thread: 0,
        runtime: 0,
        call,
    };
    calls.map(op).collect()
}

fn round(random: &mut Random, devices: usize) -> Vec<Call> {
    let [first, waits, last] = STREAMS;
    let [event, end, _, known] = EVENTS;
    let mut device = || random.below(devices as u64) as usize;
    let of_first = device();
    let (of_waits, of_last) = match device() % 2 {
        0 => (of_first, device()),
        _ => (device(), device()),
    };
    let mut calls = vec![
        Call::Stream {
            s: first,
            device: of_first,
        },
        Call::Stream {
            s: waits,
            device: of_waits,
        },
        Call::Stream {
            s: last,
            device: of_last,
        },
        Call::Make {
            t: 0,
            device: of_waits,
            element: Element::Four,
            shape: vec![6],
            seed: 1,
        },
        Call::Hold {
            e: event,
            s: first,
            fails: true,
        },
        Call::Record { e: end, s: first },
    ];
    calls.extend(failing(random));
    if random.once_in(2) {
        let (t, seed, stream) = (0, 2, Some(waits));
        calls.push(Call::Fill { t, seed, stream });
    }
    calls.push(Call::Record { e: known, s: waits });
    calls.push(Call::Wait { s: last, e: known });
    let mut ends = vec![
        Call::SyncStream { s: waits },
        Call::SyncStream { s: waits },
        Call::SyncStream { s: first },
        Call::SyncEvent { e: known },
        Call::SyncStream { s: last },
        Call::Read { t: 0 },
        Call::SyncStream { s: last },
        Call::SyncEvent { e: known },
    ];
    while !ends.is_empty() {
        calls.push(ends.swap_remove(random.below(ends.len() as u64) as usize));
    }
    calls
}

/// The failure, before or after the stream begins to wait, and maybe other waits before and after.
fn failing(random: &mut Random) -> Vec<Call> {
    let [_, s, _] = STREAMS;
    let [event, end, other, _] = EVENTS;
    let e = random.one(&[event, end]);
    // Nobody can wait for an event that was dropped.
    let fails = match e == end && random.once_in(2) {
        true => Call::Abandon { e: event },
        false => Call::Open { e: event },
    };
    let wait = Call::Wait { s, e };
    let steps = match random.once_in(2) {
        true => [fails, wait],
        false => [wait, fails],
    };
    let mut calls = Vec::new();
    for step in steps {
        calls.push(step);
        if random.once_in(2) {
            let (e, fails) = (other, false);
            calls.push(Call::Hold { e, s, fails });
            calls.push(Call::Open { e });
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_fail_before_and_after_a_stream_waits_and_other_waits_come_between() {
        let mut random = Random::new(1);
        let drawn: Vec<Vec<Call>> = (0..50).map(|_| failing(&mut random)).collect();
        let many = |is_meant: &dyn Fn(&[Call]) -> bool| {
            let meant = drawn.iter().filter(|calls| is_meant(calls));
            assert!(meant.count() > 4, "{drawn:?}");
        };
        let is_failure = |call: &Call| matches!(call, Call::Open { e: 0 } | Call::Abandon { .. });
        let is_wait = |call: &Call| matches!(call, Call::Wait { .. });
        many(&|calls| is_failure(&calls[0]) && is_wait(&calls[1]));
        many(&|calls| is_wait(&calls[0]) && is_failure(&calls[1]));
        many(&|calls| is_wait(&calls[0]) && matches!(calls[1], Call::Hold { .. }));
        many(&|calls| calls.contains(&Call::Abandon { e: 0 }));
    }
}
