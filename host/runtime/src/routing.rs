//! What the devices of one runtime share for moving tensors.

use crate::costs::{CostCache, Costs};
use crate::staging::Chunks;

/// The staging memory and the known costs of a runtime.
#[derive(Debug)]
pub(crate) struct Routing {
    chunks: Chunks,
    costs: Costs,
}

impl Routing {
    pub(crate) fn new(staging_bytes: Option<u64>, cache: &CostCache) -> Self {
        let chunks = Chunks::new(staging_bytes);
        let costs = Costs::new(cache, chunks.chunk_bytes());
        Self { chunks, costs }
    }

    pub(crate) const fn chunks(&self) -> &Chunks {
        &self.chunks
    }

    pub(crate) const fn costs(&self) -> &Costs {
        &self.costs
    }
}
