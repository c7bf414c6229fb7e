//! Host memory between two vendors: chunks that both have pinned, and memory that one has pinned for itself.

use crossdock::{Event, RouteChoice, RouteKind, Stream, Target, Tensor};
use crossdock_sdk::abi::{MemoryKind, Status};

use super::{BYTES, Both, LIMIT, Simulator, both_are_built, content, layout};
use crate::over;

const STAGED: RouteChoice = RouteChoice::Only(RouteKind::Staged);
const OPTIONS: [&str; 4] = ["--cuda", "1", "--rocm", "1"];
const REGISTERS: [&str; 2] = ["cuMemHostRegister_v2", "hipHostRegister"];

#[test]
fn chunks_are_pinned_once_by_each_vendor_and_kept() {
    let name = "vendors::chunks::chunks_are_pinned_once_by_each_vendor_and_kept";
    if !both_are_built() || !over(name, &[&OPTIONS]) {
        return;
    }
    let (both, simulator) = (Both::open(), Simulator::find());
    let wanted = content(BYTES, 1);
    let [mut chunks, mut calls] = [0; 2];
    for round in 0..3 {
        for [from, to] in both.directions() {
            let tensor = Tensor::from_bytes(from, &layout(BYTES), &wanted).unwrap();
            let stream = Stream::new(to).unwrap();
            simulator.take_calls();
            let (moved, _) = tensor.to(to, STAGED).unwrap();
            let called = simulator.take_calls();
            let (later, _) = tensor.to_on(to, STAGED, &stream).unwrap();
            assert!(moved.read().unwrap() == wanted && later.read().unwrap() == wanted);
            both.runtime.wait_for_releases(LIMIT).unwrap();
            let called_later = simulator.take_calls();
            let made = REGISTERS.map(|name| {
                let made = [&called, &called_later].map(|called| called.get(name).copied());
                made.into_iter().flatten().sum::<u64>()
            });
            assert_eq!(made[0], made[1]);
            calls += made[0];
            // The drivers copy between chunks and devices themselves: no plugin copies on the host before.
            let bounced = [
                "cuMemHostAlloc",
                "hipHostMalloc",
                "cuLaunchHostFunc",
                "hipLaunchHostFunc",
            ];
            assert!(
                bounced.iter().all(|name| !called.contains_key(*name)),
                "{round}: {called:?}"
            );
        }
        let [cuda, rocm] = REGISTERS.map(|name| simulator.registered(name));
        assert_eq!(cuda, rocm, "both have the same memory");
        assert!((1..=8).contains(&cuda.len()) && cuda.values().all(|bytes| *bytes == 4096));
        chunks = chunks.max(cuda.len() as u64);
    }
    assert_eq!(calls, chunks, "each was registered once");
    // A device that has no memory left to give gives the chunks back.
    both.rocm.trim(0).unwrap();
    assert!(
        REGISTERS
            .iter()
            .all(|name| simulator.registered(name).is_empty())
    );
}

#[test]
fn pinned_memory_of_one_vendor_goes_straight_to_the_other() {
    let name = "vendors::chunks::pinned_memory_of_one_vendor_goes_straight_to_the_other";
    let policies = ["lazy", "seeded", "threads"];
    let runs = policies.map(|policy| ["--cuda", "1", "--rocm", "1", "--policy", policy]);
    let runs = runs.each_ref().map(<[&str; 6]>::as_slice);
    if !both_are_built() || !over(name, &runs) {
        return;
    }
    let (both, simulator) = (Both::open(), Simulator::find());
    for ([from, to], copier) in both.directions().into_iter().zip(["rocm", "cuda"]) {
        let wanted = content(BYTES, 2);
        let device = Tensor::from_bytes(from, &layout(BYTES), &wanted).unwrap();
        let pinned = Target::new(from, MemoryKind::PINNED);
        let (pinned, _) = device.move_to(&pinned, RouteChoice::Copy, None).unwrap();
        let back = Tensor::empty_of(from, &layout(BYTES), MemoryKind::PINNED).unwrap();
        let streams = [
            None,
            Some(Stream::new(from).unwrap()),
            Some(Stream::new(to).unwrap()),
        ];
        for stream in &streams {
            let stream = stream.as_ref();
            simulator.take_calls();
            let target = Target::new(to, MemoryKind::DEVICE);
            let (there, route) = pinned.move_to(&target, RouteChoice::Best, stream).unwrap();
            assert_eq!(
                (route.kind, route.bytes_copied),
                (RouteKind::Direct, BYTES as u64),
                "{route}"
            );
            assert!(
                route
                    .to_string()
                    .contains(&format!("`{copier}` copies by itself")),
                "{route}"
            );
            back.fill(&[0], None).unwrap();
            back.copy_from(&there, stream).unwrap();
            assert!(back.read().unwrap() == wanted);
            let called = simulator.take_calls();
            assert!(
                REGISTERS.iter().all(|name| !called.contains_key(*name)),
                "{called:?}"
            );
        }
    }
}

#[test]
fn an_explanation_says_who_waits_between_two_vendors() {
    let name = "vendors::chunks::an_explanation_says_who_waits_between_two_vendors";
    // A driver whose streams do not wait for words, of either vendor.
    let lacking = [
        "",
        "missing=cuStreamWaitValue32_v2",
        "missing=hipStreamWaitValue32",
    ];
    let runs = lacking.map(|word| ["--cuda", "1", "--rocm", "1", "--set", word]);
    let runs = runs.each_ref().map(<[&str; 6]>::as_slice);
    if !both_are_built() || !over(name, &runs) {
        return;
    }
    let both = Both::open();
    let words = std::env::var("CROSSDOCK_SIM").unwrap();
    let lacks = |vendor: &str| words.contains(&format!("missing={vendor}"));
    let lacking = [(&both.cuda, "cu", "cuda"), (&both.rocm, "hip", "rocm")];
    for [from, to] in both.directions() {
        let tensor = Tensor::from_bytes(from, &layout(BYTES), &content(BYTES, 3)).unwrap();
        for stream in [from, to].map(|device| Stream::new(device).unwrap()) {
            let told = tensor.explain_on(to, STAGED, &stream).unwrap().to_string();
            let waits = "the caller waits for the work on the stream, and for the copy: ";
            let follows = "all parts of the copy are submitted to streams before the call returns";
            let is_lacking = !words.is_empty() && words.contains("missing=");
            assert_eq!(told.contains(waits), is_lacking, "{told}");
            assert_eq!(told.contains(follows), !is_lacking, "{told}");
            for (device, vendor, plugin) in lacking {
                let other = if device == from { to } else { from };
                let waits = format!(
                    "where a stream of `{device}` comes after one of `{other}`, the caller waits: \
                     `{plugin}` has no host events"
                );
                assert_eq!(told.contains(&waits), lacks(vendor), "{told}");
            }
            // Whoever waits, what is pending comes first.
            let writer = Stream::new(from).unwrap();
            let fresh = content(BYTES, 4);
            let first = Tensor::from_bytes(from, &layout(BYTES), &fresh).unwrap();
            let gate = Event::host(from).ok();
            if let Some(gate) = &gate {
                writer.wait(gate).unwrap();
            }
            tensor.copy_from(&first, Some(&writer)).unwrap();
            let moved = std::thread::scope(|scope| {
                let moved = scope.spawn(|| tensor.to_on(to, STAGED, &stream).unwrap().0);
                if let Some(gate) = &gate {
                    gate.complete(Status::OK).unwrap();
                }
                moved.join().unwrap()
            });
            assert!(moved.read().unwrap() == fresh);
            stream.synchronize(LIMIT).unwrap();
        }
    }
}
