//! Host memory that is registered with devices: when it is unregistered, and what is refused.
//!
//! All tests of this file share one open simulated plugin, so they run one after another.
#![expect(unsafe_code, reason = "calls hooks that take raw memory")]
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail by panicking")]

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crossdock::{
    CostCache, Device, RouteChoice, RouteKind, Runtime, Stream, Tensor, counted_leaks,
};
use crossdock_e2e::lending::{
    ALL, LIMIT, MOMENT, filled, held, layout, lent, one_cpu, status, two_cpus, writable,
};
use crossdock_e2e::simulated::Simulated;
use crossdock_e2e::{plugin_file, report};
use crossdock_sdk::abi::{Address, Capabilities, CopyArgs, MemoryKind, Side, Status};
use crossdock_sdk::dlpack::{AxisSlice, Dtype, Layout};

/// Registers it twice, one after another: the second one meets nothing of the first.
fn registers_again(tensor: &Tensor, device: &Device) {
    for _ in 0..2 {
        let registered = tensor.register(device).unwrap();
        assert_eq!(registered.device(), device);
    }
}

#[test]
fn a_registration_ends_behind_the_work_that_uses_the_memory() {
    let rig = Simulated::new();
    let (cpu, one) = (rig.device("cpu:0"), rig.device("vpi:0"));
    let stream = Stream::new(&one).unwrap();
    let source = filled(&cpu, 7);
    let there = Tensor::empty(&one, &layout()).unwrap();
    let (leaks, registered) = (counted_leaks(), source.register(&one).unwrap());
    rig.held(|| {
        there.copy_from(&source, Some(&stream)).unwrap();
        drop(registered);
        // The work still has it, so it is registered until that is over.
        assert_eq!(
            status(&source.register(&one)),
            Some(Status::CONFLICT),
            "it ended under the copy"
        );
    });
    rig.runtime.wait_for_releases(LIMIT).unwrap();
    assert_eq!(there.read().unwrap(), [7; ALL]);
    registers_again(&source, &one);
    assert_eq!(counted_leaks(), leaks);
    drop((source, there, stream));
    rig.assert_clean();
}

#[test]
fn a_registration_keeps_the_memory_and_ends_before_it() {
    let rig = Simulated::new();
    let (cpu, one) = (rig.device("cpu:0"), rig.device("vpi:0"));
    let stream = Stream::new(&one).unwrap();
    let there = Tensor::empty(&one, &layout()).unwrap();
    let (source, is_back) = lent(&rig.runtime, None);
    let is_back = || is_back.load(Ordering::SeqCst);
    assert_eq!(source.device(), &cpu);
    let registered = source.register(&one).unwrap();
    rig.held(|| {
        there.copy_from(&source, Some(&stream)).unwrap();
        drop(source);
        assert!(!is_back());
        drop(registered);
        assert!(!is_back());
    });
    rig.runtime.wait_for_releases(LIMIT).unwrap();
    assert!(is_back());
    assert_eq!(there.read().unwrap(), [7; ALL]);
    drop((there, stream));
    rig.assert_clean();
}

#[test]
fn a_registration_that_is_dropped_during_a_copy_ends_behind_it() {
    let rig = Simulated::new();
    let (cpu, one) = (rig.device("cpu:0"), rig.device("vpi:0"));
    let there = Tensor::empty(&one, &layout()).unwrap();
    let source = filled(&cpu, 3);
    let registered = source.register(&one).unwrap();
    thread::scope(|scope| {
        let copy = rig.held(|| {
            let copy = scope.spawn(|| there.copy_from(&source, None).unwrap());
            rig.wait_for_pending(1);
            drop(registered);
            copy
        });
        copy.join().unwrap();
    });
    registers_again(&source, &one);
    assert_eq!(there.read().unwrap(), [3; ALL]);
    drop((source, there));
    rig.assert_clean();
}

#[test]
fn a_registration_that_waits_for_work_waits_for_what_uses_the_memory_meanwhile() {
    let rig = Simulated::new();
    let (cpu, one) = (rig.device("cpu:0"), rig.device("vpi:0"));
    let source = filled(&cpu, 7);
    let copied = [(); 2].map(|()| Tensor::empty(&one, &layout()).unwrap());
    let [(first, first_host_event), (second, second_host_event)] = [(); 2].map(|()| held(&one));
    let [to, other] = &copied;
    let (leaks, registered) = (counted_leaks(), source.register(&one).unwrap());
    to.copy_from(&source, Some(&first)).unwrap();
    drop(registered);
    other.copy_from(&source, Some(&second)).unwrap();
    first_host_event.complete(Status::OK).unwrap();
    first.synchronize(LIMIT).unwrap();
    let ended = rig.runtime.wait_for_releases(Some(MOMENT));
    assert_eq!(status(&ended), Some(Status::TIMEOUT));
    second_host_event.complete(Status::OK).unwrap();
    rig.runtime.wait_for_releases(LIMIT).unwrap();
    assert_eq!(copied.map(|tensor| tensor.read().unwrap()), [[7; ALL]; 2]);
    registers_again(&source, &one);
    assert_eq!(counted_leaks(), leaks);
    drop((source, first, second));
    rig.assert_clean();
}

