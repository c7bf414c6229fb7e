//! Memory of the host that work of a lost device may still read or write, and memory that is registered for one: it
//! stays where it is, nobody writes it again, and it is told or counted.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossdock::{RouteChoice, RouteKind, Tensor, counted_leaks};
use crossdock_plugin_cuda::Plugin as Cuda;
use crossdock_sdk::abi::{CopyArgs, FillArgs, MemoryKind, Status, StreamHandle};
use crossdock_sdk::dlpack::{Dtype, Layout};
use crossdock_sdk::plugin::{
    Error, Fill as _, HostEvents as _, Plugin as _, Register as _, Streams as _,
};

use crate::driver::Driver;
use crate::exchanges::{Foreign, LIMIT, Rig, round};
use crate::hooks::{BYTES, LIMIT_NS, allocate, device, download, free, host, open, query};
use crate::{POLICIES, over};

/// Two pages, which stay for ever.
fn pages(value: u8) -> (&'static [u8], *mut c_void) {
    let bytes = Vec::leak(vec![value; 4 * 4096]);
    let start = bytes.as_ptr().addr().next_multiple_of(4096) - bytes.as_ptr().addr();
    let bytes = &bytes[start..start + 2 * 4096];
    (bytes, bytes.as_ptr().cast_mut().cast())
}

fn register(cuda: &Cuda, index: u32, pointer: *mut c_void) -> Result<(), Error> {
    // SAFETY: the bytes live for ever.
    unsafe { cuda.register_host(index, pointer, 2 * 4096) }
}

/// Loses the first device in a fill without a stream.
fn lose(cuda: &Cuda, driver: &Driver) {
    let memory = allocate(cuda, MemoryKind::DEVICE, 0).unwrap();
    driver.arm("dev0:exec:cuMemsetD8Async@1=719!");
    let fill = FillArgs {
        dst: device(memory.word, 0),
        bytes: BYTES as u64,
        pattern: [7; 16],
        pattern_bytes: 1,
        reserved: 0,
    };
    // SAFETY: the memory is there until it is freed below.
    let lost = unsafe { cuda.fill(fill, StreamHandle::NONE) };
    assert_eq!(status(&lost), Some(Status::DEVICE_LOST));
    assert_eq!(driver.disarm(), 1);
    free(cuda, memory, MemoryKind::DEVICE).unwrap();
}

fn status(answer: &Result<(), Error>) -> Option<Status> {
    answer.as_ref().err().map(Error::status)
}

/// Copies from host memory.
fn from_host(
    cuda: &Cuda,
    memory: u64,
    index: u32,
    bytes: &[u8],
    on: StreamHandle,
) -> Result<(), Error> {
    let args = CopyArgs {
        dst: device(memory, index),
        src: host(bytes.as_ptr().expose_provenance() as u64),
        bytes: BYTES as u64,
    };
    // SAFETY: the bytes live for ever, and the memory until its work is over.
    unsafe { cuda.copy(args, on) }
}

