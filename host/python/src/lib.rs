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
