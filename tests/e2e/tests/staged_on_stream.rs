//! Copies through host memory in the order of a stream: all of a copy is submitted before the call returns, however few
//! hardware queues the streams share.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use std::sync::atomic::Ordering;
use std::time::Duration;

use crossdock::{Device, Event, RouteChoice, RouteKind, Stream, Tensor, counted_leaks, explain_on};
use crossdock_e2e::lending::{lent, status};
use crossdock_e2e::simulated::Simulated;
use crossdock_e2e::{traced, with_environment, with_faults};
use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::{AxisSlice, Dtype, Layout};

const STAGED: RouteChoice = RouteChoice::Only(RouteKind::Staged);
const LIMIT: Option<Duration> = Some(Simulated::LIMIT);
const MOMENT: Option<Duration> = Some(Duration::from_millis(30));

/// Bytes of a chunk.
const CHUNK: i64 = 4096;
/// More bytes than the chunks of one copy hold, and not a whole number of parts.
const LONG: i64 = 20 * CHUNK + 7;

/// Copies that a plugin refuses: both of the first part, later ones, and one whose chunk is used again.
const PARTS: [&str; 6] = ["1", "2", "9", "16", "17", "30"];

fn rig() -> Simulated {
    Simulated::with_chunks(CHUNK.unsigned_abs())
}

fn bytes(count: i64, seed: u32) -> Vec<u8> {
    let all = 0..u32::try_from(count).unwrap();
    let byte = |at: u32| at.wrapping_add(seed).wrapping_mul(2_654_435_761) >> 24;
    all.map(|at| byte(at).to_le_bytes()[0]).collect()
}

fn layout(count: i64) -> Layout {
    Layout::compact(Dtype::UINT8, &[count]).unwrap()
}

fn filled(device: &Device, count: i64, seed: u32) -> Tensor {
    Tensor::from_bytes(device, &layout(count), &bytes(count, seed)).unwrap()
}

const fn part(start: i64, step: i64, len: i64) -> AxisSlice {
    AxisSlice { start, step, len }
}

/// A stream of the device behind an event that the host completes.
fn held(device: &Device) -> (Stream, Event) {
    let (stream, gate) = (Stream::new(device).unwrap(), Event::host(device).unwrap());
    stream.wait(&gate).unwrap();
    (stream, gate)
}

fn devices(rig: &Simulated) -> [Device; 3] {
    ["cpu:0", "vpi:0", "vpi:1"].map(|name| rig.device(name))
}

/// Each source, destination and device of a stream.
fn each_way(rig: &Simulated, mut look: impl FnMut(&Device, &Device, &Device)) {
    let devices = devices(rig);
    for from in &devices {
        for to in devices.iter().filter(|to| *to != from) {
            devices.iter().for_each(|of| look(from, to, of));
        }
    }
}

#[test]
fn a_staged_copy_on_a_stream_that_is_held_returns_and_comes_between_its_other_work() {
    let rig = rig();
    each_way(&rig, |from, to, of| {
        let (source, (stream, gate)) = (filled(from, LONG, 0), held(of));
        source.fill(&[9], Some(&stream)).unwrap();
        let (moved, route) = source.to_on(to, STAGED, &stream).unwrap();
        let what = format!("{from} to {to} on a stream of {of}: {route}");
        assert_eq!(route.kind, RouteKind::Staged, "{what}");
        assert!(!what.contains("the caller waits for"), "{what}");
        source.fill(&[5], Some(&stream)).unwrap();
        let first = moved.slice(&[part(0, 1, 1)]).unwrap();
        first.fill(&[1], Some(&stream)).unwrap();
        assert!(
            !moved.ready().unwrap().unwrap().is_done().unwrap(),
            "{what}"
        );
        gate.complete(Status::OK).unwrap();
        let content = moved.read().unwrap();
        assert!(
            content[0] == 1 && content[1..].iter().all(|byte| *byte == 9),
            "{what}"
        );
        stream.synchronize(LIMIT).unwrap();
        assert!(
            source.read().unwrap().iter().all(|byte| *byte == 5),
            "{what}"
        );
    });
    rig.assert_clean();
    assert_eq!(counted_leaks(), 0);
}

#[test]
fn what_was_staged_arrives_whole_whatever_its_length_and_layout() {
    let rig = rig();
    each_way(&rig, |from, to, of| {
        let stream = Stream::new(of).unwrap();
        for length in [0, 1, 255, CHUNK - 1, CHUNK, 2 * CHUNK + 1, 16 * CHUNK + 3] {
            let source = filled(from, length, 3);
            let (moved, _) = source.to_on(to, STAGED, &stream).unwrap();
            assert!(
                moved.read().unwrap() == bytes(length, 3),
                "{length} bytes, {from} to {to}"
            );
        }
        let whole = filled(from, 3 * CHUNK, 7);
        let strided = whole.slice(&[part(1, 3, CHUNK - 1)]).unwrap();
        let (moved, _) = strided.to_on(to, STAGED, &stream).unwrap();
        assert!(
            moved.read().unwrap() == strided.read().unwrap(),
            "{from} to {to}"
        );
    });
    rig.assert_clean();
}

