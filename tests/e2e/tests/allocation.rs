//! Memory of each kind, and memory that is allocated in the order of a stream.
//!
//! All tests of this file share one open simulated plugin, so they run one after another.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail by panicking")]

use crossdock::{
    CostCache, Device, Error, RouteChoice, RouteKind, Runtime, Stream, Tensor, counted_leaks,
};
use crossdock_e2e::lending::{LIMIT, layout, one_cpu, status};
use crossdock_e2e::simulated::Simulated;
use crossdock_e2e::{plugin_file, report, with_faults};
use crossdock_sdk::abi::{Capabilities, MemoryKind, Status};

const KINDS: [(MemoryKind, Capabilities); 2] = [
    (MemoryKind::PINNED, Capabilities::PINNED),
    (MemoryKind::MANAGED, Capabilities::MANAGED),
];

/// Bytes that differ from their neighbours.
fn bytes(start: u8) -> Vec<u8> {
    (0..4096_u32)
        .map(|at| start.wrapping_add((at % 251) as u8))
        .collect()
}

/// Writes, reads and moves memory of each kind that a device offers; the others are refused with the name.
fn uses_each_kind(device: &Device, cpu: &Device) -> usize {
    let mut offered = 0;
    for (kind, capability) in KINDS {
        let made = Tensor::empty_of(device, &layout(), kind);
        if !device.capabilities().contains(capability) {
            let error = made.unwrap_err();
            assert_eq!(error.status(), Some(Status::UNSUPPORTED), "{device}");
            assert!(error.why().contains(&device.to_string()), "{}", error.why());
            continue;
        }
        offered += 1;
        let tensor = made.unwrap();
        assert_eq!((tensor.memory_kind(), tensor.device()), (kind, device));
        tensor.write(&bytes(1)).unwrap();
        assert_eq!(tensor.read().unwrap(), bytes(1), "{device} {kind:?}");
        let (there, _) = tensor.to(cpu, RouteChoice::Copy).unwrap();
        assert_eq!(there.read().unwrap(), bytes(1), "{device} {kind:?}");
        tensor
            .copy_from(
                &Tensor::from_bytes(device, &layout(), &bytes(2)).unwrap(),
                None,
            )
            .unwrap();
        let (own, _) = tensor.to(device, RouteChoice::Copy).unwrap();
        tensor.fill(&[9], None).unwrap();
        assert_eq!(own.read().unwrap(), bytes(2), "{device} {kind:?}");
        assert_eq!(tensor.read().unwrap(), [9; 4096], "{device} {kind:?}");
        drop(tensor.export().unwrap());
    }
    offered
}

#[test]
fn memory_of_each_kind_is_used_as_memory_of_the_device_is() {
    let rig = Simulated::new();
    let cpu = rig.device("cpu:0");
    let simulated: usize = ["vpi:0", "vpi:1"]
        .map(|name| uses_each_kind(&rig.device(name), &cpu))
        .iter()
        .sum();
    // Both have pinned memory, and the integrated one has managed memory.
    assert_eq!(simulated, 3);
    assert_eq!(uses_each_kind(&cpu, &cpu), 1);
    rig.assert_clean();
}

#[test]
fn memory_of_each_kind_of_an_opencl_device_is_used_as_its_own_is() {
    let Some(file) = plugin_file("opencl") else {
        return report("skipped: the OpenCL plugin was not built in this run");
    };
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    let runtime = builder.plugin(file).open().unwrap();
    let cpu = runtime.device("cpu:0".parse().unwrap()).unwrap();
    let devices = runtime.devices();
    let Some(other) = devices.iter().find(|device| device.id() != cpu.id()) else {
        return report("skipped: there is no OpenCL device");
    };
    uses_each_kind(other, &cpu);
}

#[test]
fn a_kind_that_nobody_allocates_is_refused() {
    let (_runtime, cpu) = one_cpu();
    for kind in [MemoryKind::UNOWNED, MemoryKind::HOST, MemoryKind(77)] {
        let made = Tensor::empty_of(&cpu, &layout(), kind);
        assert!(matches!(made, Err(Error::Misuse { .. })), "{kind:?}");
    }
}

#[test]
fn memory_in_the_order_of_a_stream_is_there_at_once_and_used_behind_its_place() {
    let rig = Simulated::new();
    let (cpu, one) = (rig.device("cpu:0"), rig.device("vpi:0"));
    let [first, second] = [(); 2].map(|()| Stream::new(&one).unwrap());
    let source = Tensor::from_bytes(&cpu, &layout(), &bytes(3)).unwrap();
    let direct = RouteChoice::Only(RouteKind::Direct);
    let home = rig.held(|| {
        let made = Tensor::empty_on(&first, &layout()).unwrap();
        // On another stream, which the library makes wait for the place of the allocation.
        made.copy_from(&source, Some(&second)).unwrap();
        let (home, _) = made.to_on(&cpu, direct, &first).unwrap();
        home
    });
    assert_eq!(home.read().unwrap(), bytes(3));
    drop((home, source, first, second));
    rig.assert_clean();
}

