//! Waits for work that nothing holds, beside work on another stream of the device that is held: they have to return.
//! On devices with contexts the first work is in one of others, which has ended when the device's own begins.
//!
//! If streams share hardware queues, the free work is enqueued before more streams than queues are held.

use crate::generate::drivers;
use crate::program::{Call, Case, ClientCall, Element, Ending, Engine, Language, Offset, Op, Way};
use crate::world::{MANY_QUEUES, is_simulated};

/// Whose stream it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// Crossdock makes it.
    Made,
    /// Crossdock makes it, and the program queries its native handle.
    Shown,
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

/// What is done first in a context of others, without a stream.
#[derive(Debug, Clone, Copy)]
enum Work {
    Write,
    Fill,
    Read,
    Copy,
}

/// A case by all that is chosen.
#[derive(Debug, Clone, Copy)]
struct Choice {
    device: usize,
    held: Whose,
    free: Whose,
    wait: Wait,
    policy: &'static str,
    /// The number of hardware queues that all streams share; `None` if each stream has its own.
    shared: Option<u32>,
}

const POLICIES: [&str; 3] = ["seeded", "lazy", "threads"];
const WHOSE: [Whose; 3] = [Whose::Made, Whose::Default, Whose::Clients];
const WAITS: [Wait; 4] = [Wait::Stream, Wait::Event, Wait::Tensor, Wait::Read];

/// The numbers of shared queues, and for these the streams and waits: the copy of a read would be later work.
const QUEUES: [u32; 3] = [1, 2, 8];
const SHARING: [Whose; 4] = [Whose::Made, Whose::Shown, Whose::Default, Whose::Clients];
const WAITS_IN_FRONT: [Wait; 3] = [Wait::Stream, Wait::Event, Wait::Tensor];

const WORKS: [Work; 4] = [Work::Write, Work::Fill, Work::Read, Work::Copy];

