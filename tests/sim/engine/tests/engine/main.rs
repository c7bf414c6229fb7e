//! The engine's own tests: bytes, order, reports, standstills, and random programs.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test ends where something is not as it must be; addresses have 64 bits here"
)]

mod bytes;
mod choices;
mod ending;
mod exports;
mod failures;
mod host_functions;
mod links;
mod machine;
mod memory;
mod model;
mod policies;
mod programs;
mod reports;
mod runner;
mod standstill;
mod words;
