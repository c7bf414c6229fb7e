//! Devices: which is the thread's, their names, sizes, attributes, and access between them.
#![expect(unsafe_code, reason = "the runtime's functions are exported by name")]

use std::ffi::{c_char, c_int};

use super::entry::{Answer, Call, In, Out, entries};
use super::properties::{attribute, name, pci_bus_id, uuid, write_properties};
use crate::cuda::contexts::wait_for_device;
use crate::cuda::devices::{text, write_text};
use crate::face::codes::Code;
use crate::face::objects::{objects, own_device, set_device};

entries! {
    fn hipGetDeviceCount(count: Out<c_int>) |call| {
        count.set(c_int::try_from(call.devices().len()).unwrap_or(c_int::MAX))
    }

    fn hipSetDevice(ordinal: c_int) |call| {
        call.device(ordinal)?;
        set_device(ordinal);
        Ok(())
    }

    fn hipGetDevice(out: Out<c_int>) |_call| {
        out.set(own_device())
    }

    fn hipDeviceGet(out: Out<c_int>, ordinal: c_int) |call| {
        call.device(ordinal)?;
        out.set(ordinal)
    }

    fn hipDeviceGetName(out: Out<c_char>, size: c_int, ordinal: c_int) |call| {
        write_text(out, size, &name(call.device(ordinal)?))
    }

    fn hipDeviceGetUuid(out: Out<[u8; 16]>, ordinal: c_int) |call| {
        out.set(uuid(call.device(ordinal)?))
    }

    fn hipDeviceTotalMem(out: Out<usize>, ordinal: c_int) |call| {
        let (_, all) = call.process.engine.memory_info(call.device(ordinal)?)?;
        out.set(usize::try_from(all).ok().ok_or(Code::UNKNOWN)?)
    }

    fn hipDeviceComputeCapability(major: Out<c_int>, minor: Out<c_int>, ordinal: c_int) |call| {
        call.device(ordinal)?;
        major.set(9)?;
        minor.set(4)
    }

    fn hipDeviceGetAttribute(out: Out<c_int>, number: c_int, ordinal: c_int) |call| {
        let device = call.device(ordinal)?;
        out.set(attribute(number, device).ok_or(Code::INVALID_VALUE)?)
    }

    fn hipDeviceGetPCIBusId(out: Out<c_char>, size: c_int, ordinal: c_int) |call| {
        write_text(out, size, &pci_bus_id(call.device(ordinal)?))
    }

    fn hipDeviceGetByPCIBusId(out: Out<c_int>, asked: In<c_char>) |call| {
        let asked = text(asked)?;
        let is_it = |device: &&u32| pci_bus_id(**device).eq_ignore_ascii_case(&asked);
        let device = call.devices().iter().find(is_it).ok_or(Code::INVALID_VALUE)?;
        out.set(call.ordinal(*device))
    }

    // Programs that were compiled for HIP 5 call this one, and get the layout of HIP 5.
    fn hipGetDeviceProperties(out: Out<u8>, ordinal: c_int) |call| {
        write_properties(call, out, call.device(ordinal)?, true)
    }

    fn hipGetDevicePropertiesR0000(out: Out<u8>, ordinal: c_int) |call| {
        write_properties(call, out, call.device(ordinal)?, true)
    }

    fn hipGetDevicePropertiesR0600(out: Out<u8>, ordinal: c_int) |call| {
        write_properties(call, out, call.device(ordinal)?, false)
    }

    fn hipDeviceSynchronize() |call| {
        let (_, device) = objects().current(call)?;
        wait_for_device(call, device)
    }

    fn hipDeviceReset() |call| {
        let (context, device) = objects().current(call)?;
        wait_for_device(call, device)?;
        objects().end_context(call, context)
    }

    fn hipGetDeviceFlags(out: Out<u32>) |_call| {
        out.set(0)
    }

    fn hipSetDeviceFlags(_flags: u32) |_call| {
        Ok(())
    }

    fn hipDeviceGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) |_call| {
        least.offer(1);
        greatest.offer(-1);
        Ok(())
    }

    // A limit is about kernels, which there are none of.
    fn hipDeviceGetLimit(out: Out<usize>, limit: c_int) |_call| {
        match limit {
            0..=2 => out.set(0),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn hipDeviceCanAccessPeer(out: Out<c_int>, one: c_int, other: c_int) |call| {
        let (one, other) = (call.device(one)?, call.device(other)?);
        out.set(c_int::from(one != other && call.process.has_peers))
    }

    fn hipDeviceGetP2PAttribute(out: Out<c_int>, attribute: c_int, one: c_int, other: c_int) |call| {
        let (one, other) = (call.device(one)?, call.device(other)?);
        if one == other {
            return Err(Code::INVALID_VALUE);
        }
        match attribute {
            // Access, native atomics; performance rank and arrays say nothing here.
            1 | 2 => out.set(c_int::from(call.process.has_peers)),
            0 | 3 => out.set(0),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn hipDeviceEnablePeerAccess(peer: c_int, flags: u32) |call| {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let (own, other) = of_link(call, peer)?;
        if !call.process.has_peers {
            return Err(Code::PEER_ACCESS_UNSUPPORTED);
        }
        let mut objects = objects();
        let peers = &mut objects.context(own)?.peers;
        if peers.contains(&other) {
            return Err(Code::PEER_ACCESS_ALREADY_ENABLED);
        }
        peers.push(other);
        Ok(())
    }

    fn hipDeviceDisablePeerAccess(peer: c_int) |call| {
        let (own, other) = of_link(call, peer)?;
        let mut objects = objects();
        let peers = &mut objects.context(own)?.peers;
        let at = peers.iter().position(|one| *one == other);
        peers.swap_remove(at.ok_or(Code::PEER_ACCESS_NOT_ENABLED)?);
        Ok(())
    }
}

/// What stands for the thread's device and for another one.
fn of_link(call: &Call, peer: c_int) -> Answer<(u64, u64)> {
    let other = call.device(peer)?;
    let mut objects = objects();
    let (context, own) = objects.current(call)?;
    if own == other {
        return Err(Code::INVALID_DEVICE);
    }
    Ok((context, objects.of_device(other)))
}
