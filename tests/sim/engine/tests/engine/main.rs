//! The engine's own tests: bytes, order, reports, standstills, and random programs.

mod bytes;
mod machine;
mod reports;
mod standstill;
