//! Pinned memory of copies on streams: no block is used again and none is unlocked while its copy may run, and all go
//! back.

use crossdock_plugin_rocm::Plugin as Rocm;
use crossdock_sdk::abi::{
    Address, CopyArgs, EventHandle, FillArgs, MemoryKind, Side, Status, StreamHandle,
};
use crossdock_sdk::plugin::{
    Fill as _, HostEvents as _, Plugin as _, Register as _, Streams as _, Wrap as _,
};

use crate::hooks::{BYTES, LIMIT_NS, allocate, free, open, side};
use crate::vendors::Simulator;
use crate::{POLICIES, over};

fn copy(rocm: &Rocm, dst: Side, src: Side, stream: StreamHandle) {
    let bytes = BYTES as u64;
    // SAFETY: both sides live until the copy is done.
    unsafe { rocm.copy(CopyArgs { dst, src, bytes }, stream) }.unwrap();
}

/// Memory of the device, all bytes of which are the same.
fn memory(rocm: &Rocm, byte: u8) -> Address {
    let memory = allocate(rocm, MemoryKind::DEVICE, 0).unwrap();
    let (from, dst) = ([byte; BYTES], side(memory.word, MemoryKind::DEVICE, 0));
    let from = side(
        from.as_ptr().expose_provenance() as u64,
        MemoryKind::HOST,
        0,
    );
    copy(rocm, dst, from, StreamHandle::NONE);
    memory
}

fn download(rocm: &Rocm, to: &mut [u8; BYTES], memory: Address, stream: StreamHandle) {
    let to = side(
        to.as_mut_ptr().expose_provenance() as u64,
        MemoryKind::HOST,
        0,
    );
    copy(rocm, to, side(memory.word, MemoryKind::DEVICE, 0), stream);
}

/// A stream as one of others', which the plugin does not end.
fn wrapped(rocm: &Rocm, stream: StreamHandle) -> StreamHandle {
    let native = rocm.stream_native(stream).unwrap();
    // SAFETY: it is a live stream, which outlives its wrap.
    unsafe { rocm.stream_wrap(0, native) }.unwrap()
}

#[test]
fn a_block_serves_again_although_a_record_failed_once() {
    let name = "bounces::a_block_serves_again_although_a_record_failed_once";
    if !over(name, &POLICIES) {
        return;
    }
    let (rocm, simulator) = (open(), Simulator::find());
    let (memory, stream) = (memory(&rocm, 1), rocm.stream_create(0).unwrap());
    simulator.take_calls();
    for _ in 0..3 {
        let theirs = wrapped(&rocm, stream);
        // The second copy marks its end by the event of the first.
        for _ in 0..2 {
            let mut to = [0; BYTES];
            simulator.arm("hipEventRecord@1=999");
            download(&rocm, &mut to, memory, theirs);
            assert_eq!(simulator.disarm(), 1);
            rocm.stream_synchronize(theirs, LIMIT_NS).unwrap();
            assert_eq!(to, [1; BYTES]);
        }
        rocm.stream_destroy(theirs).unwrap();
    }
    assert_eq!(simulator.take_calls().get("hipHostMalloc"), Some(&1));
    free(&rocm, memory, MemoryKind::DEVICE).unwrap();
    drop(rocm);
    assert!(simulator.leaks().is_empty(), "{:?}", simulator.leaks());
}

#[test]
fn a_block_whose_copy_may_still_run_is_left_alone_until_the_close() {
    let name = "bounces::a_block_whose_copy_may_still_run_is_left_alone_until_the_close";
    if !over(name, &POLICIES) {
        return;
    }
    let simulator = Simulator::find();
    // The end is never marked; nobody can say whether it came; no stream can be put behind it, or call the host there;
    // the close does not know when the host was called.
    let faults = [
        "hipEventQuery@1+=999",
        "hipStreamWaitEvent@1+=999",
        "hipLaunchHostFunc@2+=999",
        "hipEventRecord@2+=999",
        "hipEventRecord@1+=999",
    ];
    for fault in faults {
        let rocm = open();
        let (first, second) = (memory(&rocm, 1), memory(&rocm, 2));
        let stream = rocm.stream_create(0).unwrap();
        let other = rocm.stream_create(0).unwrap();
        let gate = rocm.event_create_host(0).unwrap();
        let theirs = wrapped(&rocm, stream);
        let mut to = [[0; BYTES]; 2];

        rocm.stream_wait_event(theirs, gate).unwrap();
        simulator.arm(fault);
        download(&rocm, &mut to[0], first, theirs);
        rocm.stream_destroy(theirs).unwrap();
        assert!(simulator.disarm() > 0, "{fault}");
        // A copy that nothing holds up, while the first one waits.
        download(&rocm, &mut to[1], second, other);
        let pending = rocm.stream_query(stream).unwrap_err();
        assert_eq!(pending.status(), Status::NOT_READY, "{fault}");
        rocm.event_complete(gate, Status::OK).unwrap();
        for stream in [stream, other] {
            rocm.stream_synchronize(stream, LIMIT_NS).unwrap();
        }
        assert_eq!(to, [[1; BYTES], [2; BYTES]], "{fault}");

        for memory in [first, second] {
            free(&rocm, memory, MemoryKind::DEVICE).unwrap();
        }
        drop(rocm);
        assert!(
            simulator.leaks().is_empty(),
            "{fault}: {:?}",
            simulator.leaks()
        );
    }
}

/// Registers bytes, which live until they are unregistered, and gives their address.
fn register(rocm: &Rocm, bytes: &mut [u8; BYTES]) -> usize {
    let word = bytes.as_mut_ptr().expose_provenance();
    let pointer = std::ptr::with_exposed_provenance_mut(word);
    // SAFETY: by each test the bytes live until they are unregistered.
    unsafe { rocm.register_host(0, pointer, BYTES as u64) }.unwrap();
    word
}

