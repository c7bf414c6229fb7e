//! What a device says of itself: by attributes, and as a struct in the layout of HIP 5 or of HIP 6 and later.

use std::ffi::c_int;

use super::entry::{Answer, Call, Out};

/// Bytes of `hipDeviceProp_t` before HIP 6 (`R0000`), and from then on (`R0600`).
const OLD_SIZE: usize = 792;
const SIZE: usize = 1472;

/// A field: where it is in the old layout, where in the new one, and what it says.
type Field = (Option<usize>, usize, Vec<u8>);

pub(crate) fn name(device: u32) -> String {
    format!("Simulated ROCm GPU {device}")
}

/// No two devices have the same: text, as AMD's are.
pub(crate) fn uuid(device: u32) -> [u8; 16] {
    let text = uuid_text(device);
    std::array::from_fn(|at| text.as_bytes().get(at).copied().unwrap_or(0))
}

pub(crate) fn uuid_text(device: u32) -> String {
    format!("51d0{device:012x}")
}

/// Devices of other vendors have buses of their own.
pub(crate) fn pci_bus_id(device: u32) -> String {
    format!("0000:{:02x}:00.0", bus(device))
}

const fn bus(device: u32) -> u32 {
    0x80 + device
}

/// Numbers of `hipDeviceAttribute_t`, and what a device of this kind says; others are 0, and none are beyond the two
/// ranges of numbers.
pub(crate) const fn attribute(number: c_int, device: u32) -> Option<c_int> {
    match number {
        // Asynchronous engines; host memory that is mapped, registered memory under its own address.
        2 => Some(2),
        3 | 4 => Some(1),
        // Clock, concurrent kernels, managed memory, that the host uses together with the device.
        5 => Some(1_700_000),
        8 | 9 | 24 => Some(1),
        // Compute capability 9.4.
        23 => Some(9),
        61 => Some(4),
        // Threads of a block and of a multiprocessor, the longest pitch, multiprocessors.
        56 => Some(1024),
        57 => Some(2048),
        58 => Some(c_int::MAX),
        63 => Some(16),
        // PCI: bus; device and domain are 0.
        67 => Some(bus(device).cast_signed()),
        // Shared memory, stream priorities, one address space, warps.
        74 => Some(65_536),
        78 | 85 => Some(1),
        87 => Some(64),
        // Memory pools, registration, waits for words.
        88 | 90 | 10_013 => Some(1),
        0..=91 | 10_000..=10_017 => Some(0),
        _ => None,
    }
}

/// Writes the struct.
pub(crate) fn write_properties(call: &Call, out: Out<u8>, device: u32, is_old: bool) -> Answer {
    let (_, all) = call.process.engine.memory_info(device)?;
    let mut bytes = vec![0; if is_old { OLD_SIZE } else { SIZE }];
    for (old, new, value) in fields(device, all) {
        let Some(at) = (if is_old { old } else { Some(new) }) else {
            continue;
        };
        for (place, byte) in bytes.iter_mut().skip(at).zip(value) {
            *place = byte;
        }
    }
    bytes
        .into_iter()
        .enumerate()
        .try_for_each(|(at, byte)| out.at(at).set(byte))
}

fn fields(device: u32, memory: u64) -> Vec<Field> {
    let int = |old, new, value: c_int| (old, new, value.to_ne_bytes().to_vec());
    let size = |old, new, value: u64| (old, new, value.to_ne_bytes().to_vec());
    let told = |number| attribute(number, device).unwrap_or(0);
    vec![
        (Some(0), 0, name(device).into_bytes()),
        (None, 256, uuid(device).to_vec()),
        size(Some(256), 288, memory),
        size(Some(264), 296, 65_536),
        int(Some(272), 304, 65_536),
        int(Some(276), 308, told(87)),
        size(Some(712), 312, c_int::MAX.unsigned_abs().into()),
        int(Some(280), 320, told(56)),
        // Three dimensions of a block and of a grid.
        int(Some(284), 324, 1024),
        int(Some(288), 328, 1024),
        int(Some(292), 332, 1024),
        int(Some(296), 336, c_int::MAX),
        int(Some(300), 340, 65_535),
        int(Some(304), 344, 65_535),
        int(Some(308), 348, told(5)),
        int(Some(328), 360, told(23)),
        int(Some(332), 364, told(61)),
        size(Some(720), 368, 256),
        size(Some(728), 376, 256),
        int(Some(336), 388, told(63)),
        int(Some(388), 400, 1),
        int(Some(360), 576, 1),
        int(Some(368), 584, told(67)),
        int(None, 600, told(2)),
        int(None, 604, 1),
        int(Some(344), 624, told(57)),
        int(None, 628, 1),
        int(Some(772), 652, 1),
        int(Some(780), 676, 1),
        int(None, 684, 1),
        int(None, 728, 1),
        int(None, 744, 1),
        (Some(396), 1160, b"gfx942".to_vec()),
        size(Some(376), 1416, 65_536),
    ]
}
