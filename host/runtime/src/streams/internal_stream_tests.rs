//! Streams of our own: used again where they are idle, waited for with their device, and given back.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossdock_sdk::abi::{Status, StreamHandle};

use crate::hooks::waits;
use crate::streams::internal_stream::InternalStream;
use crate::test_plugins::test_plugin_streams::{self, Given, Step, given};
use crate::{Device, Stream};

/// The two devices of plugin `N`, and what the plugin gives.
fn devices<const N: usize>() -> ([Device; 2], &'static Given) {
    (test_plugin_streams::devices::<N>(), given::<N>())
}

/// Takes so many streams at once, and gives them back.
fn take<const COUNT: usize>(device: &Device) -> [StreamHandle; COUNT] {
    let streams: [_; COUNT] = std::array::from_fn(|_| InternalStream::take(device).unwrap());
    streams.each_ref().map(InternalStream::handle)
}

#[test]
fn an_idle_stream_is_used_again_by_its_own_device() {
    let ([device, other], given) = devices::<32>();
    let [first] = take(&device);
    let [others] = take(&other);
    assert_ne!(others, first);
    assert_eq!(take(&device), [first]);
    let [one, two] = take(&device);
    assert!(take(&device) == [one, two] || take(&device) == [two, one]);
    assert_eq!(given.live().len(), 3, "none was lost");
}

#[test]
fn a_stream_whose_work_runs_is_left_alone_and_one_that_failed_is_destroyed() {
    let ([device, _], given) = devices::<33>();
    let [busy, failed] = take(&device);
    given.busy.store(busy.raw(), SeqCst);
    given.failed.store(failed.raw(), SeqCst);
    let [third] = take(&device);
    assert!(third != busy && third != failed);
    let live: Vec<_> = given.live().keys().copied().collect();
    assert_eq!(live, [busy.raw(), third.raw()]);
}

#[test]
fn few_idle_streams_are_kept_and_none_once_the_plugin_is_closed() {
    let ([device, other], given) = devices::<34>();
    let taken: [_; 20] = take(&device);
    assert_eq!(
        (taken.len(), given.live().len()),
        (20, 20),
        "some may be busy"
    );
    for _ in 0..4 {
        let [_one] = take(&device);
    }
    assert_eq!(given.live().len(), 17, "the last one was taken meanwhile");
    drop((device, other));
    assert!(given.live().is_empty());
}

#[test]
fn a_stream_that_the_plugin_is_asked_about_is_not_destroyed_meanwhile() {
    let ([device, _], given) = devices::<36>();
    let [asked] = take(&device);
    let is_live = move || given.live().contains_key(&asked.raw());
    let was_live = Arc::new(AtomicBool::new(false));
    let (tell, other) = (Arc::clone(&was_live), device.clone());
    let meanwhile = move || {
        // Another thread takes it for broken.
        given.failed.store(asked.raw(), SeqCst);
        let others = std::thread::scope(|scope| scope.spawn(|| take::<1>(&other)).join());
        tell.store(is_live() && others.is_ok(), SeqCst);
    };
    *given.in_stream_query.lock().unwrap() = Some(Arc::new(meanwhile));
    let [_one] = take(&device);
    assert!(was_live.load(SeqCst), "the plugin was being asked");
    assert!(!is_live(), "who asked destroyed it");
}

#[test]
fn a_device_waits_for_its_streams_of_ours_and_keeps_them() {
    let ([device, _], given) = devices::<35>();
    let [ours] = take(&device);
    // What they do is done for others, who are told how it ended.
    given.failed.store(ours.raw(), SeqCst);
    device.synchronize(None).unwrap();
    device.synchronize(Some(Duration::from_secs(1000))).unwrap();
    // The default stream is waited for too, ours once more behind its failure, and both limits are
    // longer than a slice.
    let limits = given.limits.lock().unwrap().clone();
    let slice = u64::try_from(waits::FIRST.as_nanos()).unwrap();
    assert_eq!(limits, [slice; 5]);
    assert_eq!(take(&device), [ours]);
}

#[test]
fn a_wait_for_a_device_leaves_a_stream_alone_that_another_thread_took_meanwhile() {
    let ([device, _], given) = devices::<64>();
    let [first, second] = take(&device);
    let (other, taken) = (device.clone(), Arc::new(Mutex::new(Vec::new())));
    let keeps = Arc::clone(&taken);
    let take_both: Step = Arc::new(move || {
        let take_both = || [(); 2].map(|()| InternalStream::take(&other).unwrap());
        let both = std::thread::scope(|scope| scope.spawn(take_both).join().unwrap());
        // Their work may stand behind whatever is put on them from now on.
        keeps.lock().unwrap().extend(both);
    });
    // The default stream is waited for before.
    let behind_default: Step = Arc::new(move || {
        *given.in_stream_synchronize.lock().unwrap() = Some(Arc::clone(&take_both));
    });
    *given.in_stream_synchronize.lock().unwrap() = Some(behind_default);
    device.synchronize(None).unwrap();
    let awaited = given.awaited.lock().unwrap().clone();
    assert!(
        awaited.contains(&first.raw()) && !awaited.contains(&second.raw()),
        "{awaited:?}"
    );
    let taken = taken.lock().unwrap();
    let is_first = |one: &InternalStream| one.handle() == first;
    assert!(
        taken.len() == 2 && !taken.iter().any(is_first),
        "it was waited for"
    );
}

