//! What the driver knows of an address.
#![expect(unsafe_code, reason = "the driver's functions are exported by name")]

use std::ffi::c_int;

use crossdock_sim_engine::{MemoryKind, Owner};

use super::codes::Code;
use super::entry::{Answer, Call, In, Out, entries};
use super::memory::size;
use super::objects::objects;
use crate::face::Face;

/// `CU_MEMORYTYPE_*`.
const HOST: u32 = 1;
const DEVICE: u32 = 2;

entries! {
    fn cuMemGetAddressRange_v2(base: Out<u64>, bytes: Out<usize>, address: u64) |call| {
        let owner = call.owner_of(address).ok_or(Code::NOT_FOUND)?;
        base.offer(owner.base);
        bytes.offer(size(owner.bytes)?);
        Ok(())
    }

    fn cuPointerGetAttribute(out: Out<u8>, attribute: c_int, address: u64) |call| {
        let owner = call.owner_of(address).ok_or(Code::INVALID_VALUE)?;
        write(call, out, attribute, address, Some(owner))
    }

    // For an address that it does not know it answers zeros, and success.
    fn cuPointerGetAttributes(
        count: u32,
        attributes: In<c_int>,
        values: In<Out<u8>>,
        address: u64,
    ) |call| {
        let owner = call.owner_of(address);
        for at in 0..count as usize {
            let (out, attribute) = (values.at(at).get()?, attributes.at(at).get()?);
            match attribute {
                // NULL of memory that the host does not reach, where a call for this alone is refused.
                4 if owner.is_some_and(|owner| owner.kind == MemoryKind::Device) => out.cast::<u64>().set(0)?,
                _ => write(call, out, attribute, address, owner)?,
            }
        }
        Ok(())
    }
}

/// Writes one attribute, whose type is its own.
fn write(
    call: &Call,
    out: Out<u8>,
    attribute: c_int,
    address: u64,
    owner: Option<Owner>,
) -> Answer {
    let is = |kind| owner.is_some_and(|owner| owner.kind == kind);
    let number = |value: u32| out.cast::<u32>().set(value);
    let word = |value: u64| out.cast::<u64>().set(value);
    match attribute {
        // Context: of a pool's memory, the primary one.
        1 => {
            let mut objects = objects();
            let context = owner.map_or(0, |owner| {
                let allocated = objects.allocations.get(&owner.base).copied();
                let registered = objects
                    .registered
                    .get(&(Face::Cuda, owner.base))
                    .map(|known| known.1);
                let known = if owner.is_registered {
                    registered
                } else {
                    allocated
                };
                known.unwrap_or_else(|| objects.primary(owner.device))
            });
            word(context)
        }
        // What memory it is; managed memory is the device's.
        2 => number(match owner {
            None => 0,
            Some(owner) if owner.kind == MemoryKind::Pinned => HOST,
            Some(_) => DEVICE,
        }),
        // Addresses on the device and on the host, where each is one.
        3 => word(if owner.is_some() { address } else { 0 }),
        4 if is(MemoryKind::Device) => Err(Code::INVALID_VALUE),
        4 => word(if owner.is_some() { address } else { 0 }),
        // Whether copies wait.
        6 => out.set(0),
        // An id that no other allocation gets.
        7 => word(owner.map_or(0, |owner| owner.id)),
        8 => number(u32::from(is(MemoryKind::Managed))),
        // -2: no device.
        9 => out
            .cast::<c_int>()
            .set(owner.map_or(-2, |owner| call.ordinal(owner.device))),
        // Whether other processes may open it; whether other devices than GPUs reach it, which is not simulated.
        10 => {
            let device = owner.filter(|owner| owner.kind == MemoryKind::Device);
            let objects = objects();
            out.set(u8::from(
                device.is_some_and(|owner| objects.is_exportable(owner.base)),
            ))
        }
        15 => out.set(0),
        11 => word(owner.map_or(0, |owner| owner.base)),
        12 => out
            .cast::<usize>()
            .set(size(owner.map_or(0, |owner| owner.bytes))?),
        // Mapped into the address space.
        13 => out.set(u8::from(owner.is_some())),
        14 => word(0),
        // Access: read and write.
        16 => number(if owner.is_some() { 3 } else { 0 }),
        17 => word(owner.map_or(0, |owner| owner.pool)),
        // The mapping and the block behind it are the allocation; no hardware decompresses.
        18 => out
            .cast::<usize>()
            .set(size(owner.map_or(0, |owner| owner.bytes))?),
        19 => word(owner.map_or(0, |owner| owner.base)),
        20 => word(owner.map_or(0, |owner| owner.id)),
        21 => out.set(0),
        _ => Err(Code::INVALID_VALUE),
    }
}
