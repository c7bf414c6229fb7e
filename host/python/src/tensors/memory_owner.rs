//! Memory that belongs to a Python object: the object is kept while a tensor views it.
#![expect(unsafe_code, reason = "owners cross the function table as words")]

use std::ffi::c_void;

use crossdock_api::{Failure, Out, Owned, Ref, XdMemory, XdRuntime, XdTensor, fence};
use pyo3::prelude::*;

use crate::link::handle::made;
use crate::link::process_runtime::{look_for, runtime};
use crate::link::table::api;
use crate::managed::py_owner::give_back;
use crate::tensors::tensor::Tensor;

/// Makes a tensor of `memory`, which `owner` keeps valid. The owner is dropped attached to the
/// interpreter, on whichever thread drops the last view, also when this fails.
///
/// # Safety
/// - The memory is valid as `memory` describes it until `owner` is dropped, for writing too where
///   it is not marked as read-only.
pub(crate) unsafe fn adopt<T: Send + 'static>(
    py: Python<'_>,
    memory: XdMemory<'_>,
    owner: T,
) -> PyResult<Tensor> {
    // SAFETY: the caller's promise, passed on.
    unsafe { take(py, api().tensor_from_memory, memory, owner) }
}

/// A function of the table that makes a tensor of memory with an owner.
type Take = unsafe extern "C" fn(
    Ref<'_, XdRuntime>,
    Ref<'_, XdMemory<'_>>,
    Out<'_, Owned<XdTensor>>,
) -> Failure;

/// The same by another function of the table.
///
/// # Safety
/// As [`adopt`], and what `function` asks of the memory.
pub(crate) unsafe fn take<T: Send + 'static>(
    py: Python<'_>,
    function: Take,
    mut memory: XdMemory<'_>,
    owner: T,
) -> PyResult<Tensor> {
    let runtime = runtime(py)?;
    look_for(py, runtime, memory.device);
    memory.owner = Box::into_raw(Box::new(owner)).cast();
    memory.release = Some(release::<T>);
    // SAFETY: the caller's promise; `release` fits the owner.
    let call =
        |out: Out<'_, Owned<XdTensor>>| unsafe { function(runtime.lend(), (&memory).into(), out) };
    Tensor::new(made(call)?)
}

/// Called by the runtime once, on any thread: drops the owner.
unsafe extern "C" fn release<T: Send>(owner: *mut c_void) {
    let drop_one = || {
        // SAFETY: the box of `take`, which is given back once.
        drop(unsafe { Box::from_raw(owner.cast::<T>()) });
    };
    let _caught = fence(|| give_back(drop_one));
}
