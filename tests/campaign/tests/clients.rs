//! Clients of a simulated driver beside Crossdock: what is right is no finding, and each promise that is broken is one.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

mod replays;

use crossdock_campaign::program::{Call, ClientCall, Element, Ending, Offset, Way};

/// The devices of these programs, by their indexes.
const DEVICES: [&str; 4] = ["cpu", "cuda:0", "rocm:0", "cuda:1"];
const CPU: usize = 0;
/// One of each vendor.
const GPUS: [usize; 2] = [1, 2];

/// The client that is called so does something.
fn does(c: usize, does: ClientCall) -> Call {
    Call::Client { c, does }
}

/// A client that is called by its device comes.
fn come(device: usize, own: bool) -> Call {
    let (blocking, known) = (false, true);
    let coming = ClientCall::Come {
        device,
        own,
        blocking,
        known,
    };
    does(device, coming)
}

/// What is done on each vendor's device, one after the other.
fn on_each(calls: impl Fn(usize) -> Vec<Call>) -> Vec<Call> {
    GPUS.into_iter().flat_map(calls).collect()
}

fn make(t: usize, device: usize) -> Call {
    Call::Make {
        t,
        device,
        element: Element::One,
        shape: vec![300],
        seed: 5,
    }
}

fn lend(c: usize, t: usize, pool: bool) -> Call {
    let lending = ClientCall::Lend {
        t,
        element: Element::Four,
        shape: vec![5, 7],
        seed: 8,
        pool,
        offset: Offset::default(),
    };
    does(c, lending)
}

fn take(c: usize, t: usize, of: usize, waits: bool) -> Call {
    let (pool, offset) = (true, Offset::default());
    let taking = ClientCall::Take {
        t,
        of,
        pool,
        waits,
        offset,
    };
    does(c, taking)
}

fn to_host(t: usize, of: usize, s: usize) -> Call {
    Call::To {
        t,
        of,
        device: CPU,
        way: Way::Direct,
        stream: Some(s),
    }
}

fn fill(t: usize, stream: Option<usize>) -> Call {
    Call::Fill { t, seed: 4, stream }
}

fn hold(s: usize) -> Call {
    let (e, fails) = (0, false);
    Call::Hold { e, s, fails }
}

/// A program is right; it is skipped where nothing is built.
fn is_right(calls: &[Call], ending: Ending) {
    if let Some((code, said)) = replays::said_of(&DEVICES, calls, None, ending) {
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("nothing was found"), "{said}");
    }
}

/// A program has what is looked for.
fn is_found(calls: &[Call], words: &[&str]) {
    if let Some((code, said)) = replays::said_of(&DEVICES, calls, None, Ending::Return) {
        assert_eq!(code, Some(1), "{said}");
        assert!(words.iter().any(|words| said.contains(words)), "{said}");
    }
}

/// Calls beside a capture of each mode, and on its stream.
fn beside_captures(gpu: usize) -> Vec<Call> {
    let (s, stream) = (1, Some(1));
    let of_mode = |mode: u8| {
        vec![
            make(0, gpu),
            Call::UsedOn { t: 0, s },
            does(gpu, ClientCall::Capture { mode }),
            Call::Record { e: 1, s },
            Call::Ask { s },
            Call::SyncStream { s },
            Call::SyncDevice { device: gpu },
            fill(0, stream),
            to_host(1, 0, s),
            Call::Export {
                x: 0,
                of: 0,
                stream,
            },
            Call::Write { t: 0, seed: 9 },
            Call::Read { t: 0 },
            make(2, gpu),
            Call::Trim {
                device: gpu,
                keep: 0,
            },
            Call::DropTensor { t: 0 },
            does(gpu, ClientCall::EndCapture),
            Call::Record { e: 1, s },
            take(gpu, 3, 2, false),
            Call::Read { t: 3 },
        ]
    };
    let begun = vec![come(gpu, true), does(gpu, ClientCall::Wrap { s })];
    begun.into_iter().chain((0..3).flat_map(of_mode)).collect()
}

#[test]
fn a_capture_goes_on_beside_calls_and_refuses_those_on_its_stream() {
    is_right(&on_each(beside_captures), Ending::Return);
}

#[test]
fn a_capture_that_a_call_ends_is_found() {
    let calls = [
        come(1, true),
        does(1, ClientCall::Capture { mode: 0 }),
        does(1, ClientCall::BreakCapture),
    ];
    is_found(&calls, &["Answer: a client's capture: 901"]);
}

#[test]
fn work_that_joins_a_capture_is_found() {
    let calls = [
        come(2, false),
        does(2, ClientCall::Capture { mode: 2 }),
        does(2, ClientCall::JoinCapture),
    ];
    is_found(&calls, &["Answer: the captured graph has 2 nodes"]);
}

/// The memory was leaked, as a captured stream cannot free it.
#[test]
fn memory_whose_last_work_is_on_a_stream_that_is_captured_by_now_is_given_back() {
    let s = 1;
    let calls = on_each(|gpu| {
        vec![
            come(gpu, true),
            does(gpu, ClientCall::Wrap { s }),
            make(0, gpu),
            fill(0, Some(s)),
            does(gpu, ClientCall::Capture { mode: 2 }),
            Call::DropTensor { t: 0 },
        ]
    });
    is_right(&calls, Ending::Return);
}

