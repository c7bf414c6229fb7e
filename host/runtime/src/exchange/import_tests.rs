//! Native objects of others: adopted where their plugin does not have them as its own. And memory that
//! the host reaches at another address than its device.
#![expect(unsafe_code, reason = "a plugin's hooks are unsafe to offer")]

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier, LazyLock};

use crossdock_sdk::abi::{
    Address, AddressForm, AdoptFlags, AllocateArgs, Capabilities, CopyArgs, DeviceInfo, MemoryInfo,
    MemoryKind, PointerFlags, PointerInfo, ProbeInfo, Status, StreamHandle,
};
use crossdock_sdk::dlpack::{
    self, AxisSlice, DLManagedTensorVersioned, DataWord, Dtype, Flags, Layout, Produced, Received,
    TensorView,
};
use crossdock_sdk::plugin::{Adopt, Error, Groups, Host, describe};

use crate::MemoryOwner;
use crate::devices::runtime::Runtime;
use crate::streams::stream::Stream;
use crate::tensors::place;
use crate::tensors::tensor::Tensor;
use crate::test_plugins::test_plugin;
use crate::test_plugins::test_plugin_streams::{devices, given};

/// A plugin whose device has handles and addresses; test 3 knows no handle. Its test has a number, so that
/// tests at once do not count each other's.
struct Handles<const N: usize>;

/// Objects of sixteen bytes: nobody's that it knows, one of others that it has seen, its own. Of others
/// too: a whole and a part of it, and one that nobody may write. Plugin 7 has seen every object.
const UNKNOWN: u64 = 0x10;
const SEEN: u64 = 0x20;
const OWN: u64 = 0x30;
const WHOLE: u64 = 0x40;
const PART: u64 = 0x50;
const LOCKED: u64 = 0x60;
/// One that the plugin made over memory of the host, for a tensor that is gone.
const OVER_HOST: u64 = 0x70;
/// A handle that is the address of the same bytes, and one that is an address inside of them.
const BOTH: u64 = 0xc000;
const BOTH_INSIDE: u64 = 0xc004;
/// Added to the handle of an object by its adoption.
const ADOPTED: u64 = 0x1000;

static ADOPTIONS: [AtomicU64; 12] = [const { AtomicU64::new(0) }; 12];
/// Where two threads that adopt from plugin 5 meet.
static TWO: LazyLock<Barrier> = LazyLock::new(|| Barrier::new(2));

impl<const N: usize> crossdock_sdk::plugin::Plugin for Handles<N> {
    const DESCRIPTION: &'static str =
        describe!(name = "handles", vendor = "test", devices = "ext_dev");
    const GROUPS: Groups<Self> = Groups::new().adopt();

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
        let mut info = test_plugin::device_info();
        if N != 3 {
            info.address_form = AddressForm::HANDLE;
            info.capabilities = Capabilities::ADOPT_NATIVE;
        }
        Ok(info)
    }

    fn memory_info(&self, _: u32) -> Result<MemoryInfo, Error> {
        Ok(MemoryInfo::default())
    }

    fn allocate(&self, _: AllocateArgs) -> Result<Address, Error> {
        Ok(Address::handle(OWN, 0))
    }

    unsafe fn free(&self, _: Address, _: MemoryKind) -> Result<(), Error> {
        Ok(())
    }

    unsafe fn copy(&self, _: CopyArgs, _: StreamHandle) -> Result<(), Error> {
        Ok(())
    }

    fn pointer_query(&self, at: Address) -> Result<PointerInfo, Error> {
        if let Some(word) = at.as_pointer() {
            return Ok(addressed(word));
        }
        let is_object = N != 11 || [SEEN, OWN].contains(&at.word);
        if N == 3 || at.word == UNKNOWN || !is_object {
            return Ok(PointerInfo::default());
        }
        let mut info = PointerInfo {
            kind: MemoryKind::DEVICE,
            base: Address::handle(at.word, 0),
            size: 16,
            ..PointerInfo::default()
        };
        if N == 11 && at.word == SEEN {
            info.kind = MemoryKind::PINNED;
        }
        if N == 7 || [SEEN, WHOLE, PART, LOCKED].contains(&at.word) {
            info.flags = PointerFlags::FOREIGN;
        }
        match at.word & !ADOPTED {
            WHOLE | PART => info.allocation_id = 7,
            BOTH | BOTH_INSIDE => info.allocation_id = 9,
            LOCKED => info.flags = info.flags.with(PointerFlags::READ_ONLY),
            OVER_HOST => info.flags = PointerFlags::FOREIGN.with(PointerFlags::HOST_ACCESSIBLE),
            _ => {}
        }
        Ok(info)
    }
}

