//! Tensors that are dropped while work runs: nobody else's work waits or fails because of that, and
//! no memory ends under a call that uses it.
#![expect(unsafe_code, reason = "puts work of others on a stream")]
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use std::sync::mpsc::channel;

use crossdock::{Device, Event, RouteChoice, RouteKind, Stream, Tensor};
use crossdock_e2e::lending::{LIMIT, filled, held, status, writable};
use crossdock_e2e::simulated::Simulated;
use crossdock_sdk::abi::{FillArgs, MemoryKind, Side, Status};

const DIRECT: RouteChoice = RouteChoice::Only(RouteKind::Direct);
const ALIAS: RouteChoice = RouteChoice::Only(RouteKind::Alias);

/// A tensor that two held streams read, each with the event that holds it, and the copies.
fn read_by_two(device: &Device) -> (Tensor, [(Stream, Event); 2], [Tensor; 2]) {
    let source = filled(device, 1);
    let streams = [(); 2].map(|()| held(device));
    let copies = streams.each_ref().map(|(stream, _)| {
        let (copy, _) = source.to_on(device, RouteChoice::Copy, stream).unwrap();
        copy
    });
    (source, streams, copies)
}

#[test]
fn freeing_a_tensor_that_two_streams_read_makes_no_stream_wait_for_the_other() {
    let rig = Simulated::new();
    let device = rig.device("vpi:0");
    let (source, [(_one, host_event), (other, other_host_event)], copies) = read_by_two(&device);
    drop(source);
    other_host_event.complete(Status::OK).unwrap();
    let next = filled(&device, 1);
    next.fill(&[3], Some(&other)).unwrap();
    let done = next.synchronize(LIMIT);
    host_event.complete(Status::OK).unwrap();
    done.unwrap();
    drop(copies);
    rig.runtime.wait_for_releases(LIMIT).unwrap();
    rig.assert_clean();
}

#[test]
fn freeing_a_tensor_that_two_streams_read_makes_no_stream_fail_with_the_other() {
    let rig = Simulated::new();
    let device = rig.device("vpi:0");
    let (source, [(one, host_event), (other, other_host_event)], copies) = read_by_two(&device);
    drop(source);
    let next = filled(&device, 1);
    next.fill(&[3], Some(&other)).unwrap();
    other_host_event.complete(Status::OK).unwrap();
    host_event.complete(Status::VENDOR).unwrap();
    assert_eq!(status(&one.synchronize(LIMIT)), Some(Status::VENDOR));
    next.synchronize(LIMIT).unwrap();
    other.synchronize(LIMIT).unwrap();
    drop(copies);
    rig.runtime.wait_for_releases(LIMIT).unwrap();
    rig.assert_clean();
}

#[test]
fn a_drop_that_no_stream_frees_leaves_no_wait_on_a_stream() {
    let rig = Simulated::new();
    let device = rig.device("vpi:0");
    let (source, [(_one, host_event), (other, other_host_event)], copies) = read_by_two(&device);
    let faults = "call:free_async@1+=UNSUPPORTED";
    rig.control.inject(faults).unwrap();
    drop(source);
    rig.control.clear_faults();
    other_host_event.complete(Status::OK).unwrap();
    let done = other.synchronize(LIMIT);
    host_event.complete(Status::OK).unwrap();
    done.unwrap();
    drop(copies);
    rig.runtime.wait_for_releases(LIMIT).unwrap();
    rig.assert_clean();
}

/// Fills a tensor by the plugin itself, as a producer does that the library does not see.
fn fill_unseen(tensor: &Tensor, stream: &Stream) {
    let (device, hooks) = (tensor.device(), tensor.device().plugin().hooks());
    let args = FillArgs {
        dst: Side {
            address: tensor.address(),
            kind: MemoryKind::DEVICE,
            device: device.index(),
        },
        bytes: tensor.nbytes(),
        pattern: [9; 16],
        pattern_bytes: 1,
        reserved: 0,
    };
    let native = stream.native_handle().unwrap();
    // SAFETY: a live stream of the device, which outlives its handle.
    let handle = unsafe { hooks.stream_wrap(device.index(), native) }.unwrap();
    // SAFETY: the bytes of the tensor, which keeps its memory until the work is over.
    unsafe { hooks.fill(args, handle) }.unwrap();
    hooks.stream_destroy(handle).unwrap();
}

#[test]
fn dropping_an_alias_that_a_producer_still_writes_does_not_wait() {
    let rig = Simulated::new();
    let device = rig.device("vpi:0");
    let (source, _) = writable(&rig.runtime);
    // The producer names the alias, or what it is an alias of.
    for is_of_alias in [true, false] {
        let (alias, _) = source.to(&device, ALIAS).unwrap();
        let (stream, host_event) = held(&device);
        alias.wait_to_write(&stream).unwrap();
        fill_unseen(&alias, &stream);
        let written = if is_of_alias { &alias } else { &source };
        written.ready_on(&stream).unwrap();
        let (told, dropped) = channel();
        let thread = std::thread::spawn(move || {
            drop(alias);
            told.send(()).unwrap();
        });
        let returned = dropped.recv_timeout(Simulated::LIMIT);
        host_event.complete(Status::OK).unwrap();
        thread.join().unwrap();
        assert_eq!(returned, Ok(()), "the drop waits for the work");
        stream.synchronize(LIMIT).unwrap();
    }
    drop(source);
    rig.runtime.wait_for_releases(LIMIT).unwrap();
    rig.assert_clean();
}

#[test]
fn an_alias_that_is_dropped_during_a_copy_of_its_source_ends_behind_the_copy() {
    let rig = Simulated::new();
    let (cpu, device) = (rig.device("cpu:0"), rig.device("vpi:0"));
    let source = filled(&cpu, 7);
    std::thread::scope(|scope| {
        let copies = rig.held(|| {
            let copies = scope.spawn(|| source.to(&device, DIRECT));
            rig.wait_for_pending(1);
            let (alias, _) = source.to(&device, ALIAS).unwrap();
            drop(alias);
            copies
        });
        let (copy, _) = copies.join().unwrap().unwrap();
        assert!(copy.read().unwrap().iter().all(|byte| *byte == 7));
    });
    rig.assert_clean();
    let left = rig.control.leaks();
    let is_registered = |text: &&String| text.contains("registered");
    assert_eq!(left.iter().find(is_registered), None, "the alias ended");
}
