//! Addresses: whose memory one is in, whoever allocated it, and where elements of a tensor of others begin.

use std::collections::BTreeMap;

use crossdock::{Device, RouteChoice, Runtime, Tensor};
use crossdock_sdk::abi::{MemoryKind, StreamHandle};
use crossdock_sdk::dlpack::{
    self, AxisSlice, DLManagedTensorVersioned, DataWord, Dtype, Flags, Layout, Produced, Received,
    TensorView,
};
use crossdock_sdk::plugin::Register as _;

use crate::driver::Driver;
use crate::hooks::{BYTES, device, open, query, round_trip};
use crate::{POLICIES, over, runtime};

/// A tensor of somebody else's, who says where it is.
pub(crate) fn foreign(
    runtime: &Runtime,
    (address, byte_offset): (u64, u64),
    layout: &Layout,
    claimed: dlpack::Device,
) -> Result<Tensor, crossdock::Error> {
    let word = usize::try_from(address).unwrap();
    let data = DataWord::from_addr(word);
    let view = TensorView::new(layout.clone(), data, byte_offset, claimed, Flags::NONE).unwrap();
    let produced = Produced::<DLManagedTensorVersioned>::new((), &view).unwrap();
    // SAFETY: a live managed tensor that is handed over.
    let received = unsafe { Received::from_versioned(produced.into_raw()) }.unwrap();
    Tensor::import(runtime, received)
}

fn cuda(runtime: &Runtime, index: i32) -> Device {
    runtime
        .device(format!("cuda:{index}").parse().unwrap())
        .unwrap()
}

#[test]
fn memory_that_others_allocate_is_theirs_before_and_after_the_plugin_opens() {
    let name = "addresses::memory_that_others_allocate_is_theirs_before_and_after_the_plugin_opens";
    if !over(name, &POLICIES[..1]) {
        return;
    }
    let driver = Driver::open();
    let context = driver.create_context(1);
    let allocate = || {
        [
            (driver.allocate(BYTES), MemoryKind::DEVICE),
            (driver.allocate_pinned(BYTES), MemoryKind::PINNED),
            (driver.allocate_managed(BYTES), MemoryKind::MANAGED),
        ]
    };
    let before = allocate();
    let cuda = open();
    let after = allocate();
    for (address, kind) in before.into_iter().chain(after) {
        for byte in [0, 1, BYTES as u64 - 1] {
            let info = query(&cuda, address + byte);
            assert_eq!(
                (info.kind, info.device, info.base.word),
                (kind, 1, address),
                "{byte}"
            );
        }
        // Nobody remembers what an address was.
        match kind {
            MemoryKind::PINNED => driver.free_pinned(address),
            _ => driver.free(address),
        }
        assert_eq!(query(&cuda, address).kind, MemoryKind::UNOWNED);
    }
    driver.destroy_context(context);
}

#[test]
fn an_address_that_the_driver_never_saw_is_unowned_and_leaves_no_error() {
    let name = "addresses::an_address_that_the_driver_never_saw_is_unowned_and_leaves_no_error";
    if !over(name, &POLICIES[..1]) {
        return;
    }
    static IN_THE_PROGRAM: u64 = 7;
    let (cuda, driver) = (open(), Driver::open());
    let (on_stack, on_heap) = (7_u64, Box::new(7_u64));
    let memory = crate::hooks::allocate(&cuda, MemoryKind::DEVICE, 0).unwrap();
    let freed = crate::hooks::allocate(&cuda, MemoryKind::DEVICE, 0).unwrap();
    crate::hooks::free(&cuda, freed, MemoryKind::DEVICE).unwrap();
    let addresses = [
        0,
        1,
        u64::MAX,
        (&raw const on_stack).addr() as u64,
        (&raw const *on_heap).addr() as u64,
        (&raw const IN_THE_PROGRAM).addr() as u64,
        memory.word + BYTES as u64,
        freed.word,
    ];
    for address in addresses {
        assert_eq!(
            query(&cuda, address).kind,
            MemoryKind::UNOWNED,
            "{address:#x}"
        );
        // The next call does not find a failure of this one.
        round_trip(&cuda, device(memory.word, 0), StreamHandle::NONE).unwrap();
    }
    crate::hooks::free(&cuda, memory, MemoryKind::DEVICE).unwrap();
    drop(cuda);
    assert_eq!(driver.leaks(), 0);
}

#[test]
fn a_thousand_views_are_the_owners_of_their_base() {
    if !over(
        "addresses::a_thousand_views_are_the_owners_of_their_base",
        &POLICIES[..1],
    ) {
        return;
    }
    let runtime = runtime();
    let whole = Layout::compact(Dtype::INT16, &[50, 60]).unwrap();
    let owners = [0, 1].map(|index| Tensor::empty(&cuda(&runtime, index), &whole).unwrap());
    let addresses = owners
        .each_ref()
        .map(|owner| owner.address().as_pointer().unwrap());
    let mut seed = 1_u64;
    let mut below = |end: i64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        i64::try_from(seed >> 33).unwrap() % end
    };
    for number in 0..1000 {
        let (owner, address) = (&owners[number % 2], addresses[number % 2]);
        let (rows, columns) = (below(50), below(60));
        let stride = [1, -1, 7, 0][usize::try_from(below(4)).unwrap()];
        let room = match stride {
            -1 => columns + 1,
            7 => (60 - columns + 6) / 7,
            _ => 60 - columns,
        };
        let length = below(room + 1);
        let layout = Layout::strided(Dtype::INT16, &[50 - rows, length], &[60, stride]).unwrap();
        let at = u64::try_from(2 * (rows * 60 + columns)).unwrap();
        // The offset is in the address, or beside it, or in both.
        let (inside, beside) = [(0, at), (at, 0), (at / 4 * 2, at - at / 4 * 2)][number % 3];
        let view = foreign(
            &runtime,
            (address + inside, beside),
            &layout,
            owner.device().id(),
        );
        assert_eq!(view.unwrap().device(), owner.device(), "{layout:?} at {at}");
    }
    // One element past the end is refused, wherever the view begins.
    let layout = Layout::compact(Dtype::INT16, &[3001]).unwrap();
    foreign(
        &runtime,
        (addresses[0], 0),
        &layout,
        owners[0].device().id(),
    )
    .unwrap_err();
    let layout = Layout::compact(Dtype::INT16, &[2]).unwrap();
    foreign(
        &runtime,
        (addresses[0], 5998),
        &layout,
        owners[0].device().id(),
    )
    .unwrap_err();
}

