//! Pinned and managed memory of others, on devices that claim to be `cuda` and `rocm`: DLPack calls
//! such memory a device, and the host reads it where it is.
#![expect(unsafe_code, reason = "hands managed tensors over by their pointers")]
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use std::path::{Path, PathBuf};

use crossdock::{
    CostCache, Error, RouteChoice, RouteKind, Runtime, RuntimeBuilder, Stream, Target, Tensor,
};
use crossdock_e2e::outsiders::symbol;
use crossdock_e2e::simulated::Simulated;
use crossdock_e2e::{asynchronous, compile_plugin, ext_dev, root, with_environment};
use crossdock_sdk::abi::{Address, AllocateArgs, MemoryKind};
use crossdock_sdk::dlpack::{
    AxisSlice, DataWord, Device, Dtype, Flags, Layout, Produced, Received, TensorView,
};

/// Bytes of each allocation.
const ALL: u64 = 4096;
const ALIAS: RouteChoice = RouteChoice::Only(RouteKind::Alias);

/// The CPU, one that the host reads (`ext_dev`), `cuda` and `rocm`.
fn runtime(folder: &Path) -> Runtime {
    let source = root().join("tests/plugins/accelerators.c");
    let file = compile_plugin(&source, folder, &[]);
    open(&[file, ext_dev(folder)])
}

fn open(files: &[PathBuf]) -> Runtime {
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    let add = |builder: RuntimeBuilder, file| builder.plugin(file);
    files.iter().fold(builder, add).open().unwrap()
}

fn named(id: &str) -> Device {
    id.parse().unwrap()
}

/// Memory that somebody else has from the plugin of a device.
fn memory(runtime: &Runtime, id: &str, kind: MemoryKind) -> Address {
    let device = runtime.device(named(id)).unwrap();
    let args = AllocateArgs {
        size: ALL,
        alignment: 256,
        kind,
        device: device.index(),
    };
    device.plugin().hooks().allocate(args).unwrap()
}

/// So many bytes of it, as somebody hands them over who says where they are.
fn import(
    runtime: &Runtime,
    memory: Address,
    (claimed, count, flags): (Device, i64, Flags),
) -> Result<Tensor, Error> {
    let layout = Layout::compact(Dtype::UINT8, &[count]).unwrap();
    let data = DataWord::from_addr(usize::try_from(memory.as_pointer().unwrap()).unwrap());
    let view = TensorView::new(layout, data, 0, claimed, flags).unwrap();
    let produced = Produced::new((), &view).unwrap();
    // SAFETY: a live export that nobody else owns.
    let received = unsafe { Received::from_versioned(produced.into_raw()) }.unwrap();
    Tensor::import(runtime, received)
}

/// Whose it is said to be where it is none of the claimed device's.
fn found(refused: Result<Tensor, Error>) -> String {
    match refused {
        Err(Error::Claim { found, .. }) => found,
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn memory_that_is_called_by_its_kind_stays_its_owners_and_the_host_shares_it() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let cpu = runtime.device(Device::CPU).unwrap();
    for (id, kind, claimed) in [
        ("cuda:0", MemoryKind::PINNED, "cuda_host:0"),
        ("cuda:2", MemoryKind::MANAGED, "cuda_managed:0"),
        ("rocm:1", MemoryKind::PINNED, "rocm_host:0"),
    ] {
        let memory = memory(&runtime, id, kind);
        // A caller that names the device alone means the same memory.
        for says in [claimed, id] {
            let tensor = import(&runtime, memory, (named(says), 64, Flags::NONE)).unwrap();
            assert_eq!(tensor.device().id(), named(id), "{says}");
            assert_eq!(tensor.dlpack_device(), named(claimed), "{says}");
            assert_eq!(tensor.memory_kind(), kind, "{says}");
            let explained = tensor.explain(&cpu, RouteChoice::Best);
            let (shared, _) = tensor.to(&cpu, ALIAS).unwrap();
            assert_eq!(explained.kind, RouteKind::Alias, "{says}");
            assert_eq!(shared.address().as_pointer(), memory.as_pointer());
        }
        let too_long = import(&runtime, memory, (named(claimed), 4097, Flags::NONE));
        assert!(matches!(too_long, Err(Error::Exchange(_))), "{too_long:?}");
    }
}

#[test]
fn pinned_memory_that_is_called_the_hosts_is_the_hosts_within_its_allocation() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let memory = memory(&runtime, "cuda:1", MemoryKind::PINNED);
    let tensor = import(&runtime, memory, (Device::CPU, 4096, Flags::NONE)).unwrap();
    assert_eq!(tensor.dlpack_device(), Device::CPU);
    assert_eq!(tensor.memory_kind(), MemoryKind::HOST);
    assert_eq!(tensor.address().as_pointer(), memory.as_pointer());
    let too_long = import(&runtime, memory, (Device::CPU, 4097, Flags::NONE));
    assert!(matches!(too_long, Err(Error::Exchange(_))), "{too_long:?}");
}