/// Memory of a client that is read by work on a held stream.
fn reading((c, gpu): (usize, usize), own: bool, pool: bool) -> Vec<Call> {
    let (s, known) = (2, true);
    let coming = ClientCall::Come {
        device: gpu,
        own,
        blocking: false,
        known,
    };
    let stream = Call::Stream { s, device: gpu };
    vec![
        does(c, coming),
        stream,
        lend(c, 0, pool),
        hold(s),
        to_host(1, 0, s),
    ]
}

#[test]
fn memory_that_a_client_lends_lives_until_pending_work_has_read_it() {
    let dropped = [Call::DropTensor { t: 0 }, Call::Read { t: 1 }];
    let kinds = [(true, false), (true, true), (false, true)];
    let kinds = kinds.into_iter().enumerate();
    let calls = on_each(|gpu| {
        let one = |(number, (own, pool)): (usize, (bool, bool))| {
            let read = reading((10 * gpu + number, gpu), own, pool);
            read.into_iter().chain(dropped.clone())
        };
        kinds.clone().flat_map(one).collect()
    });
    is_right(&calls, Ending::Return);
}

#[test]
fn elements_of_a_client_are_filled_and_copied_wherever_they_begin() {
    let offsets = [(1, 0), (0, 2), (3, 5)].map(|(pointer, dlpack)| Offset { pointer, dlpack });
    let calls = on_each(|gpu| {
        let (s, known) = (2, true);
        let coming = ClientCall::Come {
            device: gpu,
            own: false,
            blocking: false,
            known,
        };
        let used = |offset| {
            let lending = ClientCall::Lend {
                t: 0,
                element: Element::Four,
                shape: vec![5, 7],
                seed: 8,
                pool: false,
                offset,
            };
            let taking = ClientCall::Take {
                t: 3,
                of: 0,
                pool: true,
                waits: true,
                offset,
            };
            let copy = |t, of| Call::CopyFrom {
                t,
                of,
                stream: Some(s),
            };
            let read = |t| Call::Read { t };
            vec![
                does(gpu, lending),
                read(0),
                fill(0, None),
                read(0),
                fill(0, Some(s)),
                to_host(1, 0, s),
                read(1),
                Call::Write { t: 0, seed: 9 },
                copy(1, 0),
                fill(1, None),
                copy(0, 1),
                does(gpu, taking),
                read(3),
            ]
        };
        let first = [does(gpu, coming), Call::Stream { s, device: gpu }];
        first
            .into_iter()
            .chain(offsets.into_iter().flat_map(used))
            .collect()
    });
    is_right(&calls, Ending::Return);
}

#[test]
fn memory_of_a_client_that_is_released_too_early_is_found() {
    for (gpu, pool) in [(1, true), (2, false)] {
        let spoilt = [does(0, ClientCall::FreeEarly { t: 0 }), Call::Read { t: 1 }];
        let calls = [&reading((0, gpu), true, pool)[..], &spoilt].concat();
        is_found(&calls, &["Report: Race", "Report: FreeInUse", "WrongByte"]);
    }
}

#[test]
fn a_client_reads_what_is_written_on_another_stream() {
    let s = 2;
    let calls = on_each(|gpu| {
        let read = |waits: bool| {
            vec![
                Call::Stream { s, device: gpu },
                make(0, gpu),
                hold(s),
                fill(0, Some(s)),
                take(gpu, 1, 0, waits),
                fill(0, Some(s)),
                Call::DropTensor { t: 0 },
                Call::Read { t: 1 },
            ]
        };
        [vec![come(gpu, true)], read(true), read(false)].concat()
    });
    is_right(&calls, Ending::Return);
}

#[test]
fn a_current_context_stays_current_across_calls() {
    let calls = on_each(|gpu| {
        vec![
            come(gpu, true),
            does(gpu, ClientCall::Enter),
            make(0, 3),
            make(1, gpu),
            Call::Read { t: 1 },
            lend(gpu, 2, false),
            Call::Read { t: 2 },
            does(gpu, ClientCall::Leave),
            Call::Read { t: 0 },
        ]
    });
    is_right(&calls, Ending::Return);
}

#[test]
fn a_context_that_a_client_leaves_current_is_found() {
    let entered_silently = [come(1, true), does(1, ClientCall::EnterSilently)];
    is_found(
        &entered_silently,
        &["the call left another context or device current"],
    );
}

#[test]
fn the_process_exits_and_forks_while_a_client_captures_and_its_context_is_current() {
    let s = 1;
    let calls = on_each(|gpu| {
        vec![
            come(gpu, true),
            does(gpu, ClientCall::Wrap { s }),
            lend(gpu, gpu, true),
            does(gpu, ClientCall::Enter),
            does(gpu, ClientCall::Capture { mode: 0 }),
            fill(gpu, Some(s)),
            Call::Read { t: gpu },
        ]
    });
    for ending in [Ending::Exit(12), Ending::Fork(12)] {
        is_right(&calls, ending);
    }
}

#[test]
fn a_client_goes_with_its_context_after_the_tensors_that_were_kept_for_a_fork() {
    let (gpu, s, t) = (GPUS[0], 1, 2);
    let calls = [
        come(gpu, true),
        does(gpu, ClientCall::Wrap { s }),
        make(t, gpu),
        hold(s),
        to_host(t + 1, t, s),
        // Nobody asks whether the copy is over.
        Call::DropTensor { t: t + 1 },
        Call::DropTensor { t },
        Call::DropStream { s },
    ];
    is_right(&calls, Ending::Fork(5));
}