#[test]
fn a_simulated_device_unlocks_no_memory_under_a_copy_that_was_submitted_meanwhile() {
    let rig = Simulated::new();
    let one = rig.device("vpi:0");
    let (hooks, there) = (
        one.plugin().hooks(),
        Tensor::empty(&one, &layout()).unwrap(),
    );
    let mut bytes = vec![7_u8; ALL];
    let pointer = bytes.as_mut_ptr().cast::<c_void>();
    let copy = CopyArgs {
        dst: Side {
            address: there.address(),
            kind: MemoryKind::DEVICE,
            device: 0,
        },
        src: Side {
            address: Address::pointer(pointer.expose_provenance() as u64),
            kind: MemoryKind::HOST,
            device: 0,
        },
        bytes: ALL as u64,
    };
    let stream = hooks.stream_create(0).unwrap();
    let host_event = hooks.event_create_host(0).unwrap();
    hooks.stream_wait_event(stream, host_event).unwrap();
    // SAFETY: `bytes` and `there` outlive the registration and the copy, whose stream ends below.
    unsafe { hooks.register_host(0, pointer, ALL as u64).unwrap() };
    // SAFETY: as above.
    unsafe { hooks.copy(copy, stream).unwrap() };
    let word = pointer.expose_provenance();
    let is_unlocked = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let pointer = std::ptr::with_exposed_provenance_mut(word);
            // SAFETY: registered above, and this is its one end.
            unsafe { hooks.unregister_host(0, pointer).unwrap() };
            is_unlocked.store(true, Ordering::SeqCst);
        });
        let waited = hooks.stream_synchronize(stream, u64::try_from(MOMENT.as_nanos()).unwrap());
        assert_eq!(status(&waited), Some(Status::TIMEOUT));
        assert!(!is_unlocked.load(Ordering::SeqCst), "under the copy");
        hooks.event_complete(host_event, Status::OK).unwrap();
    });
    hooks.stream_synchronize(stream, u64::MAX).unwrap();
    hooks.event_destroy(host_event).unwrap();
    hooks.stream_destroy(stream).unwrap();
    assert_eq!(there.read().unwrap(), bytes);
    drop(there);
    rig.assert_clean();
}

#[test]
fn memory_is_registered_for_each_device_that_locks_it_and_once_for_each() {
    let rig = Simulated::new();
    let (cpu, one) = (rig.device("cpu:0"), rig.device("vpi:0"));
    let source = filled(&cpu, 1);
    let part = source
        .slice(&[AxisSlice {
            start: 8,
            step: 1,
            len: 8,
        }])
        .unwrap();
    let registered = source.register(&one).unwrap();
    for again in [&source, &part] {
        let error = again.register(&one).unwrap_err();
        assert_eq!(error.status(), Some(Status::CONFLICT));
        assert!(
            error.why().contains("`vpi:0` knows a part"),
            "{}",
            error.why()
        );
        assert!(error.hint().contains("registration"), "{}", error.hint());
    }
    // The CPU's plugin is another one, and knows its own memory.
    assert_eq!(status(&source.register(&cpu)), Some(Status::CONFLICT));
    drop(registered);
    // A view registers all of the memory that it is of.
    let registered = part.register(&one).unwrap();
    assert_eq!(status(&source.register(&one)), Some(Status::CONFLICT));
    drop(registered);
    registers_again(&source, &one);
    let (source, _) = lent(&rig.runtime, None);
    let both = [&one, &cpu].map(|device| source.register(device).unwrap());
    drop(both);
    registers_again(&source, &cpu);
    drop((source, part));
    rig.assert_clean();
}

#[test]
fn an_alias_that_a_device_made_of_registered_memory_outlives_the_registration() {
    let rig = Simulated::new();
    let (cpu, one) = (rig.device("cpu:0"), rig.device("vpi:0"));
    let source = filled(&cpu, 4);
    let registered = source.register(&one).unwrap();
    let (alias, route) = source.to(&one, RouteChoice::Best).unwrap();
    assert_eq!(route.kind, RouteKind::Alias, "{route}");
    drop(registered);
    alias.fill(&[6], None).unwrap();
    assert_eq!(source.read().unwrap(), [6; ALL]);
    drop(alias);
    registers_again(&source, &one);
    drop(source);
    rig.assert_clean();
}