#[test]
fn device_memory_is_the_hosts_under_no_name_and_the_device_that_owns_it_under_any() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let memory = memory(&runtime, "cuda:1", MemoryKind::DEVICE);
    for says in ["cpu:0", "cuda_host:0", "cuda_managed:0", "rocm_host:0"] {
        let found = found(import(&runtime, memory, (named(says), 64, Flags::NONE)));
        assert!(found.contains("cuda:1"), "{says}: {found}");
    }
    for says in ["cuda:1", "cuda:2", "rocm:0"] {
        let tensor = import(&runtime, memory, (named(says), 64, Flags::NONE)).unwrap();
        assert_eq!(tensor.dlpack_device(), named("cuda:1"), "{says}");
        let cpu = runtime.device(Device::CPU).unwrap();
        assert!(tensor.to(&cpu, ALIAS).is_err(), "{says}");
    }
}

#[test]
fn memory_of_nobody_is_the_hosts_where_its_type_says_that_the_host_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let bytes = [7_u8; 64];
    let memory = Address::pointer(bytes.as_ptr().expose_provenance() as u64);
    for says in [
        "cpu:0",
        "cpu:3",
        "cuda_host:0",
        "cuda_managed:1",
        "rocm_host:0",
    ] {
        let tensor = import(&runtime, memory, (named(says), 64, Flags::READ_ONLY)).unwrap();
        assert_eq!(tensor.dlpack_device(), Device::CPU, "{says}");
        assert!(tensor.is_read_only() && tensor.read().unwrap() == bytes);
    }
    for says in ["cuda:0", "vulkan:0"] {
        let refused = import(&runtime, memory, (named(says), 64, Flags::NONE));
        assert!(refused.is_err(), "{says}");
    }
}

#[test]
fn device_memory_that_the_host_reads_is_the_hosts_by_the_hosts_names_and_no_other_devices() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let memory = memory(&runtime, "ext_dev:0", MemoryKind::DEVICE);
    for (says, is) in [
        ("ext_dev:0", "ext_dev:0"),
        ("cpu:0", "cpu:0"),
        ("cuda_host:0", "cpu:0"),
    ] {
        let tensor = import(&runtime, memory, (named(says), 64, Flags::NONE)).unwrap();
        assert_eq!(tensor.dlpack_device(), named(is), "{says}");
    }
    let found = found(import(&runtime, memory, (named("cuda:0"), 64, Flags::NONE)));
    assert!(found.contains("ext_dev:0"), "{found}");
}

