//! Waiting for what the host never does, and for what fails meanwhile.

use std::{
    ffi::c_void,
    sync::mpsc::{Sender, channel},
    time::Duration,
};

use crossdock_sdk::{
    abi::{HostFunction, MemoryKind, Status},
    plugin::{HostCalls, HostEvents, Streams},
};

use crate::rig::{LATE, SOON, allocate, copy, device, host, open_or_skip, status, upload};

#[test]
fn a_host_event_that_fails_or_is_abandoned_ends_what_waits_for_it() {
    let plugin = open_or_skip!();
    for abandoned in [false, true] {
        let stream = plugin.stream_create(0).unwrap();
        let host_event = plugin.event_create_host(0).unwrap();
        let after = plugin.event_create(0).unwrap();
        let memory = allocate(&plugin, MemoryKind::DEVICE, 1000);
        upload(&plugin, memory, &[1; 1000]);
        let (sender, receiver) = channel::<u32>();
        let word = Box::into_raw(Box::new(sender));
        plugin.stream_wait_event(stream, host_event).unwrap();
        let bytes = [2; 1000];
        assert_eq!(
            copy(&plugin, device(memory), host(bytes.as_ptr()), 1000, stream),
            Status::OK
        );
        // SAFETY: `tell` takes the box that `word` is.
        unsafe { plugin.stream_host_call(stream, HostFunction(Some(tell)), word.cast()) }.unwrap();
        plugin.event_record(after, stream).unwrap();
        if abandoned {
            plugin.event_destroy(host_event).unwrap();
            assert_eq!(status(plugin.event_query(host_event)), Status::STALE);
        } else {
            plugin
                .event_complete(host_event, Status::DEVICE_LOST)
                .unwrap();
            assert_eq!(status(plugin.event_query(host_event)), Status::DEVICE_LOST);
        }
        assert_eq!(receiver.recv_timeout(Duration::from_secs(20)), Ok(7));
        let ended = plugin.event_synchronize(after, LATE).unwrap_err();
        let wanted = if abandoned {
            Status::VENDOR
        } else {
            Status::DEVICE_LOST
        };
        assert_eq!(ended.status(), wanted, "{ended}");
        plugin.stream_destroy(stream).unwrap();
    }
}

#[test]
fn a_thread_that_already_waits_sees_a_failure_before_its_limit() {
    let plugin = open_or_skip!();
    let stream = plugin.stream_create(0).unwrap();
    let host_event = plugin.event_create_host(0).unwrap();
    plugin.stream_wait_event(stream, host_event).unwrap();
    let after = plugin.event_create(0).unwrap();
    plugin.event_record(after, stream).unwrap();
    let (begun, begins) = channel();
    let (ended, ends) = std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            begun.send(()).unwrap();
            plugin.event_synchronize(after, LATE)
        });
        begins.recv().unwrap();
        // The waiting thread most likely sleeps by now; both orders are right.
        let timed_out = plugin.stream_synchronize(stream, SOON);
        plugin.event_complete(host_event, Status::VENDOR).unwrap();
        (timed_out, waits.join().unwrap())
    });
    assert_eq!(status(ended), Status::TIMEOUT);
    assert_eq!(status(ends), Status::VENDOR);
}

#[test]
fn a_thread_that_waits_for_a_host_event_sees_that_it_was_destroyed() {
    let plugin = open_or_skip!();
    let host_event = plugin.event_create_host(0).unwrap();
    let (begun, begins) = channel();
    let ends = std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            begun.send(()).unwrap();
            plugin.event_synchronize(host_event, LATE)
        });
        begins.recv().unwrap();
        // Not before the thread sleeps, most likely; both orders are right.
        let timed_out = plugin.event_synchronize(host_event, SOON);
        assert_eq!(status(timed_out), Status::TIMEOUT);
        plugin.event_destroy(host_event).unwrap();
        status(waits.join().unwrap())
    });
    assert!([Status::VENDOR, Status::STALE].contains(&ends), "{ends}");
}

#[test]
fn those_who_wait_hear_only_of_statuses_that_say_that_work_failed() {
    let plugin = open_or_skip!();
    for &(given, _) in Status::ALL {
        let stream = plugin.stream_create(0).unwrap();
        let host_event = plugin.event_create_host(0).unwrap();
        plugin.stream_wait_event(stream, host_event).unwrap();
        plugin.event_complete(host_event, given).unwrap();
        let told = match given {
            Status::OK | Status::VENDOR | Status::DEVICE_LOST | Status::OOM_DEVICE => given,
            _ => Status::VENDOR,
        };
        assert_eq!(status(plugin.event_query(host_event)), told, "{given}");
        let at_stream = plugin.stream_synchronize(stream, LATE);
        assert_eq!(status(at_stream), told, "{given}");
    }
}

unsafe extern "C" fn tell(word: *mut c_void) {
    // SAFETY: `word` is the sender that the test boxed, given once.
    let sender = unsafe { Box::from_raw(word.cast::<Sender<u32>>()) };
    sender.send(7).unwrap();
}