#[test]
fn memory_in_the_order_of_a_stream_is_freed_by_the_stream_where_its_place_cannot_be_recorded() {
    let rig = Simulated::new();
    let stream = Stream::new(&rig.device("vpi:0")).unwrap();
    for (times, is_made) in [("1", true), ("1+", false)] {
        let faults = format!("call:event_record@{times}=CONFLICT");
        rig.held(|| {
            rig.control.inject(&faults).unwrap();
            let made = Tensor::empty_on(&stream, &layout());
            assert_eq!(made.is_ok(), is_made, "{made:?}");
            drop(made);
            rig.control.clear_faults();
        });
        stream.synchronize(LIMIT).unwrap();
        assert_eq!(counted_leaks(), 0, "the stream freed it");
    }
    drop(stream);
    rig.assert_clean();
}

#[test]
fn memory_in_the_order_of_a_stream_is_used_by_the_host_after_it() {
    let rig = Simulated::new();
    let one = rig.device("vpi:0");
    let stream = Stream::new(&one).unwrap();
    let made = Tensor::empty_on(&stream, &layout()).unwrap();
    made.write(&bytes(4)).unwrap();
    assert_eq!(made.read().unwrap(), bytes(4));
    drop(made);
    stream.synchronize(LIMIT).unwrap();
    let nothing = crossdock_sdk::dlpack::Layout::compact(crossdock_sdk::dlpack::Dtype::UINT8, &[0]);
    assert_eq!(
        Tensor::empty_on(&stream, &nothing.unwrap())
            .unwrap()
            .nbytes(),
        0
    );
    drop(stream);
    rig.assert_clean();
}

#[test]
fn memory_of_another_kind_is_given_back_behind_work_that_uses_it() {
    let rig = Simulated::new();
    let devices = ["vpi:0", "vpi:1"].map(|name| rig.device(name));
    let offered = devices.iter().flat_map(|device| {
        let kinds = KINDS
            .iter()
            .filter(|kind| device.capabilities().contains(kind.1));
        kinds.map(move |kind| (device, kind.0))
    });
    for (device, kind) in offered {
        let stream = Stream::new(device).unwrap();
        let source = Tensor::from_bytes(device, &layout(), &bytes(6)).unwrap();
        let made = Tensor::empty_of(device, &layout(), kind).unwrap();
        rig.held(|| {
            made.copy_from(&source, Some(&stream)).unwrap();
            drop(made);
        });
        rig.runtime.wait_for_releases(LIMIT).unwrap();
        assert_eq!(counted_leaks(), 0, "{device} {kind:?}");
    }
    rig.assert_clean();
}

#[test]
fn memory_of_another_kind_goes_to_another_device_of_its_plugin_by_a_copy() {
    let rig = Simulated::new();
    let [one, two] = ["vpi:0", "vpi:1"].map(|name| rig.device(name));
    for (from, to) in [(&one, &two), (&two, &one)] {
        let made = Tensor::empty_of(from, &layout(), MemoryKind::PINNED).unwrap();
        made.write(&bytes(7)).unwrap();
        let (there, route) = made.to(to, RouteChoice::Best).unwrap();
        assert_ne!(route.kind, RouteKind::Alias, "{route}");
        assert_eq!(made.explain(to, RouteChoice::Best).kind, route.kind);
        let own = Tensor::empty(from, &layout()).unwrap();
        own.copy_from(&there, None).unwrap();
        assert_eq!(own.read().unwrap(), bytes(7));
    }
    rig.assert_clean();
}

#[test]
fn a_stream_that_allocates_nothing_leaves_it_to_the_device() {
    let name = "a_stream_that_allocates_nothing_leaves_it_to_the_device";
    if with_faults(
        name,
        "cpu.allocate_async:1=UNSUPPORTED,cpu.allocate_async:2=OOM_DEVICE",
    ) {
        let (_runtime, cpu) = one_cpu();
        let stream = Stream::new(&cpu).unwrap();
        let made = Tensor::empty_on(&stream, &layout()).unwrap();
        made.write(&bytes(5)).unwrap();
        assert_eq!(made.read().unwrap(), bytes(5));
        let made = Tensor::empty_on(&stream, &layout());
        assert_eq!(status(&made), Some(Status::OOM_DEVICE));
    }
}
