//! What takes the place of contexts, and links between devices. Each thread has a current device, and each device one
//! context that all share. What `Vendor` calls a context is here the device's number plus 1, so that none is 0.
#![expect(unsafe_code, reason = "calls the runtime")]

use crossdock_plugin_gpu::vendor::Answer;

use crate::codes;
use crate::driver::Hip;
use crate::functions::call;
use crate::structs::PoolAccess;

/// What `enter` gives where the device was the thread's already.
const SAME: u64 = u64::MAX;

/// What stands for the context of a device.
pub(crate) const fn word_of(ordinal: i32) -> u64 {
    ordinal.cast_unsigned() as u64 + 1
}

/// The device of such a context.
pub(crate) fn device_of(word: u64) -> i32 {
    let ordinal = word
        .checked_sub(1)
        .and_then(|word| i32::try_from(word).ok());
    // A number that no device has.
    ordinal.unwrap_or(-1)
}

impl Hip {
    /// Makes a device the thread's current one, and answers what [`Hip::set_back`] needs.
    pub(crate) fn set(&self, ordinal: i32) -> Answer<u64> {
        let mut before = 0;
        call!(self.hipGetDevice(&raw mut before))?;
        if before == ordinal {
            return Ok(SAME);
        }
        call!(self.hipSetDevice(ordinal))?;
        Ok(word_of(before))
    }

    /// Gives the thread its device back.
    pub(crate) fn set_back(&self, before: u64) {
        if before != SAME {
            // It was set before, so it can be set.
            let _set = call!(self.hipSetDevice(device_of(before)));
        }
    }

    pub(crate) fn reaches(&self, ordinal: i32, peer: i32) -> Answer<bool> {
        let mut reaches = 0;
        call!(self.hipDeviceCanAccessPeer(&raw mut reaches, ordinal, peer))?;
        Ok(reaches != 0)
    }

    /// False where the link was enabled already.
    pub(crate) fn reach(&self, peer: i32) -> Answer<bool> {
        match call!(self.hipDeviceEnablePeerAccess(peer, 0)) {
            Err(code) if code.number == codes::PEER_ACCESS_ALREADY_ENABLED => Ok(false),
            enabled => enabled.map(|()| true),
        }
    }

    pub(crate) fn reach_no_more(&self, peer: i32) -> Answer {
        match call!(self.hipDeviceDisablePeerAccess(peer)) {
            Err(code) if code.number == codes::PEER_ACCESS_NOT_ENABLED => Ok(()),
            disabled => disabled,
        }
    }

    /// Lets a device reach memory of a pool of another one, or ends that.
    pub(crate) fn open_pool(&self, pool: u64, ordinal: i32, is_open: bool) -> Answer {
        let access = PoolAccess::of(ordinal, is_open);
        call!(self.hipMemPoolSetAccess?(pool, &raw const access, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_devices_are_not_null_and_come_back() {
        for ordinal in [0, 1, 7, i32::MAX] {
            assert_ne!(word_of(ordinal), 0);
            assert_eq!(device_of(word_of(ordinal)), ordinal);
        }
        assert_eq!(device_of(0), -1);
        assert_eq!(device_of(u64::MAX), -1);
    }
}
