//! One stream where the device has one: for all threads, all runtimes, and however it was named.
#![expect(unsafe_code, reason = "wraps streams of a plugin made for tests")]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use crossdock_sdk::abi::{EventHandle, Status};
use crossdock_sdk::dlpack::{Dtype, Layout};

use crate::plugins::plugin::Plugin;
use crate::test_plugins::test_plugin_streams::{self, Step, given};
use crate::{Device, Runtime, Stream, Tensor};

fn runtime() -> Runtime {
    Runtime::builder().search(false).open().unwrap()
}

/// The first device of a plugin in a runtime of its own, which may number it differently.
fn device(plugin: &Arc<Plugin>) -> Device {
    let runtime = runtime();
    assert!(runtime.register(plugin).unwrap());
    runtime.device_of(plugin, 0).unwrap()
}

fn wrap(device: &Device, native: u64) -> Stream {
    // SAFETY: the plugin's natives are numbers.
    unsafe { Stream::wrap(device, native) }.unwrap()
}

/// Lets threads go on only when `count` of them are in the hook.
fn meet(count: usize) -> Option<Step> {
    let all = Arc::new(Barrier::new(count));
    Some(Arc::new(move || {
        all.wait();
    }))
}

/// What `count` threads get at once.
fn at_once(count: usize, get: impl Fn() -> Stream + Sync) -> Vec<Stream> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(&get)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

fn are_one(streams: &[Stream]) -> bool {
    streams.iter().all(|stream| *stream == streams[0])
}

#[test]
fn threads_that_ask_for_the_default_stream_at_once_get_one() {
    let device = device(&test_plugin_streams::plugin::<0>());
    *given::<0>().in_default.lock().unwrap() = meet(4);
    // All four looked for it before one of them could enter it.
    let streams = at_once(4, || Stream::default_of(&device).unwrap());
    assert_eq!(given::<0>().defaults.load(SeqCst), 4);
    assert!(are_one(&streams));
    assert_eq!(Stream::all_of(&device).count(), 1);
}

#[test]
fn threads_that_wrap_a_native_at_once_get_one_and_the_others_give_theirs_back() {
    let device = device(&test_plugin_streams::plugin::<1>());
    *given::<1>().in_wrap.lock().unwrap() = meet(4);
    let streams = at_once(4, || wrap(&device, 77));
    assert!(are_one(&streams));
    assert_eq!(
        given::<1>().live().len(),
        1,
        "three handles were given back"
    );
    drop(streams);
    assert!(given::<1>().live().is_empty());
}

#[test]
fn a_handle_is_given_back_while_others_look_for_streams() {
    let device = device(&test_plugin_streams::plugin::<46>());
    *given::<46>().in_wrap.lock().unwrap() = meet(2);
    let looks = device.clone();
    let (step, is_done) = test_plugin_streams::meanwhile(move || drop(Stream::find(&looks, 77)));
    *given::<46>().in_destroy.lock().unwrap() = Some(step);
    let streams = at_once(2, || wrap(&device, 77));
    assert!(are_one(&streams) && is_done.load(SeqCst));
}

#[test]
fn streams_that_ended_leave_nothing() {
    let device = device(&test_plugin_streams::plugin::<47>());
    for native in 77..177 {
        drop(wrap(&device, native));
    }
    let left = format!("{:?}", device.plugin().streams());
    assert_eq!(left.matches("Entry {").count(), 0, "{left}");
}

#[test]
fn equal_devices_of_two_runtimes_have_equal_streams() {
    let plugin = test_plugin_streams::plugin::<2>();
    let (one, other) = (device(&plugin), device(&plugin));
    assert_eq!(one, other);
    let (first, second) = (Stream::default_of(&one), Stream::default_of(&other));
    assert_eq!(first.unwrap(), second.unwrap());
    assert_eq!(wrap(&one, 77), wrap(&other, 77));
    let made = Stream::new(&one).unwrap();
    let native = made.native_handle().unwrap();
    assert_eq!(Stream::find(&other, native).as_ref(), Some(&made));
    assert_eq!(wrap(&other, native), made);
}