#[test]
fn host_memory_is_a_devices_where_that_registered_it_and_the_hosts_beyond() {
    let runtime = open(&[asynchronous()]);
    let import = |memory, says, count| import(&runtime, memory, (named(says), count, Flags::NONE));
    let mut bytes = vec![7_u8; 3 * 4096];
    let nobodys = Address::pointer(bytes.as_mut_ptr().expose_provenance() as u64);
    let hosts = memory(&runtime, "cpu:0", MemoryKind::DEVICE);
    let refused = found(import(hosts, "vpi:0", 64));
    assert!(refused.contains("cpu:0"), "{refused}");
    let device = runtime.device(named("vpi:0")).unwrap();
    for memory in [nobodys, hosts] {
        let word = usize::try_from(memory.as_pointer().unwrap()).unwrap();
        let pointer = std::ptr::with_exposed_provenance_mut(word);
        let hooks = device.plugin().hooks();
        // SAFETY: so many bytes, which live until they are unregistered.
        unsafe { hooks.register_host(0, pointer, 4096) }.unwrap();
        let tensor = import(memory, "vpi:0", 4096).unwrap();
        assert_eq!(tensor.device().id(), named("vpi:0"));
        assert!(import(memory, "vpi:0", 4097).is_err());
        drop(tensor);
        // SAFETY: registered above, and nobody uses it as the device's.
        let end = || unsafe { hooks.unregister_host(0, pointer) }.unwrap();
        if memory == hosts {
            let refused = found(import(memory, "vpi:1", 64));
            assert!(refused.contains("cpu:0"), "{refused}");
            end();
            continue;
        }
        // Nobody else knows it, so the device may be corrected, and the host has more of it.
        assert_eq!(
            import(memory, "vpi:1", 64).unwrap().device().id(),
            named("vpi:0")
        );
        let all = import(memory, "cpu:0", 3 * 4096).unwrap();
        assert_eq!(all.dlpack_device(), Device::CPU);
        drop(all);
        end();
    }
}

#[test]
fn pinned_memory_that_the_host_has_elsewhere_is_the_devices() {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("tests/plugins/claims.c");
    let runtime = open(&[compile_plugin(&source, folder.path(), &["-DELSEWHERE"])]);
    let claim = (named("ext_dev:0"), 1, Flags::NONE);
    let tensor = import(&runtime, Address::pointer(1 << 40), claim).unwrap();
    assert_eq!(tensor.memory_kind(), MemoryKind::DEVICE);
}

#[test]
fn a_tensor_without_elements_is_where_it_says_whatever_its_address() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    for device in runtime.devices() {
        for address in [0, 64] {
            let claim = (device.id(), 0, Flags::NONE);
            let tensor = import(&runtime, Address::pointer(address), claim).unwrap();
            assert_eq!(tensor.device(), &device);
            assert!(tensor.read().unwrap().is_empty());
        }
    }
}

