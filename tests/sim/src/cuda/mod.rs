//! The functions of NVIDIA's driver, `libcuda.so.1`.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `symbols.in` | all functions: base, since which version, twin, symbol (`scripts/sim-symbols` made it) |
//! | `lookup` | the table of functions as the driver looks them up; those that are not simulated answer 801 |
//! | `entry` | what every call has in common |
//! | `codes` | results, with their names and texts |
//! | `objects`, `gone` | contexts, streams and events, the order of default streams; objects that were destroyed |
//! | `driver`, `devices`, `contexts` | the functions about them |
//! | `memory`, `pointers`, `pools` | allocations, what is known of an address, memory in stream order |
//! | `ipc` | memory between processes |
//! | `copies`, `fills` | work on memory |
//! | `streams`, `events` | the functions about them, host functions and memory waits |
//! | `given_back` | lost devices that tests give back |
//! | `captures`, `graphs` | streams whose work is captured, and the graphs that result |
//!
//! Not simulated: kernels, modules, launches of graphs, arrays and textures, virtual memory, pools and events
//! between processes, and the private tables of `cuGetExportTable`.
mod captures;
mod codes;
mod contexts;
mod copies;
mod devices;
mod driver;
mod entry;
mod events;
mod fills;
mod given_back;
mod gone;
mod graphs;
mod ipc;
mod lookup;
mod memory;
mod objects;
mod pointers;
mod pools;
mod streams;

pub(crate) use given_back::give_back;
