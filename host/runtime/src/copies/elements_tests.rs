//! Whichever step fails, and however many a plugin needs: its failure is told, and nothing else tried.
#![expect(unsafe_code, reason = "a plugin's hooks are unsafe to offer")]

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crossdock_sdk::abi::{
    Address, AllocateArgs, CopyArgs, DeviceInfo, MemoryInfo, MemoryKind, PointerInfo, ProbeInfo,
    Side, Status, StreamHandle, StridedArgs,
};
use crossdock_sdk::dlpack::{Dtype, Layout};
use crossdock_sdk::plugin::{Error, Groups, Host, Strided, describe};

use super::{copy_edge, packed, read_into, unpack, write};
use crate::devices::device::Device;
use crate::devices::runtime::Runtime;
use crate::tensors::tensor::Tensor;
use crate::test_plugins::test_plugin;

/// A plugin that copies nothing, and fails when a test wants. It makes strided copies of whatever
/// (0), of its own memory (1), of nothing (2, 3).
struct Failing<const N: usize>;

static STEPS: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
static FAILS: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

fn step<const N: usize>(operation: &'static str) -> Result<(), Error> {
    if STEPS[N].fetch_add(1, SeqCst) + 1 == FAILS[N].load(SeqCst) {
        return Err(Error::new(Status::VENDOR, operation, "it was to fail"));
    }
    Ok(())
}

impl<const N: usize> crossdock_sdk::plugin::Plugin for Failing<N> {
    const DESCRIPTION: &'static str =
        describe!(name = "failing", vendor = "test", devices = "ext_dev");
    const GROUPS: Groups<Self> = Groups::new().strided();

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
        Ok(Address::pointer(0x1000))
    }

    unsafe fn free(&self, _: Address, _: MemoryKind) -> Result<(), Error> {
        Ok(())
    }

    unsafe fn copy(&self, _: CopyArgs, _: StreamHandle) -> Result<(), Error> {
        step::<N>("copy")
    }

    fn pointer_query(&self, _: Address) -> Result<PointerInfo, Error> {
        Ok(PointerInfo::default())
    }
}

impl<const N: usize> Strided for Failing<N> {
    unsafe fn copy_strided(&self, args: StridedArgs, _: StreamHandle) -> Result<(), Error> {
        let is_own = |side: Side| side.kind != MemoryKind::HOST;
        if N >= 2 || (N == 1 && !(is_own(args.dst) && is_own(args.src))) {
            return Err(Error::new(Status::UNSUPPORTED, "copy_strided", "not this"));
        }
        step::<N>("copy_strided")
    }
}

fn device<const N: usize>(runtime: &Runtime) -> Device {
    let plugin = test_plugin::start::<Failing<N>>(format!("failing{N}"));
    assert!(runtime.register(&plugin).unwrap());
    runtime.device_of(&plugin, 0).unwrap()
}

type Done = Result<(), crate::error::Error>;

/// Lets each step of some work fail in turn; how many it has.
fn fail_each<const N: usize>(name: &str, mut work: impl FnMut() -> Done) -> u64 {
    for failing in 1.. {
        STEPS[N].store(0, SeqCst);
        FAILS[N].store(failing, SeqCst);
        let done = work();
        let steps = STEPS[N].load(SeqCst);
        if steps < failing {
            assert!(done.is_ok(), "{name}: {done:?}");
            return steps;
        }
        let status = done.err().and_then(|error| error.status());
        assert_eq!(status, Some(Status::VENDOR), "{name}: step {failing}");
        assert_eq!(steps, failing, "{name} went on after its failure");
    }
    unreachable!("work has an end")
}

/// How many steps it takes to pack, unpack, read and write strided elements, to copy an edge, and to
/// read and write compact elements.
fn steps<const N: usize>() -> [u64; 7] {
    let runtime = Runtime::builder().search(false).open().unwrap();
    let device = device::<N>(&runtime);
    let whole = Layout::compact(Dtype::UINT8, &[8]).unwrap();
    let half = Layout::compact(Dtype::UINT8, &[4]).unwrap();
    let every_other = Layout::strided(Dtype::UINT8, &[4], &[2]).unwrap();
    let tensor = |layout: &Layout| Tensor::empty(&device, layout).unwrap();
    let (compact, few) = (tensor(&whole), tensor(&half));
    let strided = tensor(&whole).view(every_other, 0);
    let mut room = [MaybeUninit::uninit(); 8];
    [
        fail_each::<N>("pack", || packed(&strided, None).map(drop)),
        fail_each::<N>("unpack", || unpack(&strided, &few, None)),
        fail_each::<N>("read", || read_into(&strided, &mut room[..4])),
        fail_each::<N>("write", || write(&strided, &[0; 4])),
        fail_each::<N>("copy an edge", || copy_edge(&few, &tensor(&half), None)),
        fail_each::<N>("read compact", || read_into(&compact, &mut room)),
        fail_each::<N>("write compact", || write(&compact, &[0; 8])),
    ]
}

#[test]
fn a_plugin_that_copies_strided_elements_does_it_at_once() {
    assert_eq!(steps::<0>(), [1; 7]);
}

#[test]
fn a_plugin_that_copies_strided_elements_of_its_own_packs_what_the_host_reads_and_writes() {
    assert_eq!(steps::<1>(), [1, 1, 2, 2, 1, 1, 1]);
}

#[test]
fn a_plugin_that_copies_bytes_alone_reads_the_span_and_writes_row_by_row() {
    assert_eq!(steps::<2>(), [2, 5, 1, 5, 2, 1, 1]);
}

#[test]
fn the_bits_beside_the_last_packed_element_that_is_read_are_zero() {
    let runtime = Runtime::builder().search(false).open().unwrap();
    let plugin = device::<3>(&runtime);
    let every_other = Layout::strided("uint4".parse().unwrap(), &[3], &[2]).unwrap();
    let tensor = Tensor::empty(&plugin, &every_other).unwrap();
    let strided = tensor.view(every_other, 0);
    let mut room = [MaybeUninit::new(0xff_u8); 2];
    read_into(&strided, &mut room).unwrap();
    // SAFETY: both were initialised.
    let read = room.map(|byte| unsafe { byte.assume_init() });
    assert_eq!(read, [0, 0]);
}
