//! The plugin over the simulated driver: each test starts itself once more by `scripts/with-sim`, which looks at what
//! the simulator reports. `cargo build` first: the tests open the plugin's file and the simulator's.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `driver`, `hooks` | the driver as other libraries call it, with what the simulator tells; the plugin without a host |
//! | `conformance` | the suite that every plugin passes |
//! | `exchanges` | one exchange of each kind, for tests that make a call fail |
//! | `addresses`, `claims`, `masks` | whose an address is, what others say of it, which device a number means |
//! | `memory`, `frees`, `deleters` | what is kept, how each kind of memory goes back, deleters of others |
//! | `copies`, `contexts`, `captures`, `peers` | copies on streams, contexts and captures of others, links |
//! | `faults`, `fault_case`, `fault_cases`, `losses`, `lost_memory` | calls that fail, lost devices |
//! | `lacking`, `optional` | functions that a driver lacks |
//! | `broken`, `defects` | a driver layer with one mistake, and what the checker says of each mistake |
//! | `shared_queues` | waits for a stream whose hardware queue a host event holds |
//! | `ended` | streams that are destroyed while their work runs |
//! | `registrations` | host memory that is unregistered while calls use it |
//! | `forks` | the child of a fork |
#![expect(
    unsafe_code,
    reason = "calls the driver beside the plugin, and hooks that touch memory"
)]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::exit,
    reason = "a test fails or ends by it, or says why it was skipped"
)]

mod addresses;
mod broken;
mod captures;
mod claims;
mod conformance;
mod contexts;
mod copies;
mod defects;
mod deleters;
mod driver;
mod ended;
mod exchanges;
mod fault_case;
mod fault_cases;
mod faults;
mod forks;
mod frees;
mod hooks;
mod lacking;
mod losses;
mod lost_memory;
mod masks;
mod memory;
mod optional;
mod peers;
mod registrations;
mod shared_queues;

use crossdock::{CostCache, Runtime, RuntimeBuilder};
use crossdock_over_simulator::{
    built, is_long, is_over_simulator as is_inside, over_simulator as over, run_over,
};

const POLICIES: [&[&str]; 3] = [
    &["--cuda", "2", "--policy", "lazy"],
    &["--cuda", "2", "--policy", "seeded"],
    &["--cuda", "2", "--policy", "threads"],
];

/// The plugins of this build. OpenCL's is not among them where it was not built.
fn plugins() -> RuntimeBuilder {
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    let builder = builder.plugin(built("libcrossdock_plugin_cuda.so").unwrap());
    match built("libcrossdock_plugin_opencl.so") {
        Some(opencl) => builder.plugin(opencl),
        None => builder,
    }
}

/// A runtime with them.
fn runtime() -> Runtime {
    plugins().open().unwrap()
}
