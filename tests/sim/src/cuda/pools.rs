//! Memory in stream order, and the pools that it comes from. A device has one cache of memory, so its pools share
//! what is reserved; each counts nothing of its own.
#![expect(unsafe_code, reason = "the driver's functions are exported by name")]

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::captures;
use super::codes::Code;
use super::devices::device;
use super::entry::{Answer, Call, In, Out, entries};
use super::objects::{Objects, objects};

/// A pool, by its handle.
#[derive(Debug, Clone, Copy)]
struct Pool {
    device: u32,
    is_default: bool,
    threshold: u64,
}

/// `CUmemPoolProps`, as far as it is read: kinds of allocation and handle, and where.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Properties {
    allocation: c_int,
    handles: c_int,
    location: Location,
}

/// `CUmemLocation`: of a device (1) with this number.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Location {
    kind: c_int,
    id: c_int,
}

/// `CUmemAccessDesc`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Access {
    location: Location,
    flags: c_int,
}

const READ_WRITE: c_int = 3;

static POOLS: Mutex<BTreeMap<u64, Pool>> = Mutex::new(BTreeMap::new());
/// The pool that a device's memory comes from, where it is not the default one.
static CHOSEN: Mutex<BTreeMap<u32, u64>> = Mutex::new(BTreeMap::new());

entries! {
    fn cuMemAllocAsync(out: Out<u64>, bytes: usize, stream: u64) = cuMemAllocAsync_ptsz |call| {
        allocate(call, out, bytes, stream, None)
    }

    fn cuMemAllocFromPoolAsync(
        out: Out<u64>,
        bytes: usize,
        pool: u64,
        stream: u64,
    ) = cuMemAllocFromPoolAsync_ptsz |call| {
        let pool = find(pool)?;
        allocate(call, out, bytes, stream, Some(pool.device))
    }

    fn cuMemFreeAsync(address: u64, stream: u64) = cuMemFreeAsync_ptsz |call| {
        let mut objects = objects();
        let key = objects.resolve(call, stream)?;
        not_captured(&objects, key)?;
        let (stream, _) = objects.come_to(call, key)?;
        objects.allocations.remove(&address);
        Ok(call.process.engine.free_on(call.site, stream, address)?)
    }

    fn cuDeviceGetDefaultMemPool(out: Out<u64>, ordinal: c_int) |call| {
        out.set(default_of(device(call, ordinal)?))
    }

    fn cuDeviceGetMemPool(out: Out<u64>, ordinal: c_int) |call| {
        let device = device(call, ordinal)?;
        let chosen = chosen().get(&device).copied();
        out.set(chosen.unwrap_or_else(|| default_of(device)))
    }

    fn cuDeviceSetMemPool(ordinal: c_int, pool: u64) |call| {
        let device = device(call, ordinal)?;
        if find(pool)?.device != device {
            return Err(Code::INVALID_VALUE);
        }
        chosen().insert(device, pool);
        Ok(())
    }

    fn cuMemPoolCreate(out: Out<u64>, properties: In<Properties>) |call| {
        let properties = properties.get()?;
        // Pinned memory of a device; handles for other processes are not simulated.
        if properties.allocation != 1 || properties.location.kind != 1 {
            return Err(Code::INVALID_VALUE);
        }
        if properties.handles != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        out.set(make(device(call, properties.location.id)?, false))
    }

    fn cuMemPoolDestroy(pool: u64) |_call| {
        let found = find(pool)?;
        if found.is_default {
            return Err(Code::INVALID_VALUE);
        }
        chosen().retain(|_, chosen| *chosen != pool);
        pools().remove(&pool);
        Ok(())
    }

    fn cuMemPoolTrimTo(pool: u64, keep: usize) |call| {
        let device = find(pool)?.device;
        // What is to be left counts memory that is in use, and the engine's does not.
        let used = call.process.engine.memory_usage(device)?.used;
        let keep = (keep as u64).saturating_sub(used);
        Ok(call.process.engine.trim(call.site, device, keep)?)
    }

    fn cuMemPoolGetAttribute(pool: u64, attribute: c_int, out: Out<u64>) |call| {
        let pool = find(pool)?;
        let usage = call.process.engine.memory_usage(pool.device)?;
        match attribute {
            // Memory is used again behind events, when it is seen to be free, and by waits of the pool's.
            1..=3 => out.cast::<c_int>().set(1),
            4 => out.set(pool.threshold),
            5 => out.set(usage.reserved),
            6 => out.set(usage.peak_reserved),
            7 => out.set(usage.used),
            8 => out.set(usage.peak_used),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuMemPoolSetAttribute(pool: u64, attribute: c_int, value: In<u64>) |call| {
        let device = find(pool)?.device;
        match attribute {
            1..=3 => Ok(()),
            4 => {
                let threshold = value.get()?;
                if let Some(pool) = pools().get_mut(&pool) {
                    pool.threshold = threshold;
                }
                Ok(())
            }
            // A peak is set to 0, which begins it anew.
            6 | 8 if value.get()? == 0 => Ok(call.process.engine.reset_peaks(device)?),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuMemPoolSetAccess(pool: u64, access: In<Access>, count: usize) |call| {
        find(pool)?;
        (0..count).try_for_each(|at| {
            let access = access.at(at).get()?;
            device(call, access.location.id)?;
            if matches!(access.flags, 0 | 1 | READ_WRITE) {
                Ok(())
            } else {
                Err(Code::INVALID_VALUE)
            }
        })
    }

    fn cuMemPoolGetAccess(flags: Out<c_int>, pool: u64, location: In<Location>) |call| {
        let (pool, location) = (find(pool)?, location.get()?);
        let device = device(call, location.id)?;
        flags.set(if pool.device == device { READ_WRITE } else { 0 })
    }
}

fn allocate(call: &Call, out: Out<u64>, bytes: usize, stream: u64, device: Option<u32>) -> Answer {
    if out.is_null() || bytes == 0 {
        return Err(Code::INVALID_VALUE);
    }
    let mut objects = objects();
    let key = objects.resolve(call, stream)?;
    not_captured(&objects, key)?;
    let (stream, context) = objects.come_to(call, key)?;
    let own = objects.context(context)?.device;
    drop(objects);
    if device.is_some_and(|device| device != own) {
        return Err(Code::INVALID_VALUE);
    }
    let address = call
        .process
        .engine
        .allocate_on(call.site, stream, bytes as u64)?;
    out.set(address)
}

/// Memory of graphs is not simulated.
fn not_captured(objects: &Objects, stream: u64) -> Answer {
    match objects.captures.status(stream) {
        (captures::NONE, _) => Ok(()),
        _ => Err(Code::NOT_SUPPORTED),
    }
}

fn pools() -> MutexGuard<'static, BTreeMap<u64, Pool>> {
    POOLS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn chosen() -> MutexGuard<'static, BTreeMap<u32, u64>> {
    CHOSEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn find(pool: u64) -> Answer<Pool> {
    pools().get(&pool).copied().ok_or(Code::INVALID_VALUE)
}

fn make(device: u32, is_default: bool) -> u64 {
    let handle = objects().handle();
    let pool = Pool {
        device,
        is_default,
        threshold: 0,
    };
    pools().insert(handle, pool);
    handle
}

/// The default pool of a device.
pub(crate) fn default_of(device: u32) -> u64 {
    let is_it = |(_, pool): &(&u64, &Pool)| pool.is_default && pool.device == device;
    let known = pools().iter().find(is_it).map(|(handle, _)| *handle);
    known.unwrap_or_else(|| make(device, true))
}