#[test]
fn memory_that_is_read_only_is_registered_and_memory_of_no_byte_needs_no_plugin() {
    let rig = Simulated::new();
    let one = rig.device("vpi:0");
    let bytes = Box::new([2_u8; ALL]);
    let source = Tensor::from_host_memory(&rig.runtime, bytes, 0, &layout()).unwrap();
    assert!(source.is_read_only());
    registers_again(&source, &one);
    let nothing = Layout::compact(Dtype::UINT8, &[0]).unwrap();
    let nothing = Tensor::empty(&rig.device("cpu:0"), &nothing).unwrap();
    let [first, second] = [(); 2].map(|()| nothing.register(&one).unwrap());
    drop((first, second, source));
    rig.assert_clean();
}

#[test]
fn what_the_host_does_not_reach_is_not_registered() {
    let rig = Simulated::new();
    let (cpu, one) = (rig.device("cpu:0"), rig.device("vpi:0"));
    let error = filled(&one, 1).register(&cpu).unwrap_err();
    assert_eq!(error.status(), Some(Status::UNSUPPORTED));
    assert!(error.why().contains("memory of `vpi:0`"), "{}", error.why());
    // A plugin knows its own pinned memory.
    let pinned = Tensor::empty_of(&one, &layout(), MemoryKind::PINNED).unwrap();
    assert_eq!(status(&pinned.register(&one)), Some(Status::CONFLICT));
    drop(pinned);
    rig.assert_clean();
}

#[test]
fn a_retired_device_registers_nothing_and_unregisters_what_it_has() {
    let rig = Simulated::new();
    let (cpu, one) = (rig.device("cpu:0"), rig.device("vpi:0"));
    let source = filled(&cpu, 1);
    let registered = source.register(&one).unwrap();
    let leaks = counted_leaks();
    rig.runtime.retire(one.plugin()).unwrap();
    assert_eq!(status(&source.register(&one)), Some(Status::RETIRED));
    drop(registered);
    assert_eq!(counted_leaks(), leaks);
}

#[test]
fn the_cpu_and_opencl_register_host_memory() {
    let (runtime, cpu) = one_cpu();
    registers_again(&lent(&runtime, None).0, &cpu);
    let Some(file) = plugin_file("opencl") else {
        return report("skipped: the OpenCL plugin was not built in this run");
    };
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    let runtime = builder.plugin(file).open().unwrap();
    let cpu = runtime.device("cpu:0".parse().unwrap()).unwrap();
    let source = filled(&cpu, 9);
    for device in runtime.devices().iter().filter(|device| **device != cpu) {
        assert!(device.capabilities().contains(Capabilities::REGISTER));
        registers_again(&source, device);
        let (registered, stream) = (
            source.register(device).unwrap(),
            Stream::new(device).unwrap(),
        );
        let there = Tensor::empty(device, &layout()).unwrap();
        there.copy_from(&source, Some(&stream)).unwrap();
        drop(registered);
        runtime.wait_for_releases(LIMIT).unwrap();
        registers_again(&source, device);
        assert_eq!(there.read().unwrap(), [9; ALL], "{device}");
    }
}

/// Registers memory, has it adopted, and ends the registration first.
fn unregisters_before_the_adoption_ends(runtime: &Runtime, device: &Device) {
    let (source, is_back) = writable(runtime);
    let registered = source.register(device).unwrap();
    let alias = RouteChoice::Only(RouteKind::Alias);
    let (adopted, _) = source.to(device, alias).unwrap();
    adopted.fill(&[3], None).unwrap();
    drop(registered);
    runtime.wait_for_releases(LIMIT).unwrap();
    let filled = adopted.fill(&[4], None);
    assert!(filled.is_ok(), "{}", filled.unwrap_err().why());
    assert_eq!(adopted.read().unwrap(), [4; ALL]);
    drop(adopted);
    registers_again(&source, device);
    drop(source);
    assert!(is_back.load(Ordering::SeqCst));
}

#[test]
fn what_the_cpu_adopted_of_registered_memory_stays_adopted() {
    if let Some((runtime, _, other)) = two_cpus() {
        unregisters_before_the_adoption_ends(&runtime, &other);
    }
}

#[test]
fn what_opencl_adopted_of_registered_memory_stays_adopted() {
    let Some(file) = plugin_file("opencl") else {
        return report("skipped: the OpenCL plugin was not built in this run");
    };
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    let runtime = builder.plugin(file).open().unwrap();
    let device = runtime.device("opencl:0".parse().unwrap()).unwrap();
    unregisters_before_the_adoption_ends(&runtime, &device);
}
