//! What copies cost between two devices: measured at first use, kept in a file, and looked up
//! without a lock.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `measure` | how copies are timed |
//! | `curve`, `cost`, `class` | times by size; what a route says of its cost; which copies cost alike |
//! | `table` | the costs of a runtime: found, measured once, looked up |
//! | `store`, `setting` | the file that keeps them, and the setting that names it |

mod class;
mod cost;
mod curve;
mod measure;
mod setting;
mod store;
mod table;

#[cfg(test)]
mod tests;

pub use cost::{Cost, CostOrigin};
pub use setting::CostCache;

pub(crate) use class::{Arrangement, Class, EndClass, Residence};
pub(crate) use table::{Asked, Costs, Known};
