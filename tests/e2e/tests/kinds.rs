//! Pinned and managed memory of others, on devices that claim to be CUDA and ROCm: DLPack calls such
//! memory a device, and the host reads it where it is.
#![expect(unsafe_code, reason = "hands managed tensors over by their pointers")]
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use std::path::Path;

use crossdock::{Error, RouteChoice, RouteKind, Runtime, Tensor};
use crossdock_e2e::{compile_plugin, root};
use crossdock_sdk::abi::{Address, AllocateArgs, MemoryKind};
use crossdock_sdk::dlpack::{
    DataWord, Device, Dtype, Flags, Layout, Produced, Received, TensorView,
};

/// Bytes of each allocation.
const ALL: u64 = 4096;
const ALIAS: RouteChoice = RouteChoice::Only(RouteKind::Alias);

fn runtime(folder: &Path) -> Runtime {
    let source = root().join("tests/plugins/accelerators.c");
    let file = compile_plugin(&source, folder, &[]);
    let builder = Runtime::builder().search(false).plugin(file);
    builder.costs(crossdock::CostCache::Off).open().unwrap()
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
        // Whoever knows the device alone means the same memory.
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
        match import(&runtime, memory, (named(says), 64, Flags::NONE)) {
            Err(Error::Claim { found, .. }) => assert!(found.contains("cuda:1"), "{found}"),
            other => panic!("{says}: {other:?}"),
        }
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
