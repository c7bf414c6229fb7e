//! Plugins in the registry: what is seen of them while they come and go.
#![expect(unsafe_code, reason = "wraps streams of a plugin made for tests")]

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use crossdock_sdk::abi::{DeviceInfo, Status};
use crossdock_sdk::dlpack::{DeviceType, Dtype, Layout};

use super::{Error, Runtime};
use crate::devices::device::Device;
use crate::devices::pointer_query::Asked;
use crate::devices::registering::Entered;
use crate::plugins::plugin::Plugin;
use crate::streams::stream::Stream;
use crate::tensors::tensor::Tensor;
use crate::test_plugins::test_plugin_streams::{self, MEMORY, Step, given};
use crate::{PointerAnswer, test_plugins::test_plugin_memory};

fn runtime() -> Runtime {
    Runtime::builder().search(false).open().unwrap()
}

fn is_asked(runtime: &Runtime, plugin: &Arc<Plugin>) -> bool {
    let ask = |other: &Arc<Plugin>| Arc::ptr_eq(other, plugin).then_some(());
    runtime
        .query_order()
        .find_map(Asked::All, None, ask)
        .is_some()
}

fn is_listed(runtime: &Runtime, plugin: &Arc<Plugin>) -> bool {
    let of_it = runtime.devices().iter().any(|device| device.is_of(plugin));
    runtime.0.registry.read().has(plugin) || of_it
}

#[test]
fn a_device_that_is_not_here_is_told_with_the_folders_that_were_searched() {
    let absent = "cuda:9".parse().unwrap();
    let why = |runtime: Runtime| runtime.device(absent).unwrap_err().why();
    assert!(why(runtime()).ends_with("; no folder was searched for plugins"));
    let builder = Runtime::builder()
        .search(false)
        .plugin_dir("/nowhere/at all");
    let told = why(builder.plugin_dir("/proc").open().unwrap());
    let searched = "; plugins were looked for in `/proc`, and refused: `/nowhere/at all`";
    assert!(told.ends_with(searched), "{told}");
}

#[test]
fn a_registered_plugin_is_asked_and_a_retired_one_is_not() {
    let (runtime, plugin) = (runtime(), test_plugin_memory::plugin::<0>());
    assert!(runtime.register(&plugin).unwrap());
    assert!(is_asked(&runtime, &plugin) && is_listed(&runtime, &plugin));
    runtime.retire(&plugin).unwrap();
    assert!(!is_asked(&runtime, &plugin) && !is_listed(&runtime, &plugin));
}

#[test]
fn a_plugin_that_is_retired_before_it_is_entered_stays_out() {
    let (here, there) = (runtime(), runtime());
    let plugin = test_plugin_memory::plugin::<0>();
    assert!(there.register(&plugin).unwrap());
    there.retire(&plugin).unwrap();
    assert!(!here.register(&plugin).unwrap());
    assert!(!is_asked(&here, &plugin) && !is_listed(&here, &plugin));
}

#[test]
fn nobody_finds_a_device_before_it_is_listed() {
    let (runtime, plugin) = (runtime(), test_plugin_memory::plugin::<0>());
    let infos = plugin.device_infos().unwrap();
    let id = runtime.change(|registry| {
        assert_eq!(runtime.enter(registry, &plugin, &infos), Entered::New);
        let id = registry.devices.last().unwrap().id();
        assert!(!is_listed(&runtime, &plugin) && !is_asked(&runtime, &plugin));
        assert!(
            runtime.0.index.find(id).is_none(),
            "its import would be refused"
        );
        id
    });
    assert!(is_listed(&runtime, &plugin) && is_asked(&runtime, &plugin));
    assert!(runtime.0.index.find(id).is_some());
}

fn claiming(id: i32) -> DeviceInfo {
    DeviceInfo {
        dl_id: id,
        ..DeviceInfo::new(DeviceType::EXT_DEV, 0, "")
    }
}

#[test]
fn devices_that_claim_the_same_id_get_ids_of_their_own() {
    const LARGEST: i32 = i32::MAX;
    for (claimed, expected) in [
        (-1, [0, 1, 2, 3]),
        (5, [5, 6, 7, 8]),
        (LARGEST - 1, [LARGEST - 1, LARGEST, 0, 1]),
        (LARGEST, [LARGEST, 0, 1, 2]),
    ] {
        let (runtime, plugin) = (runtime(), test_plugin_memory::plugin::<0>());
        let infos = [claiming(claimed); 4];
        runtime.change(|registry| {
            assert_eq!(runtime.enter(registry, &plugin, &infos), Entered::New);
        });
        let mut devices = runtime.devices();
        devices.retain(|device| device.is_of(&plugin));
        let ids: Vec<i32> = devices.iter().map(|device| device.id().id).collect();
        assert_eq!(ids, expected);
        for device in devices {
            assert_eq!(runtime.device(device.id()).unwrap(), device);
        }
    }
}

