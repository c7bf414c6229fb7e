//! What the devices of one runtime share for moving tensors.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::costs::{CostCache, Costs};
use crate::runtime::{Runtime, WeakRuntime};
use crate::staging::Chunks;

/// The staging memory and the known costs of a runtime, and whom to ask whose memory is.
#[derive(Debug)]
pub(crate) struct Routing {
    chunks: Chunks,
    costs: Costs,
    runtime: WeakRuntime,
    /// The number of the last plugin that was registered and whose pointer query asks its driver.
    newest_driver: AtomicU32,
}

impl Routing {
    pub(crate) fn new(staging_bytes: Option<u64>, cache: &CostCache) -> Self {
        let chunks = Chunks::new(staging_bytes);
        let costs = Costs::new(cache, chunks.chunk_bytes());
        Self {
            chunks,
            costs,
            runtime: WeakRuntime::default(),
            newest_driver: AtomicU32::new(0),
        }
    }

    /// The same for the devices of `runtime`.
    pub(crate) fn of(self, runtime: WeakRuntime) -> Self {
        Self { runtime, ..self }
    }

    /// The runtime, unless it was dropped before its devices.
    pub(crate) fn runtime(&self) -> Option<Runtime> {
        self.runtime.upgrade()
    }

    /// The number of the last plugin whose pointer query asks its driver; 0 where there is none.
    #[inline]
    pub(crate) fn newest_driver(&self) -> u32 {
        self.newest_driver.load(Ordering::Acquire)
    }

    /// Has the claims of memory checked with the plugin of this number too.
    pub(crate) fn add_driver(&self, number: u32) {
        self.newest_driver.fetch_max(number, Ordering::AcqRel);
    }

    pub(crate) const fn chunks(&self) -> &Chunks {
        &self.chunks
    }

    pub(crate) const fn costs(&self) -> &Costs {
        &self.costs
    }
}
