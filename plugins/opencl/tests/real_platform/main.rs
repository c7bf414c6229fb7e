//! What only this plugin promises, on whatever OpenCL this machine has; skipped where it has none.
//!
//! What every plugin promises is in the conformance suite.
#![expect(
    unsafe_code,
    reason = "copies take raw addresses, and the vendor is called directly"
)]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "the functions beside the tests are tests too"
)]
#![expect(
    clippy::cast_possible_truncation,
    reason = "words of the contract are addresses of this process"
)]

mod foreign;
mod life;
mod maps;
mod memory;
mod order;
mod pointers;
mod rig;
mod shared;
