//! What is done after work, where the plugin breaks down while it is told; and waits for releases.
#![expect(unsafe_code, reason = "calls what a plugin was given")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossdock_sdk::deadline::Deadline;

use super::{Mutex, Polled as _, Then, Waiting, after};
use crate::plugins::releases::{Release, Releases, next_number};
use crate::process::process_state;
use crate::streams::event::Event;
use crate::streams::internal_stream::InternalStream;
use crate::streams::release_wait::wait_for_all;
use crate::streams::stream::Stream;
use crate::test_plugins::test_plugin_streams::{devices, given};

#[test]
fn a_plugin_that_took_a_host_function_and_panicked_may_call_it_still() {
    let ([device, _], given) = (devices::<42>(), given::<42>());
    *given.calls_before_a_panic.lock().unwrap() = Some(Vec::new());
    let outstanding = Arc::clone(device.plugin().releases());
    let release = Release::new(&outstanding, || ());
    let leaks = process_state::counted_leaks();
    let event = Event::create(&device).unwrap();
    let _how = after(event, Then::Release(release, Vec::new()));
    assert!(
        process_state::counted_leaks() >= leaks + 2,
        "the memory, and the function's word"
    );
    let calls = given.calls_before_a_panic.lock().unwrap().take();
    for (function, word) in calls.unwrap() {
        let function = function.0.unwrap();
        // SAFETY: the function and the word that the plugin was given, and the only call.
        unsafe { function(std::ptr::with_exposed_provenance_mut(word)) };
    }
}

#[test]
fn who_waits_for_releases_waits_for_none_that_comes_later() {
    let releases = Arc::new(Releases::default());
    let earlier = Release::new(&releases, || ());
    let begun = next_number();
    let later = Release::new(&releases, || ());
    assert!(!releases.wait(begun, Some(Duration::ZERO)));
    earlier.run();
    assert!(releases.wait(begun, Some(Duration::ZERO)));
    later.run();
}

#[test]
fn a_wait_of_a_quarantined_plugin_is_polled_no_more() {
    let ([device, _], given) = (devices::<74>(), given::<74>());
    let waits = [(); 2].map(|()| {
        let waiting = Arc::new(Waiting {
            event: Event::create(&device).unwrap(),
            then: Mutex::new(None),
            stream: Mutex::new(Some(Arc::new(InternalStream::take(&device).unwrap()))),
        });
        let watched = Arc::clone(&waiting);
        device.hooks().watch_quarantine(watched);
        waiting
    });
    assert!(waits.iter().all(|waiting| waiting.poll()));
    *given.in_stream_query.lock().unwrap() = Some(Arc::new(|| panic!("a plugin's mistake")));
    // The first one meets the panic itself, and the other one is notified.
    assert!(!waits[0].poll());
    for waiting in waits {
        assert!(waiting.stream().is_none() && !waiting.poll());
    }
}

#[test]
fn a_wait_for_releases_ends_at_its_limit_while_a_call_submits() {
    let [device, _] = devices::<75>();
    let stream = Stream::new(&device).unwrap();
    stream.free(|_| Ok(())).unwrap();
    let later = next_number();
    let wait = |limit| {
        device
            .plugin()
            .wait_for_releases(later, Deadline::after(Some(limit)))
    };
    // The lock is that of a call that blocks in the middle of a copy.
    let is_over = stream.with_submit_lock(|_| Ok(wait(Duration::from_millis(20))));
    assert!(!is_over.unwrap());
    assert!(wait(Duration::from_secs(20)));
}

/// A release that, while it is run, begins another one, and so on; each is run on another thread.
fn chain(releases: &Arc<Releases>, length: u32, is_over: Arc<AtomicBool>) -> Release {
    let outstanding = Arc::clone(releases);
    Release::new(releases, move || {
        if length == 0 {
            return is_over.store(true, Ordering::SeqCst);
        }
        let next = chain(&outstanding, length - 1, is_over);
        std::thread::spawn(move || {
            // Long enough for a waiter to come by.
            for _ in 0..100 {
                std::thread::yield_now();
            }
            next.run();
        });
    })
}

#[test]
fn who_waits_for_releases_waits_for_those_that_begin_inside_of_them() {
    let ([device, _], _) = (devices::<43>(), given::<43>());
    let plugins = [Arc::clone(device.plugin())];
    let is_over = Arc::<AtomicBool>::default();
    let first = chain(plugins[0].releases(), 4, Arc::clone(&is_over));
    std::thread::spawn(move || first.run());
    let limit = Deadline::after(Some(Duration::from_secs(20)));
    wait_for_all("wait", &plugins, limit).unwrap();
    assert!(is_over.load(Ordering::SeqCst));
}
