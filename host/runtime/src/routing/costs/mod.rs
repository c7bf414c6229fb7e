//! What copies cost between two devices: measured at first use, kept in a file, and looked up
//! without a lock.

mod cache;
mod class;
mod cost;
mod curve;
mod measure;
mod store;
mod table;

#[cfg(test)]
mod tests;

pub use cache::CostCache;
pub use cost::{Cost, CostOrigin};

pub(crate) use class::{Arrangement, Class, EndClass, Residence};
pub(crate) use table::{Asked, Costs, Known};
