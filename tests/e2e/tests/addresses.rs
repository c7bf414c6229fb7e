//! Who owns an address that no plugin made, and views of memory that one did.
#![expect(
    unsafe_code,
    reason = "allocates and hands out memory as a program in C would"
)]
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail by panicking")]

use crossdock::{Device, Runtime, Tensor};
use crossdock_e2e::everything;
use crossdock_sdk::abi::{AddressForm, AllocateArgs, MemoryKind};
use crossdock_sdk::dlpack::{
    AxisSlice, DLManagedTensorVersioned, DataWord, Dtype, Flags, Layout, Produced, Received,
    TensorView,
};

fn pointer_devices(runtime: &Runtime) -> Vec<(Device, u64)> {
    let args = |device: &Device| AllocateArgs {
        size: 4096,
        alignment: 256,
        kind: MemoryKind::DEVICE,
        device: device.index(),
    };
    let devices = runtime.devices().into_iter();
    devices
        .filter_map(|device| {
            let address = device.plugin().hooks().allocate(args(&device)).unwrap();
            let pointer = (address.form == AddressForm::POINTER).then(|| address.as_pointer());
            Some((device, pointer??))
        })
        .collect()
}

#[test]
fn memory_that_the_host_never_saw_allocated_has_its_owner_before_and_after() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    // The hooks are called past the host, as another library would call the vendor.
    let before = pointer_devices(&runtime);
    let other = Runtime::builder().search(false).open().unwrap();
    let after = pointer_devices(&runtime);
    assert!(before.len() > 1);
    for (device, pointer) in before.iter().chain(&after) {
        for byte in [0, 1, 4095] {
            let answer = runtime.pointer_query(pointer + byte).unwrap();
            assert_eq!(answer.device.as_ref(), Some(device), "{device} byte {byte}");
        }
    }
    drop(other);
}

#[test]
fn addresses_that_no_vendor_has_seen_are_unowned() {
    static IN_THE_PROGRAM: u64 = 7;
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    let on_stack = 7_u64;
    let on_heap = Box::new(7_u64);
    // SAFETY: a new mapping that nobody may touch, anywhere.
    let guard = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    assert_ne!(guard, libc::MAP_FAILED);
    let addresses = [
        0,
        u64::MAX,
        (&raw const on_stack).addr() as u64,
        (&raw const *on_heap).addr() as u64,
        (&raw const IN_THE_PROGRAM).addr() as u64,
        guard.addr() as u64,
    ];
    for address in addresses {
        let answer = runtime.pointer_query(address).unwrap();
        assert_eq!(answer.device, None, "{address:#x}");
        assert_eq!(answer.info.kind, MemoryKind::UNOWNED, "{address:#x}");
    }
    // SAFETY: mapped above, and used by nobody.
    unsafe { libc::munmap(guard, 4096) };
}

/// A tensor of somebody else's over `memory`'s bytes, from `byte_offset` on.
fn foreign(memory: &Tensor, layout: &Layout, byte_offset: u64) -> Received {
    struct Owner(#[expect(dead_code, reason = "keeps the memory")] Tensor);
    let word = usize::try_from(memory.address().as_pointer().unwrap()).unwrap();
    let view = TensorView::new(
        layout.clone(),
        DataWord::from_addr(word),
        byte_offset,
        memory.device().id(),
        Flags::default(),
    );
    let owner = Owner(memory.clone());
    let produced = Produced::<DLManagedTensorVersioned>::new(owner, &view.unwrap()).unwrap();
    // SAFETY: a live managed tensor that is handed over.
    unsafe { Received::from_versioned(produced.into_raw()) }.unwrap()
}

fn owners(runtime: &Runtime) -> Vec<Tensor> {
    let layout = Layout::compact(Dtype::INT16, &[50, 60]).unwrap();
    let bytes: Vec<u8> = (0..6000_u32).map(|at| (at % 251) as u8).collect();
    let devices = runtime.devices().into_iter();
    devices
        .map(|device| Tensor::from_bytes(&device, &layout, &bytes).unwrap())
        .filter(|tensor| tensor.address().form == AddressForm::POINTER)
        .collect()
}

#[test]
fn a_thousand_views_belong_to_the_owner_of_their_base() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    let mut seed = 1_u64;
    let mut below = |end: i64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        i64::try_from(seed >> 33).unwrap() % end
    };
    let owners = owners(&runtime);
    for number in 0..1000 {
        let owner = &owners[number % owners.len()];
        let (rows, columns) = (below(50), below(60));
        let stride = [1, -1, 7, 0][usize::try_from(below(4)).unwrap()];
        let room = match stride {
            -1 => columns + 1,
            7 => (60 - columns + 6) / 7,
            _ => 60 - columns,
        };
        let length = below(room + 1);
        let layout = Layout::strided(Dtype::INT16, &[50 - rows, length], &[60, stride]).unwrap();
        let offset = u64::try_from(2 * (rows * 60 + columns)).unwrap();
        let view = Tensor::import(&runtime, foreign(owner, &layout, offset)).unwrap();
        assert_eq!(view.device(), owner.device(), "{layout:?} at {offset}");
    }
}

#[test]
fn the_byte_offset_counts_on_every_device() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    let layout = Layout::compact(Dtype::INT16, &[30]).unwrap();
    for owner in owners(&runtime) {
        let bytes = owner.read().unwrap();
        for offset in [0, 64, 2 * 33] {
            let view = Tensor::import(&runtime, foreign(&owner, &layout, offset)).unwrap();
            let from = usize::try_from(offset).unwrap();
            assert_eq!(
                view.read().unwrap(),
                bytes[from..from + 60],
                "{}",
                owner.device()
            );
        }
    }
    // A device with handles is reached by its own exports, which carry the offset.
    for device in runtime.devices() {
        let layout = Layout::compact(Dtype::INT16, &[100]).unwrap();
        let bytes: Vec<u8> = (0..200).collect();
        let tensor = Tensor::from_bytes(&device, &layout, &bytes).unwrap();
        let slice = AxisSlice {
            start: 33,
            step: 1,
            len: 30,
        };
        let part = tensor.slice(&[slice]).unwrap();
        let managed = part.export().unwrap().into_raw();
        // SAFETY: a live managed tensor that is handed over.
        let received = unsafe { Received::from_versioned(managed) }.unwrap();
        let back = Tensor::import(&runtime, received).unwrap();
        assert_eq!(back.read().unwrap(), bytes[66..126], "{device}");
    }
}
