//! Copies between host addresses: planned once, then run by the thread that asks and the pool's workers.

pub(crate) mod axes;
mod bits;
pub mod contiguous;
mod gather;
pub mod plan;
pub mod pool;
mod run;
mod scatter;
mod tile;
mod transpose;

pub use plan::{Elements, Plan, Refusal};
pub use pool::Pool;
