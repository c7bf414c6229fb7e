//! What the runtime knows of an address.
#![expect(unsafe_code, reason = "the runtime's functions are exported by name")]

use std::ffi::c_int;

use crossdock_sim_engine::{MemoryKind, Owner};

use super::entry::{Answer, Call, In, Out, entries};
use crate::cuda::memory::size;
use crate::face::codes::Code;

/// `hipPointerAttribute_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Attributes {
    kind: c_int,
    device: c_int,
    device_pointer: u64,
    host_pointer: u64,
    is_managed: c_int,
    flags: u32,
}

entries! {
    fn hipPointerGetAttributes(out: Out<Attributes>, address: u64) |call| {
        if address == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let owner = call.owner_of(address);
        if owner.is_none() && call.process.hip < (6, 0) {
            return Err(Code::INVALID_VALUE);
        }
        let is_reached = |owner: Owner| owner.kind != MemoryKind::Device;
        out.set(Attributes {
            kind: owner.map_or(0, |owner| kind(call, owner.kind)),
            device: owner.map_or(-2, |owner| call.ordinal(owner.device)),
            device_pointer: owner.map_or(0, |_| address),
            host_pointer: if owner.is_some_and(is_reached) { address } else { 0 },
            is_managed: c_int::from(owner.is_some_and(|owner| owner.kind == MemoryKind::Managed)),
            flags: 0,
        })
    }

    fn hipMemGetAddressRange(base: Out<u64>, bytes: Out<usize>, address: u64) |call| {
        let owner = call.owner_of(address).ok_or(Code::NOT_FOUND)?;
        base.offer(owner.base);
        bytes.offer(size(owner.bytes)?);
        Ok(())
    }

    fn hipMemPtrGetInfo(address: u64, bytes: Out<usize>) |call| {
        let owner = call.owner_of(address).ok_or(Code::INVALID_VALUE)?;
        bytes.set(size(owner.bytes)?)
    }

    fn hipPointerGetAttribute(out: Out<u8>, attribute: c_int, address: u64) |call| {
        if address == 0 || out.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        write(call, out, attribute, address)
    }

    // It answers zeros, and success, for what it does not know, but for NULL.
    fn hipDrvPointerGetAttributes(
        count: u32,
        attributes: In<c_int>,
        values: In<Out<u8>>,
        address: u64,
    ) |call| {
        if address == 0 || count == 0 {
            return Err(Code::INVALID_VALUE);
        }
        for at in 0..count as usize {
            let _ignored = write(call, values.at(at).get()?, attributes.at(at).get()?, address);
        }
        Ok(())
    }
}

/// `hipMemoryType`, which HIP 6 numbered anew.
fn kind(call: &Call, kind: MemoryKind) -> c_int {
    let is_old = call.process.hip < (6, 0);
    match (kind, is_old) {
        (MemoryKind::Pinned, true) => 0,
        (MemoryKind::Device, true) => 1,
        (MemoryKind::Managed, true) => 4,
        (MemoryKind::Pinned, false) => 1,
        (MemoryKind::Device, false) => 2,
        _ => 3,
    }
}

/// Writes one attribute, whose type is its own: also where the address is nobody's, and the answer an error.
fn write(call: &Call, out: Out<u8>, attribute: c_int, address: u64) -> Answer {
    let owner = call.owner_of(address);
    let number = |value: u32| out.cast::<u32>().set(value);
    let word = |value: u64| out.cast::<u64>().set(value);
    let is = |kind| owner.is_some_and(|owner: Owner| owner.kind == kind);
    match attribute {
        // Managed memory is called the host's here.
        2 => {
            let place = if is(MemoryKind::Device) {
                MemoryKind::Device
            } else {
                MemoryKind::Pinned
            };
            number(owner.map_or(0, |_| kind(call, place).unsigned_abs()))?;
        }
        3 => word(owner.map_or(0, |_| address))?,
        4 => {
            let reached = owner.filter(|owner| owner.kind != MemoryKind::Device);
            word(reached.map_or(0, |_| address))?;
            return reached.map(drop).ok_or(Code::INVALID_VALUE);
        }
        // Numbers and sizes of 32 bits, however large the memory is.
        7 => number(owner.map_or(0, |owner| low(owner.id)))?,
        12 => number(owner.map_or(0, |owner| low(owner.bytes)))?,
        6 => out.set(0)?,
        8 => out.set(u8::from(is(MemoryKind::Managed)))?,
        9 => {
            let device = owner.map_or(-2, |owner| call.ordinal(owner.device));
            out.cast::<c_int>().set(device)?;
        }
        11 => word(owner.map_or(0, |owner| owner.base))?,
        13 => out.set(u8::from(owner.is_some()))?,
        16 => return number(0),
        1 | 5 | 10 | 14 | 15 | 17 => return Err(Code::NOT_SUPPORTED),
        _ => return Err(Code::INVALID_VALUE),
    }
    owner.map(drop).ok_or(Code::INVALID_VALUE)
}

fn low(word: u64) -> u32 {
    u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0)
}
