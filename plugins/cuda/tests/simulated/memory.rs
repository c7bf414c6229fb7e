//! Memory: nothing waits for a whole device, nothing is left, and what is kept is nobody's.

use crossdock::{Event, Stream, Tensor};
use crossdock_sdk::abi::{AllocateArgs, EventHandle, MemoryKind, Status, StreamHandle};
use crossdock_sdk::dlpack::{Dtype, Layout};
use crossdock_sdk::plugin::{
    AsyncMemory as _, HostEvents as _, Plugin as _, Pool as _, Streams as _,
};

use crate::driver::Driver;
use crate::exchanges::LIMIT;
use crate::hooks::{BYTES, LIMIT_NS, allocate, device, free, open, query, round_trip};
use crate::{POLICIES, over, runtime};

const KINDS: [MemoryKind; 3] = [MemoryKind::DEVICE, MemoryKind::PINNED, MemoryKind::MANAGED];

#[test]
fn nothing_waits_for_a_whole_device() {
    let one_queue = ["--cuda", "2", "--queues", "1"];
    let old = ["--cuda", "2", "--set", "fault=cuMemPoolCreate@1+=801"];
    let runs = [POLICIES[0], POLICIES[1], POLICIES[2], &one_queue, &old];
    if !over("memory::nothing_waits_for_a_whole_device", &runs) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let (held, free_stream) = (
        cuda.stream_create(0).unwrap(),
        cuda.stream_create(0).unwrap(),
    );
    let kept = allocate(&cuda, MemoryKind::DEVICE, 0).unwrap();
    for stream in [StreamHandle::NONE, free_stream] {
        for kind in KINDS {
            let memory = allocate(&cuda, kind, 0).unwrap();
            round_trip(&cuda, device(memory.word, 0), stream).unwrap();
            free(&cuda, memory, kind).unwrap();
        }
    }
    let host: EventHandle = cuda.event_create_host(0).unwrap();
    cuda.stream_wait_event(held, host).unwrap();
    // None of these is kept up by the stream that waits for the host.
    for kind in KINDS {
        let memory = allocate(&cuda, kind, 0).unwrap();
        free(&cuda, memory, kind).unwrap();
    }
    let ordered = cuda.allocate_async(held, BYTES as u64).unwrap();
    // SAFETY: nobody uses it behind this.
    unsafe { cuda.free_async(held, ordered) }.unwrap();
    cuda.memory_trim(0, 0).unwrap();
    cuda.memory_usage(0).unwrap();
    assert_eq!(
        cuda.stream_query(held).unwrap_err().status(),
        Status::NOT_READY
    );
    cuda.event_complete(host, Status::OK).unwrap();
    cuda.stream_synchronize(held, LIMIT_NS).unwrap();
    cuda.event_destroy(host).unwrap();
    for stream in [held, free_stream] {
        cuda.stream_destroy(stream).unwrap();
    }
    assert_eq!(driver.device_waits(), 0);
    assert!(cuda.memory_usage(0).unwrap().used >= BYTES as u64);
    free(&cuda, kept, MemoryKind::DEVICE).unwrap();
    assert_eq!(cuda.memory_usage(0).unwrap().used, 0);
    drop(cuda);
    assert_eq!(driver.leaks(), 0);
}

#[test]
fn memory_that_is_kept_for_later_is_nobodys() {
    if !over(
        "memory::memory_that_is_kept_for_later_is_nobodys",
        &POLICIES[..1],
    ) {
        return;
    }
    let cuda = open();
    for kind in KINDS {
        let memory = allocate(&cuda, kind, 0).unwrap();
        assert_eq!(query(&cuda, memory.word).kind, kind);
        free(&cuda, memory, kind).unwrap();
        assert_eq!(query(&cuda, memory.word).kind, MemoryKind::UNOWNED);
        let again = free(&cuda, memory, kind).unwrap_err().status();
        assert_eq!(again, Status::NOT_OWNER);
        let refused = round_trip(&cuda, device(memory.word, 0), StreamHandle::NONE);
        assert_eq!(refused.unwrap_err().status(), Status::NOT_OWNER);
    }
    assert_eq!(cuda.device_count(), 2);
}