#[test]
fn the_streams_of_two_devices_of_one_plugin_stay_apart() {
    let plugin = test_plugin_streams::plugin::<3>();
    let runtime = runtime();
    assert!(runtime.register(&plugin).unwrap());
    let [one, other] = [0, 1].map(|index| runtime.device_of(&plugin, index).unwrap());
    let first = wrap(&one, 77);
    assert_eq!(Stream::find(&other, 77), None);
    let second = wrap(&other, 77);
    assert_ne!(first, second);
    assert_ne!(first, wrap(&one, 78));
    assert_eq!((first.device(), second.device()), (&one, &other));
    let [first, second] = [&one, &other].map(|device| Stream::default_of(device).unwrap());
    assert_ne!(first, second);
    assert_eq!(Stream::default_of(&one).unwrap(), first);
    assert_eq!(Stream::default_of(&other).unwrap(), second);
}

#[test]
fn a_native_that_was_wrapped_is_that_stream_while_somebody_holds_it_and_no_longer() {
    let device = device(&test_plugin_streams::plugin::<4>());
    let wraps = || given::<4>().wraps.load(SeqCst);
    let first = wrap(&device, 77);
    assert_eq!(wrap(&device, 77), first);
    assert_eq!(
        (wraps(), Stream::find(&device, 77)),
        (1, Some(first.clone()))
    );
    drop(first);
    assert!(given::<4>().live().is_empty());
    assert_eq!(Stream::find(&device, 77), None);
    let again = wrap(&device, 77);
    assert_eq!((wraps(), given::<4>().live().len()), (2, 1));
    drop(again);
}

#[test]
fn two_natives_of_one_stream_are_one_stream() {
    let device = device(&test_plugin_streams::plugin::<5>());
    let default = Stream::default_of(&device).unwrap();
    assert_eq!(wrap(&device, 0), default);
    assert_eq!(wrap(&device, 1), default);
    assert!(given::<5>().live().is_empty(), "its handle was given back");
    drop(default);
    // The other way round: a question for the default stream finds the wrapped one.
    let wrapped = wrap(&device, 0);
    assert_eq!(Stream::default_of(&device).unwrap(), wrapped);
    assert_eq!(Stream::default_of(&device).unwrap(), wrapped);
    assert_eq!(
        given::<5>().defaults.load(SeqCst),
        2,
        "it is known from then on"
    );
}

#[test]
fn a_stream_whose_last_holder_is_dropping_it_is_not_found_and_can_be_wrapped_anew() {
    let device = device(&test_plugin_streams::plugin::<6>());
    let first = wrap(&device, 77);
    let seen = Arc::new(Mutex::new(None));
    let (kept, inside) = (Arc::clone(&seen), device.clone());
    *given::<6>().in_destroy.lock().unwrap() = Some(Arc::new(move || {
        let found = Stream::find(&inside, 77);
        *kept.lock().unwrap() = Some((found, wrap(&inside, 77)));
    }));
    drop(first);
    let (found, again) = seen.lock().unwrap().take().unwrap();
    assert_eq!(found, None);
    assert_eq!(Stream::find(&device, 77), Some(again));
    assert_eq!(given::<6>().wraps.load(SeqCst), 2);
}

#[test]
fn a_stream_says_the_device_of_who_asked_for_it() {
    let plugin = test_plugin_streams::plugin::<7>();
    let (here, there) = (runtime(), runtime());
    // The other runtime has the number already.
    assert!(there.register(&test_plugin_streams::plugin::<8>()).unwrap());
    let [here, there] = [here, there].map(|runtime| {
        assert!(runtime.register(&plugin).unwrap());
        runtime.device_of(&plugin, 0).unwrap()
    });
    assert_ne!(here.id(), there.id());
    let [one, other] = [&here, &there].map(|device| Stream::default_of(device).unwrap());
    assert_eq!(one, other);
    assert_eq!(
        (one.device().id(), other.device().id()),
        (here.id(), there.id())
    );
}

#[test]
fn a_stream_that_is_made_is_never_taken_for_one_that_lost_its_number() {
    let device = device(&test_plugin_streams::plugin::<9>());
    let native = Stream::new(&device).unwrap().native_handle().unwrap() + 2;
    // Its owner ended it while it was kept here, and the vendor gives the number again.
    let stale = wrap(&device, native);
    let fresh = Stream::new(&device).unwrap();
    assert_eq!(fresh.native_handle().unwrap(), native);
    assert_ne!(fresh, stale);
    assert_eq!(Stream::find(&device, native), Some(fresh));
}

