//! Memory in stream order, and the pools that it comes from. Each counts what is used of it and what it keeps; a wait
//! gives back what is more than its threshold.
#![expect(unsafe_code, reason = "the driver's functions are exported by name")]

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::captures;
use super::codes::Code;
use super::entry::{Answer, Call, In, Out, entries};
use super::objects::{Objects, objects};
use crate::face::Face;

/// A pool, by its handle, which the engine counts it by.
#[derive(Debug, Clone)]
struct Pool {
    device: u32,
    is_default: bool,
    /// Whether it was destroyed: memory that is left of it is given back once it is freed.
    is_gone: bool,
    threshold: u64,
    /// When it uses memory again: behind events, once it is seen to be free, or by waits of its own.
    reuse: [c_int; 3],
    /// What other devices may do with its memory.
    access: BTreeMap<u32, c_int>,
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
    ) = cuMemAllocFromPoolAsync_ptsz as allocate_from |call| {
        // "The specified memory pool may be from a device different than that of the specified hStream."
        let device = find(pool)?.device;
        allocate(call, out, bytes, stream, Some((device, pool)))
    }

    fn cuMemFreeAsync(address: u64, stream: u64) = cuMemFreeAsync_ptsz as free |call| {
        let mut objects = objects();
        let key = objects.resolve(call, stream)?;
        not_captured(&objects, key)?;
        let (stream, _) = objects.come_to(call, key)?;
        call.refuse_others(&[address])?;
        objects.allocations.remove(&address);
        Ok(call.process.engine.free_on(call.site, stream, address)?)
    }

    fn cuDeviceGetDefaultMemPool(out: Out<u64>, ordinal: c_int) as get_default |call| {
        out.set(default_of(call.device(ordinal)?))
    }

    fn cuDeviceGetMemPool(out: Out<u64>, ordinal: c_int) as get_current |call| {
        out.set(current_of(call.device(ordinal)?))
    }

    fn cuDeviceSetMemPool(ordinal: c_int, pool: u64) as set_current |call| {
        let device = call.device(ordinal)?;
        if find(pool)?.device != device {
            return Err(Code::INVALID_VALUE);
        }
        chosen().insert(device, pool);
        Ok(())
    }

    fn cuMemPoolCreate(out: Out<u64>, properties: In<Properties>) as create |call| {
        let properties = properties.get()?;
        // Pinned memory of a device; handles for other processes are not simulated.
        if properties.allocation != 1 || properties.location.kind != 1 {
            return Err(Code::INVALID_VALUE);
        }
        if properties.handles != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        out.set(make(call.device(properties.location.id)?, false))
    }

    fn cuMemPoolDestroy(pool: u64) as destroy |call| {
        let found = find(pool)?;
        if found.is_default {
            return Err(Code::INVALID_VALUE);
        }
        chosen().retain(|_, chosen| *chosen != pool);
        if let Some(pool) = pools().get_mut(&pool) {
            pool.is_gone = true;
            pool.threshold = 0;
        }
        release(call, found.device)
    }

    fn cuMemPoolTrimTo(pool: u64, keep: usize) as trim |call| {
        let device = find(pool)?.device;
        Ok(call.process.engine.trim_pool(device, pool, keep as u64)?)
    }

    fn cuMemPoolGetAttribute(pool: u64, attribute: c_int, out: Out<u64>) as get_attribute |call| {
        let found = find(pool)?;
        let usage = call.process.engine.pool_usage(found.device, pool)?;
        match attribute {
            1..=3 => {
                let [events, seen, waits] = found.reuse;
                let reuse = [events, events, seen, waits].get(attribute.unsigned_abs() as usize).copied();
                out.cast::<c_int>().set(reuse.unwrap_or(0))
            }
            4 => out.set(found.threshold),
            5 => out.set(usage.reserved),
            6 => out.set(usage.peak_reserved),
            7 => out.set(usage.used),
            8 => out.set(usage.peak_used),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuMemPoolSetAttribute(pool: u64, attribute: c_int, value: In<u64>) as set_attribute |call| {
        let device = find(pool)?.device;
        let mut pools = pools();
        let changed = pools.get_mut(&pool).ok_or(Code::INVALID_VALUE)?;
        match attribute {
            1 => changed.reuse[0] = value.cast::<c_int>().get()?,
            2 => changed.reuse[1] = value.cast::<c_int>().get()?,
            3 => changed.reuse[2] = value.cast::<c_int>().get()?,
            4 => changed.threshold = value.get()?,
            // A peak is set to 0, which begins it anew.
            6 | 8 if value.get()? == 0 => call.process.engine.reset_pool_peaks(device, pool)?,
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    }

    fn cuMemPoolSetAccess(pool: u64, access: In<Access>, count: usize) as set_access |call| {
        let own = find(pool)?.device;
        (0..count).try_for_each(|at| {
            let Access { location, flags } = access.at(at).get()?;
            let other = call.device(location.id)?;
            // Its own device reaches it always.
            if location.kind != 1 || !matches!(flags, 0 | 1 | READ_WRITE) || (other == own && flags == 0) {
                return Err(Code::INVALID_VALUE);
            }
            if let Some(pool) = pools().get_mut(&pool) {
                pool.access.insert(other, flags);
            }
            Ok(())
        })
    }

    fn cuMemPoolGetAccess(flags: Out<c_int>, pool: u64, location: In<Location>) as get_access |call| {
        let (pool, location) = (find(pool)?, location.get()?);
        let device = call.device(location.id)?;
        let own = if pool.device == device { READ_WRITE } else { 0 };
        flags.set(pool.access.get(&device).copied().unwrap_or(own))
    }
}

pub(crate) fn allocate(
    call: &Call,
    out: Out<u64>,
    bytes: usize,
    stream: u64,
    pool: Option<(u32, u64)>,
) -> Answer {
    if out.is_null() || bytes == 0 {
        return Err(Code::INVALID_VALUE);
    }
    let mut objects = objects();
    let key = objects.resolve(call, stream)?;
    not_captured(&objects, key)?;
    let (stream, context) = objects.come_to(call, key)?;
    let own = objects.context(context)?.device;
    drop(objects);
    if pool.is_some_and(|(device, _)| Face::of(call.process, device) != call.face) {
        return Err(Code::INVALID_VALUE);
    }
    let from = pool.unwrap_or_else(|| (own, current_of(own)));
    let address = call
        .process
        .engine
        .allocate_from(call.site, stream, bytes as u64, from)?;
    out.set(address)
}

/// Gives back what the pools of a device keep beyond their thresholds: after "the next call to stream, event or
/// context synchronize".
pub(crate) fn release(call: &Call, device: u32) -> Answer {
    for (handle, pool) in pools().iter().filter(|(_, pool)| pool.device == device) {
        call.process
            .engine
            .trim_pool(device, *handle, pool.threshold)?;
    }
    Ok(())
}

/// Forgets the pools that a program made on a device.
pub(crate) fn forget(device: u32) {
    chosen().remove(&device);
    pools().retain(|_, pool| pool.device != device || pool.is_default);
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
    let pools = pools();
    let found = pools.get(&pool).filter(|pool| !pool.is_gone);
    found.cloned().ok_or(Code::INVALID_VALUE)
}

fn make(device: u32, is_default: bool) -> u64 {
    let handle = objects().handle();
    let pool = Pool {
        device,
        is_default,
        is_gone: false,
        threshold: 0,
        reuse: [1; 3],
        access: BTreeMap::new(),
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

/// The pool that memory of a device comes from where none is named.
fn current_of(device: u32) -> u64 {
    let chosen = chosen().get(&device).copied();
    chosen.unwrap_or_else(|| default_of(device))
}