#[test]
fn a_stream_without_a_recorded_end_is_not_taken_while_it_is_waited_for() {
    let ([device, _], given) = devices::<70>();
    let stream = InternalStream::take(&device).unwrap();
    let handle = stream.handle();
    stream.note_unrecorded();
    // Its work gets an end while the device is waited for, and so it goes back.
    let (kept, other) = (Mutex::new(Some(stream)), device.clone());
    let taken = Arc::new(Mutex::new(None));
    let takes = Arc::clone(&taken);
    let give_back_and_take: Step = Arc::new(move || {
        drop(kept.lock().unwrap().take());
        let take = || InternalStream::take(&other).unwrap();
        let another = std::thread::scope(|scope| scope.spawn(take).join().unwrap());
        *takes.lock().unwrap() = Some(another);
    });
    // The default stream is waited for before.
    let behind_default: Step = Arc::new(move || {
        *given.in_stream_synchronize.lock().unwrap() = Some(Arc::clone(&give_back_and_take));
    });
    *given.in_stream_synchronize.lock().unwrap() = Some(behind_default);
    device.synchronize(None).unwrap();
    let another = taken.lock().unwrap().take().unwrap();
    assert_ne!(another.handle(), handle, "it was waited for");
    drop(another);
    // Given back, it is a stream of the pool like the others: whoever takes it has it alone.
    let _both = [(); 2].map(|()| InternalStream::take(&device).unwrap());
    given.awaited.lock().unwrap().clear();
    device.synchronize(None).unwrap();
    let awaited = given.awaited.lock().unwrap().clone();
    assert!(!awaited.contains(&handle.raw()), "{awaited:?}");
}

#[test]
fn a_stream_of_ours_that_the_plugin_says_nothing_of_is_not_over() {
    let ([device, _], given) = devices::<50>();
    let [ours] = take(&device);
    given.captured.store(ours.raw(), SeqCst);
    let waited = || device.synchronize(None).map_err(|error| error.status());
    assert_eq!(waited(), Err(Some(Status::CAPTURING)), "it may be running");
    // Who looks for an idle one asks too, and so does who destroys those that are too many.
    let _many: [_; 20] = take(&device);
    let _many: [_; 20] = take(&device);
    assert!(given.live().contains_key(&ours.raw()));
    assert_eq!(waited(), Err(Some(Status::CAPTURING)), "nobody forgot it");
    given.captured.store(0, SeqCst);
    assert_eq!(waited(), Ok(()));
}

#[test]
fn a_stream_of_ours_that_cannot_be_asked_while_its_work_runs_is_not_over() {
    let ([device, _], given) = devices::<65>();
    let [ours] = take(&device);
    given.doubtful.store(ours.raw(), SeqCst);
    assert!(take::<20>(&device).iter().all(|taken| *taken != ours));
    assert!(take::<20>(&device).iter().all(|taken| *taken != ours));
    let is_live = given.live().contains_key(&ours.raw());
    assert!(is_live, "a wait for the device has to find its work");
}

/// Lets another thread take the one stream behind the next query of it, and give it back with work on
/// it that runs.
fn use_behind_query(given: &'static Given, device: &Device, ours: StreamHandle) {
    let other = device.clone();
    let meanwhile = move || {
        let taken = std::thread::scope(|scope| scope.spawn(|| take::<1>(&other)).join());
        assert_eq!(taken.unwrap(), [ours]);
        given.busy.store(ours.raw(), SeqCst);
    };
    *given.behind_stream_query.lock().unwrap() = Some(Arc::new(meanwhile));
}

#[test]
fn a_stream_that_another_thread_put_work_on_since_the_query_is_not_taken_for_idle() {
    let ([device, _], given) = devices::<56>();
    let [ours] = take(&device);
    use_behind_query(given, &device, ours);
    let [taken] = take(&device);
    assert_ne!(taken, ours, "work of somebody else is on it");
}

#[test]
fn a_stream_that_another_thread_put_work_on_since_the_query_is_not_destroyed() {
    let ([device, other], given) = devices::<57>();
    let last = InternalStream::take(&device).unwrap();
    let [ours] = take(&device);
    let _the_pool_is_full: [_; 20] = take(&other);
    use_behind_query(given, &device, ours);
    last.give_back();
    let is_live = given.live().contains_key(&ours.raw());
    assert!(is_live, "a wait for the device has to find its work");
}

#[test]
fn a_stream_that_is_too_many_ends_though_its_host_function_has_yet_to_return() {
    let ([device, other], given) = devices::<60>();
    let last = InternalStream::take(&device).unwrap();
    let handle = last.handle().raw();
    let _the_pool_is_full: [_; 20] = take(&other);
    given.busy.store(handle, SeqCst);
    last.give_back();
    let is_live = given.live().contains_key(&handle);
    assert!(!is_live, "later nobody may come to end it");
}

#[test]
fn a_device_waits_for_a_stream_whose_last_handle_is_being_dropped() {
    let ([device, _], given) = devices::<71>();
    let stream = Stream::new(&device).unwrap();
    let handle = *given.live().keys().last().unwrap();
    given.busy.store(handle, SeqCst);
    // The plugin is asked about the stream in the course of the drop.
    let waits: Step = Arc::new(move || device.synchronize(None).unwrap());
    *given.in_stream_query.lock().unwrap() = Some(waits);
    drop(stream);
    let awaited = given.awaited.lock().unwrap().clone();
    assert!(awaited.contains(&handle), "{awaited:?}");
}