#[test]
fn memory_that_is_dropped_while_its_staged_copy_waits_is_given_back_behind_it() {
    let rig = rig();
    let (source, is_back) = lent(&rig.runtime, None);
    let expected = source.read().unwrap();
    let (stream, gate) = held(&rig.device("vpi:0"));
    let (moved, _) = source.to_on(&rig.device("vpi:1"), STAGED, &stream).unwrap();
    let (lost, _) = source.to_on(&rig.device("vpi:1"), STAGED, &stream).unwrap();
    drop((source, lost));
    let late = rig.runtime.wait_for_releases(MOMENT);
    assert_eq!(status(&late), Some(Status::TIMEOUT));
    assert!(!is_back.load(Ordering::SeqCst));
    gate.complete(Status::OK).unwrap();
    assert_eq!(moved.read().unwrap(), expected);
    rig.runtime.wait_for_releases(LIMIT).unwrap();
    assert!(is_back.load(Ordering::SeqCst));
    drop((moved, stream));
    rig.assert_clean();
    assert_eq!(counted_leaks(), 0);
}

#[test]
fn a_wait_for_either_device_waits_for_a_staged_copy_between_them() {
    let rig = rig();
    let [cpu, one, two] = devices(&rig);
    let (stream, gate) = held(&cpu);
    let source = filled(&one, LONG, 1);
    let (moved, _) = source.to_on(&two, STAGED, &stream).unwrap();
    for device in [&one, &two, &cpu] {
        let waited = device.synchronize(MOMENT);
        assert_eq!(status(&waited), Some(Status::TIMEOUT), "{device}");
    }
    gate.complete(Status::OK).unwrap();
    for device in [&one, &two, &cpu] {
        device.synchronize(LIMIT).unwrap();
    }
    assert!(moved.read().unwrap() == bytes(LONG, 1));
    rig.assert_clean();
}

#[test]
fn copies_both_ways_at_once_stand_still_for_nobody() {
    let rig = rig();
    let [_, one, two] = devices(&rig);
    let streams = [&one, &two, &one, &two].map(|device| Stream::new(device).unwrap());
    let mut tensors = [filled(&one, LONG, 1), filled(&two, LONG, 2)];
    for round in 0..6 {
        let [first, second] = &tensors;
        let (there, _) = first.to_on(&two, STAGED, &streams[round % 4]).unwrap();
        let (back, _) = second
            .to_on(&one, STAGED, &streams[(round + 1) % 4])
            .unwrap();
        tensors = [back, there];
    }
    assert!(tensors[0].read().unwrap() == bytes(LONG, 1));
    assert!(tensors[1].read().unwrap() == bytes(LONG, 2));
    rig.assert_clean();
}

/// Each device's stream is held while copies of every direction are put on it: none of the calls waits, and all copies
/// are over once the streams go on.
#[test]
fn copies_on_held_streams_return_over_any_number_of_queues() {
    let name = "copies_on_held_streams_return_over_any_number_of_queues";
    let policies = ["threads", "lazy", "seeded;seed=3"];
    let all = ["1", "2", "8"]
        .into_iter()
        .flat_map(|queues| policies.map(|policy| format!("queues={queues};policy={policy}")));
    for setting in all {
        if !with_environment(name, &[("CROSSDOCK_ASYNCHRONOUS", &setting)]) {
            continue;
        }
        let rig = rig();
        let all = devices(&rig);
        let sources = all.each_ref().map(|device| filled(device, LONG, 4));
        let held = all.each_ref().map(held);
        let copy_all = |(stream, _): &(Stream, Event)| {
            let mut moved = Vec::new();
            for (source, from) in sources.iter().zip(&all) {
                for to in all.iter().filter(|to| *to != from) {
                    let (copy, route) = source.to_on(to, STAGED, stream).unwrap();
                    assert!(!route.to_string().contains("the caller waits"), "{route}");
                    moved.push(copy);
                }
            }
            moved
        };
        let moved: Vec<Tensor> = std::thread::scope(|scope| {
            let threads = held.each_ref().map(|held| scope.spawn(|| copy_all(held)));
            let moved = threads.map(|thread| thread.join().unwrap());
            moved.into_iter().flatten().collect()
        });
        for (_, gate) in &held {
            gate.complete(Status::OK).unwrap();
        }
        for copy in moved {
            assert!(copy.read().unwrap() == bytes(LONG, 4), "{setting}");
        }
        drop((sources, held));
        rig.runtime.wait_for_releases(LIMIT).unwrap();
        rig.assert_clean();
        assert_eq!(counted_leaks(), 0);
        return;
    }
}

