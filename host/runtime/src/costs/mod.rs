//! What copies cost between two devices: measured at first use, kept in a file, and looked up
//! without a lock.

mod cache;
mod curve;
mod measure;
mod store;
mod table;

#[cfg(test)]
mod tests;

pub use cache::CostCache;
pub use table::{Cost, CostOrigin};

pub(crate) use table::Costs;
