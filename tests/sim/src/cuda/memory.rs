//! Allocations and registered host memory. A free waits for the device, as the vendor's does.
#![expect(unsafe_code, reason = "the driver's functions are exported by name")]

use crossdock_sim_engine::{Error, MemoryKind, Owner};

use super::codes::Code;
use super::contexts::wait_for_device;
use super::entry::{Answer, Call, Out, entries};
use super::objects::objects;

/// `CU_MEMHOSTREGISTER_*` that there are: portable, mapped, I/O memory, read-only.
const REGISTER_FLAGS: u32 = 0xF;
/// `CU_MEMHOSTALLOC_*`: portable, mapped, write-combined.
const HOST_FLAGS: u32 = 0x7;

entries! {
    fn cuMemGetInfo_v2(free: Out<usize>, all: Out<usize>) as info |call| {
        let (_, device) = objects().current(call)?;
        call.refuse_lost(device)?;
        let (free_bytes, all_bytes) = call.process.engine.memory_info(device)?;
        free.set(size(free_bytes)?)?;
        all.set(size(all_bytes)?)
    }

    fn cuMemAlloc_v2(out: Out<u64>, bytes: usize) |call| {
        allocate(call, out, bytes, MemoryKind::Device)
    }

    fn cuMemAllocPitch_v2(out: Out<u64>, pitch: Out<usize>, width: usize, height: usize, element: u32) |call| {
        if !matches!(element, 4 | 8 | 16) {
            return Err(Code::INVALID_VALUE);
        }
        let row = width.checked_next_multiple_of(512).ok_or(Code::OUT_OF_MEMORY)?;
        let bytes = row.checked_mul(height).ok_or(Code::OUT_OF_MEMORY)?;
        pitch.set(row)?;
        allocate(call, out, bytes, MemoryKind::Device)
    }

    fn cuMemAllocHost_v2(out: Out<u64>, bytes: usize) |call| {
        allocate(call, out, bytes, MemoryKind::Pinned)
    }

    fn cuMemHostAlloc(out: Out<u64>, bytes: usize, flags: u32) |call| {
        if flags & !HOST_FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        allocate(call, out, bytes, MemoryKind::Pinned)
    }

    fn cuMemAllocManaged(out: Out<u64>, bytes: usize, flags: u32) |call| {
        // Global or host; that of one stream is not simulated.
        match flags {
            1 | 2 => allocate(call, out, bytes, MemoryKind::Managed),
            4 => Err(Code::NOT_SUPPORTED),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuMemFree_v2(address: u64) |call| {
        free(call, address, |kind| kind != MemoryKind::Pinned)
    }

    fn cuMemFreeHost(address: u64) |call| {
        free(call, address, |kind| kind == MemoryKind::Pinned)
    }

    fn cuMemHostRegister_v2(address: u64, bytes: usize, flags: u32) as register |call| {
        let (context, device) = objects().current(call)?;
        if flags & !REGISTER_FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let owned = call.owner_of(address).is_some();
        match call.process.engine.register_host(call.site, device, address, bytes as u64) {
            Err(Error::Invalid { .. }) if owned => Err(Code::HOST_MEMORY_ALREADY_REGISTERED),
            done => {
                done?;
                objects().registered.insert((call.face, address), (flags, context));
                Ok(())
            }
        }
    }

    fn cuMemHostUnregister(address: u64) as unregister |call| {
        objects().current(call)?;
        match call.process.engine.unregister_for(call.site, call.face.vendor(), address) {
            Err(Error::Invalid { .. }) => Err(Code::HOST_MEMORY_NOT_REGISTERED),
            done => {
                done?;
                objects().registered.remove(&(call.face, address));
                Ok(())
            }
        }
    }

    fn cuMemHostGetDevicePointer_v2(out: Out<u64>, address: u64, flags: u32) as device_pointer |call| {
        objects().current(call)?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        pinned(call, address)?;
        out.set(address)
    }

    fn cuMemHostGetFlags(out: Out<u32>, address: u64) as host_flags |call| {
        let owner = pinned(call, address)?;
        // Portable and mapped, as all of it is in one address space.
        let registered = objects().registered.get(&(call.face, owner.base)).copied();
        out.set(registered.map_or(3, |(flags, _)| flags))
    }
}

pub(crate) fn allocate(call: &Call, out: Out<u64>, bytes: usize, kind: MemoryKind) -> Answer {
    if out.is_null() || bytes == 0 {
        return Err(Code::INVALID_VALUE);
    }
    let (context, device) = objects().current(call)?;
    let engine = &call.process.engine;
    let address = engine.allocate(call.site, device, bytes as u64, 256, kind)?;
    objects().allocations.insert(address, context);
    out.set(address)
}

/// Frees an allocation of these kinds, once all work of the device is over.
pub(crate) fn free(call: &Call, address: u64, is_right: impl Fn(MemoryKind) -> bool) -> Answer {
    if address == 0 {
        return Ok(());
    }
    let engine = &call.process.engine;
    let owner = call.owner_of(address);
    if owner.is_none() && engine.owner_of(address).is_some() {
        // Another vendor's.
        return Err(Code::INVALID_VALUE);
    }
    if let Some(owner) = owner.filter(|owner| owner.base == address && !owner.is_registered) {
        // Memory of another process is closed, and not freed.
        if !is_right(owner.kind) || objects().imports.contains_key(&address) {
            return Err(Code::INVALID_VALUE);
        }
        // "This API will not perform any implicit synchronization when the pointer was allocated with
        // cuMemAllocAsync or cuMemAllocFromPoolAsync"; of others, it may.
        if owner.pool == 0 {
            wait_for_device(call, owner.device)?;
        }
        objects().allocations.remove(&address);
    }
    engine.free(call.site, address)?;
    if let Some(owner) = owner.filter(|owner| owner.base == address) {
        objects().forget_registered(owner.base, owner.bytes);
    }
    Ok(())
}

/// The owner of an address in pinned or registered memory.
fn pinned(call: &Call, address: u64) -> Answer<Owner> {
    let owner = call.owner_of(address);
    owner
        .filter(|owner| owner.kind == MemoryKind::Pinned)
        .ok_or(Code::INVALID_VALUE)
}

pub(crate) fn size(bytes: u64) -> Answer<usize> {
    usize::try_from(bytes).ok().ok_or(Code::UNKNOWN)
}
