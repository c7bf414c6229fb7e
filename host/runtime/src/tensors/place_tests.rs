//! Memory that plugins know by several names: what one says of it, the other need not.
#![expect(unsafe_code, reason = "a plugin's hooks are unsafe to offer")]

use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex};

use crossdock_sdk::abi::{
    Address, AllocateArgs, CopyArgs, DeviceInfo, MemoryInfo, MemoryKind, PointerInfo, ProbeInfo,
    StreamHandle,
};
use crossdock_sdk::dlpack::{Dtype, Layout};
use crossdock_sdk::plugin::{Error, Groups, Host, describe};

use super::may_overlap;
use crate::devices::runtime::Runtime;
use crate::tensors::memory::Memory;
use crate::tensors::owner::Owner;
use crate::tensors::tensor::Tensor;
use crate::test_plugins::test_plugin;

/// The plugin with this number: its memory is wherever a test says, and so is what it knows of it.
struct Told<const N: usize>;

struct Say {
    next: Mutex<Address>,
    /// What it says of a word and an offset.
    known: Mutex<BTreeMap<(u64, u64), PointerInfo>>,
}

static SAY: [Say; 13] = [const {
    Say {
        next: Mutex::new(Address::pointer(0)),
        known: Mutex::new(BTreeMap::new()),
    }
}; 13];

impl<const N: usize> crossdock_sdk::plugin::Plugin for Told<N> {
    const DESCRIPTION: &'static str =
        describe!(name = "told", vendor = "test", devices = "ext_dev");
    const GROUPS: Groups<Self> = Groups::new();

    fn probe() -> Result<ProbeInfo, Error> {
        Ok(ProbeInfo::ready(1, "1.0"))
    }

    fn open(_: Host) -> Result<Self, Error> {
        Ok(Self)
    }

    fn device_count(&self) -> u32 {
        1
    }

    fn device_info(&self, _: u32) -> Result<DeviceInfo, Error> {
        Ok(test_plugin::device_info())
    }

    fn memory_info(&self, _: u32) -> Result<MemoryInfo, Error> {
        Ok(MemoryInfo::default())
    }

    fn allocate(&self, _: AllocateArgs) -> Result<Address, Error> {
        Ok(*SAY[N].next.lock().unwrap())
    }

    unsafe fn free(&self, _: Address, _: MemoryKind) -> Result<(), Error> {
        Ok(())
    }

    unsafe fn copy(&self, _: CopyArgs, _: StreamHandle) -> Result<(), Error> {
        Ok(())
    }

    fn pointer_query(&self, at: Address) -> Result<PointerInfo, Error> {
        let known = SAY[N].known.lock().unwrap();
        let place = at
            .as_pointer()
            .map_or((at.word, at.offset), |word| (word, 0));
        Ok(known.get(&place).copied().unwrap_or_default())
    }
}

/// Sixteen bytes of plugin `N` at this address.
fn memory<const N: usize>(address: Address) -> Tensor {
    let plugin = test_plugin::start::<Told<N>>(format!("told{N}"));
    let runtime = runtime();
    assert!(runtime.register(&plugin).unwrap());
    *SAY[N].next.lock().unwrap() = address;
    Tensor::empty(&runtime.device_of(&plugin, 0).unwrap(), &bytes(16)).unwrap()
}

/// Lets plugin `N` say this of a place.
fn say<const N: usize>(word: u64, offset: u64, info: PointerInfo) {
    let info = PointerInfo {
        kind: MemoryKind::DEVICE,
        ..info
    };
    SAY[N].known.lock().unwrap().insert((word, offset), info);
}

fn runtime() -> Runtime {
    Runtime::builder().search(false).open().unwrap()
}

fn bytes(count: i64) -> Layout {
    Layout::compact(Dtype::UINT8, &[count]).unwrap()
}

/// Four bytes of a tensor.
fn part(of: &Tensor, first: u64) -> Tensor {
    of.view(bytes(4), of.offset() + first)
}

