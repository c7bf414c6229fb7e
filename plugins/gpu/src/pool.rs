//! The hooks for cached memory, which is given back and counted.

use std::sync::Arc;

use crossdock_sdk::abi::MemoryUsage;
use crossdock_sdk::plugin::{Error, Pool};

use crate::device::{Device, locked};
use crate::fault::Fault;
use crate::memory::{free_block, settle};
use crate::native::NativeEvent;
use crate::plugin::Gpu;
use crate::stream::Stream;
use crate::vendor::{Kind, Vendor};

/// Memory that a stream frees when it gets there.
#[derive(Debug)]
pub(crate) struct Freeing<V: Vendor> {
    pub(crate) point: Arc<NativeEvent<V>>,
    pub(crate) device: Arc<Device<V>>,
    pub(crate) bytes: u64,
}

impl<V: Vendor> Pool for Gpu<V> {
    fn memory_trim(&self, device: u32, keep_bytes: u64) -> Result<(), Error> {
        let operation = "memory_trim";
        let found = self.device(device, operation)?;
        found.check(operation)?;
        let Some(home) = found.known_home() else {
            return Ok(());
        };
        self.count_freed();
        let inside = found.enter_in(home.context, operation)?;
        if let Some(pool) = home.pool {
            settle(&inside, home, TRIM_WAIT_NS);
            let used = found.counts.look(0).used;
            let most = used.saturating_add(keep_bytes);
            return Ok(inside.ask(|vendor| vendor.trim_pool(pool, most))?);
        }
        // Freeing a block waits for the whole device, so nothing is freed while a stream has work that Crossdock knows, or
        // has destroyed or unwrapped.
        if self.has_work(found) || !found.forget_ends(&inside) || !found.has_drained_ended() {
            return Ok(());
        }
        while found.blocks.bytes(Kind::Device) > keep_bytes
            && let Some((address, _)) = found.blocks.largest(Kind::Device)
        {
            found.report(free_block(&inside, address, Kind::Device));
        }
        Ok(())
    }

    fn memory_usage(&self, device: u32) -> Result<MemoryUsage, Error> {
        let operation = "memory_usage";
        let found = self.device(device, operation)?;
        found.check(operation)?;
        self.count_freed();
        let (reserved, peak) = self.reserved(found, operation)?;
        let bytes = found.counts.look(reserved);
        let reserved = reserved.max(bytes.used);
        Ok(MemoryUsage {
            reserved,
            used: bytes.used,
            peak_reserved: peak.max(bytes.peak_reserved).max(reserved),
            peak_used: bytes.peak_used,
        })
    }

    fn memory_reset_peaks(&self, device: u32) -> Result<(), Error> {
        let operation = "memory_reset_peaks";
        let found = self.device(device, operation)?;
        found.check(operation)?;
        if let Some(home) = found.known_home()
            && let Some(pool) = home.pool
        {
            let inside = found.enter_in(home.context, operation)?;
            inside.ask(|vendor| vendor.reset_pool_peak(pool))?;
        }
        let (reserved, _) = self.reserved(found, operation)?;
        found.counts.reset(reserved);
        Ok(())
    }
}

impl<V: Vendor> Gpu<V> {
    /// Whether a stream of the device may have work.
    fn has_work(&self, device: &Device<V>) -> bool {
        let _asking = locked(&self.asking);
        let streams = self.streams.all();
        let is_of = |stream: &&Arc<Stream<V>>| stream.device.index == device.index;
        let mut of_device = streams.iter().filter(is_of);
        let is_over = |stream: &Arc<Stream<V>>| stream.query().is_ok_and(|now| now.is_over());
        !of_device.all(is_over)
    }

    /// Takes memory that streams have freed by now out of the counts.
    pub(crate) fn count_freed(&self) {
        let all = std::mem::take(&mut *locked(&self.freeing));
        let is_over = |freeing: &Freeing<V>| {
            let now = freeing.point.progress();
            freeing.device.is_lost() || now.is_ok_and(|now| now.is_over())
        };
        let (over, mut left): (Vec<_>, Vec<_>) = all.into_iter().partition(is_over);
        for freed in over {
            freed.device.counts.remove(freed.bytes);
        }
        locked(&self.freeing).append(&mut left);
    }

    /// What is reserved of a device's memory, and the most that the driver knows of.
    fn reserved(&self, device: &Device<V>, operation: &'static str) -> Result<(u64, u64), Fault> {
        let Some(home) = device.known_home() else {
            return Ok((0, 0));
        };
        let Some(pool) = home.pool else {
            let cached = device.blocks.bytes(Kind::Device);
            return Ok((device.counts.look(0).used.saturating_add(cached), 0));
        };
        let inside = device.enter_in(home.context, operation)?;
        let bytes = inside.ask(|vendor| vendor.pool_bytes(pool))?;
        Ok((bytes.reserved, bytes.peak_reserved))
    }
}

/// The longest that a trim waits for frees that streams have not carried out.
const TRIM_WAIT_NS: u64 = 50_000_000;
