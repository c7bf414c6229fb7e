//! The hooks on links between a plugin's devices, called safely; a missing group answers `UNSUPPORTED`.
#![expect(unsafe_code, reason = "calls the C functions of a plugin's table")]

use crossdock_layers::ErrorOut;

use crate::error::Error;
use crate::hooks::plugin_hooks::{Hooks, group_hook};

impl Hooks {
    /// Says whether a device can reach memory of another over a link.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn peer_can_access(&self, device: u32, peer: u32) -> Result<bool, Error> {
        let mut out = 0;
        group_hook!(self, peer.peer_can_access, (device, peer, &raw mut out))?;
        match out {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.fault("peer_can_access", "the answer is neither 0 nor 1")),
        }
    }

    /// Lets a device reach memory of another over their link.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn peer_enable(&self, device: u32, peer: u32) -> Result<(), Error> {
        group_hook!(self, peer.peer_enable, (device, peer))
    }

    /// Ends that.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn peer_disable(&self, device: u32, peer: u32) -> Result<(), Error> {
        group_hook!(self, peer.peer_disable, (device, peer))
    }
}
