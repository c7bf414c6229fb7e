//! Links between NVIDIA's devices: `cuCtxEnablePeerAccess` for memory of contexts, and `cuMemPoolSetAccess` for memory
//! of pools, to which the first call gives no access.
#![expect(unsafe_code, reason = "calls the driver")]

use crossdock_plugin_gpu::vendor::Answer;

use crate::codes;
use crate::driver::Cuda;
use crate::functions::call;
use crate::structs::PoolAccess;

impl Cuda {
    pub(crate) fn reaches(&self, ordinal: i32, peer: i32) -> Answer<bool> {
        let mut reaches = 0;
        call!(self.cuDeviceCanAccessPeer(&raw mut reaches, ordinal, peer))?;
        Ok(reaches != 0)
    }

    /// False where the link was enabled already.
    pub(crate) fn reach(&self, context: u64) -> Answer<bool> {
        match call!(self.cuCtxEnablePeerAccess(context, 0)) {
            Err(code) if code.number == codes::PEER_ACCESS_ALREADY_ENABLED => Ok(false),
            enabled => enabled.map(|()| true),
        }
    }

    pub(crate) fn reach_no_more(&self, context: u64) -> Answer {
        match call!(self.cuCtxDisablePeerAccess(context)) {
            Err(code) if code.number == codes::PEER_ACCESS_NOT_ENABLED => Ok(()),
            disabled => disabled,
        }
    }

    pub(crate) fn open_pool(&self, pool: u64, ordinal: i32, is_open: bool) -> Answer {
        let access = PoolAccess::of(ordinal, is_open);
        call!(self.cuMemPoolSetAccess?(pool, &raw const access, 1))
    }
}
