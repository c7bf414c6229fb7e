//! Links between AMD's devices: `hipDeviceEnablePeerAccess`, and `hipMemPoolSetAccess` for memory of pools.
#![expect(unsafe_code, reason = "calls the runtime")]

use crossdock_plugin_gpu::vendor::Answer;

use crate::codes;
use crate::driver::Hip;
use crate::functions::call;
use crate::structs::PoolAccess;

impl Hip {
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
