//! NUL-terminated texts in fixed arrays.

use crate::abi::{ProbeInfo, ProbeState};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters_and_stays_terminated() {
        let array = fixed_text::<4>("aé€");
        assert_eq!(array, *b"a\xc3\xa9\0");
        assert_eq!(read_fixed_text(&array), "aé");
    }
}
