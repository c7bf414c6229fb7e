//! Calls about how much memory there is, is used, and is kept in pools.

use crate::{Engine, Error, Site, Usage};

impl Engine {
    /// Bytes of a device that are free, and all of them.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for no such device.
    pub fn memory_info(&self, device: u32) -> Result<(u64, u64), Error> {
        let info = self.shared.here()?.memory.info(device);
        info.ok_or_else(|| no_device(device))
    }

    /// What is reserved and used of a device's memory.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for no such device.
    pub fn memory_usage(&self, device: u32) -> Result<Usage, Error> {
        let usage = self.shared.here()?.memory.usage(device);
        usage.ok_or_else(|| no_device(device))
    }

    /// Gives memory back that was freed and is kept, until at most `keep` bytes of it are left.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for no such device, and a fault's failure.
    pub fn trim(&self, site: Site, device: u32, keep: u64) -> Result<(), Error> {
        let (mut state, _site) = self.enter(site, Some(device))?;
        let trimmed = state.memory.trim(device, keep);
        trimmed.ok_or_else(|| no_device(device))
    }

    /// Begins the peaks of [`Engine::memory_usage`] anew.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for no such device.
    pub fn reset_peaks(&self, device: u32) -> Result<(), Error> {
        let reset = self.shared.here()?.memory.reset_peaks(device);
        reset.ok_or_else(|| no_device(device))
    }

    /// What is reserved and used of a device's pool.
    ///
    /// # Errors
    ///
    /// [`Error::Forked`].
    pub fn pool_usage(&self, device: u32, pool: u64) -> Result<Usage, Error> {
        Ok(*self.shared.here()?.memory.pool(device, pool))
    }

    /// Gives memory of a pool back that was freed and is kept, until at most so much is reserved.
    ///
    /// # Errors
    ///
    /// [`Error::Forked`].
    pub fn trim_pool(&self, device: u32, pool: u64, reserved: u64) -> Result<(), Error> {
        self.shared.here()?.memory.pool(device, pool).trim(reserved);
        Ok(())
    }

    /// Begins the peaks of a pool anew.
    ///
    /// # Errors
    ///
    /// [`Error::Forked`].
    pub fn reset_pool_peaks(&self, device: u32, pool: u64) -> Result<(), Error> {
        self.shared.here()?.memory.pool(device, pool).reset_peaks();
        Ok(())
    }
}

fn no_device(device: u32) -> Error {
    Error::Invalid {
        why: format!("there is no device {device}"),
    }
}
