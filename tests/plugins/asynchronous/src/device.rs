//! The devices: the first one shares the host's memory, the others do not and can do less.

use crossdock_sdk::abi::{Capabilities, DeviceInfo};
use crossdock_sdk::dlpack::DeviceType;
use crossdock_sdk::plugin::fixed_text;
use crossdock_sim_engine::Config;

/// DLPack's number for a simulator, which no plugin of a vendor claims.
pub(crate) const TYPE: DeviceType = DeviceType::VPI;

/// Whether the device shares memory with the host: it adopts, it maps, and it copies any strides.
///
/// Another device copies rows of whole bytes only and fills only what lies on its pattern's grid, as
/// the copy engines of vendors do, so that the host has to find other ways.
pub(crate) const fn is_integrated(device: u32) -> bool {
    device == 0
}

/// What a device is that works for this engine.
pub(crate) fn info(device: u32, config: &Config) -> DeviceInfo {
    let shared = [
        Capabilities::ASYNC_COPY,
        Capabilities::STRIDED_COPY,
        Capabilities::FILL,
        Capabilities::PINNED,
        Capabilities::REGISTER,
        Capabilities::TIMING,
        Capabilities::HOST_EVENTS,
    ];
    let integrated = [
        Capabilities::MANAGED,
        Capabilities::ADOPT_HOST,
        Capabilities::SUB_BYTE_STRIDES,
    ];
    let (kind, more) = if is_integrated(device) {
        ("integrated", integrated.as_slice())
    } else {
        ("discrete", [].as_slice())
    };
    let name = format!("Simulated {kind} device {device}");
    let mut info = DeviceInfo::new(TYPE, device, &name);
    info.uuid = uuid(device);
    info.driver_version = fixed_text(env!("CARGO_PKG_VERSION"));
    info.total_memory = config.memory_bytes;
    info.capabilities = shared.iter().chain(more).copied().collect();
    info
}

fn uuid(device: u32) -> [u8; 16] {
    let mut uuid = *b"simulated 0\0\0\0\0\0";
    for (place, byte) in uuid.iter_mut().skip(12).zip(device.to_le_bytes()) {
        *place = byte;
    }
    uuid
}