#[test]
fn a_pool_that_was_full_has_room_again_once_its_memory_was_freed() {
    let name = "memory::a_pool_that_was_full_has_room_again_once_its_memory_was_freed";
    let runs: Vec<_> = POLICIES
        .iter()
        .map(|policy| [*policy, &["--set", "mem=64M"]].concat())
        .collect();
    let runs: Vec<&[&str]> = runs.iter().map(Vec::as_slice).collect();
    if !over(name, &runs) {
        return;
    }
    let cuda = open();
    let stream = cuda.stream_create(0).unwrap();
    let args = AllocateArgs {
        size: 4 << 20,
        alignment: 256,
        kind: MemoryKind::DEVICE,
        device: 0,
    };
    // Blocks of another size, and in the order of a stream, fit in too.
    for size in [args.size, args.size, 40 << 20] {
        let take = || cuda.allocate(AllocateArgs { size, ..args });
        let (first, on_stream) = (take().unwrap(), cuda.allocate_async(stream, 4 << 20));
        let mut all = vec![first, on_stream.unwrap()];
        let full = loop {
            match take() {
                Ok(one) => all.push(one),
                Err(error) => break error,
            }
        };
        assert_eq!(full.status(), Status::OOM_DEVICE, "{full}");
        cuda.stream_synchronize(stream, LIMIT_NS).unwrap();
        for one in all {
            free(&cuda, one, MemoryKind::DEVICE).unwrap();
        }
    }
    cuda.stream_destroy(stream).unwrap();
}

#[test]
fn memory_that_a_stream_of_another_device_frees_counts_for_its_own_device() {
    let name = "memory::memory_that_a_stream_of_another_device_frees_counts_for_its_own_device";
    if !over(name, &POLICIES) {
        return;
    }
    let runtime = runtime();
    let devices = ["cuda:0", "cuda:1"].map(|id| runtime.device(id.parse().unwrap()).unwrap());
    let used = || {
        devices
            .each_ref()
            .map(|device| device.memory_usage().unwrap().used)
    };
    let layout = Layout::compact(Dtype::UINT8, &[100_000]).unwrap();
    let tensors = devices
        .each_ref()
        .map(|device| Tensor::from_bytes(device, &layout, &[7; 100_000]).unwrap());
    let (before, [from, to], [_, far]) = (used(), tensors, &devices);
    let (stream, gate) = (Stream::new(far).unwrap(), Event::host(far).unwrap());
    stream.wait(&gate).unwrap();
    to.copy_from(&from, Some(&stream)).unwrap();
    drop(from);
    gate.complete(Status::OK).unwrap();
    stream.synchronize(LIMIT).unwrap();
    runtime.wait_for_releases(LIMIT).unwrap();
    assert_eq!(used(), [before[0] - 100_000, before[1]]);
}

#[test]
fn memory_is_there_although_an_allocation_of_another_thread_failed() {
    let name = "memory::memory_is_there_although_an_allocation_of_another_thread_failed";
    if !over(name, &POLICIES) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    for _ in 0..20 {
        driver.arm("exec:cuMemAllocFromPoolAsync@2=2");
        let made = std::thread::scope(|scope| {
            let allocate = || allocate(&cuda, MemoryKind::DEVICE, 0).unwrap();
            let threads = [(); 3].map(|()| scope.spawn(allocate));
            threads.map(|thread| thread.join().unwrap())
        });
        assert_eq!(driver.disarm(), 1);
        for memory in made {
            round_trip(&cuda, device(memory.word, 0), StreamHandle::NONE).unwrap();
            free(&cuda, memory, MemoryKind::DEVICE).unwrap();
        }
    }
}

#[test]
fn a_pool_is_made_that_lets_no_stream_wait_for_another_one() {
    let name = "memory::a_pool_is_made_that_lets_no_stream_wait_for_another_one";
    if !over(name, &POLICIES[..1]) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let memory = allocate(&cuda, MemoryKind::DEVICE, 0).unwrap();
    let pool = driver.pool_of(memory.word);
    // CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES.
    assert_eq!(driver.pool_attribute(pool, 3), 0);
    free(&cuda, memory, MemoryKind::DEVICE).unwrap();
}