/// The streams and tensors: what is held, and what is not.
const HELD: usize = 0;
const FREE: usize = 1;
/// A client that goes, with its tensor, and where that is copied to.
const GONE: usize = 2;
const COPY: usize = 3;
/// More held streams, with their events.
const MORE: usize = 4;

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
        shared,
    } = choice;
    let op = |call| Op {
        thread: 0,
        runtime: 0,
        call,
    };
    let has_contexts = devices[device].starts_with("cuda");
    let work = has_contexts.then(|| WORKS[number as usize / WAITS.len() % WORKS.len()]);
    let first = work.map_or_else(Vec::new, |work| in_foreign_context(device, work));
    let after = work.map_or_else(String::new, |work| format!(", after {work:?}"));
    let on = shared.map_or_else(String::new, |queues| format!(", queues {queues}"));
    let calls = first.into_iter().chain(calls(choice));
    Case {
        name: format!(
            "f {}: {free:?} beside {held:?}, {wait:?}, {policy}{after}{on}",
            devices[device]
        ),
        language: Language::Rust,
        devices: devices.to_vec(),
        // A client leaves nothing for the next case, and the first work of a device is once.
        fresh: has_contexts || [held, free].contains(&Whose::Clients),
        runtimes: 1,
        staging: 65_536,
        fault: None,
        ending: Ending::Return,
        engine: Engine {
            policy: policy.to_owned(),
            queues: shared.unwrap_or(MANY_QUEUES),
            ..Engine::default()
        },
        programs: vec![calls.map(op).collect()],
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
                    shared: None,
                }));
            }
        }
        for free in SHARING {
            if !has_clients && free == Whose::Clients {
                continue;
            }
            for (policy, queues) in POLICIES
                .iter()
                .flat_map(|one| QUEUES.map(|queues| (*one, queues)))
            {
                choices.extend(WAITS_IN_FRONT.map(|wait| Choice {
                    device,
                    held: Whose::Made,
                    free,
                    wait,
                    policy,
                    shared: Some(queues),
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
    let hold = |at| Call::Hold {
        e: at,
        s: at,
        fails: false,
    };
    let (e, s, t) = (FREE, FREE, FREE);
    let wait = match choice.wait {
        Wait::Stream => Call::SyncStream { s },
        Wait::Event => Call::SyncEvent { e },
        Wait::Tensor => Call::SyncTensor { t },
        Wait::Read => Call::Read { t },
    };
    let mut free_work = vec![fill(FREE)];
    free_work.extend(matches!(choice.wait, Wait::Event).then_some(Call::Record { e, s }));
    let mut calls = [stream(held, HELD, device), stream(free, FREE, device)].concat();
    calls.extend([make(HELD), make(FREE)]);
    let mut opened = vec![HELD];
    if let Some(queues) = choice.shared {
        calls.extend(free_work);
        let more = MORE..=MORE + 2 * queues as usize;
        calls.extend(
            more.clone()
                .flat_map(|s| [Call::Stream { s, device }, hold(s)]),
        );
        opened.extend(more);
        calls.extend([hold(HELD), fill(HELD)]);
    } else {
        calls.extend([hold(HELD), fill(HELD)]);
        calls.extend(free_work);
    }
    calls.push(wait);
    calls.extend(opened.into_iter().map(|e| Call::Open { e }));
    calls.push(Call::Read { t: HELD });
    calls
}

/// Work on memory of a client in its context, which ends then.
fn in_foreign_context(device: usize, work: Work) -> Vec<Call> {
    let (c, t) = (GONE, GONE);
    let does = |does| Call::Client { c, does };
    let coming = ClientCall::Come {
        device,
        own: true,
        blocking: false,
        known: false,
    };
    let lending = ClientCall::Lend {
        t,
        element: Element::Four,
        shape: vec![7],
        seed: 5,
        offset: Offset::default(),
        pool: false,
    };
    let copied = Call::To {
        t: COPY,
        of: t,
        device: 0,
        way: Way::Direct,
        stream: None,
    };
    let (seed, stream) = (9, None);
    let worked = match work {
        Work::Write => Call::Write { t, seed },
        Work::Fill => Call::Fill { t, seed, stream },
        Work::Read => Call::Read { t },
        Work::Copy => copied,
    };
    let gone = [Call::DropTensor { t }, does(ClientCall::Go)];
    let first = [does(coming), does(lending), worked, Call::Read { t }];
    first.into_iter().chain(gone).collect()
}

/// A stream comes to a place.
fn stream(whose: Whose, s: usize, device: usize) -> Vec<Call> {
    match whose {
        Whose::Made => vec![Call::Stream { s, device }],
        Whose::Shown => vec![Call::Stream { s, device }, Call::Ask { s }],
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
        let shared = POLICIES.len() * WAITS_IN_FRONT.len() * QUEUES.len();
        assert_eq!(of(&["cpu", "asynchronous"]), 3 * (each + shared));
        assert_eq!(
            of(&["cpu", "cuda:0", "rocm:1"]),
            2 * (8 * each + 4 * shared)
        );
    }

    #[test]
    fn a_device_with_contexts_works_first_in_one_that_ends() {
        let devices = ["cpu", "cuda:0", "rocm:1"].map(str::to_owned);
        let cases = (0..count(&devices)).map(|number| case(&devices, number));
        let (mut on_cuda, mut works) = (0, std::collections::BTreeSet::new());
        for case in cases {
            let calls: Vec<&Call> = case.programs[0].iter().map(|op| &op.call).collect();
            let is_end = |call: &&Call| {
                matches!(
                    call,
                    Call::Client {
                        does: ClientCall::Go,
                        ..
                    }
                )
            };
            let is_own = |call: &&Call| {
                matches!(
                    call,
                    Call::Make { .. }
                        | Call::Fill {
                            stream: Some(_),
                            ..
                        }
                )
            };
            let end = calls.iter().position(is_end);
            assert_eq!(
                end.is_some(),
                case.name.starts_with("f cuda:0"),
                "{}",
                case.name
            );
            let Some(end) = end else { continue };
            assert!(Some(end) < calls.iter().position(is_own), "{}", case.name);
            assert!(case.fresh, "{}", case.name);
            works.insert(format!("{:?}", calls[2]));
            on_cuda += 1;
        }
        assert_eq!((on_cuda, works.len()), (204, WORKS.len()));
    }
}