/// The chunks belong to the stream that uses them: many copies on one stream need no more of them than one copy.
#[test]
fn copies_on_one_held_stream_share_their_chunks_and_no_other_stream_gets_them() {
    let rig = rig();
    let [_, one, two] = devices(&rig);
    let folder = tempfile::tempdir().unwrap();
    let sources = [filled(&one, LONG, 1), filled(&one, LONG, 2)];
    let (moved, hooks) = traced(folder.path(), || {
        let held = [held(&one), held(&one)];
        let copies = sources.iter().zip(&held).cycle().take(20);
        let moved: Vec<Tensor> = copies
            .map(|(source, (stream, _))| source.to_on(&two, STAGED, stream).unwrap().0)
            .collect();
        // In this order the second stream would wait for the first one's chunks.
        for (_, gate) in held.iter().rev() {
            gate.complete(Status::OK).unwrap();
            held[1].0.synchronize(LIMIT).unwrap();
        }
        moved
    });
    let locks = hooks.iter().filter(|hook| hook.ends_with("register_host"));
    assert_eq!(locks.count(), 16, "eight chunks a stream");
    for (copy, seed) in moved.into_iter().zip([1, 2].into_iter().cycle()) {
        assert!(copy.read().unwrap() == bytes(LONG, seed));
    }
    rig.runtime.wait_for_releases(LIMIT).unwrap();
    rig.assert_clean();
}

/// A copy with more parts than can be in flight makes its caller wait for the oldest ones.
#[test]
fn a_copy_with_more_parts_than_can_be_in_flight_waits_for_the_oldest() {
    const MIB: i64 = 1 << 20;
    // The longest part is 16 MiB here, of which 64 are in flight.
    let rig = rig();
    let [_, one, two] = devices(&rig);
    let (stream, long) = (Stream::new(&one).unwrap(), 1024 * MIB);
    let told = |bytes: i64| {
        let options = RouteChoice::Only(RouteKind::Staged);
        explain_on(&layout(bytes), &one, &two, options, &stream)
            .unwrap()
            .to_string()
    };
    assert!(
        told(long).contains("before the call returns"),
        "{}",
        told(long)
    );
    assert!(told(long).contains("at most 16384 KiB"), "{}", told(long));
    assert!(
        told(long + 1).contains("the caller waits for all but the last"),
        "{}",
        told(long + 1)
    );
}

/// What the copy did not submit was not begun, and what it did is waited for.
#[test]
fn a_part_that_is_refused_fails_the_call_and_nothing_else() {
    let name = "a_part_that_is_refused_fails_the_call_and_nothing_else";
    let vendor = PARTS.map(|part| (part, "VENDOR"));
    // Of the first part this is no failure.
    let unsupported = PARTS.map(|part| (part, "UNSUPPORTED"));
    let unsupported = unsupported.into_iter().skip(2);
    for (part, status) in vendor.into_iter().chain(unsupported) {
        if !with_faults(name, &format!("asynchronous.copy:{part}={status}")) {
            continue;
        }
        let rig = rig();
        let [_, one, two] = devices(&rig);
        let source = Tensor::empty(&one, &layout(LONG)).unwrap();
        source.fill(&[6], None).unwrap();
        let (stream, gate) = held(&one);
        assert!(source.to_on(&two, STAGED, &stream).is_err());
        // A part of it may be pending, so nothing is given back yet.
        drop(source);
        gate.complete(Status::OK).unwrap();
        stream.synchronize(LIMIT).unwrap();
        let source = filled(&one, LONG, 8);
        let (again, _) = source.to_on(&two, STAGED, &stream).unwrap();
        assert!(again.read().unwrap() == bytes(LONG, 8));
        drop((source, again, stream));
        rig.runtime.wait_for_releases(LIMIT).unwrap();
        rig.assert_clean();
        assert_eq!(counted_leaks(), 0);
        return;
    }
}

