//! Copies of pageable memory on a stream: they wait for nothing, and are done in its order.

use crossdock::{Event, Stream, Tensor};
use crossdock_plugin_cuda::Plugin as Cuda;
use crossdock_sdk::abi::{
    Address, AllocateArgs, CopyArgs, FillArgs, MemoryKind, Side, Status, StreamHandle,
};
use crossdock_sdk::dlpack::{Dtype, Layout};
use crossdock_sdk::plugin::{Fill as _, HostEvents as _, Plugin as _, Streams as _};

use crate::driver::Driver;
use crate::hooks::{LIMIT_NS, device, download, free, open, upload};
use crate::{POLICIES, over, runtime};

/// Several parts, the last of which is shorter.
const BYTES: usize = (3 << 20) + 1001;

/// Memory for all parts, and what goes there.
fn memory(cuda: &Cuda) -> Address {
    let args = AllocateArgs {
        size: BYTES as u64,
        alignment: 256,
        kind: MemoryKind::DEVICE,
        device: 0,
    };
    cuda.allocate(args).unwrap()
}

fn content() -> Vec<u8> {
    let byte = |at: usize| at.to_le_bytes()[0] ^ at.to_le_bytes()[1];
    (0..BYTES).map(byte).collect()
}

/// Puts a fill on a stream.
fn fill(cuda: &Cuda, dst: Side, stream: StreamHandle) {
    let fill = FillArgs {
        dst,
        bytes: BYTES as u64,
        pattern: [0x55; 16],
        pattern_bytes: 1,
        reserved: 0,
    };
    // SAFETY: the memory lives until the stream is over.
    unsafe { cuda.fill(fill, stream) }.unwrap();
}

#[test]
fn a_large_copy_is_made_in_its_streams_order() {
    if !over(
        "copies::a_large_copy_is_made_in_its_streams_order",
        &POLICIES,
    ) {
        return;
    }
    let cuda = open();
    let (first, second) = (memory(&cuda), memory(&cuda));
    let (src, dst) = (device(first.word, 0), device(second.word, 0));
    let (writer, reader) = (
        cuda.stream_create(0).unwrap(),
        cuda.stream_create(0).unwrap(),
    );
    let (host, event) = (
        cuda.event_create_host(0).unwrap(),
        cuda.event_create(0).unwrap(),
    );
    let (from, mut to) = (content(), vec![0; BYTES]);

    cuda.stream_wait_event(writer, host).unwrap();
    // Nothing of the copy is there before the fill, and all of it before what the reader does.
    fill(&cuda, src, writer);
    upload(&cuda, src, &from, writer).unwrap();
    cuda.event_record(event, writer).unwrap();
    cuda.stream_wait_event(reader, event).unwrap();
    let bytes = BYTES as u64;
    // SAFETY: both live until the stream is over.
    unsafe { cuda.copy(CopyArgs { dst, src, bytes }, reader) }.unwrap();
    download(&cuda, &mut to, dst, reader).unwrap();
    for stream in [writer, reader] {
        let pending = cuda.stream_query(stream).unwrap_err();
        assert_eq!(pending.status(), Status::NOT_READY);
    }
    cuda.event_complete(host, Status::OK).unwrap();
    cuda.stream_synchronize(reader, LIMIT_NS).unwrap();
    assert!(from == to);
    free(&cuda, first, MemoryKind::DEVICE).unwrap();
    free(&cuda, second, MemoryKind::DEVICE).unwrap();
}