#[test]
fn what_is_registered_for_a_lost_device_stays_so_and_others_use_it() {
    let name = "lost_memory::what_is_registered_for_a_lost_device_stays_so_and_others_use_it";
    if !over(name, &POLICIES) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let (bytes, pointer) = pages(7);
    let address = pointer.expose_provenance() as u64;
    register(&cuda, 0, pointer).unwrap();
    // Locked by the device that is lost then, and registered for the other one alone.
    let (_, of_other) = pages(3);
    register(&cuda, 0, of_other).unwrap();
    register(&cuda, 1, of_other).unwrap();
    cuda.unregister_host(0, of_other).unwrap();
    lose(&cuda, &driver);
    for _ in 0..2 {
        let ended = cuda.unregister_host(0, pointer);
        assert_eq!(status(&ended), Some(Status::DEVICE_LOST));
        assert_eq!(
            driver.kind_of(address),
            Ok(1),
            "the driver has let go of it"
        );
        let ended = cuda.unregister_host(1, of_other);
        assert_eq!(status(&ended), Some(Status::DEVICE_LOST));
    }
    // The driver has locked it, so another device registers it without a call.
    register(&cuda, 1, pointer).unwrap();
    let known = query(&cuda, address);
    assert_eq!((known.kind, known.device), (MemoryKind::PINNED, 1));
    let (memory, stream) = (
        allocate(&cuda, MemoryKind::DEVICE, 1).unwrap(),
        cuda.stream_create(1).unwrap(),
    );
    let mut back = vec![0; BYTES];
    from_host(&cuda, memory.word, 1, bytes, stream).unwrap();
    download(&cuda, &mut back, device(memory.word, 1), stream).unwrap();
    // Neither side is memory of a device: the copy is made by one that has registered the host's.
    let mut other = vec![0; BYTES];
    let among = CopyArgs {
        dst: host(other.as_mut_ptr().expose_provenance() as u64),
        src: host(address),
        bytes: BYTES as u64,
    };
    // SAFETY: both live until the stream is over.
    unsafe { cuda.copy(among, stream) }.unwrap();
    cuda.stream_synchronize(stream, LIMIT_NS).unwrap();
    assert_eq!((&back[..], &other[..]), (&bytes[..BYTES], &bytes[..BYTES]));
    cuda.stream_destroy(stream).unwrap();
    free(&cuda, memory, MemoryKind::DEVICE).unwrap();
    cuda.unregister_host(1, pointer).unwrap();
    assert_eq!(
        status(&cuda.unregister_host(1, pointer)),
        Some(Status::NOT_OWNER)
    );
    assert_eq!(
        status(&cuda.unregister_host(0, pointer)),
        Some(Status::DEVICE_LOST)
    );
    assert_eq!(driver.reports(), 0);
}

/// How a lost device uses memory that another device has registered.
#[derive(Clone, Copy, PartialEq)]
enum Use {
    /// On a stream whose work is held.
    Pending,
    /// By the call without a stream that loses the device.
    AtOnce,
    /// It is over before the device is lost.
    Over,
}

#[test]
fn memory_that_a_lost_device_may_use_is_unregistered_for_no_other_one() {
    let name = "lost_memory::memory_that_a_lost_device_may_use_is_unregistered_for_no_other_one";
    if !over(name, &POLICIES) {
        return;
    }
    for case in [Use::Over, Use::AtOnce, Use::Pending] {
        let (cuda, driver) = (open(), Driver::open());
        let (bytes, pointer) = pages(7);
        register(&cuda, 1, pointer).unwrap();
        let (memory, stream) = (
            allocate(&cuda, MemoryKind::DEVICE, 0).unwrap(),
            cuda.stream_create(0).unwrap(),
        );
        if case == Use::AtOnce {
            driver.arm("dev0:exec:cuMemcpyHtoDAsync_v2@1=700!");
            let lost = from_host(&cuda, memory.word, 0, bytes, StreamHandle::NONE);
            assert_eq!(status(&lost), Some(Status::DEVICE_LOST));
            assert_eq!(driver.disarm(), 1);
        } else {
            let gate = cuda.event_create_host(0).unwrap();
            if case == Use::Pending {
                cuda.stream_wait_event(stream, gate).unwrap();
            }
            let on = match case {
                Use::Pending => stream,
                Use::Over | Use::AtOnce => StreamHandle::NONE,
            };
            from_host(&cuda, memory.word, 0, bytes, on).unwrap();
            lose(&cuda, &driver);
            cuda.event_complete(gate, Status::OK).unwrap();
        }
        let wanted = (case != Use::Over).then_some(Status::DEVICE_LOST);
        assert_eq!(status(&cuda.unregister_host(1, pointer)), wanted);
        // It is as it was: told again, or known no more.
        let again = wanted.unwrap_or(Status::NOT_OWNER);
        assert_eq!(status(&cuda.unregister_host(1, pointer)), Some(again));
        assert_eq!(driver.reports(), 0);
        // A lost device keeps what it has until the driver makes it new.
        let _left = std::mem::ManuallyDrop::new(cuda);
        driver.give_back();
        driver.take_reports();
    }
}