/// A tensor of a device.
fn tensor(device: &Device) -> Tensor {
    let layout = Layout::compact(Dtype::UINT8, &[8]).unwrap();
    Tensor::empty(device, &layout).unwrap()
}

#[test]
fn a_record_of_work_keeps_no_stream() {
    let (device, given) = (device(&test_plugin_streams::plugin::<21>()), given::<21>());
    let tensor = tensor(&device);
    let (own, foreign) = (Stream::new(&device).unwrap(), wrap(&device, 77));
    let native = own.native_handle().unwrap();
    tensor.written_on(&own).unwrap();
    tensor.written_on(&foreign).unwrap();
    drop((own, foreign));
    assert!(given.live().is_empty(), "both handles went back");
    assert!(Stream::find(&device, native).is_none());
    assert!(Stream::find(&device, 77).is_none());
    let left = format!("{:?}", device.plugin().streams());
    assert_eq!(left.matches("Entry {").count(), 0, "{left}");
    tensor.synchronize(None).unwrap();
}

#[test]
fn work_without_an_end_keeps_its_stream_until_it_has_one() {
    let (device, given) = (device(&test_plugin_streams::plugin::<66>()), given::<66>());
    let (from, to) = (tensor(&device), tensor(&device));
    let stream = Stream::new(&device).unwrap();
    given.refused_records.store(2, SeqCst);
    to.copy_from(&from, Some(&stream)).unwrap_err();
    drop(stream);
    assert_eq!(given.live().len(), 1, "its end can be recorded later");
    to.synchronize(None).unwrap();
    assert!(!given.live().is_empty(), "the read has no end yet");
    from.ready_on(&Stream::default_of(&device).unwrap())
        .unwrap();
    from.wait_to_write(&Stream::default_of(&device).unwrap())
        .unwrap();
    assert!(given.live().is_empty());
}

#[test]
fn a_busy_stream_without_a_handle_is_destroyed_once_its_work_is_over() {
    let (device, given) = (device(&test_plugin_streams::plugin::<67>()), given::<67>());
    let busy = Stream::new(&device).unwrap();
    let native = busy.native_handle().unwrap();
    let handle = *given.live().keys().next().unwrap();
    given.busy.store(handle, SeqCst);
    drop(busy);
    assert!(given.live().contains_key(&handle), "its work runs");
    assert!(Stream::find(&device, native).is_none());
    // Each stream that is made or dropped looks for those that are over.
    drop(Stream::new(&device).unwrap());
    assert!(given.live().contains_key(&handle));
    given.busy.store(0, SeqCst);
    drop(Stream::new(&device).unwrap());
    assert!(given.live().is_empty());
}

#[test]
fn a_device_waits_for_work_of_streams_without_a_handle() {
    let (device, given) = (device(&test_plugin_streams::plugin::<68>()), given::<68>());
    for is_failed in [false, true] {
        let stream = Stream::new(&device).unwrap();
        let handle = *given.live().keys().next().unwrap();
        given.busy.store(handle, SeqCst);
        drop(stream);
        given.busy.store(0, SeqCst);
        given
            .failed
            .store(if is_failed { handle } else { 0 }, SeqCst);
        // A failure is told by the tensors that the work wrote.
        device.synchronize(None).unwrap();
        assert!(given.awaited.lock().unwrap().contains(&handle));
        assert!(given.live().is_empty());
    }
}

#[test]
fn the_ends_of_work_that_is_over_go_back_although_tensors_keep_them() {
    let (device, given) = (device(&test_plugin_streams::plugin::<69>()), given::<69>());
    let stream = Stream::new(&device).unwrap();
    let tensors: Vec<_> = (0..1000).map(|_| tensor(&device)).collect();
    let mut most = 0;
    for tensor in &tensors {
        tensor.written_on(&stream).unwrap();
        most = most.max(given.events.load(SeqCst));
    }
    assert!(most < 64, "{most}");
    // A user's event, and one that a user has, stay as they are.
    let own = stream.record().unwrap();
    tensors[0].written_on(&stream).unwrap();
    let ready = tensors[0].ready().unwrap().unwrap();
    let before = given.events.load(SeqCst);
    assert!(own.is_done().unwrap() && ready.is_done().unwrap());
    assert_eq!(given.events.load(SeqCst), before);
    drop((own, ready));
    assert_eq!(given.events.load(SeqCst), before - 2);
}