/// A plugin may have memory that its own streams cannot use.
#[test]
fn a_copy_whose_memory_no_stream_takes_is_made_without_one() {
    let name = "a_copy_whose_memory_no_stream_takes_is_made_without_one";
    for part in ["1", "2"] {
        if !with_faults(name, &format!("asynchronous.copy:{part}=UNSUPPORTED")) {
            continue;
        }
        let rig = rig();
        let [_, one, two] = devices(&rig);
        // Nothing else is copied before.
        let source = Tensor::empty(&one, &layout(LONG)).unwrap();
        source.fill(&[6], None).unwrap();
        let stream = Stream::new(&one).unwrap();
        let (moved, _) = source.to_on(&two, STAGED, &stream).unwrap();
        assert!(moved.read().unwrap().iter().all(|byte| *byte == 6));
        drop((source, moved, stream));
        rig.runtime.wait_for_releases(LIMIT).unwrap();
        rig.assert_clean();
        assert_eq!(counted_leaks(), 0);
        return;
    }
}

/// Two devices of one plugin may be of two drivers, whose streams cannot wait for each other: the host lets one wait,
/// whichever of the waits is refused.
#[test]
fn memory_that_a_staged_copy_has_yet_to_write_outlives_a_later_user_that_the_host_holds_up() {
    let name =
        "memory_that_a_staged_copy_has_yet_to_write_outlives_a_later_user_that_the_host_holds_up";
    for wait in 1..=8 {
        let faults = format!("asynchronous.stream_wait_event:{wait}=UNSUPPORTED");
        if !with_faults(name, &faults) {
            continue;
        }
        let rig = rig();
        let [cpu, one, two] = devices(&rig);
        let (source, copy) = (filled(&cpu, LONG, 4), filled(&one, LONG, 5));
        let ((first, gate), second) = (held(&cpu), Stream::new(&two).unwrap());
        source.written_on(&first).unwrap();
        let Ok((moved, _)) = source.to_on(&one, STAGED, &Stream::new(&one).unwrap()) else {
            return;
        };
        let copied = copy.copy_from(&moved, Some(&second));
        drop(moved);
        gate.complete(Status::OK).unwrap();
        if copied.is_ok() {
            assert!(copy.read().unwrap() == bytes(LONG, 4), "wait {wait}");
        }
        rig.runtime.wait_for_releases(LIMIT).unwrap();
        rig.assert_clean();
        return;
    }
}

#[test]
fn what_a_plugin_that_panicked_may_still_write_is_never_given_back() {
    let name = "what_a_plugin_that_panicked_may_still_write_is_never_given_back";
    for copy in ["1", "2", "9"] {
        if !with_faults(name, &format!("asynchronous.copy:{copy}=PANIC")) {
            continue;
        }
        let rig = rig();
        let (source, is_back) = lent(&rig.runtime, None);
        let [cpu, _, two] = devices(&rig);
        // The stream is of a plugin that goes on.
        let (stream, gate) = held(&cpu);
        let copied = (0..10).find_map(|_| source.to_on(&two, STAGED, &stream).err());
        assert_eq!(copied.and_then(|error| error.status()), Some(Status::PANIC));
        gate.complete(Status::OK).unwrap();
        let _ended = stream.synchronize(LIMIT);
        let before = counted_leaks();
        drop(source);
        rig.runtime.wait_for_releases(LIMIT).unwrap();
        assert!(!is_back.load(Ordering::SeqCst));
        assert!(counted_leaks() > before);
        return;
    }
}

#[test]
fn staged_copies_keep_their_order_under_every_policy() {
    let name = "staged_copies_keep_their_order_under_every_policy";
    for policy in [
        "threads",
        "lazy",
        "seeded;seed=1",
        "seeded;seed=2",
        "seeded;seed=3",
    ] {
        if !with_environment(
            name,
            &[("CROSSDOCK_ASYNCHRONOUS", &format!("policy={policy}"))],
        ) {
            continue;
        }
        let rig = rig();
        each_way(&rig, |from, to, of| {
            let (source, stream) = (filled(from, LONG, 0), Stream::new(of).unwrap());
            let mut moved = Vec::new();
            for value in 1..4 {
                source.fill(&[value], Some(&stream)).unwrap();
                moved.push(source.to_on(to, STAGED, &stream).unwrap().0);
            }
            for (value, moved) in (1..4).zip(moved) {
                assert!(moved.read().unwrap().iter().all(|byte| *byte == value));
            }
        });
        rig.assert_clean();
        assert_eq!(counted_leaks(), 0);
        return;
    }
}

#[test]
fn the_host_locks_a_chunk_once_for_a_plugin_and_not_once_for_each_device() {
    let rig = rig();
    let [_, one, two] = devices(&rig);
    let source = filled(&one, CHUNK, 5);
    let folder = tempfile::tempdir().unwrap();
    let (moved, hooks) = traced(folder.path(), || source.to(&two, STAGED).unwrap().0);
    let locks = hooks.iter().filter(|hook| hook.ends_with("register_host"));
    assert_eq!(locks.count(), 1, "{hooks:?}");
    assert!(moved.read().unwrap() == bytes(CHUNK, 5));
}
