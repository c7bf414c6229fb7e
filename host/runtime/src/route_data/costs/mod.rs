//! What copies cost between two devices: measured at first use, kept in a file, and looked up
//! without a lock.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `curve`, `cost`, `class` | times by size; what a route says of its cost; which copies cost alike |
//! | `table` | the costs of a runtime: found, measured once, looked up |
//! | `store`, `setting` | the file that keeps them, and the setting that names it |
//!
//! All ways between two devices are measured (`routes/measure.rs`) as times by size; allocation is left out, as it
//! is the same for each. What is cheap for compact bytes may be dear for rows, a driver command
//! each, and dear for pageable memory: so each *class* of copies has its own times (`class.rs`:
//! compact, pitched or scattered, in usual, pinned or managed memory, at each end). A class is
//! measured at its first use, in at most 50 ms, and a pair takes four times that in all; a class
//! that comes later goes by the devices' properties. What a way does once, as a driver that makes a
//! context or a kernel at its first copy, is done before the time counts. The last copy that is
//! timed is as long as there is time for, and a way through host memory has two shares of the time.
//! Another thread that asks meanwhile goes by the devices' properties: direct before staged, the
//! source's plugin before the destination's. So does a move on a stream: measuring copies without
//! one, which would never end where the caller itself holds what is before it. The results are kept
//! in `$XDG_CACHE_HOME/crossdock/costs.json`, by plugin, version, device, driver and class
//! (`CROSSDOCK_COSTS=FILE|memory|off`). Pairs with an alias are measured only where somebody
//! demands a copy: costs never decide between the two.

mod class;
mod cost;
mod curve;
mod setting;
mod store;
mod table;

#[cfg(test)]
mod tests;

pub use cost::{Cost, CostOrigin};
pub use setting::CostCache;

pub(crate) use class::{Arrangement, Class, EndClass, Residence, SHORTEST_ROW};
pub(crate) use curve::{Curve, Point};
pub(crate) use table::{Asked, Costs, Known, WayCosts};
