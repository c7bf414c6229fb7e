//! Sessions, each test in processes of its own: one for each Python that is here.
//!
//! `CROSSDOCK_LONG=1` runs as many rounds as a soak wants.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    unsafe_code,
    reason = "every function here is part of a test; some ask the system what is in C's hands"
)]

mod capture;
mod endings;
mod functions;
mod leftovers;
mod life;
mod reload;
mod rig;
mod running;
mod shared;
mod stopping;
