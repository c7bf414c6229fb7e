//! What the devices of one runtime share.

use std::sync::Arc;

use crate::devices::runtime::{Runtime, WeakRuntime};
use crate::route_data::chunks::Chunks;
use crate::route_data::costs::{CostCache, Costs};

/// The staging memory and the known costs of a runtime, and the runtime itself.
#[derive(Debug)]
pub(crate) struct Shared {
    chunks: Arc<Chunks>,
    costs: Costs,
    runtime: WeakRuntime,
}

impl Shared {
    pub(crate) fn new(staging_bytes: Option<u64>, cache: &CostCache) -> Self {
        let chunks = Arc::new(Chunks::new(staging_bytes));
        let costs = Costs::new(cache, chunks.chunk_bytes());
        Self {
            chunks,
            costs,
            runtime: WeakRuntime::default(),
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

    pub(crate) const fn chunks(&self) -> &Arc<Chunks> {
        &self.chunks
    }

    pub(crate) const fn costs(&self) -> &Costs {
        &self.costs
    }
}
