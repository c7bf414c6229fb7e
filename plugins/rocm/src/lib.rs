//! Crossdock's ROCm plugin: every device of AMD's HIP runtime.
//!
//! The runtime is looked for at run time, `libamdhip64.so.7` or `.so.6`: nothing of ROCm is needed to build or to load
//! this. What the plugin does is in `crossdock-plugin-gpu`, which knows no vendor; here are the runtime's functions
//! (`functions`), structs (`structs`), numbers (`codes`), and how each call is made (`driver`; `context` for what takes
//! the place of contexts, `known` for what it says of an address, `peers` for links between devices).
//!
//! HIP 6 and 7 have the same functions and structs, as far as they are used here. HIP 5 numbers the kinds of memory in
//! another way, and nobody knows what HIP 8 will do: the version decides what is taken. Only whether a thread's last
//! error outlives calls that succeed is told by the library's name (`keeps_errors`).

mod codes;
mod context;
mod driver;
mod functions;
mod known;
mod peers;
mod structs;

pub use driver::Hip;

/// The plugin.
pub type Plugin = crossdock_plugin_gpu::Gpu<Hip>;

crossdock_sdk::export_plugin!(Plugin);
