//! The staged route: through host memory in chunks, with both links busy at the same time.
#![expect(
    unsafe_code,
    reason = "hands host memory that it keeps alive to copy hooks"
)]

use std::sync::mpsc;

use crossdock_sdk::abi::{CopyArgs, StreamHandle};

use crate::device::Device;
use crate::error::Error;
use crate::order::Touched;
use crate::tensor::Tensor;
use crate::transfer::{address_of, host_side};

/// Bytes of one chunk; two are in flight.
pub(crate) const CHUNK_BYTES: u64 = 4 << 20;

/// A chunk of host memory on its way.
struct Chunk {
    bytes: Vec<u8>,
    at: u64,
    length: u64,
}

/// Copies the bytes of the compact tensor `src` into the compact tensor `dst`.
///
/// One thread reads chunk after chunk from the source while this one writes the chunk before to
/// the destination; two chunks are all the extra memory.
pub(crate) fn stage(dst: &Tensor, src: &Tensor) -> Result<(), Error> {
    let touched = Touched {
        reads: Some(src.memory()),
        writes: Some(dst.memory()),
    };
    touched.synchronize()?;
    let total = src.nbytes();
    let (full, filled) = mpsc::sync_channel::<Result<Chunk, Error>>(2);
    let (empty, emptied) = mpsc::channel::<Vec<u8>>();
    let length = crate::transfer::host_length(CHUNK_BYTES.min(total))?;
    for _ in 0..2 {
        // Fails only when the other end is gone, and it is in this function.
        let _sent = empty.send(vec![0; length]);
    }
    std::thread::scope(|scope| {
        scope.spawn(move || read_chunks(src, total, &emptied, &full));
        for chunk in filled {
            let chunk = chunk?;
            write_chunk(dst, &chunk)?;
            // The reader has gone when everything was read.
            let _sent = empty.send(chunk.bytes);
        }
        Ok(())
    })
}

fn read_chunks(
    src: &Tensor,
    total: u64,
    emptied: &mpsc::Receiver<Vec<u8>>,
    full: &mpsc::SyncSender<Result<Chunk, Error>>,
) {
    let mut at = 0;
    while at < total {
        // The writer failed and has gone.
        let Ok(mut bytes) = emptied.recv() else {
            return;
        };
        let length = CHUNK_BYTES.min(total - at);
        let host = host_side(address_of(bytes.as_mut_ptr()));
        let side = src.memory().side(src.offset().saturating_add(at));
        let args = CopyArgs {
            dst: host,
            src: side,
            bytes: length,
        };
        let read = copy(src.device(), args).map(|()| Chunk { bytes, at, length });
        let failed = read.is_err();
        if full.send(read).is_err() || failed {
            return;
        }
        at += length;
    }
}

fn write_chunk(dst: &Tensor, chunk: &Chunk) -> Result<(), Error> {
    let host = host_side(address_of(chunk.bytes.as_ptr().cast_mut()));
    let side = dst.memory().side(dst.offset().saturating_add(chunk.at));
    copy(
        dst.device(),
        CopyArgs {
            dst: side,
            src: host,
            bytes: chunk.length,
        },
    )
}

fn copy(device: &Device, args: CopyArgs) -> Result<(), Error> {
    // SAFETY: one side is a chunk that its caller holds and that has `bytes` bytes, the other lies
    // inside a compact tensor that is alive; the copy is done when it returns.
    unsafe { device.hooks().copy(args, StreamHandle::NONE) }
}