#[test]
fn large_copies_follow_each_other_over_the_same_blocks() {
    let name = "copies::large_copies_follow_each_other_over_the_same_blocks";
    if !over(name, &POLICIES) {
        return;
    }
    let cuda = open();
    let (memory, stream) = (memory(&cuda), cuda.stream_create(0).unwrap());
    let (from, mut to) = (content(), vec![0; BYTES]);
    let side = device(memory.word, 0);
    for on in [stream, stream, StreamHandle::NONE] {
        to.fill(0);
        upload(&cuda, side, &from, on).unwrap();
        download(&cuda, &mut to, side, on).unwrap();
        cuda.stream_synchronize(stream, LIMIT_NS).unwrap();
        assert!(from == to);
    }
    cuda.stream_destroy(stream).unwrap();
    free(&cuda, memory, MemoryKind::DEVICE).unwrap();
}

#[test]
fn a_block_that_a_larger_one_replaces_is_its_streams_until_the_stream_got_there() {
    let name =
        "copies::a_block_that_a_larger_one_replaces_is_its_streams_until_the_stream_got_there";
    if !over(name, &POLICIES) {
        return;
    }
    let runtime = runtime();
    let [cpu, device] = ["cpu:0", "cuda:0"].map(|id| runtime.device(id.parse().unwrap()).unwrap());
    let tensor = |on, bytes: usize, byte: u8| {
        let shape = [i64::try_from(bytes).unwrap()];
        let layout = Layout::compact(Dtype::UINT8, &shape).unwrap();
        Tensor::from_bytes(on, &layout, &vec![byte; bytes]).unwrap()
    };
    let copies = [(1000, 1), (100_000, 2), (1000, 3)]
        .map(|(bytes, byte)| (tensor(&cpu, bytes, 0), tensor(&device, bytes, byte)));
    let [held, other] = [(); 2].map(|()| Stream::new(&device).unwrap());
    let gate = Event::host(&device).unwrap();
    held.wait(&gate).unwrap();
    // The third one takes a block that nobody has.
    for ((to, from), stream) in copies.iter().zip([&held, &held, &other]) {
        to.copy_from(from, Some(stream)).unwrap();
    }
    gate.complete(Status::OK).unwrap();
    for (to, from) in &copies {
        assert_eq!(to.read().unwrap(), from.read().unwrap());
    }
}

#[test]
fn a_replaced_block_is_returned_in_the_context_of_the_copy() {
    let name = "copies::a_replaced_block_is_returned_in_the_context_of_the_copy";
    if !over(name, &POLICIES) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let args = AllocateArgs {
        size: BYTES as u64,
        alignment: 256,
        kind: MemoryKind::DEVICE,
        device: 1,
    };
    let memory = cuda.allocate(args).unwrap();
    let side = device(memory.word, 1);
    let from = content();
    let copy = |bytes| {
        let stream = cuda.stream_create(0).unwrap();
        upload(&cuda, side, &from[..1000], stream).unwrap();
        let copied = upload(&cuda, side, &from[..bytes], stream);
        cuda.stream_synchronize(stream, LIMIT_NS).unwrap();
        (stream, copied)
    };
    let (stream, copied) = copy(BYTES);
    copied.unwrap();
    let mut to = vec![0; BYTES];
    download(&cuda, &mut to, side, stream).unwrap();
    cuda.stream_synchronize(stream, LIMIT_NS).unwrap();
    assert!(to == from);
    cuda.stream_destroy(stream).unwrap();
    // The second function is the return of the small block: refused, both blocks serve again.
    driver.arm("cuLaunchHostFunc@2=999");
    let (stream, refused) = copy(200_000);
    assert_eq!(refused.unwrap_err().status(), Status::VENDOR);
    assert_eq!(driver.disarm(), 1);
    driver.take_calls();
    for bytes in [1000, 200_000] {
        upload(&cuda, side, &from[..bytes], stream).unwrap();
    }
    cuda.stream_synchronize(stream, LIMIT_NS).unwrap();
    assert!(!driver.take_calls().contains_key("cuMemHostAlloc"));
    cuda.stream_destroy(stream).unwrap();
    free(&cuda, memory, MemoryKind::DEVICE).unwrap();
    drop(cuda);
    assert_eq!(driver.leaks(), 0, "{}", driver.list_leaks());
}