#[test]
#[ignore = "a measurement: prints what devices cost"]
fn the_cost_of_a_device_does_not_grow_with_their_number() {
    for claims in [|_: i32| 0, |index| index, |_| i32::MAX] {
        for count in [1000, 10_000] {
            let (runtime, plugin) = (runtime(), test_plugin_memory::plugin::<0>());
            let infos: Vec<_> = (0..count).map(|index| claiming(claims(index))).collect();
            let before = std::time::Instant::now();
            runtime.change(|registry| runtime.enter(registry, &plugin, &infos));
            println!("{count} devices: {:?}", before.elapsed());
        }
    }
}

#[test]
fn a_plugin_that_came_back_is_asked_once() {
    let (here, there) = (runtime(), runtime());
    let plugin = test_plugin_memory::plugin::<0>();
    assert!(there.register(&plugin).unwrap() && here.register(&plugin).unwrap());
    here.retire(&plugin).unwrap();
    assert!(here.register(&plugin).unwrap());
    let times = AtomicU32::new(0);
    let count = |other: &Arc<Plugin>| {
        times.fetch_add(Arc::ptr_eq(other, &plugin).into(), SeqCst);
        None::<()>
    };
    here.query_order().find_map(Asked::All, None, count);
    assert_eq!(times.into_inner(), 1, "two answers would be two owners");
}

/// Two runtimes that list one plugin.
fn two_with(plugin: &Arc<Plugin>) -> [Runtime; 2] {
    [runtime(), runtime()].map(|runtime| {
        assert!(runtime.register(plugin).unwrap());
        runtime
    })
}

fn device(runtime: &Runtime, plugin: &Arc<Plugin>) -> Device {
    runtime.device_of(plugin, 0).unwrap()
}

/// What new work on a device is answered: memory, a stream, and a stream of others.
fn work(device: &Device) -> [Option<Status>; 3] {
    let layout = Layout::compact(Dtype::UINT8, &[8]).unwrap();
    // SAFETY: the plugin's natives are numbers.
    let wrapped = unsafe { Stream::wrap(device, 77) }.map(drop);
    [
        Tensor::empty(device, &layout).map(drop),
        Stream::new(device).map(drop),
        wrapped,
    ]
    .map(|answer| answer.err().and_then(|error| error.status()))
}

const DONE: [Option<Status>; 3] = [None; 3];
const REFUSED: [Option<Status>; 3] = [Some(Status::RETIRED); 3];

#[test]
fn a_retirement_in_one_runtime_leaves_the_plugin_to_the_other() {
    let plugin = test_plugin_streams::plugin::<10>();
    let [here, there] = two_with(&plugin);
    let [mine, theirs] = [&here, &there].map(|runtime| device(runtime, &plugin));
    here.retire(&plugin).unwrap();
    assert!(!is_asked(&here, &plugin) && !is_listed(&here, &plugin));
    assert!(is_asked(&there, &plugin) && is_listed(&there, &plugin));
    assert_eq!((work(&mine), work(&theirs)), (REFUSED, DONE));
    assert!(!plugin.is_retired());
    assert_eq!(given::<10>().retires.load(SeqCst), 0);
    there.retire(&plugin).unwrap();
    assert!(plugin.is_retired());
    assert_eq!(given::<10>().retires.load(SeqCst), 1);
    assert_eq!(work(&theirs), REFUSED);
}

#[test]
fn a_plugin_that_was_retired_here_comes_back_while_another_runtime_lists_it() {
    let plugin = test_plugin_streams::plugin::<11>();
    let [here, there] = two_with(&plugin);
    let old = device(&here, &plugin);
    here.retire(&plugin).unwrap();
    assert!(here.register(&plugin).unwrap());
    let new = device(&here, &plugin);
    assert_eq!((work(&old), work(&new)), (REFUSED, DONE));
    assert_eq!(here.device(new.id()).unwrap(), new);
    there.retire(&plugin).unwrap();
    assert_eq!(given::<11>().retires.load(SeqCst), 0);
    here.retire(&plugin).unwrap();
    assert_eq!(given::<11>().retires.load(SeqCst), 1);
    assert!(!there.register(&plugin).unwrap(), "it is retired for good");
}

#[test]
fn the_last_retirement_calls_the_hook_also_where_the_others_were_dropped() {
    let plugin = test_plugin_streams::plugin::<12>();
    let [here, there] = two_with(&plugin);
    let kept = device(&there, &plugin);
    drop(there);
    assert_eq!(given::<12>().retires.load(SeqCst), 0);
    here.retire(&plugin).unwrap();
    assert_eq!(given::<12>().retires.load(SeqCst), 1);
    drop(kept);
}

#[test]
fn a_plugin_whose_runtimes_were_dropped_is_open_for_a_new_one() {
    let plugin = test_plugin_streams::plugin::<13>();
    drop(two_with(&plugin));
    assert!(!plugin.is_retired());
    assert_eq!(given::<13>().retires.load(SeqCst), 0);
    let next = runtime();
    assert!(next.register(&plugin).unwrap());
    assert_eq!(work(&device(&next, &plugin)), DONE);
}

