//! What takes the place of contexts. Each thread has a current device, and each device one
//! context that all share. What `Vendor` calls a context is here the device's number plus 1, so that none is 0.
#![expect(unsafe_code, reason = "calls the runtime")]

use crossdock_plugin_gpu::vendor::Answer;

use crate::driver::Hip;
use crate::functions::call;

/// What `enter` gives where the device was the thread's already.
const SAME: u64 = u64::MAX;

/// What stands for the context of a device.
pub(crate) const fn context_of_device(ordinal: i32) -> u64 {
    ordinal.cast_unsigned() as u64 + 1
}

/// The device of such a context.
pub(crate) fn device_of_context(context: u64) -> i32 {
    let ordinal = context
        .checked_sub(1)
        .and_then(|context| i32::try_from(context).ok());
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
        Ok(context_of_device(before))
    }

    /// Gives the thread its device back.
    pub(crate) fn set_back(&self, before: u64) {
        if before != SAME {
            // It was set before, so it can be set.
            let _set = call!(self.hipSetDevice(device_of_context(before)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_not_null_and_come_back() {
        for ordinal in [0, 1, 7, i32::MAX] {
            assert_ne!(context_of_device(ordinal), 0);
            assert_eq!(device_of_context(context_of_device(ordinal)), ordinal);
        }
        assert_eq!(device_of_context(0), -1);
        assert_eq!(device_of_context(u64::MAX), -1);
    }
}