struct Shared(Arc<Vec<u8>>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn host(bytes_of: &Arc<Vec<u8>>) -> Tensor {
    let owner = Box::new(Shared(Arc::clone(bytes_of)));
    Tensor::from_host_memory(&runtime(), owner, 0, &bytes(16)).unwrap()
}

/// Sixteen bytes of the host's, and their address.
fn host_bytes() -> (Tensor, u64) {
    let tensor = host(&Arc::new(vec![0; 16]));
    let word = tensor.address().as_pointer().unwrap();
    (tensor, word)
}

/// Whether they may overlap, whichever of the two is asked about first.
fn meet(one: &Tensor, other: &Tensor) -> bool {
    let both = [may_overlap(one, other), may_overlap(other, one)];
    assert_eq!(both[0], both[1]);
    both[0]
}

fn assert_neighbours(one: &Tensor, other: &Tensor) {
    assert!(meet(&part(one, 4), &part(other, 4)));
    for (first, overlaps) in [(0, false), (1, true), (7, true), (8, false)] {
        assert_eq!(
            meet(&part(one, 4), &part(other, first)),
            overlaps,
            "{first}"
        );
    }
}

#[test]
fn views_of_one_memory_overlap_where_their_bytes_do() {
    let (tensor, _) = host_bytes();
    assert_neighbours(&tensor, &tensor);
}

#[test]
fn host_memory_that_two_tensors_were_given_is_one_by_its_addresses() {
    let shared = Arc::new(vec![0; 16]);
    assert_neighbours(&host(&shared), &host(&shared));
    assert!(!meet(&host(&shared), &host_bytes().0));
}

#[test]
fn handles_and_addresses_that_are_the_same_numbers_are_no_one_memory() {
    let handle = memory::<0>(Address::handle(0x100, 0));
    assert!(!meet(&handle, &memory::<1>(Address::handle(0xf8, 8))));
    assert!(!meet(&handle, &memory::<2>(Address::pointer(0x100))));
    assert_neighbours(&handle, &memory::<1>(Address::handle(0x100, 0)));
}

#[test]
fn device_memory_that_the_host_reaches_elsewhere_is_the_hosts_there() {
    let (host, word) = host_bytes();
    let device = memory::<3>(Address::pointer(0x1000));
    assert!(!meet(&host, &device), "nobody knows them");
    let host_pointer = word + 4;
    say::<3>(
        0x1004,
        0,
        PointerInfo {
            host_pointer,
            ..PointerInfo::default()
        },
    );
    assert_neighbours_of_part(&device, &host);
}

/// As [`assert_neighbours`], where only this part of `device` is known.
fn assert_neighbours_of_part(device: &Tensor, host: &Tensor) {
    for (first, overlaps) in [(0, false), (1, true), (7, true), (8, false)] {
        assert_eq!(
            meet(&part(device, 4), &part(host, first)),
            overlaps,
            "{first}"
        );
    }
}

#[test]
fn memory_at_the_address_that_a_device_gives_it_is_that_memory() {
    let handle = memory::<4>(Address::handle(0x100, 0));
    let other = memory::<5>(Address::pointer(0x2000));
    let device_pointer = 0x2004;
    say::<4>(
        0x100,
        4,
        PointerInfo {
            device_pointer,
            ..PointerInfo::default()
        },
    );
    assert_neighbours_of_part(&handle, &other);
}

/// What plugin `N` says of memory at 0x1000, which the host reaches nowhere it knows of, and of the
/// host's.
fn alias<const N: usize>(own: PointerInfo, others_id: u64) -> bool {
    let (host, word) = host_bytes();
    let device = memory::<N>(Address::pointer(0x1000));
    say::<N>(0x1000, 0, own);
    let others = PointerInfo {
        allocation_id: others_id,
        ..PointerInfo::default()
    };
    say::<N>(word, 0, others);
    meet(&device, &host)
}

#[test]
fn what_a_plugin_knows_as_part_of_its_memory_may_overlap_it() {
    let of = |allocation_id, host_pointer| PointerInfo {
        allocation_id,
        host_pointer,
        ..PointerInfo::default()
    };
    assert!(alias::<6>(of(7, 0), 7));
    assert!(!alias::<6>(of(7, 0), 8), "of another allocation");
    assert!(!alias::<6>(of(0, 0), 0), "nothing has a name");
    assert!(
        !alias::<6>(of(7, 0x10), 7),
        "the addresses have said that they do not meet"
    );
}

#[test]
fn no_plugin_is_asked_about_handles_of_another() {
    let device = memory::<7>(Address::pointer(0x1000));
    let handle = memory::<8>(Address::handle(0x100, 0x40));
    for word in [0x1000, 0x40, 0x100] {
        say::<7>(
            word,
            0,
            PointerInfo {
                allocation_id: 7,
                ..PointerInfo::default()
            },
        );
    }
    assert!(!meet(&device, &handle));
}

#[test]
fn two_handles_of_one_plugin_may_be_one_memory_where_it_gives_them_one_number() {
    let one = memory::<11>(Address::handle(0x100, 0));
    let of_one_plugin = |word| {
        *SAY[11].next.lock().unwrap() = Address::handle(word, 0);
        Tensor::empty(one.device(), &bytes(16)).unwrap()
    };
    let numbered = |allocation_id| PointerInfo {
        allocation_id,
        ..PointerInfo::default()
    };
    let (part_of_it, apart, unnumbered) = (
        of_one_plugin(0x200),
        of_one_plugin(0x300),
        of_one_plugin(0x400),
    );
    say::<11>(0x100, 0, numbered(7));
    say::<11>(0x200, 0, numbered(7));
    say::<11>(0x300, 0, numbered(8));
    assert!(meet(&one, &part_of_it));
    assert!(!meet(&one, &apart));
    say::<11>(0x100, 0, numbered(0));
    say::<11>(0x400, 0, numbered(0));
    assert!(!meet(&one, &unnumbered), "0 is no number");

    // The same number of another plugin is another memory's.
    let others = memory::<12>(Address::handle(0x500, 0));
    say::<11>(0x100, 0, numbered(7));
    say::<12>(0x500, 0, numbered(7));
    assert!(!meet(&one, &others));
}

#[test]
fn memory_that_came_to_a_device_through_another_is_known_by_every_name_on_the_way() {
    let root = memory::<9>(Address::pointer(0x1000));
    let named = memory::<10>(Address::handle(0x100, 0));
    assert!(!meet(&root, &named), "nobody knows them");
    let owner = Owner::Adopted { of: root.clone() };
    let (device, address) = (named.device().clone(), named.address());
    let view = Memory::new(device, address, 16, MemoryKind::DEVICE, owner);
    // Nobody adopted it, so nobody releases it.
    let through = ManuallyDrop::new(Tensor::of(view, bytes(16), 0));
    assert_neighbours(&through, &named);
    assert_neighbours(&through, &root);
}
