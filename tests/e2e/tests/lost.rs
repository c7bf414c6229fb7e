//! A device that is lost: every later call says so and which call noticed, and the other devices go on.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use std::sync::atomic::Ordering;
use std::time::Duration;

use crossdock::{Device, Error, RouteChoice, RouteKind, Stream, Tensor, counted_leaks};
use crossdock_e2e::lending::{ALL, filled, layout, lent, status};
use crossdock_e2e::simulated::Simulated;
use crossdock_e2e::{with_environment, with_faults};
use crossdock_sdk::abi::Status;

const LIMIT: Option<Duration> = Some(Simulated::LIMIT);
const STAGED: RouteChoice = RouteChoice::Only(RouteKind::Staged);
const DIRECT: RouteChoice = RouteChoice::Only(RouteKind::Direct);

/// How the second device is lost, and the call that notices.
const LOSSES: [(&str, &str); 5] = [
    ("call:1:copy@2", "copy"),
    ("run:1:copy@2", "copy"),
    ("call:1:allocate@2", "allocate"),
    ("call:1:stream_create@1", "stream_create"),
    ("call:1:fill@1", "fill"),
];

/// What a program does with a device, each by itself.
fn calls(lost: &Device, other: &Device, own: &Tensor) -> Vec<(&'static str, Result<(), Error>)> {
    let there = filled(other, 4);
    let stream = Stream::new(other).unwrap();
    let mut calls = vec![
        ("read", own.read().map(drop)),
        ("write", own.write(&[1; ALL])),
        ("fill", own.fill(&[3], None)),
        ("allocate", Tensor::empty(lost, &layout()).map(drop)),
        ("stream", Stream::new(lost).map(drop)),
    ];
    for (name, choice) in [("direct", DIRECT), ("staged", STAGED)] {
        calls.push((name, there.to(lost, choice).map(drop)));
        calls.push((name, own.to(other, choice).map(drop)));
        calls.push((name, there.to_on(lost, choice, &stream).map(drop)));
        calls.push((name, own.to_on(other, choice, &stream).map(drop)));
    }
    calls
}

#[test]
fn each_call_on_a_lost_device_names_the_one_that_noticed_and_others_go_on() {
    let name = "each_call_on_a_lost_device_names_the_one_that_noticed_and_others_go_on";
    for (loss, noticed) in LOSSES {
        if !with_environment(name, &[("LOST", loss), ("NOTICED_BY", noticed)]) {
            continue;
        }
        let [loss, noticed] = ["LOST", "NOTICED_BY"].map(|name| std::env::var(name).unwrap());
        let rig = Simulated::new();
        let [cpu, one, two] = ["cpu:0", "vpi:0", "vpi:1"].map(|name| rig.device(name));
        let own = filled(&two, 7);
        rig.control.inject(&format!("{loss}=DEVICE_LOST!")).unwrap();
        let (first, _) = calls(&two, &one, &own)
            .into_iter()
            .find_map(|(call, answer)| {
                let lost = status(&answer) == Some(Status::DEVICE_LOST);
                lost.then_some((call, answer))
            })
            .unwrap();
        for (call, answer) in calls(&two, &one, &own) {
            let what = format!("{call} after {first}");
            assert_eq!(status(&answer), Some(Status::DEVICE_LOST), "{what}");
            let why = answer.unwrap_err().why();
            assert!(why.contains("`vpi:1` was lost; "), "{what}: {why}");
            assert!(why.contains(&noticed), "{what}: {why}");
        }
        // The others go on, between each other too, and nobody waits for ever.
        let there = filled(&cpu, 9);
        let stream = Stream::new(&one).unwrap();
        for choice in [DIRECT, STAGED] {
            let (moved, _) = there.to_on(&one, choice, &stream).unwrap();
            let (back, _) = moved.to(&cpu, choice).unwrap();
            assert!(back.read().unwrap().iter().all(|byte| *byte == 9));
        }
        stream.synchronize(LIMIT).unwrap();
        drop((own, there, stream));
        rig.runtime.wait_for_releases(LIMIT).unwrap();
        return;
    }
}

#[test]
fn a_stream_of_another_device_that_waited_for_a_lost_one_is_not_lost() {
    let name = "a_stream_of_another_device_that_waited_for_a_lost_one_is_not_lost";
    if with_environment(
        name,
        &[("CROSSDOCK_ASYNCHRONOUS", "fault=run:1:fill@1=DEVICE_LOST!")],
    ) {
        let rig = Simulated::new();
        let [cpu, one, two] = ["cpu:0", "vpi:0", "vpi:1"].map(|name| rig.device(name));
        let (failing, [first, second]) = (
            Stream::new(&two).unwrap(),
            [&cpu, &one].map(|device| Stream::new(device).unwrap()),
        );
        let own = filled(&two, 7);
        rig.control.inject("run:1:fill@1=DEVICE_LOST!").unwrap();
        own.fill(&[1], Some(&failing)).unwrap();
        let end = failing.record().unwrap();
        for stream in [&first, &second] {
            let waited = stream.wait(&end).and_then(|_| stream.synchronize(LIMIT));
            assert_eq!(status(&waited), Some(Status::DEVICE_LOST));
        }
        for device in [&cpu, &one] {
            assert!(
                filled(device, 5)
                    .read()
                    .unwrap()
                    .iter()
                    .all(|byte| *byte == 5)
            );
        }
    }
}

#[test]
fn memory_of_a_copy_that_a_device_was_lost_in_is_a_counted_leak() {
    let name = "memory_of_a_copy_that_a_device_was_lost_in_is_a_counted_leak";
    // The end of the work is recorded in two tries.
    let faults = ["copy:1", "event_record:1", "event_record:2"];
    let faults = faults.map(|call| format!("asynchronous.{call}=DEVICE_LOST"));
    if !with_faults(name, &faults.join(",")) {
        return;
    }
    let rig = Simulated::new();
    let (source, is_back) = lent(&rig.runtime, None);
    let device = rig.device("vpi:0");
    let stream = Stream::new(&device).unwrap();
    let copied = source.to_on(&device, DIRECT, &stream);
    assert_eq!(status(&copied), Some(Status::DEVICE_LOST));
    drop(source);
    rig.runtime.wait_for_releases(LIMIT).unwrap();
    assert!(
        !is_back.load(Ordering::SeqCst),
        "a part of the copy may be running"
    );
    assert!(counted_leaks() > 0);
}
