//! `_crossdock`: the native half of the Python package `crossdock`.
//!
//! It contains no runtime. Everything goes through the function table of the one runtime in the
//! process (`table`); the classes here are handles of its objects.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `table` | where the function table comes from |
//! | `handle` | owned handles, and texts that they lend |
//! | `error` | failures as Python exceptions |
//! | `runtime` | the process's runtime, devices and plugins by name |
//! | `device`, `plugin`, `tensor`, `route` | the classes |
//! | `dtype` | dtypes |
//! | `import`, `negotiate`, `producers`, `incoming`, `depth` | DLPack in: the short way, how a producer is asked, what is known of its type |
//! | `export`, `capsule`, `exchange_table` | DLPack out: capsules, and the C exchange table |
//! | `cuda_array`, `typestr` | the CUDA array interface |
//! | `streams`, `busy_streams` | the numbers by which protocols name streams; those of others while they work |
//! | `kept`, `gate`, `interpreter` | Python objects that keep memory alive, and whether Python may be called |
//! | `arguments`, `vectorcall` | calls from and to Python without a tuple or a dict |
//! | `python_calls` | calls of code that may be Python's, where a thread may end |
//! | `refusals`, `integers` | whose an exception is, and sequences of integers |
//! | `buffer_in`, `buffer_out`, `format`, `native`, `lender` | memory of others in, and ours out |
//! | `views`, `content`, `moving` | parts of a tensor, its elements, its device |
//! | `stream`, `event`, `waiting`, `pointer`, `trace` | order, waits, pointer queries, the trace |

mod dlpack;
mod host_memory;
mod interpreter;
mod link;
mod managed;
mod objects;
mod runtime;
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
    runtime::add_to(module)?;
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
    interpreter::gate::add_to(module)?;
    module.add_function(wrap_pyfunction!(tensors::moving::_empty, module)?)?;
    module.add_function(wrap_pyfunction!(objects::stream::current_stream, module)?)?;
    module.add_function(wrap_pyfunction!(objects::pointer::pointer_info, module)?)?;
    module.add(
        "__version__",
        link::handle::text((link::table::api().version)()),
    )
}
