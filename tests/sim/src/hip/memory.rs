//! Allocations and registered host memory.
#![expect(unsafe_code, reason = "the runtime's functions are exported by name")]

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossdock_sim_engine::MemoryKind;

use super::entry::{Answer, Call, Out, entries};
use crate::cuda::memory;
use crate::face::codes::Code;

/// `hipMallocSignalMemory`: 8 bytes that streams wait for.
const SIGNAL: u32 = 2;
/// `hipHostMalloc*`: what there is besides portable, mapped and write-combined says how the host's caches see it.
const HOST_FLAGS: u32 = 0xE000_0007;

/// Signal memory, by its address.
static SIGNALS: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

fn signals() -> MutexGuard<'static, BTreeSet<u64>> {
    SIGNALS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether an address is signal memory.
pub(crate) fn is_signal(address: u64) -> bool {
    signals().contains(&address)
}

entries! {
    fn hipMemGetInfo(free: Out<usize>, all: Out<usize>) |call| {
        memory::info(call, free, all)
    }

    fn hipMalloc(out: Out<u64>, bytes: usize) |call| {
        allocate(call, out, bytes, MemoryKind::Device)
    }

    fn hipExtMallocWithFlags(out: Out<u64>, bytes: usize, flags: u32) |call| {
        match flags {
            // Fine-grained and uncached memory is the device's too.
            0 | 1 | 3 => allocate(call, out, bytes, MemoryKind::Device),
            SIGNAL if bytes == 8 => {
                allocate(call, out, bytes, MemoryKind::Managed)?;
                signals().insert(out.read()?);
                Ok(())
            }
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn hipMallocPitch(out: Out<u64>, pitch: Out<usize>, width: usize, height: usize) |call| {
        let row = width.checked_next_multiple_of(128).ok_or(Code::OUT_OF_MEMORY)?;
        let bytes = row.checked_mul(height).ok_or(Code::OUT_OF_MEMORY)?;
        pitch.set(row)?;
        allocate(call, out, bytes, MemoryKind::Device)
    }

    fn hipMallocManaged(out: Out<u64>, bytes: usize, flags: u32) |call| {
        // Global or host; that of one stream is not simulated. None of no bytes.
        match flags {
            1 | 2 => memory::allocate(call, out, bytes, MemoryKind::Managed),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn hipHostMalloc(out: Out<u64>, bytes: usize, flags: u32) |call| {
        pinned(call, out, bytes, flags)
    }

    fn hipHostAlloc(out: Out<u64>, bytes: usize, flags: u32) |call| {
        pinned(call, out, bytes, flags)
    }

    fn hipMallocHost(out: Out<u64>, bytes: usize) |call| {
        pinned(call, out, bytes, 0)
    }

    fn hipMemAllocHost(out: Out<u64>, bytes: usize) |call| {
        pinned(call, out, bytes, 0)
    }

    fn hipFree(address: u64) |call| {
        memory::free(call, address, |kind| kind != MemoryKind::Pinned)?;
        signals().remove(&address);
        Ok(())
    }

    fn hipHostFree(address: u64) |call| {
        memory::free(call, address, |kind| kind == MemoryKind::Pinned)
    }

    fn hipFreeHost(address: u64) |call| {
        memory::free(call, address, |kind| kind == MemoryKind::Pinned)
    }

    fn hipHostRegister(address: u64, bytes: usize, flags: u32) |call| {
        memory::register(call, address, bytes, flags)
    }

    fn hipHostUnregister(address: u64) |call| {
        memory::unregister(call, address)
    }

    fn hipHostGetDevicePointer(out: Out<u64>, address: u64, flags: u32) |call| {
        memory::device_pointer(call, out, address, flags)
    }

    fn hipHostGetFlags(out: Out<u32>, address: u64) |call| {
        memory::host_flags(call, out, address)
    }
}

/// Of no bytes there is none, and that is no error.
pub(crate) fn allocate(call: &Call, out: Out<u64>, bytes: usize, kind: MemoryKind) -> Answer {
    if bytes == 0 {
        return out.set(0);
    }
    memory::allocate(call, out, bytes, kind)
}

fn pinned(call: &Call, out: Out<u64>, bytes: usize, flags: u32) -> Answer {
    if flags & !HOST_FLAGS != 0 {
        return Err(Code::INVALID_VALUE);
    }
    allocate(call, out, bytes, MemoryKind::Pinned)
}