/// Sixteen bytes at 0x1000, that the host has at 0x9000; of the host's at 0x3000, that the device has at
/// 0x7000; and where the host sees an object, at 0x6000. What is called the host's at another address,
/// at 0x8000, and what has a host address that nobody calls the host's, at 0xa000.
fn addressed(word: u64) -> PointerInfo {
    let (is_hosts, is_devices) = (word & !15 == 0x9000, word & !15 == 0x1000);
    let mut info = PointerInfo::default();
    if word & !15 == 0x3000 {
        info.kind = MemoryKind::PINNED;
        info.base = Address::pointer(0x3000);
        info.size = 16;
        info.host_pointer = word;
        info.device_pointer = word + 0x4000;
        info.flags = PointerFlags::HOST_ACCESSIBLE;
    }
    if let at @ (0x8000 | 0xa000 | BOTH) = word & !15 {
        info.kind = MemoryKind::DEVICE;
        info.base = Address::pointer(at);
        info.size = 16;
        match at {
            0x8000 => info.flags = PointerFlags::HOST_ACCESSIBLE,
            BOTH => info.allocation_id = 9,
            _ => {}
        }
        info.host_pointer = if at == 0x8000 { word + 0x40_0000 } else { word };
    }
    if word & !15 == 0x6000 {
        info.kind = MemoryKind::DEVICE;
        info.base = Address::handle(OWN, 0);
        info.size = 16;
        info.host_pointer = word;
    }
    if is_hosts || is_devices {
        info.kind = MemoryKind::DEVICE;
        info.base = Address::pointer(0x1000);
        info.size = 16;
    }
    if is_hosts {
        info.host_pointer = word;
        info.device_pointer = word - 0x8000;
    }
    info
}

impl<const N: usize> Adopt for Handles<N> {
    unsafe fn adopt(
        &self,
        _: u32,
        foreign: Address,
        _: MemoryKind,
        _: u64,
        _: AdoptFlags,
    ) -> Result<Address, Error> {
        ADOPTIONS[N].fetch_add(1, SeqCst);
        if N == 5 {
            TWO.wait();
        }
        Ok(Address::handle(foreign.word + ADOPTED, 0))
    }

    fn release_adopted(&self, _: u32, _: Address) -> Result<(), Error> {
        ADOPTIONS[N].fetch_sub(1, SeqCst);
        Ok(())
    }
}

/// A runtime with plugin `N`, and its device there.
fn opened<const N: usize>() -> (Runtime, dlpack::Device) {
    let plugin = test_plugin::start::<Handles<N>>(format!("handles{N}"));
    let runtime = Runtime::builder().search(false).open().unwrap();
    assert!(runtime.register(&plugin).unwrap());
    let id = runtime.device_of(&plugin, 0).unwrap().id();
    (runtime, id)
}

/// What becomes of a tensor of so many bytes in this object.
fn take<const N: usize>(word: u64, bytes: i64) -> Result<Tensor, crate::error::Error> {
    take_from::<N>(&opened::<N>(), word, bytes)
}

fn take_from<const N: usize>(
    opened: &(Runtime, dlpack::Device),
    word: u64,
    bytes: i64,
) -> Result<Tensor, crate::error::Error> {
    take_with::<N>(opened, word, bytes, Flags::default())
}

fn take_with<const N: usize>(
    (runtime, id): &(Runtime, dlpack::Device),
    word: u64,
    bytes: i64,
    flags: Flags,
) -> Result<Tensor, crate::error::Error> {
    take_owned::<N>(runtime, *id, word, bytes, flags, Arc::new(()))
}

