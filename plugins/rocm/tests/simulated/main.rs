//! The plugin over the simulated runtime: each test starts itself once more by `scripts/with-sim`, which looks at what
//! the simulator reports. `cargo build` first: the tests open the files of the simulator and of plugins.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `hooks` | the plugin without a host, and the runtime beside it |
//! | `conformance` | the suite that every plugin passes |
//! | `routes` | tensors between devices of one vendor and of two |
//! | `beside` | what of other users of the runtime stays as it was, and what of theirs is known |
//! | `bounces` | the pinned blocks of copies on streams of others |
//! | `ended` | streams that are destroyed while their work runs |
//! | `faults` | calls that fail, lost devices, waits for whole devices |
//! | `vendors` | beside CUDA's plugin: order, hardware queues, chunks, ends |
#![expect(
    unsafe_code,
    reason = "calls the runtime beside the plugin, and hooks that touch memory"
)]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by it, or says why it was skipped"
)]

mod beside;
mod bounces;
mod conformance;
mod ended;
mod faults;
mod hooks;
mod routes;
mod vendors;

use crossdock_over_simulator::{
    built, is_long, is_over_simulator as is_inside, over_simulator as over, run_over,
};

const POLICIES: [&[&str]; 3] = [
    &["--rocm", "2", "--policy", "lazy"],
    &["--rocm", "2", "--policy", "seeded"],
    &["--rocm", "2", "--policy", "threads"],
];
