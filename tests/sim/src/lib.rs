//! Simulated GPU drivers behind the vendors' own functions, over [`crossdock_sim_engine`].
//!
//! The library is one core, `libcrossdock_sim.so`, with the functions of every vendor. What programs open is an empty
//! shell with the vendor's name that needs the core: `libcuda.so.1`, `libamdhip64.so.7`. `libraries.py` of the Python
//! package (`python/crossdock_sim`) makes them, for `scripts/with-sim` too.
//! Nothing here is ever on a default path, and each device says that it is simulated. `docs/simulator.md` is for users.
//!
//! | file or folder | what it holds |
//! | --- | --- |
//! | `settings` | what `CROSSDOCK_SIM` chooses |
//! | `process` | the engine of this process |
//! | `fence` | what keeps a panic inside |
//! | `forks` | forks while the simulator begins |
//! | `control` | functions for tests: reports, leaks, calls, waits for devices, use of links, faults, lost devices |
//! | `refused` | calls of what is not simulated |
//! | `callers` | who calls: code, and the line of Python |
//! | `at_exit` | what is reported as the process ends |
//! | `journal` | reports as they come up, for those who find them when the process was ended |
//! | `face` | what the functions of all vendors have in common: a face is one vendor's view of the engine |
//! | `cuda` | the functions of the CUDA driver |
//! | `hip` | the functions of AMD's HIP runtime |

mod at_exit;
mod callers;
mod control;
mod cuda;
mod face;
mod fence;
mod forks;
mod hip;
mod journal;
mod process;
mod refused;
mod settings;