/// Memory of somebody who notes that it was given back.
struct Lent(&'static [u8], Arc<AtomicBool>);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.1.store(true, Ordering::SeqCst);
    }
}

#[test]
fn memory_that_stays_registered_is_kept_and_counted() {
    let name = "lost_memory::memory_that_stays_registered_is_kept_and_counted";
    if !over(name, &POLICIES) {
        return;
    }
    let driver = Driver::open();
    let foreign = Foreign::new(&driver);
    let rig = Rig::open_with_others(&foreign).unwrap();
    let [lost, well] = &rig.cuda;
    let is_back = Arc::<AtomicBool>::default();
    let layout = Layout::compact(Dtype::UINT8, &[2 * 4096]).unwrap();
    let lent = Lent(pages(7).0, Arc::clone(&is_back));
    let lent = Tensor::from_host_memory(&rig.runtime, Box::new(lent), 0, &layout).unwrap();
    let registered = lent.register(lost).unwrap();
    let there = Tensor::empty(lost, &layout).unwrap();
    driver.arm("dev0:exec:cuMemsetD8Async@1=700!");
    there.fill(&[1], None).unwrap_err();
    assert_eq!(driver.disarm(), 1);
    let leaks = counted_leaks();
    drop(registered);
    rig.runtime.wait_for_releases(LIMIT).unwrap();
    assert_eq!(counted_leaks(), leaks + 1);
    // Twice, so that it was given back once.
    for _ in 0..2 {
        let registered = lent.register(well).unwrap();
        let (copy, _) = lent.to(well, RouteChoice::Copy).unwrap();
        assert_eq!(copy.read().unwrap(), [7; 2 * 4096]);
        drop(registered);
    }
    drop((lent, there));
    rig.runtime.wait_for_releases(LIMIT).unwrap();
    assert!(
        !is_back.load(Ordering::SeqCst),
        "registered memory went back"
    );
    assert_eq!(counted_leaks(), leaks + 1);
    assert_eq!(driver.take_reports(), "");
    let _left = std::mem::ManuallyDrop::new(rig);
}

/// Several parts, each as long as a chunk.
const LONG: usize = 9 << 20;

#[test]
fn memory_of_a_staged_copy_that_a_lost_device_may_use_is_not_used_again() {
    let name = "lost_memory::memory_of_a_staged_copy_that_a_lost_device_may_use_is_not_used_again";
    if !over(name, &POLICIES) {
        return;
    }
    let driver = Driver::open();
    let foreign = Foreign::new(&driver);
    let rig = Rig::open_with_others(&foreign).unwrap();
    let [lost, well] = &rig.cuda;
    let staged = RouteChoice::Only(RouteKind::Staged);
    let layout = Layout::compact(Dtype::UINT8, &[i64::try_from(LONG).unwrap()]).unwrap();
    let there = Tensor::empty(lost, &layout).unwrap();
    // Known to the driver, and used by nobody: it is locked for the device that is lost then.
    there.to(well, staged).unwrap();
    let leaks = counted_leaks();
    driver.arm("dev0:exec:cuMemcpyDtoHAsync_v2@3=700!");
    there.to(well, staged).unwrap_err();
    assert_eq!(driver.disarm(), 1);
    let by_the_copy = counted_leaks();
    assert!(by_the_copy > leaks, "its memory is used again");
    drop(there);
    let mut others = vec![well];
    others.extend(&rig.others);
    round(&rig, &others).unwrap();
    for device in &others {
        device.trim(0).unwrap();
    }
    let (memory, _) = Tensor::from_bytes(&rig.cpu, &layout, &vec![3; LONG])
        .unwrap()
        .to(well, staged)
        .unwrap();
    for device in &others {
        let (moved, _) = memory.to(device, RouteChoice::Copy).unwrap();
        assert!(moved.read().unwrap() == vec![3; LONG]);
        device.trim(0).unwrap();
    }
    drop(memory);
    rig.runtime.wait_for_releases(LIMIT).unwrap();
    assert_eq!(driver.take_reports(), "");
    let _left = std::mem::ManuallyDrop::new(rig);
}