#[test]
fn memory_of_a_kind_is_a_target_with_the_number_of_its_device() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let bytes: Vec<u8> = (0..64).collect();
    let layout = Layout::compact(Dtype::UINT8, &[64]).unwrap();
    for (name, owner, kind) in [
        ("cuda_host:1", "cuda:1", MemoryKind::PINNED),
        ("cuda_managed:2", "cuda:2", MemoryKind::MANAGED),
        ("rocm_host:0", "rocm:0", MemoryKind::PINNED),
    ] {
        let target = runtime.target(named(name)).unwrap();
        assert_eq!(target.device().id(), named(owner));
        assert_eq!(
            (target.kind(), target.to_string()),
            (Some(kind), name.to_owned())
        );
        // The names are no devices.
        assert!(runtime.device(named(name)).is_err(), "{name}");
        for from in ["cpu:0", "cuda:0", owner] {
            let from = runtime.device(named(from)).unwrap();
            let source = Tensor::from_bytes(&from, &layout, &bytes).unwrap();
            let explained = source
                .explain_move(&target, RouteChoice::Best, None)
                .unwrap();
            let refused = source.move_to(&target, ALIAS, None);
            assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
            let (moved, route) = source.move_to(&target, RouteChoice::Best, None).unwrap();
            assert_eq!((explained.kind, explained.to), (route.kind, named(name)));
            assert_eq!(
                (moved.memory_kind(), moved.device().id()),
                (kind, named(owner))
            );
            assert_eq!(moved.dlpack_device(), named(name).ty.device(0));
            assert_eq!(moved.read().unwrap(), bytes);
            // It is there now, by its kind and by its device.
            for target in [&target, &Target::from(target.device())] {
                let (same, route) = moved.move_to(target, RouteChoice::Best, None).unwrap();
                assert_eq!(route.kind, RouteKind::Alias, "{route}");
                assert_eq!(same.address(), moved.address());
                let (own, _) = moved.move_to(target, RouteChoice::Copy, None).unwrap();
                assert_ne!(own.address(), moved.address());
                assert_eq!(
                    own.memory_kind(),
                    target.kind().unwrap_or(MemoryKind::DEVICE)
                );
            }
            let device = Target::new(target.device(), MemoryKind::DEVICE);
            let (own, route) = moved.move_to(&device, RouteChoice::Best, None).unwrap();
            assert_ne!(route.kind, RouteKind::Alias, "{route}");
            assert_eq!(own.memory_kind(), MemoryKind::DEVICE);
            assert_eq!(own.read().unwrap(), bytes);
        }
    }
    for (name, says) in [("rocm_host:7", "rocm:7"), ("tpu_host:0", "tpu:0")] {
        let unknown = runtime.target(named(name)).unwrap_err();
        assert!(unknown.to_string().contains(says), "{unknown}");
    }
}

#[test]
fn a_kind_that_the_device_does_not_offer_is_no_target() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let cpu = runtime.device(Device::CPU).unwrap();
    let layout = Layout::compact(Dtype::UINT8, &[4]).unwrap();
    let source = Tensor::empty(&cpu, &layout).unwrap();
    let managed = Target::new(&cpu, MemoryKind::MANAGED);
    let refused = source
        .move_to(&managed, RouteChoice::Best, None)
        .unwrap_err();
    assert!(
        refused.why().contains("offers no managed memory"),
        "{}",
        refused.why()
    );
    // Host memory of others is the device's own kind there.
    let own = Target::new(&cpu, MemoryKind::DEVICE);
    let (lent, _) = crossdock_e2e::lending::lent(&runtime, None);
    let (same, route) = lent.move_to(&own, RouteChoice::Best, None).unwrap();
    assert_eq!(
        (route.kind, same.address()),
        (RouteKind::Alias, lent.address())
    );
    let nothing = Layout::compact(Dtype::UINT8, &[0]).unwrap();
    let nothing = Tensor::empty(&cpu, &nothing).unwrap();
    let pinned = Target::new(&cpu, MemoryKind::PINNED);
    let (moved, _) = nothing.move_to(&pinned, RouteChoice::Best, None).unwrap();
    assert_eq!(moved.memory_kind(), MemoryKind::PINNED);
    let (same, route) = moved.move_to(&pinned, ALIAS, None).unwrap();
    assert_eq!(
        (route.kind, same.memory_kind()),
        (RouteKind::Alias, MemoryKind::PINNED)
    );
}

