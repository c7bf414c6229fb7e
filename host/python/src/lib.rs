//! `_crossdock`: the native half of the Python package `crossdock`.
//!
//! It contains no runtime. Everything goes through the function table of the one runtime in the
//! process (`link/table`); the classes here are handles of its objects.
//!
//! A room uses only rooms above it:
//!
//! | room | what it is for |
//! | --- | --- |
//! | `interpreter` | whether this thread may talk to Python, and how Python is called |
//! | `link` | the way to the runtime |
//! | `managed` | DLPack's structs in transit, and Python objects that own memory |
//! | `objects` | the small classes: devices, dtypes, streams, events, plugins, routes |
//! | `tensors` | the class `Tensor` |
//! | `dlpack` | DLPack in both directions |
//! | `host_memory` | other protocols: buffers, the array interfaces, native memory objects |
//! | `functions` | the functions of the package that ask the runtime |
//!
//! # Promises
//!
//! `host/python` is the table in Python's words, and contains no runtime: `link/table.rs` takes
//! `xd_api` from the host that embeds Python, from the `libcrossdock.so.1` that is loaded, or
//! from the one beside the module. What the protocols fix is in a file each
//! (`dlpack/negotiate.rs` how a producer is asked, `dlpack/export.rs` what a consumer gets,
//! `objects/stream_numbers.rs` the numbers of streams, `link/error.rs` which exception).
//!
//! - A Python object that keeps memory alive, and a tensor of NumPy's, PyTorch's or others', is
//!   given back attached to the interpreter, on any thread (`managed/py_owner.rs`; the runtime
//!   calls deleters of others through `xd_release_through`). Threads that come for that are
//!   counted (`interpreter/gate.rs`): the interpreter's end lets those inside finish, for at most
//!   2 s, and what comes later is a counted leak.
//! - Before 3.14, a thread that asks for the interpreter too late is ended by unwinding it. When
//!   the interpreter begins to end, each of Python's other threads is made to stay for ever
//!   instead, where frames of ours would be unwound (`interpreter/ended_threads.rs`: a signal
//!   enters a clean-up of the C library's on the thread). Threads that are made later, and those
//!   that Python's `threading` does not know, have `interpreter/calls.rs`, which the commonest
//!   calls of Python code go through.
//! - The interpreter is let go (`interpreter::attached::detached`) around everything that may
//!   block or copy.
//! - A capsule has the serial number that its tensor's block had (`sdk/src/dlpack/blocks.rs`):
//!   blocks of exports are never unmapped, and the number before each changes with its release.
//!   So a capsule whose tensor was released by a consumer that left the name ends quietly.
//! - Producers ask each other only so deep (`interpreter/recursion_guard.rs`): a level takes more
//!   stack than Python's limit on calls reckons with.
//! - `load` and `save` are Python: the formats' headers are small, and a mapped file comes in as
//!   memory with an owner. The command reads the same files by crates; one reader for both would
//!   be functions of the C table that take more lines than they save.

mod dlpack;
mod functions;
mod host_memory;
mod interpreter;
mod link;
mod managed;
mod objects;
mod tensors;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
fn _crossdock(module: &Bound<'_, PyModule>) -> PyResult<()> {
    interpreter::attached::refuse_inner()?;
    link::table::find(module.py())?;
    link::error::add_to(module)?;
    module.add_class::<objects::device::Device>()?;
    module.add_class::<objects::memory_usage::MemoryUsage>()?;
    module.add_class::<objects::plugin::Plugin>()?;
    module.add_class::<objects::route::Route>()?;
    module.add_class::<objects::dtype::Dtype>()?;
    module.add_class::<tensors::tensor::Tensor>()?;
    module.add_class::<objects::stream::Stream>()?;
    module.add_class::<objects::event::Event>()?;
    module.add_class::<objects::pointer::PointerInfo>()?;
    objects::dtype::add_to(module)?;
    functions::add_to(module)?;
    dlpack::import::add_to(module)?;
    dlpack::export::add_to(module)?;
    module.add_function(wrap_pyfunction!(
        host_memory::cuda_array::as_cuda_array,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(
        host_memory::cuda_array::from_cuda_array_interface,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(managed::py_owner::_counted_leaks, module)?)?;
    module.add_function(wrap_pyfunction!(
        host_memory::opencl::_adopt_native,
        module
    )?)?;
    host_memory::buffer_in::add_to(module)?;
    tensors::registration::add_to(module)?;
    objects::trace::add_to(module)?;
    managed::ends::add_to(module)?;
    module.add_function(wrap_pyfunction!(tensors::moving::_empty, module)?)?;
    module.add_function(wrap_pyfunction!(objects::stream::current_stream, module)?)?;
    module.add_function(wrap_pyfunction!(objects::pointer::pointer_info, module)?)?;
    module.add(
        "__version__",
        link::handle::text((link::table::api().version)()),
    )
}