/// Copies registered memory to the device, in the order of a stream.
fn upload(rocm: &Rocm, target: Address, word: usize, stream: StreamHandle) {
    let to = side(target.word, MemoryKind::DEVICE, 0);
    copy(rocm, to, side(word as u64, MemoryKind::HOST, 0), stream);
}

/// What was registered has come to the device, which has done with it.
fn has_arrived(rocm: &Rocm, memory: Address) {
    let mut read = [0; BYTES];
    download(rocm, &mut read, memory, StreamHandle::NONE);
    assert_eq!(read, [7; BYTES]);
    free(rocm, memory, MemoryKind::DEVICE).unwrap();
}

/// Unlocks memory whose work waits for a gate: not before that is over, and without a wait.
fn unlock_behind(rocm: &Rocm, gate: EventHandle, word: usize) {
    let unlock = || rocm.unregister_host(0, std::ptr::with_exposed_provenance_mut(word));
    for _ in 0..3 {
        assert_eq!(unlock().unwrap_err().status(), Status::NOT_READY);
    }
    rocm.event_complete(gate, Status::OK).unwrap();
    while let Err(pending) = unlock() {
        assert_eq!(pending.status(), Status::NOT_READY);
        std::thread::yield_now();
    }
}

#[test]
fn memory_is_not_unlocked_while_a_copy_may_still_run() {
    let name = "bounces::memory_is_not_unlocked_while_a_copy_may_still_run";
    if !over(name, &POLICIES) {
        return;
    }
    let (rocm, simulator) = (open(), Simulator::find());
    let mut bytes = [7_u8; BYTES];
    let word = register(&rocm, &mut bytes);
    let memories = [1, 2].map(|byte| memory(&rocm, byte));
    let [held, other] = [0; 2].map(|device| rocm.stream_create(device).unwrap());
    let gate = rocm.event_create_host(0).unwrap();

    rocm.stream_wait_event(held, gate).unwrap();
    // Nobody can say whether a copy is over as the next one begins.
    simulator.arm("hipEventQuery@1+=999");
    for (memory, stream) in memories.iter().zip([held, other]) {
        upload(&rocm, *memory, word, stream);
    }
    assert!(simulator.disarm() > 0);
    unlock_behind(&rocm, gate, word);
    memories
        .into_iter()
        .for_each(|memory| has_arrived(&rocm, memory));
}

#[test]
fn memory_is_not_unlocked_under_a_copy_whose_end_was_not_marked_at_once() {
    let name = "bounces::memory_is_not_unlocked_under_a_copy_whose_end_was_not_marked_at_once";
    if !over(name, &POLICIES) {
        return;
    }
    let (rocm, simulator) = (open(), Simulator::find());
    let mut bytes = [7_u8; BYTES];
    let word = register(&rocm, &mut bytes);
    let target = memory(&rocm, 1);
    let stream = rocm.stream_create(0).unwrap();
    let gate = rocm.event_create_host(0).unwrap();

    rocm.stream_wait_event(stream, gate).unwrap();
    simulator.arm("hipEventRecord@1=999");
    upload(&rocm, target, word, stream);
    assert_eq!(simulator.disarm(), 1);
    unlock_behind(&rocm, gate, word);
    has_arrived(&rocm, target);
}

#[test]
fn memory_is_not_unlocked_under_a_copy_whose_end_is_never_marked() {
    let name = "bounces::memory_is_not_unlocked_under_a_copy_whose_end_is_never_marked";
    if !over(name, &POLICIES) {
        return;
    }
    let (rocm, simulator) = (open(), Simulator::find());
    let mut bytes = [7_u8; BYTES];
    let word = register(&rocm, &mut bytes);
    let target = memory(&rocm, 1);
    let stream = rocm.stream_create(0).unwrap();

    simulator.arm("hipEventRecord@1+=999");
    upload(&rocm, target, word, stream);
    assert!(simulator.disarm() > 1);
    // The copy has waited, so that nothing is left to wait for.
    rocm.stream_query(stream).unwrap();
    let pointer = std::ptr::with_exposed_provenance_mut(word);
    rocm.unregister_host(0, pointer).unwrap();
    has_arrived(&rocm, target);
}

#[test]
fn memory_is_not_unlocked_while_a_part_of_a_refused_fill_may_still_run() {
    let name = "bounces::memory_is_not_unlocked_while_a_part_of_a_refused_fill_may_still_run";
    if !over(name, &POLICIES) {
        return;
    }
    let (rocm, simulator) = (open(), Simulator::find());
    let mut bytes = [7_u8; BYTES];
    let word = register(&rocm, &mut bytes);
    let stream = rocm.stream_create(0).unwrap();
    let gate = rocm.event_create_host(0).unwrap();
    let mut pattern = [0; 16];
    pattern[7] = 9;
    let args = FillArgs {
        dst: side(word as u64, MemoryKind::HOST, 0),
        bytes: BYTES as u64,
        pattern,
        pattern_bytes: 8,
        reserved: 0,
    };

    rocm.stream_wait_event(stream, gate).unwrap();
    // The bytes of the pattern are filled one after the other.
    simulator.arm("hipMemset2DAsync@2=801");
    // SAFETY: the memory lives until the fill is over.
    let refused = unsafe { rocm.fill(args, stream) }.unwrap_err();
    // UNSUPPORTED would say that nothing was put on the stream.
    assert_eq!(refused.status(), Status::VENDOR, "{refused}");
    assert_eq!(simulator.disarm(), 1);
    unlock_behind(&rocm, gate, word);
    assert_eq!(bytes[..9], [0, 7, 7, 7, 7, 7, 7, 7, 0]);
}
