//! `CUDA_VISIBLE_DEVICES`: which devices of the machine a process sees, and in which order.

use std::fmt::Write as _;

use super::devices::uuid;

/// The devices that a process sees, by their numbers in the machine: all of them, or those that the variable lists by
/// number or by the beginning of their uuids, up to the first that is none. One that is listed twice makes all
/// invisible.
pub(crate) fn visible(mask: Option<&str>, devices: u32) -> Vec<u32> {
    let Some(mask) = mask else {
        return (0..devices).collect();
    };
    let mut seen = Vec::new();
    for word in mask.split(',') {
        let Some(device) = named(word.trim(), devices) else {
            break;
        };
        if seen.contains(&device) {
            return Vec::new();
        }
        seen.push(device);
    }
    seen
}

/// The device that a word of the list means.
fn named(word: &str, devices: u32) -> Option<u32> {
    if !word.starts_with("GPU-") {
        return word.parse().ok().filter(|device| *device < devices);
    }
    let mut fitting = (0..devices).filter(|device| text(*device).starts_with(word));
    let device = fitting.next()?;
    // What fits two devices names none.
    fitting.next().is_none().then_some(device)
}

/// The uuid of a device as the vendor's tools write it.
fn text(device: u32) -> String {
    let mut text = "GPU".to_owned();
    let uuid = uuid(device);
    for (at, byte) in uuid.iter().enumerate() {
        let dash = if matches!(at, 0 | 4 | 6 | 8 | 10) {
            "-"
        } else {
            ""
        };
        let _written = write!(text, "{dash}{byte:02x}");
    }
    text
}
