//! Programs over the plugins of CUDA and ROCm and simulated drivers: a sample of them, and what was found there.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

mod replays;

use crossdock_campaign::program::{Call, Case, Element, Ending, Engine, Language, Offset, Op, Way};

use replays::said;

#[test]
fn random_programs_over_a_simulated_driver_do_what_the_model_says() {
    let chosen = ["--kind", "b", "--seeds", "4", "--faults", "VENDOR"];
    let Some((code, said)) = said(&[&chosen[..], &["--devices", "cpu,cuda:0,cuda:1"]].concat())
    else {
        return;
    };
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("K=1: 4, K=2: 4, K=8: 4"), "{said}");
}

/// Devices of two vendors, and the plugin whose engine is its own, in one process.
#[test]
fn random_programs_over_two_vendors_do_what_the_model_says() {
    let chosen = ["--kind", "b", "--seeds", "3", "--faults", "none"];
    let devices = "cpu,asynchronous,cuda:1,rocm:0,rocm:1";
    let Some((code, said)) = said(&[&chosen[..], &["--devices", devices]].concat()) else {
        return;
    };
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&devices.replace(',', ", ")), "{said}");
    assert!(said.contains("K=1: 3, K=2: 3, K=8: 3"), "{said}");
}

/// A thread waits for a stream in the place of a host function that was refused, while the caller's stream stands
/// still until that thread has answered.
#[test]
fn a_refused_host_function_holds_up_no_stream_on_few_hardware_queues() {
    let [from, stream, device] = [0, 1, 2];
    let calls = [
        Call::Stream { s: stream, device },
        Call::Foreign {
            t: from,
            element: Element::Eight,
            shape: vec![2, 1],
            seed: 249,
            offset: Offset::default(),
        },
        Call::To {
            t: 1,
            of: from,
            device: 0,
            way: Way::Staged,
            stream: Some(stream),
        },
    ];
    let folder = tempfile::tempdir().unwrap();
    for queues in [1, 2] {
        let op = |call: &Call| Op {
            thread: 0,
            runtime: 0,
            call: call.clone(),
        };
        let case = Case {
            name: "refused".to_owned(),
            language: Language::Rust,
            devices: ["cpu", "cuda:0", "cuda:1"].map(str::to_owned).to_vec(),
            fresh: true,
            runtimes: 1,
            staging: 1 << 23,
            fault: Some("stream_host_call:2=STALE".to_owned()),
            ending: Ending::Return,
            engine: Engine {
                policy: "threads".to_owned(),
                seed: 13,
                queues,
                fault: None,
            },
            programs: vec![calls.iter().map(op).collect()],
        };
        let file = folder.path().join("case.json");
        std::fs::write(&file, serde_json::to_string(&case).unwrap()).unwrap();
        let Some((code, said)) = said(&["--replay", file.to_str().unwrap()]) else {
            return;
        };
        assert_eq!(code, Some(0), "{queues} queues: {said}");
        assert!(said.contains("nothing was found"), "{said}");
    }
}

/// What the campaign says of calls on two devices of HIP's and one of CUDA's, and what fails there; none where it is
/// not built.
fn said_of(calls: &[Call], fault: Option<&str>) -> Option<(Option<i32>, String)> {
    let make = Call::Make {
        t: 0,
        device: 1,
        element: Element::One,
        shape: vec![3],
        seed: 5,
    };
    let calls = [&[make], calls].concat();
    let devices = ["cpu", "rocm:0", "rocm:1", "cuda:0"];
    replays::said_of(&devices, &calls, fault, Ending::Return)
}

/// Crossdock works without a stream in a context of others, and on the device once that is gone.
#[test]
fn a_context_of_others_ends_before_the_first_work_of_the_device() {
    let only = "f cuda:0: Made beside Default, Event, seeded";
    let chosen = ["--kind", "f", "--devices", "cpu,cuda:0", "--only", only];
    let Some((code, said)) = said(&chosen) else {
        return;
    };
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("a foreign context that ended: 1"), "{said}");
}

#[test]
fn a_thread_that_has_another_device_after_a_call_is_found() {
    let Some((code, said)) = said_of(&[Call::Stray], None) else {
        return;
    };
    assert_eq!(code, Some(1), "{said}");
    let words = "Answer: the call left another context or device current on its thread";
    assert!(said.contains(words), "{said}");
}

#[test]
fn a_stream_that_is_left_in_the_driver_is_found() {
    let Some((code, said)) = said_of(&[Call::Litter], None) else {
        return;
    };
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("Left: Leak: hipStreamCreate: a stream was left"),
        "{said}"
    );
}

/// Memory that was not taken back is given back at the close, so that it explains nothing else that is left.
#[test]
fn a_refused_return_of_memory_explains_nothing_that_is_left() {
    let (t, s, e, fails) = (1, 0, 0, false);
    let freed = [
        Call::Stream { s, device: 1 },
        Call::Make {
            t,
            device: 1,
            element: Element::Four,
            shape: vec![300],
            seed: 6,
        },
        Call::Hold { e, s, fails },
        Call::Fill {
            t,
            seed: 7,
            stream: Some(s),
        },
        Call::DropTensor { t },
    ];
    let fault = Some("hipFreeAsync@1=1");
    let Some((code, said)) = said_of(&freed, fault) else {
        return;
    };
    assert_eq!(code, Some(0), "{said}");
    let littered = [&freed[..], &[Call::Litter]].concat();
    let Some((code, said)) = said_of(&littered, fault) else {
        return;
    };
    assert_eq!(code, Some(1), "{said}");
    let words = "Left: Leak: hipStreamCreate: a stream was left";
    assert!(said.contains(words), "{said}");
}

/// A driver's failure is an answer, and after it nothing is left; a word that the driver does not know is a mistake.
#[test]
fn a_function_of_the_driver_fails_once() {
    let read = [Call::Read { t: 0 }];
    let Some((code, well)) = said_of(&read, Some("hipMemcpy*@2=999")) else {
        return;
    };
    assert_eq!(code, Some(0), "{well}");
    let Some((code, lost)) = said_of(&read, Some("hipMemcpy*@1=719!")) else {
        return;
    };
    assert_eq!(code, Some(0), "{lost}");
    let Some((code, said)) = said_of(&read, Some("hipMemcpy*=")) else {
        return;
    };
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("lets `hipMemcpy*=` fail"), "{said}");
}

#[test]
fn a_vendor_need_not_lock_what_another_one_pinned() {
    let pinned = Call::To {
        t: 1,
        of: 0,
        device: 2,
        way: Way::Own,
        stream: None,
    };
    let (r, of, device) = (0, 1, 3);
    let Some((code, said)) = said_of(&[pinned, Call::Register { r, of, device }], None) else {
        return;
    };
    assert_eq!(code, Some(0), "{said}");
}
