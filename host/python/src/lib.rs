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
//! | `import`, `export`, `capsule` | DLPack in and out |

mod capsule;
mod device;
mod dtype;
mod error;
mod export;
mod handle;
mod import;
mod plugin;
mod route;
mod runtime;
mod table;
mod tensor;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
fn _crossdock(module: &Bound<'_, PyModule>) -> PyResult<()> {
    table::find(module.py())?;
    error::add_to(module)?;
    module.add_class::<device::Device>()?;
    module.add_class::<plugin::Plugin>()?;
    module.add_class::<route::Route>()?;
    module.add_class::<dtype::Dtype>()?;
    module.add_class::<tensor::Tensor>()?;
    dtype::add_to(module)?;
    runtime::add_to(module)?;
    module.add_function(wrap_pyfunction!(import::from_dlpack, module)?)?;
    module.add("__version__", handle::text((table::api().version)()))
}
