//! Devices: their names, sizes and attributes. Each says that it is simulated.
#![expect(unsafe_code, reason = "the driver's functions are exported by name")]

use std::ffi::{c_char, c_int};

use super::codes::Code;
use super::entry::{Answer, Call, In, Out, entries};
use super::objects::objects;

entries! {
    fn cuDeviceGetCount(count: Out<c_int>) |call| {
        count.set(c_int::try_from(call.devices().len()).unwrap_or(c_int::MAX))
    }

    fn cuDeviceGet(out: Out<c_int>, ordinal: c_int) |call| {
        call.device(ordinal)?;
        out.set(ordinal)
    }

    fn cuDeviceGetName(name: Out<c_char>, size: c_int, ordinal: c_int) |call| {
        let text = format!("Simulated GPU {}", call.device(ordinal)?);
        write_text(name, size, &text)
    }

    fn cuDeviceGetUuid(out: Out<[u8; 16]>, ordinal: c_int) |call| {
        out.set(uuid(call.device(ordinal)?))
    }

    fn cuDeviceGetUuid_v2(out: Out<[u8; 16]>, ordinal: c_int) |call| {
        out.set(uuid(call.device(ordinal)?))
    }

    fn cuDeviceTotalMem_v2(out: Out<usize>, ordinal: c_int) |call| {
        let (_, all) = call.process.engine.memory_info(call.device(ordinal)?)?;
        out.set(usize::try_from(all).ok().ok_or(Code::UNKNOWN)?)
    }

    fn cuDeviceComputeCapability(major: Out<c_int>, minor: Out<c_int>, ordinal: c_int) |call| {
        call.device(ordinal)?;
        major.set(9)?;
        minor.set(0)
    }

    fn cuDeviceGetAttribute(out: Out<c_int>, attribute: c_int, ordinal: c_int) |call| {
        let device = call.device(ordinal)?;
        if attribute <= 0 {
            return Err(Code::INVALID_VALUE);
        }
        out.set(self::attribute(attribute, device))
    }

    fn cuDeviceGetPCIBusId(name: Out<c_char>, size: c_int, ordinal: c_int) |call| {
        let text = pci_bus_id(call.device(ordinal)?);
        write_text(name, size, &text)
    }

    fn cuDeviceGetByPCIBusId(out: Out<c_int>, name: In<c_char>) |call| {
        let asked = text(name)?;
        let mut devices = call.devices().iter();
        let found = devices.find(|device| pci_bus_id(**device).eq_ignore_ascii_case(&asked));
        out.set(call.ordinal(*found.ok_or(Code::INVALID_DEVICE)?))
    }

    fn cuDeviceCanAccessPeer(out: Out<c_int>, one: c_int, other: c_int) |call| {
        let (one, other) = (call.device(one)?, call.device(other)?);
        out.set(c_int::from(one != other && call.process.has_peers))
    }

    fn cuDeviceGetP2PAttribute(out: Out<c_int>, attribute: c_int, one: c_int, other: c_int) |call| {
        let (one, other) = (call.device(one)?, call.device(other)?);
        if one == other {
            return Err(Code::INVALID_DEVICE);
        }
        match attribute {
            // Access, native atomics; performance rank and arrays say nothing here.
            2 | 3 => out.set(c_int::from(call.process.has_peers)),
            1 | 4 => out.set(0),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuDevicePrimaryCtxRetain(out: Out<u64>, ordinal: c_int) |call| {
        let device = call.device(ordinal)?;
        let mut objects = objects();
        let handle = objects.primary(device);
        out.set(handle)?;
        if let Some(context) = objects.contexts.get_mut(&handle) {
            context.held += 1;
        }
        Ok(())
    }

    fn cuDevicePrimaryCtxRelease_v2(ordinal: c_int) |call| {
        let device = call.device(ordinal)?;
        if let_go(device)? {
            return Ok(());
        }
        end_primary(call, device)
    }

    fn cuDevicePrimaryCtxReset_v2(ordinal: c_int) |call| {
        let device = call.device(ordinal)?;
        end_primary(call, device)
    }

    fn cuDevicePrimaryCtxSetFlags_v2(ordinal: c_int, flags: u32) |call| {
        let device = call.device(ordinal)?;
        let mut objects = objects();
        let handle = objects.primary(device);
        if let Some(context) = objects.contexts.get_mut(&handle) {
            context.flags = flags;
        }
        Ok(())
    }

    fn cuDevicePrimaryCtxGetState(ordinal: c_int, flags: Out<u32>, is_active: Out<c_int>) |call| {
        let device = call.device(ordinal)?;
        let mut objects = objects();
        let handle = objects.primary(device);
        let context = objects.contexts.get(&handle).ok_or(Code::UNKNOWN)?;
        flags.set(context.flags)?;
        is_active.set(c_int::from(context.held > 0))
    }
}

/// Lets go of the primary context; false where nobody else holds it.
fn let_go(device: u32) -> Answer<bool> {
    let mut objects = objects();
    let handle = objects.primary(device);
    let context = objects.context(handle).ok().ok_or(Code::INVALID_CONTEXT)?;
    let is_held = context.held > 1;
    context.held -= u32::from(is_held);
    Ok(is_held)
}

/// Ends what is in the primary context, which waits for its work. The handle stays.
fn end_primary(call: &Call, device: u32) -> Answer {
    call.process.waits_for_device(call.site);
    let waited = call
        .process
        .engine
        .synchronize_device(call.site, device, None);
    let mut objects = objects();
    let handle = objects.primary(device);
    // On a lost device too.
    let ended = objects.end_context(call, handle);
    waited.map_err(Code::from).and(ended)
}

/// Numbers of `CU_DEVICE_ATTRIBUTE_*`, and what a device of this kind says; others are 0.
const fn attribute(attribute: c_int, device: u32) -> c_int {
    match attribute {
        // Threads in a block, in all and each way; blocks in a grid each way.
        1..=3 => 1024,
        4 => 64,
        5 => c_int::MAX,
        6 | 7 => 65_535,
        // Shared and constant memory, threads in a warp, pitch, registers, multiprocessors.
        8 => 49_152,
        9 => 65_536,
        10 => 32,
        11 => c_int::MAX,
        12 => 65_536,
        16 => 16,
        // Copies beside kernels; registered host memory, which the device reaches.
        15 | 19 | 99 => 1,
        // PCI: bus; device and domain are 0.
        33 => device.cast_signed() + 1,
        // Asynchronous engines, unified addressing, compute capability 9.0.
        40 => 2,
        41 => 1,
        75 => 9,
        76 => 0,
        // Stream priorities, managed memory, that the host uses together with the device.
        78 | 83 | 89 => 1,
        // The device reaches registered host memory under its own address.
        91 => 1,
        // Stream memory operations, also of 64 bits; memory pools.
        92..=94 | 115 => 1,
        97 => 232_448,
        _ => 0,
    }
}

/// No two devices have the same, and no device of a vendor has one of these.
pub(super) fn uuid(device: u32) -> [u8; 16] {
    let mut uuid = *b"simulated-cuda\0\0";
    let [low, high, ..] = device.to_le_bytes();
    uuid[14] = high;
    uuid[15] = low;
    uuid
}

fn pci_bus_id(device: u32) -> String {
    format!("0000:{:02x}:00.0", device + 1)
}

/// The text behind a pointer.
pub(crate) fn text(text: In<c_char>) -> Answer<String> {
    if text.raw().is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: it is not NULL, and a C string by the driver's own rule.
    let text = unsafe { std::ffi::CStr::from_ptr(text.raw()) };
    Ok(text.to_string_lossy().into_owned())
}

/// Writes a text into `size` bytes, cut off where they are too few.
pub(crate) fn write_text(out: Out<c_char>, size: c_int, text: &str) -> Answer {
    let size = usize::try_from(size).ok().ok_or(Code::INVALID_VALUE)?;
    if size == 0 || out.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let bytes = text.bytes().take(size - 1).chain([0]);
    bytes
        .enumerate()
        .try_for_each(|(at, byte)| out.at(at).set(c_char::from_ne_bytes([byte])))
}
