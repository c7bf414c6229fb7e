//! Crossdock's CUDA plugin: every device of NVIDIA's driver.
//!
//! The driver is looked for at run time, and is used by its own interface alone, `libcuda.so.1`: no other library of
//! CUDA is needed to build, to load or to run this. What the plugin does is in `crossdock-plugin-gpu`, which knows no
//! vendor; here are the driver's functions (`functions`), structs (`structs`), numbers (`codes`), and how each call is
//! made (`driver`; `known` for what it says of an address, `peers` for links between devices).

mod codes;
mod driver;
mod functions;
mod known;
mod peers;
mod structs;

pub use driver::Cuda;

/// The plugin.
pub type Plugin = crossdock_plugin_gpu::Gpu<Cuda>;

crossdock_sdk::export_plugin!(Plugin);