#[test]
fn a_device_waits_for_the_streams_of_all_runtimes_also_behind_one_that_failed() {
    let plugin = test_plugin_streams::plugin::<22>();
    let (here, there) = (device(&plugin), device(&plugin));
    let given = given::<22>();
    let default = Stream::default_of(&there).unwrap();
    let streams = [&here, &there].map(|device| Stream::new(device).unwrap());
    given.failed.store(1, SeqCst);
    let failed = here.synchronize(None).unwrap_err();
    assert_eq!(failed.status(), Some(Status::VENDOR));
    assert_eq!(given.waits.load(SeqCst), 3, "the failed one was the first");
    drop((default, streams));
}

#[test]
fn a_wait_for_a_device_leaves_a_stream_of_others_to_its_owner_who_ends_it_meanwhile() {
    let plugin = test_plugin_streams::plugin::<62>();
    let (device, given) = (device(&plugin), given::<62>());
    let runtime = runtime();
    assert!(runtime.register(&plugin).unwrap());
    let kept = Mutex::new(Some(wrap(&device, 77)));
    let inside = device.clone();
    let gone = Arc::<AtomicBool>::default();
    let (ended, releases) = (Arc::clone(&gone), runtime.clone());
    let _default = Stream::default_of(&device).unwrap();
    let last = wrap(&device, 77).record().unwrap().handle().raw();
    *given.in_event_synchronize.lock().unwrap() = Some(Arc::new(move || {
        drop(kept.lock().unwrap().take());
        // Its context may go only once nobody asks an event in it any more.
        let asked = releases.wait_for_releases(Some(Duration::ZERO));
        assert_eq!(asked.unwrap_err().status(), Some(Status::TIMEOUT));
        // With the stream goes the next event, which is at the end of its work.
        given.end(EventHandle::from_raw(last + 1), Status::VENDOR);
        ended.store(Stream::find(&inside, 77).is_none(), SeqCst);
    }));
    device.synchronize(None).unwrap();
    assert!(
        gone.load(SeqCst),
        "the owner had it back while the device was waited for"
    );
    assert_eq!(given.waits.load(SeqCst), 1, "for the default stream alone");
    runtime.wait_for_releases(Some(Duration::ZERO)).unwrap();
}

#[test]
fn a_wait_for_a_device_tells_once_that_work_of_others_failed() {
    let device = device(&test_plugin_streams::plugin::<63>());
    let given = given::<63>();
    let (_default, others) = (Stream::default_of(&device).unwrap(), wrap(&device, 77));
    let handle = *given.live().keys().next().unwrap();
    let last = others.record().unwrap().handle().raw();
    // The next event is at the end of the work.
    given.end(EventHandle::from_raw(last + 1), Status::VENDOR);
    given.failed.store(handle, SeqCst);
    let failed = device.synchronize(None).unwrap_err();
    assert_eq!(failed.status(), Some(Status::VENDOR));
    others.synchronize(None).unwrap();
}

#[test]
fn the_default_stream_is_its_plugins_and_is_never_destroyed() {
    let device = device(&test_plugin_streams::plugin::<39>());
    let is_destroyed = Arc::new(Mutex::new(false));
    let seen = Arc::clone(&is_destroyed);
    *given::<39>().in_destroy.lock().unwrap() = Some(Arc::new(move || {
        *seen.lock().unwrap() = true;
    }));
    drop(Stream::default_of(&device).unwrap());
    assert!(!*is_destroyed.lock().unwrap());
}

#[test]
fn streams_without_a_native_are_told_apart() {
    let device = device(&test_plugin_streams::plugin::<40>());
    *given::<40>().no_native.lock().unwrap() = Some(Status::UNSUPPORTED);
    let made = Stream::new(&device).unwrap();
    assert_ne!(Stream::default_of(&device).unwrap(), made);
    // The plugin's own handle is its stream, whichever runtime asked for it first.
    *given::<40>().in_default.lock().unwrap() = meet(2);
    assert!(are_one(&at_once(2, || Stream::default_of(&device).unwrap())));
    // Without the answer one stream could become two.
    *given::<40>().no_native.lock().unwrap() = Some(Status::VENDOR);
    // SAFETY: the plugin's natives are numbers.
    let refused = unsafe { Stream::wrap(&device, 77) }.map(drop).unwrap_err();
    assert_eq!(refused.status(), Some(Status::VENDOR));
    assert_eq!(given::<40>().live().len(), 1, "its handle was given back");
}

