//! Waits for work that nothing holds, beside work on another stream of the device that is held: they have to return.

use crate::generate::drivers;
use crate::program::{Call, Case, ClientCall, Element, Ending, Engine, Language, Op};
use crate::world::{MANY_QUEUES, is_simulated};

/// Whose stream it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// Crossdock makes it.
    Made,
    /// The default one of the device.
    Default,
    /// A client's, in the device's own context.
    Clients,
}

/// What the host waits for.
#[derive(Debug, Clone, Copy)]
enum Wait {
    Stream,
    Event,
    Tensor,
    Read,
}

/// A case by all that is chosen.
#[derive(Debug, Clone, Copy)]
struct Choice {
    device: usize,
    held: Whose,
    free: Whose,
    wait: Wait,
    policy: &'static str,
}

const POLICIES: [&str; 3] = ["seeded", "lazy", "threads"];
const WHOSE: [Whose; 3] = [Whose::Made, Whose::Default, Whose::Clients];
const WAITS: [Wait; 4] = [Wait::Stream, Wait::Event, Wait::Tensor, Wait::Read];

/// The streams and tensors: what is held, and what is not.
const HELD: usize = 0;
const FREE: usize = 1;

/// Every wait for every stream beside every other one, on each simulated device.
pub(super) fn count(devices: &[String]) -> u64 {
    choices(devices).len() as u64
}

/// The case of a number below the count.
pub(super) fn case(devices: &[String], number: u64) -> Case {
    let choice = choices(devices).swap_remove(number as usize);
    let Choice {
        device,
        held,
        free,
        wait,
        policy,
    } = choice;
    let op = |call| Op {
        thread: 0,
        runtime: 0,
        call,
    };
    Case {
        name: format!(
            "f {}: {free:?} beside {held:?}, {wait:?}, {policy}",
            devices[device]
        ),
        language: Language::Rust,
        devices: devices.to_vec(),
        // A client leaves nothing for the next case.
        fresh: [held, free].contains(&Whose::Clients),
        runtimes: 1,
        staging: 65_536,
        fault: None,
        ending: Ending::Return,
        engine: Engine {
            policy: policy.to_owned(),
            queues: MANY_QUEUES,
            ..Engine::default()
        },
        programs: vec![calls(choice).into_iter().map(op).collect()],
    }
}

fn choices(devices: &[String]) -> Vec<Choice> {
    let drivers = drivers(devices);
    let simulated = (0..devices.len()).filter(|device| is_simulated(&devices[*device]));
    let mut choices = Vec::new();
    for device in simulated {
        let has_clients = drivers >> device & 1 == 1;
        let pairs = WHOSE.map(|held| WHOSE.map(|free| [held, free]));
        for [held, free] in pairs.into_iter().flatten() {
            // A device has one default stream.
            if [held, free] == [Whose::Default; 2]
                || !has_clients && [held, free].contains(&Whose::Clients)
            {
                continue;
            }
            for policy in POLICIES {
                choices.extend(WAITS.map(|wait| Choice {
                    device,
                    held,
                    free,
                    wait,
                    policy,
                }));
            }
        }
    }
    choices
}

fn calls(choice: Choice) -> Vec<Call> {
    let Choice {
        device, held, free, ..
    } = choice;
    let make = |t| Call::Make {
        t,
        device,
        element: Element::Four,
        shape: vec![500],
        seed: 3,
    };
    let fill = |t| Call::Fill {
        t,
        seed: 7,
        stream: Some(t),
    };
    let (e, s, fails) = (HELD, HELD, false);
    let mut calls = [stream(held, HELD, device), stream(free, FREE, device)].concat();
    calls.extend([make(HELD), make(FREE), Call::Hold { e, s, fails }]);
    calls.extend([fill(HELD), fill(FREE)]);
    let (e, s, t) = (FREE, FREE, FREE);
    match choice.wait {
        Wait::Stream => calls.push(Call::SyncStream { s }),
        Wait::Event => calls.extend([Call::Record { e, s }, Call::SyncEvent { e }]),
        Wait::Tensor => calls.push(Call::SyncTensor { t }),
        Wait::Read => calls.push(Call::Read { t }),
    }
    calls.extend([Call::Open { e: HELD }, Call::Read { t: HELD }]);
    calls
}

/// A stream comes to a place.
fn stream(whose: Whose, s: usize, device: usize) -> Vec<Call> {
    match whose {
        Whose::Made => vec![Call::Stream { s, device }],
        Whose::Default => vec![Call::Default { s, device }],
        Whose::Clients => {
            let coming = ClientCall::Come {
                device,
                own: false,
                blocking: false,
                known: true,
            };
            let does = [coming, ClientCall::Wrap { s }];
            does.map(|does| Call::Client { c: s, does }).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stream_that_a_simulated_device_has_is_waited_for_beside_each_other() {
        let of = |devices: &[&str]| {
            let devices: Vec<String> = devices.iter().map(|name| (*name).to_owned()).collect();
            let cases = (0..count(&devices)).map(|number| case(&devices, number));
            let names: std::collections::BTreeSet<String> = cases.map(|case| case.name).collect();
            names.len()
        };
        let each = POLICIES.len() * WAITS.len();
        assert_eq!(of(&["cpu", "opencl"]), 0);
        assert_eq!(of(&["cpu", "asynchronous"]), 3 * each);
        assert_eq!(of(&["cpu", "cuda:0", "rocm:1"]), 2 * 8 * each);
    }
}