fn take_owned<const N: usize>(
    runtime: &Runtime,
    id: dlpack::Device,
    word: u64,
    bytes: i64,
    flags: Flags,
    owner: Arc<()>,
) -> Result<Tensor, crate::error::Error> {
    let layout = Layout::compact(Dtype::UINT8, &[bytes]).unwrap();
    let data = DataWord::from_ptr(std::ptr::without_provenance_mut(
        usize::try_from(word).unwrap(),
    ));
    let view = TensorView::new(layout, data, 0, id, flags).unwrap();
    let made = Produced::<DLManagedTensorVersioned>::new(owner, &view).unwrap();
    // SAFETY: a live managed tensor that is handed over.
    let received = unsafe { Received::from_versioned(made.into_raw()) }.unwrap();
    if N == 3 || N == 11 {
        return Tensor::import(runtime, received);
    }
    let (view, tensor) = received.into_parts();
    // SAFETY: the plugin's objects are numbers, which live for ever.
    unsafe { Tensor::adopt_native(runtime, view, tensor.into()) }
}

/// Whether work on one is work on the other.
fn share_work(one: &Tensor, other: &Tensor) -> bool {
    std::ptr::eq(one.memory().outstanding(), other.memory().outstanding())
}

#[test]
fn an_object_of_others_is_adopted_whether_its_plugin_has_seen_it_or_not() {
    for word in [UNKNOWN, SEEN] {
        let tensor = take::<0>(word, 16).unwrap();
        assert_eq!(tensor.address(), Address::handle(word + ADOPTED, 0));
        assert_eq!(ADOPTIONS[0].load(SeqCst), 1);
        drop(tensor);
        assert_eq!(ADOPTIONS[0].load(SeqCst), 0);
    }
}

#[test]
fn an_object_of_the_plugins_own_that_no_tensor_keeps_and_an_empty_tensor_are_not_adopted() {
    for word in [OWN, OVER_HOST] {
        let refused = take::<1>(word, 16).map(drop);
        let is_misuse = matches!(refused, Err(crate::error::Error::Misuse { .. }));
        assert!(is_misuse, "{word:#x}: {refused:?}");
    }
    let empty = take::<1>(UNKNOWN, 0).unwrap();
    assert_eq!((empty.nbytes(), ADOPTIONS[1].load(SeqCst)), (0, 0));
}