#[test]
fn a_plugin_is_retired_once_in_a_runtime_and_others_are_told() {
    let plugin = test_plugin_streams::plugin::<14>();
    let [here, there] = two_with(&plugin);
    drop(there);
    let second = Arc::new(Mutex::new(None));
    let (kept, inside, same) = (Arc::clone(&second), here.clone(), Arc::clone(&plugin));
    // The second one comes while the first one's hook runs.
    let step: Step = Arc::new(move || {
        *kept.lock().unwrap() = Some((inside.retire(&same), inside.register(&same)));
    });
    *given::<14>().in_retire.lock().unwrap() = Some(step);
    here.retire(&plugin).unwrap();
    let (retired, registered) = second.lock().unwrap().take().unwrap();
    assert!(matches!(retired, Err(Error::Misuse { .. })), "{retired:?}");
    assert!(!registered.unwrap());
    assert_eq!(given::<14>().retires.load(SeqCst), 1);
}

#[test]
fn of_two_runtimes_that_retire_a_plugin_at_once_one_calls_the_hook() {
    for round in 1..=50 {
        let plugin = test_plugin_streams::plugin::<15>();
        let runtimes = two_with(&plugin);
        std::thread::scope(|scope| {
            for runtime in &runtimes {
                scope.spawn(|| runtime.retire(&plugin).unwrap());
            }
        });
        assert_eq!(given::<15>().retires.load(SeqCst), round);
    }
}

#[test]
fn a_plugin_that_the_other_runtime_retires_during_a_load_is_opened_anew() {
    let first = test_plugin_streams::plugin::<16>();
    let second = test_plugin_streams::plugin::<17>();
    let (here, there) = (runtime(), runtime());
    assert!(there.register(&first).unwrap());
    let (other, same) = (there.clone(), Arc::clone(&first));
    let step: Step = Arc::new(move || other.retire(&same).unwrap());
    // Between the open plugin that was found and its entry.
    *given::<16>().in_device_info.lock().unwrap() = Some(step);
    let mut opens = [&second, &first].map(Arc::clone).to_vec();
    let loaded = here.open_and_register(|| Ok(opens.pop().unwrap())).unwrap();
    assert!(Arc::ptr_eq(&loaded, &second) && opens.is_empty());
    assert!(is_listed(&here, &second) && !is_listed(&here, &first));
    assert_eq!(given::<16>().retires.load(SeqCst), 1);
}

#[test]
fn a_plugin_that_answers_no_more_once_the_other_runtime_retired_it_fails_no_load() {
    let plugin = test_plugin_streams::plugin::<23>();
    let (here, there) = (runtime(), runtime());
    assert!(there.register(&plugin).unwrap());
    let (other, same) = (there.clone(), Arc::clone(&plugin));
    let step: Step = Arc::new(move || {
        other.retire(&same).unwrap();
        given::<23>().is_silent.store(true, SeqCst);
    });
    *given::<23>().in_device_info.lock().unwrap() = Some(step);
    assert!(!here.register(&plugin).unwrap());
    // While nobody retired it, its silence is an error.
    let another = test_plugin_streams::plugin::<23>();
    assert!(here.register(&another).is_err());
    assert!(!is_listed(&here, &plugin) && !is_listed(&here, &another));
}

#[test]
fn a_plugin_that_is_entered_before_the_other_runtime_retires_it_stays() {
    let plugin = test_plugin_streams::plugin::<18>();
    let (here, there) = (runtime(), runtime());
    assert!(there.register(&plugin).unwrap());
    let infos = plugin.device_infos().unwrap();
    here.change(|registry| here.enter(registry, &plugin, &infos));
    there.retire(&plugin).unwrap();
    assert!(is_asked(&here, &plugin) && is_listed(&here, &plugin));
    assert_eq!(given::<18>().retires.load(SeqCst), 0);
    assert_eq!(work(&device(&here, &plugin)), DONE);
}

#[test]
fn a_plugin_that_is_retired_here_while_it_is_loaded_here_once_more_is_listed_again() {
    let plugin = test_plugin_streams::plugin::<19>();
    let [here, there] = two_with(&plugin);
    let (inside, same) = (here.clone(), Arc::clone(&plugin));
    let step: Step = Arc::new(move || inside.retire(&same).unwrap());
    *given::<19>().in_device_info.lock().unwrap() = Some(step);
    assert!(here.register(&plugin).unwrap());
    assert!(is_asked(&here, &plugin) && is_listed(&here, &plugin));
    there.retire(&plugin).unwrap();
    assert_eq!(given::<19>().retires.load(SeqCst), 0);
    here.retire(&plugin).unwrap();
    assert_eq!(given::<19>().retires.load(SeqCst), 1);
}

#[test]
fn memory_of_a_plugin_that_is_retired_here_while_it_is_asked_has_no_owner_here() {
    let plugin = test_plugin_streams::plugin::<20>();
    let [here, there] = two_with(&plugin);
    let (inside, same) = (here.clone(), Arc::clone(&plugin));
    let step: Step = Arc::new(move || inside.retire(&same).unwrap());
    *given::<20>().in_query.lock().unwrap() = Some(step);
    let PointerAnswer { device, .. } = here.pointer_query(MEMORY).unwrap();
    assert!(device.is_none());
    assert!(there.pointer_query(MEMORY).unwrap().device.is_some());
}
