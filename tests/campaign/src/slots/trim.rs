//! Trims, after which nothing is left that could have been given back.

use super::Slots;
use super::clients::A_RELEASE;
use crate::caller::{Failed, Stop};
use crate::clients::Client;
use crate::program::Op;

impl Slots {
    /// Trims a device. Where nothing is left to come, all that can be given back is: a second time finds no more.
    pub(super) fn trim(&self, op: &Op, device: usize, keep: u64) -> Result<(), Stop> {
        let _asking = self.world.asking.read().unwrap();
        let device = self.device(op, device);
        device.trim(keep)?;
        let is_alone = self.world.runtimes.len() == 1;
        let is_captured = self.clients.values().any(Client::is_capturing);
        if keep > 0 || !is_alone || is_captured || !self.host_events.lock().unwrap().is_empty() {
            return Ok(());
        }
        device.synchronize(None)?;
        let released = self.world.runtimes[op.runtime].wait_for_releases(Some(A_RELEASE));
        if released.is_err() {
            return Ok(());
        }
        let mut reserved = [0; 2];
        for reserved in &mut reserved {
            device.trim(0)?;
            *reserved = device.memory_usage()?.reserved;
        }
        let [first, second] = reserved;
        if second < first {
            let why = format!("a trim left {first} bytes, and the next one {second}");
            return Err(Stop::Failed(Failed::other(why)));
        }
        Ok(())
    }
}
