//! Copies of pageable memory on a stream: they wait for nothing, and are done in its order.

use crossdock_sdk::abi::{AllocateArgs, CopyArgs, FillArgs, MemoryKind, Status, StreamHandle};
use crossdock_sdk::plugin::{Fill as _, HostEvents as _, Plugin as _, Streams as _};

use crate::hooks::{LIMIT_NS, device, download, free, open, upload};
use crate::{POLICIES, over};

/// Several parts, the last of which is shorter.
const BYTES: usize = (3 << 20) + 1001;

#[test]
fn a_large_copy_is_made_in_its_streams_order() {
    if !over(
        "copies::a_large_copy_is_made_in_its_streams_order",
        &POLICIES,
    ) {
        return;
    }
    let cuda = open();
    let args = AllocateArgs {
        size: BYTES as u64,
        alignment: 256,
        kind: MemoryKind::DEVICE,
        device: 0,
    };
    let (first, second) = (cuda.allocate(args).unwrap(), cuda.allocate(args).unwrap());
    let (first_side, second_side) = (device(first.word, 0), device(second.word, 0));
    let (writer, reader) = (
        cuda.stream_create(0).unwrap(),
        cuda.stream_create(0).unwrap(),
    );
    let (host, event) = (
        cuda.event_create_host(0).unwrap(),
        cuda.event_create(0).unwrap(),
    );
    let from: Vec<u8> = (0..BYTES)
        .map(|at| at.to_le_bytes()[0] ^ at.to_le_bytes()[1])
        .collect();
    let mut to = vec![0; BYTES];

    cuda.stream_wait_event(writer, host).unwrap();
    let fill = FillArgs {
        dst: first_side,
        bytes: BYTES as u64,
        pattern: [0x55; 16],
        pattern_bytes: 1,
        reserved: 0,
    };
    // SAFETY: the memory lives until the stream is over.
    unsafe { cuda.fill(fill, writer) }.unwrap();
    // Nothing of it is there before the fill.
    upload(&cuda, first_side, &from, writer).unwrap();
    cuda.event_record(event, writer).unwrap();
    cuda.stream_wait_event(reader, event).unwrap();
    // All of it is there before this.
    let inside = CopyArgs {
        dst: second_side,
        src: first_side,
        bytes: BYTES as u64,
    };
    // SAFETY: both live until the stream is over.
    unsafe { cuda.copy(inside, reader) }.unwrap();
    download(&cuda, &mut to, second_side, reader).unwrap();
    for stream in [writer, reader] {
        assert_eq!(
            cuda.stream_query(stream).unwrap_err().status(),
            Status::NOT_READY
        );
    }
    cuda.event_complete(host, Status::OK).unwrap();
    cuda.stream_synchronize(reader, LIMIT_NS).unwrap();
    assert!(from == to);

    // A part behind another one, on the same blocks, and at once.
    for stream in [writer, StreamHandle::NONE] {
        to.fill(0);
        upload(&cuda, second_side, &from, stream).unwrap();
        download(&cuda, &mut to, second_side, stream).unwrap();
        cuda.stream_synchronize(writer, LIMIT_NS).unwrap();
        assert!(from == to);
    }
    for event in [host, event] {
        cuda.event_destroy(event).unwrap();
    }
    for stream in [writer, reader] {
        cuda.stream_destroy(stream).unwrap();
    }
    free(&cuda, first, MemoryKind::DEVICE).unwrap();
    free(&cuda, second, MemoryKind::DEVICE).unwrap();
}