#[test]
fn managed_memory_is_ordered_by_the_streams_of_its_own_device() {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("tests/plugins/accelerators.c");
    let file = compile_plugin(&source, folder.path(), &[]);
    let runtime = open(std::slice::from_ref(&file));
    let log = Log::of(&file);
    let cpu = runtime.device(Device::CPU).unwrap();
    let layout = Layout::compact(Dtype::UINT8, &[64]).unwrap();
    let hosts = Tensor::from_bytes(&cpu, &layout, &[7; 64]).unwrap();
    for id in ["cuda:1", "cuda:2"] {
        let memory = memory(&runtime, id, MemoryKind::MANAGED);
        // DLPack numbers no managed memory.
        let claim = (named("cuda_managed:0"), 64, Flags::NONE);
        let tensor = import(&runtime, memory, claim).unwrap();
        let (start, step, len) = (16, 1, 16);
        let view = tensor.slice(&[AxisSlice { start, step, len }]).unwrap();
        let stream = Stream::new(&runtime.device(named(id)).unwrap()).unwrap();
        let is_own = |what: &str, work: &dyn Fn()| {
            log.take();
            work();
            let lines = log.take();
            let words = lines.split_whitespace().filter(|word| word.contains('/'));
            let others: Vec<_> = words
                .filter(|word| !word.starts_with(&format!("{id}/")))
                .collect();
            assert!(others.is_empty(), "{what} of {id}: {lines}");
            lines
        };
        let waits = is_own("ready", &|| tensor.ready_on(&stream).unwrap());
        assert!(waits.contains("record"), "{waits}");
        is_own("read", &|| drop(tensor.read().unwrap()));
        is_own("read of a view", &|| drop(view.read().unwrap()));
        is_own("write", &|| tensor.write(&[1; 64]).unwrap());
        is_own("fill", &|| view.fill(&[2], None).unwrap());
        is_own("fill on a stream", &|| {
            tensor.fill(&[3], Some(&stream)).unwrap()
        });
        is_own("copy", &|| tensor.copy_from(&hosts, None).unwrap());
        let copies = is_own("copy on a stream", &|| {
            tensor.copy_from(&hosts, Some(&stream)).unwrap();
        });
        assert!(copies.contains(&format!("{id}/")), "{copies}");
        is_own("copy to the host", &|| {
            hosts.copy_from(&tensor, Some(&stream)).unwrap()
        });
        is_own("event", &|| drop(tensor.ready().unwrap()));
        is_own("export", &|| drop(tensor.export().unwrap()));
        is_own("export on a stream", &|| {
            drop(tensor.export_on(&stream).unwrap())
        });
        is_own("alias", &|| drop(view.to(&cpu, ALIAS).unwrap()));
        is_own("wait", &|| tensor.synchronize(None).unwrap());
        assert_eq!(tensor.read().unwrap(), [7; 64]);
    }
}

/// The log of a copy of the plugin `accelerators`.
struct Log(extern "C" fn(*mut u8, usize) -> usize);

impl Log {
    fn of(file: &Path) -> Self {
        let take = symbol(file, "accel_take_log");
        // SAFETY: the address of a function of this type.
        Self(unsafe {
            (&raw const take)
                .cast::<extern "C" fn(*mut u8, usize) -> usize>()
                .read()
        })
    }

    /// The lines since the last call.
    fn take(&self) -> String {
        let mut text = vec![0; 1 << 20];
        let length = (self.0)(text.as_mut_ptr(), text.len());
        text.truncate(length);
        String::from_utf8(text).unwrap()
    }
}

#[test]
fn what_the_host_reaches_is_what_the_memory_says_and_not_its_device() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let cpu = runtime.device(Device::CPU).unwrap();
    let claim = |id| (named(id), 64, Flags::NONE);
    for (kind, is_reached) in [
        (MemoryKind::DEVICE, false),
        (MemoryKind::PINNED, true),
        (MemoryKind::MANAGED, true),
    ] {
        let memory = memory(&runtime, "cuda:1", kind);
        let tensor = import(&runtime, memory, claim("cuda:1")).unwrap();
        assert_eq!(tensor.to(&cpu, ALIAS).is_ok(), is_reached, "{kind:?}");
        let explained = tensor.explain(&cpu, RouteChoice::Best);
        assert_eq!(explained.kind == RouteKind::Alias, is_reached, "{kind:?}");
    }
}