#[test]
fn a_tensor_without_elements_calls_no_driver() {
    if !over(
        "addresses::a_tensor_without_elements_calls_no_driver",
        &POLICIES[..1],
    ) {
        return;
    }
    let (runtime, driver) = (runtime(), Driver::open());
    let [here, there] = [0, 1].map(|index| cuda(&runtime, index));
    let cpu = runtime.device(dlpack::Device::CPU).unwrap();
    let empty = Layout::compact(Dtype::FLOAT32, &[4, 0]).unwrap();
    // The devices are open by now.
    let some = Layout::compact(Dtype::UINT8, &[16]).unwrap();
    drop((
        Tensor::empty(&here, &some).unwrap(),
        Tensor::empty(&there, &some).unwrap(),
    ));
    driver.take_calls();
    for address in [0, 8, u64::MAX / 2] {
        let tensor = foreign(&runtime, (address, 0), &empty, here.id()).unwrap();
        assert_eq!((tensor.device(), tensor.nbytes()), (&here, 0));
    }
    let made = Tensor::empty(&here, &empty).unwrap();
    for to in [&here, &there, &cpu] {
        let (moved, _) = made.to(to, RouteChoice::Best).unwrap();
        assert_eq!(moved.read().unwrap(), [0; 0]);
    }
    made.fill(&[1, 2, 3, 4], None).unwrap();
    made.copy_from(&Tensor::empty(&cpu, &empty).unwrap(), None)
        .unwrap();
    drop(made);
    assert_eq!(driver.take_calls(), BTreeMap::new());
}

#[test]
fn the_byte_offset_counts_in_every_kind_of_memory() {
    if !over(
        "addresses::the_byte_offset_counts_in_every_kind_of_memory",
        &POLICIES,
    ) {
        return;
    }
    let runtime = runtime();
    let whole = Layout::compact(Dtype::INT16, &[300]).unwrap();
    let part = Layout::compact(Dtype::INT16, &[30]).unwrap();
    let bytes: Vec<u8> = (0..600_u32).map(|at| at.to_le_bytes()[0] ^ 0x5A).collect();
    for index in [0, 1] {
        for kind in [MemoryKind::DEVICE, MemoryKind::PINNED, MemoryKind::MANAGED] {
            let owner = Tensor::empty_of(&cuda(&runtime, index), &whole, kind).unwrap();
            owner.write(&bytes).unwrap();
            let address = owner.address().as_pointer().unwrap();
            // None, an even one, and odd multiples of the size of an element.
            for offset in [0, 64, 2, 2 * 33] {
                let claimed = owner.dlpack_device();
                let view = foreign(&runtime, (address, offset), &part, claimed).unwrap();
                assert_eq!((view.memory_kind(), view.device()), (kind, owner.device()));
                let from = usize::try_from(offset).unwrap();
                assert_eq!(
                    view.read().unwrap(),
                    bytes[from..from + 60],
                    "{kind:?} {offset}"
                );
                // Our own export carries it back.
                let slice = AxisSlice {
                    start: 1,
                    step: 1,
                    len: 29,
                };
                let managed = view.slice(&[slice]).unwrap().export().unwrap().into_raw();
                // SAFETY: a live managed tensor that is handed over.
                let received = unsafe { Received::from_versioned(managed) }.unwrap();
                let back = Tensor::import(&runtime, received).unwrap();
                assert_eq!(back.read().unwrap(), bytes[from + 2..from + 60]);
            }
        }
    }
}

#[test]
fn memory_that_is_registered_belongs_to_the_device_until_it_is_not() {
    let name = "addresses::memory_that_is_registered_belongs_to_the_device_until_it_is_not";
    if !over(name, &POLICIES[..1]) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let mut bytes = vec![0_u8; 3 * 4096];
    let (pointer, address) = (
        bytes.as_mut_ptr(),
        bytes.as_ptr().expose_provenance() as u64,
    );
    assert_eq!(query(&cuda, address).kind, MemoryKind::UNOWNED);
    // SAFETY: the bytes live until they are unregistered.
    unsafe { cuda.register_host(1, pointer.cast(), bytes.len() as u64) }.unwrap();
    let info = query(&cuda, address + 5000);
    assert_eq!(
        (info.kind, info.device, info.base.word),
        (MemoryKind::PINNED, 1, address)
    );
    assert_eq!(driver.kind_of(address), Ok(1));
    cuda.unregister_host(1, pointer.cast()).unwrap();
    assert_eq!(query(&cuda, address).kind, MemoryKind::UNOWNED);
    assert_eq!(driver.kind_of(address), Err(1));
}