#[test]
fn a_created_stream_is_found_by_its_native_once_a_caller_has_it() {
    let device = device(&test_plugin_streams::plugin::<73>());
    let made = Stream::new(&device).unwrap();
    assert_eq!(given::<73>().natives.load(SeqCst), 0);
    let native = made.native_handle().unwrap();
    assert_eq!(Stream::find(&device, native), Some(made.clone()));
    assert_eq!(wrap(&device, native), made);
    // A second query changes nothing.
    assert_eq!(made.native_handle().unwrap(), native);
    assert_eq!(Stream::all_of(&device).count(), 1);
}

#[test]
fn an_event_goes_back_when_its_last_holder_drops_it() {
    let device = device(&test_plugin_streams::plugin::<41>());
    let event = Stream::new(&device).unwrap().record().unwrap();
    let clone = event.clone();
    drop(event);
    assert_eq!(given::<41>().events.load(SeqCst), 1);
    drop(clone);
    assert_eq!(given::<41>().events.load(SeqCst), 0);
}

#[test]
fn nobody_has_to_wait_between_streams_of_one_plugin() {
    let plugin = test_plugin_streams::plugin::<54>();
    let runtime = Runtime::builder().search(false).open().unwrap();
    assert!(runtime.register(&plugin).unwrap());
    let [one, other] = [0, 1].map(|index| runtime.device_of(&plugin, index).unwrap());
    assert_eq!(crate::streams::wait::who_waits(&one, &other), None);
}

#[test]
fn a_wait_counts_as_one_that_told_from_its_beginning_and_later_only_where_it_did() {
    let (device, given) = (device(&test_plugin_streams::plugin::<58>()), given::<58>());
    let stream = Stream::new(&device).unwrap();
    let core = device.plugin().streams().of(0).remove(0);
    let tells_of_none = || {
        assert!(core.tellers.may_have_told(), "it may have told by now");
        Ok(())
    };
    core.tellers.tell(tells_of_none).unwrap();
    assert!(!core.tellers.may_have_told());
    given.failed.store(core.handle.raw(), SeqCst);
    assert!(stream.synchronize(None).is_err());
    stream.synchronize(None).unwrap();
    assert!(core.tellers.may_have_told(), "once and for all");
}

#[test]
fn a_stream_of_others_that_nobody_has_in_hand_is_not_used_and_not_found() {
    let device = device(&test_plugin_streams::plugin::<61>());
    let stream = wrap(&device, 77);
    let (copy, remembered) = (stream.clone(), stream.to_remember());
    drop(stream);
    assert_eq!(Stream::find(&device, 77), Some(remembered.clone()));
    remembered.record().unwrap();
    assert_eq!(given::<61>().live().len(), 1);
    drop(copy);
    // Later its vendor's context may be gone, in which the plugin keeps things for the stream.
    assert!(given::<61>().live().is_empty(), "its plugin has it back");
    let refused = remembered.record().map(drop);
    let status = refused.unwrap_err().status();
    assert_eq!(status, Some(Status::UNSUPPORTED));
    assert_eq!(Stream::find(&device, 77), None);
    // Another stream may have the number by now.
    let another = wrap(&device, 77);
    assert!(another != remembered);
    another.record().unwrap();
    // So it is with one that was made here.
    let own = Stream::new(&device).unwrap().to_remember();
    let refused = own.record().map(drop);
    assert_eq!(refused.unwrap_err().status(), Some(Status::UNSUPPORTED));
}

#[test]
fn threads_take_turns_on_a_stream() {
    let device = device(&test_plugin_streams::plugin::<58>());
    let _stream = Stream::new(&device).unwrap();
    let core = device.plugin().streams().of(0).remove(0);
    let inside = AtomicU32::new(0);
    let call = || {
        assert_eq!(inside.fetch_add(1, SeqCst), 0, "another call runs");
        std::thread::yield_now();
        assert_eq!(inside.fetch_sub(1, SeqCst), 1);
        Ok(())
    };
    for is_foreign in [false, true] {
        let take = || {
            for _ in 0..1000 {
                if is_foreign {
                    core.with_foreign_lock(call).unwrap();
                } else {
                    core.with_submit_lock(|_| call()).unwrap();
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(take);
            take();
        });
    }
}