#[test]
fn a_kind_that_the_named_vendor_confirms_is_kept_though_others_made_the_memory() {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("tests/plugins/accelerators.c");
    let file = compile_plugin(&source, folder.path(), &[]);
    let runtime = open(std::slice::from_ref(&file));
    let of_others = symbol(&file, "accel_of_others");
    // SAFETY: the address of a function of this type.
    let of_others = unsafe { (&raw const of_others).cast::<extern "C" fn(i32)>().read() };
    of_others(1);
    for (id, kind, confirmed) in [
        ("cuda:1", MemoryKind::PINNED, "cuda_host:0"),
        ("cuda:2", MemoryKind::MANAGED, "cuda_managed:0"),
        ("rocm:1", MemoryKind::PINNED, "rocm_host:0"),
    ] {
        let memory = memory(&runtime, id, kind);
        let import = |says| import(&runtime, memory, (named(says), 64, Flags::NONE)).unwrap();
        for says in [confirmed, id] {
            let tensor = import(says);
            let is = (
                tensor.device().id(),
                tensor.memory_kind(),
                tensor.dlpack_device(),
            );
            assert_eq!(is, (named(id), kind, named(confirmed)), "{says}");
        }
        // What others registered need not be all of the host's memory: beyond it the vendor says nothing.
        let beyond = (
            named(confirmed),
            i64::try_from(ALL).unwrap() + 1,
            Flags::NONE,
        );
        let tensor = self::import(&runtime, memory, beyond).unwrap();
        let is = (tensor.device().id(), tensor.memory_kind());
        assert_eq!(is, (Device::CPU, MemoryKind::HOST), "beyond");
        // Another vendor's word, or nobody's, leaves it the host's.
        let others = ["cuda_host:0", "cuda_managed:0", "rocm_host:0", "cpu:0"];
        for says in others.into_iter().filter(|says| *says != confirmed) {
            let tensor = import(says);
            let is = (tensor.device().id(), tensor.memory_kind());
            assert_eq!(is, (Device::CPU, MemoryKind::HOST), "{says}");
        }
    }
    let devices = memory(&runtime, "cuda:1", MemoryKind::DEVICE);
    let claim = |says| import(&runtime, devices, (named(says), 64, Flags::NONE));
    assert_eq!(claim("cuda:1").unwrap().memory_kind(), MemoryKind::DEVICE);
    assert!(found(claim("cpu:0")).contains("cuda:1"));
}

#[test]
fn pinned_memory_that_the_host_has_too_is_no_other_devices_of_its_plugin() {
    let name = "pinned_memory_that_the_host_has_too_is_no_other_devices_of_its_plugin";
    if with_environment(name, &[("CROSSDOCK_LAYERS", "validate")]) {
        let rig = Simulated::new();
        let [cpu, one, two] = ["cpu:0", "vpi:0", "vpi:1"].map(|id| rig.device(id));
        let layout = Layout::compact(Dtype::UINT8, &[64]).unwrap();
        let pinned = Tensor::empty_of(&two, &layout, MemoryKind::PINNED).unwrap();
        pinned.write(&[1; 64]).unwrap();
        let (host, _) = pinned.to(&cpu, ALIAS).unwrap();
        for seen in [&pinned, &host] {
            assert!(seen.to(&one, ALIAS).is_err());
            let explained = seen.explain(&one, RouteChoice::Best);
            assert_ne!(explained.kind, RouteKind::Alias, "{explained}");
            let (moved, _) = seen.to(&one, RouteChoice::Best).unwrap();
            moved.fill(&[2], None).unwrap();
            assert_eq!(moved.read().unwrap(), [2; 64]);
            assert_eq!(seen.read().unwrap(), [1; 64]);
        }
        // A device that has it gets it back.
        let pinned = Tensor::empty_of(&one, &layout, MemoryKind::PINNED).unwrap();
        let (host, _) = pinned.to(&cpu, ALIAS).unwrap();
        let (back, _) = host.to(&one, ALIAS).unwrap();
        assert_eq!(back.address(), pinned.address());
        assert_eq!(back.memory_kind(), MemoryKind::PINNED);
    }
}
