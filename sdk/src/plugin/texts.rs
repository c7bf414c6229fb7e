//! NUL-terminated texts in fixed arrays, and the answers that hold them.

use crate::abi::{AddressForm, Capabilities, DeviceInfo, ProbeInfo, ProbeState};
use crate::dlpack::DeviceType;

/// `text` in an array of `N` bytes, cut at a character boundary so that a NUL fits behind it.
#[must_use]
pub fn fixed_text<const N: usize>(text: &str) -> [u8; N] {
    let mut end = text.len().min(N.saturating_sub(1));
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut array = [0; N];
    for (to, from) in array.iter_mut().zip(text.as_bytes().iter().take(end)) {
        *to = *from;
    }
    array
}

/// The text before the first NUL; bytes that are not UTF-8 become replacement characters.
#[must_use]
pub fn read_fixed_text(array: &[u8]) -> String {
    let text = array.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

impl ProbeInfo {
    /// The driver is there with `device_count` devices.
    #[must_use]
    pub fn ready(device_count: u32, driver_version: &str) -> Self {
        Self {
            state: ProbeState::READY,
            device_count,
            detail: [0; 1024],
            driver_version: fixed_text(driver_version),
        }
    }

    /// The driver or its devices are not there: `looked_for` says for what it looked, and where.
    #[must_use]
    pub fn absent(looked_for: &str) -> Self {
        Self {
            state: ProbeState::ABSENT,
            device_count: 0,
            detail: fixed_text(looked_for),
            driver_version: [0; 64],
        }
    }

    /// Something is there and does not work: `why` says what and why.
    #[must_use]
    pub fn broken(why: &str) -> Self {
        Self {
            state: ProbeState::BROKEN,
            ..Self::absent(why)
        }
    }
}

impl DeviceInfo {
    /// A device whose addresses are pointers, and of which nothing else is known: no capability, no
    /// uuid, no bus, no version. What is known is set after that.
    ///
    /// ```
    /// use crossdock_sdk::abi::{Capabilities, DeviceInfo};
    /// use crossdock_sdk::dlpack::DeviceType;
    /// use crossdock_sdk::plugin::fixed_text;
    ///
    /// let mut info = DeviceInfo::new(DeviceType::EXT_DEV, 0, "Matrix engine");
    /// info.total_memory = 16 << 30;
    /// info.capabilities = [Capabilities::FILL, Capabilities::TIMING].into_iter().collect();
    /// info.driver_version = fixed_text("4.2");
    /// ```
    #[must_use]
    pub fn new(dl_type: DeviceType, dl_id: u32, name: &str) -> Self {
        Self {
            dl_type: dl_type.raw(),
            dl_id: i32::try_from(dl_id).unwrap_or(i32::MAX),
            uuid: [0; 16],
            name: fixed_text(name),
            pci_bus_id: [0; 32],
            driver_version: [0; 64],
            runtime_version: [0; 128],
            total_memory: 0,
            capabilities: Capabilities::empty(),
            address_form: AddressForm::POINTER,
            pinned_dl_type: 0,
            managed_dl_type: 0,
            reserved: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_of_which_only_the_name_is_known_says_nothing_else() {
        let info = DeviceInfo::new(DeviceType::EXT_DEV, 3, "a device");
        assert_eq!((info.dl_type, info.dl_id), (12, 3));
        assert_eq!(read_fixed_text(&info.name), "a device");
        assert_eq!(
            (info.capabilities.0, info.total_memory, info.reserved),
            (0, 0, 0)
        );
        assert_eq!(info.address_form, AddressForm::POINTER);
        assert_eq!(
            DeviceInfo::new(DeviceType::CPU, u32::MAX, "").dl_id,
            i32::MAX
        );
    }

    #[test]
    fn a_long_text_is_cut_between_characters_and_stays_terminated() {
        let array = fixed_text::<4>("aé€");
        assert_eq!(array, *b"a\xc3\xa9\0");
        assert_eq!(read_fixed_text(&array), "aé");
    }
}
