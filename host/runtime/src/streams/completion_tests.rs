//! What is done behind work, where the plugin breaks down while it is told; and who waits for releases.
#![expect(unsafe_code, reason = "calls what a plugin was given")]

use std::sync::Arc;
use std::time::Duration;

use super::{Then, after};
use crate::process::process_state;
use crate::streams::event::Event;
use crate::tensors::release::{Release, Releases};
use crate::test_plugins::test_plugin_streams::{devices, given};

#[test]
fn a_plugin_that_took_a_host_function_and_panicked_may_call_it_still() {
    let ([device, _], given) = (devices::<42>(), given::<42>());
    *given.calls_before_a_panic.lock().unwrap() = Some(Vec::new());
    let outstanding = Arc::clone(device.plugin().completions().outstanding());
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
    let begun = releases.next();
    let later = Release::new(&releases, || ());
    assert!(!releases.wait(begun, Some(Duration::ZERO)));
    earlier.run();
    assert!(releases.wait(begun, Some(Duration::ZERO)));
    later.run();
}