#[test]
fn a_device_that_takes_no_native_objects_says_so() {
    let (runtime, _) = opened::<1>();
    let layout = Layout::compact(Dtype::UINT8, &[16]).unwrap();
    let word = DataWord::from_ptr(std::ptr::without_provenance_mut(64));
    let view = TensorView::new(layout, word, 0, dlpack::Device::CPU, Flags::default()).unwrap();
    let owner = MemoryOwner::new(Arc::new(()));
    // SAFETY: the device takes no objects, so it looks at none.
    let refused = unsafe { Tensor::adopt_native(&runtime, view, owner) }.map(drop);
    let Err(crate::error::Error::Misuse { why, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert!(why.contains("takes no native objects"), "{why}");
}

#[test]
fn an_export_of_ours_that_comes_back_is_the_same_memory_with_its_work() {
    let runtime = Runtime::builder().search(false).open().unwrap();
    let cpu = runtime.device(dlpack::Device::CPU).unwrap();
    let layout = Layout::compact(Dtype::UINT8, &[16]).unwrap();
    let own = Tensor::empty(&cpu, &layout).unwrap();
    let managed = own.export().unwrap().into_raw();
    // SAFETY: a live managed tensor that is handed over.
    let back = unsafe { Tensor::import_managed(&runtime, managed) }.unwrap();
    assert!(share_work(&own, &back));
}

#[test]
fn tensors_of_one_object_share_its_memory() {
    let opened = opened::<4>();
    let first = take_from::<4>(&opened, UNKNOWN, 16).unwrap();
    let second = take_from::<4>(&opened, UNKNOWN, 8).unwrap();
    assert!(share_work(&first, &second));
    let refused = take_from::<4>(&opened, UNKNOWN, 17).map(drop);
    let is_exchange = matches!(refused, Err(crate::error::Error::Exchange(_)));
    assert!(is_exchange, "{refused:?}");
    drop(first);
    assert_eq!((second.nbytes(), ADOPTIONS[4].load(SeqCst)), (8, 1));
    drop(second);
    assert_eq!(ADOPTIONS[4].load(SeqCst), 0);
}

#[test]
fn threads_that_adopt_one_object_at_once_share_its_memory() {
    let opened = opened::<5>();
    let take = || take_from::<5>(&opened, UNKNOWN, 16).unwrap();
    let (one, other) = std::thread::scope(|scope| {
        let other = scope.spawn(take);
        (take(), other.join().unwrap())
    });
    assert_eq!(ADOPTIONS[5].load(SeqCst), 2);
    assert!(share_work(&one, &other));
    drop((one, other));
    assert_eq!(ADOPTIONS[5].load(SeqCst), 0);
}

#[test]
fn an_object_is_known_under_the_handle_of_its_adoption_too() {
    let opened = opened::<6>();
    let first = take_from::<6>(&opened, UNKNOWN, 16).unwrap();
    let second = take_from::<6>(&opened, UNKNOWN + ADOPTED, 16).unwrap();
    assert!(share_work(&first, &second));
    assert_eq!(ADOPTIONS[6].load(SeqCst), 1);
}

#[test]
fn a_handle_whose_object_ended_does_not_hide_that_its_adoption_is_a_known_object() {
    let opened = opened::<7>();
    drop(take_from::<7>(&opened, UNKNOWN, 16).unwrap());
    let first = take_from::<7>(&opened, UNKNOWN + ADOPTED, 16).unwrap();
    let second = take_from::<7>(&opened, UNKNOWN, 16).unwrap();
    assert!(share_work(&first, &second));
}

#[test]
fn a_part_of_an_object_shares_its_work_and_keeps_it_and_strangers_share_nothing() {
    let opened = opened::<8>();
    let [whole, part, foreign, another] =
        [WHOLE, PART, UNKNOWN, SEEN].map(|word| take_from::<8>(&opened, word, 16).unwrap());
    assert!(share_work(&whole, &part));
    let four = |tensor: &Tensor, start| {
        let (step, len) = (1, 4);
        tensor.slice(&[AxisSlice { start, step, len }]).unwrap()
    };
    // Nobody here knows where in the whole the part lies.
    assert!(place::may_overlap(&four(&whole, 0), &four(&part, 8)));
    assert!(!place::may_overlap(&four(&whole, 0), &four(&whole, 8)));
    assert!(!share_work(&foreign, &another));
    assert!(!share_work(&foreign, &whole));
    drop((foreign, another, whole));
    assert_eq!(ADOPTIONS[8].load(SeqCst), 2);
    drop(part);
    assert_eq!(ADOPTIONS[8].load(SeqCst), 0);
}

#[test]
fn a_tensor_of_an_object_is_read_only_where_its_plugin_or_its_producer_or_its_first_one_is() {
    let opened = opened::<9>();
    let [locked, again] = [(); 2].map(|()| take_from::<9>(&opened, LOCKED, 16).unwrap());
    assert!(locked.is_read_only() && again.is_read_only());
    let first = take_from::<9>(&opened, UNKNOWN, 16).unwrap();
    let second = take_with::<9>(&opened, UNKNOWN, 16, Flags::READ_ONLY).unwrap();
    assert!(!first.is_read_only() && second.is_read_only());
}

#[test]
fn an_object_and_who_named_it_later_get_back_what_their_producers_work_uses_still() {
    let opened = opened::<10>();
    let [device, _] = devices::<59>();
    let stream = Stream::new(&device).unwrap();
    for is_named in [false, true] {
        let kept = is_named.then(|| take_from::<10>(&opened, UNKNOWN, 16).unwrap());
        let lent = Arc::new(());
        let (runtime, id) = &opened;
        let owner = Arc::clone(&lent);
        let tensor = take_owned::<10>(runtime, *id, UNKNOWN, 16, Flags::default(), owner).unwrap();
        tensor.ready_on(&stream).unwrap();
        let end = tensor.ready().unwrap().unwrap();
        given::<59>().end(end.handle(), Status::NOT_READY);
        drop(tensor);
        // The producer keeps it until the work is over, so nothing here waits for that.
        assert_eq!(*given::<59>().waiting.lock().unwrap(), [0; 0]);
        assert_eq!(Arc::strong_count(&lent), 1);
        assert_eq!(ADOPTIONS[10].load(SeqCst), u64::from(is_named));
        drop(kept);
    }
}

#[test]
fn objects_that_ended_leave_nothing() {
    let opened = opened::<7>();
    for at in 0..500 {
        drop(take_from::<7>(&opened, 0x100 + at, 16).unwrap());
    }
    let (runtime, id) = &opened;
    let device = runtime.device(*id).unwrap();
    let left = format!("{:?}", device.plugin().objects());
    assert!(left.matches("(Weak)").count() < 100, "{left}");
}

#[test]
fn elements_beyond_an_adopted_object_are_refused_and_it_is_let_go() {
    let refused = take::<2>(UNKNOWN, 17).map(drop);
    assert!(
        matches!(refused, Err(crate::error::Error::Exchange(_))),
        "{refused:?}"
    );
    assert_eq!(ADOPTIONS[2].load(SeqCst), 0);
}

#[test]
fn a_view_that_the_host_has_of_device_memory_is_the_memory_where_the_device_has_it() {
    for word in [0x9004, 0x1004] {
        let tensor = take::<3>(word, 12).unwrap();
        assert_eq!(tensor.address().as_pointer(), Some(0x1004));
        let refused = take::<3>(word, 13).map(drop);
        let is_exchange = matches!(refused, Err(crate::error::Error::Exchange(_)));
        assert!(is_exchange, "{refused:?}");
    }
}

#[test]
fn memory_that_lies_where_the_host_has_it_stays_there_though_its_device_has_it_elsewhere() {
    let tensor = take::<3>(0x3004, 12).unwrap();
    assert_eq!(tensor.address().as_pointer(), Some(0x3004));
    let refused = take::<3>(0x3004, 13).map(drop);
    let is_exchange = matches!(refused, Err(crate::error::Error::Exchange(_)));
    assert!(is_exchange, "{refused:?}");
}

#[test]
fn a_device_has_handles_and_addresses_and_the_query_says_which_a_word_is() {
    let opened = opened::<11>();
    for (word, address, by_host) in [
        (OWN, Address::handle(OWN, 0), false),
        (SEEN, Address::handle(SEEN, 0), false),
        (0x1004, Address::pointer(0x1004), false),
        (0x3004, Address::pointer(0x3004), true),
        (0x8004, Address::pointer(0x8004), false),
        (0xa004, Address::pointer(0xa004), false),
    ] {
        let tensor = take_from::<11>(&opened, word, 8).unwrap();
        let (is, at) = (tensor.address(), address);
        assert_eq!((is.form, is.as_pointer()), (at.form, at.as_pointer()));
        assert_eq!(tensor.memory().reach().by_host, by_host, "{word:#x}");
        let is_pinned = [SEEN, 0x3004].contains(&word);
        let kind = tensor.memory_kind();
        assert_eq!(kind == MemoryKind::PINNED, is_pinned, "{word:#x}: {kind:?}");
    }
    for (word, says) in [
        (0x5000, "as an address or as a handle"),
        (0x6004, "under a handle"),
    ] {
        let why = take_from::<11>(&opened, word, 8).unwrap_err().why();
        assert!(why.contains(says), "{why}");
    }
}

#[test]
fn a_word_that_is_a_handle_and_an_address_is_refused_unless_both_are_one_memory() {
    // Plugin 7 has an object under each word.
    let (runtime, id) = opened::<7>();
    let import = |word| {
        let device = runtime.device(id).unwrap();
        let layout = Layout::compact(Dtype::UINT8, &[8]).unwrap();
        let data = DataWord::from_addr(word);
        let view = TensorView::new(layout, data, 0, device.id(), Flags::default()).unwrap();
        let made = Produced::<DLManagedTensorVersioned>::new((), &view).unwrap();
        // SAFETY: a live managed tensor that is handed over.
        let received = unsafe { Received::from_versioned(made.into_raw()) }.unwrap();
        Tensor::import(&runtime, received)
    };
    let both = usize::try_from(BOTH).unwrap();
    for (word, handle) in [(0x2000, 0x2000), (both, BOTH)] {
        let tensor = import(word).unwrap();
        assert_eq!(tensor.address(), Address::handle(handle, 0));
    }
    for word in [0x1000, 0x3004, 0x9000, both + 4] {
        let why = import(word).unwrap_err().why();
        assert!(why.contains("as a handle and as an address"), "{why}");
    }
}
