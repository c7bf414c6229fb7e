//! The functions of NVIDIA's driver, `libcuda.so.1`.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `symbols.in` | all functions: base, since which version, twin, symbol (`scripts/sim-symbols` made it) |
//! | `lookup` | the table of functions as the driver looks them up; those that are not simulated answer 801 |
//! | `driver`, `devices`, `contexts` | the functions about them |
//! | `visible`, `lies` | which devices a process sees, and links between them that do not do what they say |
//! | `memory`, `pointers`, `pools` | allocations, what is known of an address, memory in stream order |
//! | `ipc` | memory between processes |
//! | `copies`, `fills` | work on memory |
//! | `streams`, `events` | the functions about them, host functions and memory waits |
//! | `graphs` | captures of streams, and the graphs that result |
//! | `given_back` | lost devices that tests give back |
//!
//! What it has in common with other vendors is in [`face`](crate::face). Where another vendor's function does the same,
//! the function's body has a name here (`as NAME`).
//!
//! Not simulated: kernels, modules, launches of graphs, arrays and textures, virtual memory, pools and events
//! between processes, and the private tables of `cuGetExportTable`.

use crate::face::{Face, captures, codes, entry, objects};

pub(crate) mod contexts;
pub(crate) mod copies;
pub(crate) mod devices;
mod driver;
pub(crate) mod events;
pub(crate) mod fills;
mod given_back;
pub(crate) mod graphs;
pub(crate) mod ipc;
pub(crate) mod lies;
pub(crate) mod lookup;
pub(crate) mod memory;
mod pointers;
pub(crate) mod pools;
pub(crate) mod streams;
pub(crate) mod visible;

pub(crate) use given_back::give_back;

/// Whose functions these are.
const FACE: Face = Face::Cuda;
