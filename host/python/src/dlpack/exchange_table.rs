//! The C exchange table of DLPack 1.3 that the class `Tensor` publishes.
//!
//! No function of it waits for anything on the host's side, except for work that the runtime itself
//! still has to finish before host memory may be read.
#![expect(unsafe_code, reason = "is called from C, with raw objects and structs")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::NonNull;

use crossdock_api::{
    DLDevice, DLManagedTensorVersioned, DLPackExchangeAPI, DLPackExchangeAPIHeader, DLPackSetError,
    DLPackVersion, DLTensor, Order, Out, Owned, Ref, XdDevice, XdExportOptions, XdLayout,
    XdRuntime, XdTensor, fence,
};
use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyTypeError};
use pyo3::{Borrowed, ffi, prelude::*};

use crate::dlpack::producers::CAPSULE;
use crate::dlpack::vectorcall::VERSION;
use crate::interpreter::attached::is_attached;
use crate::link::error::{Failed, check};
use crate::link::handle::{Handle, made};
use crate::link::process_runtime::look_for;
use crate::link::table::api;
use crate::managed::incoming::{Incoming, Kind};
use crate::objects::stream_numbers;
use crate::tensors::tensor::Tensor;

struct Published(DLPackExchangeAPI);

// SAFETY: it is never written to, and names no older table.
unsafe impl Sync for Published {}

static TABLE: Published = Published(DLPackExchangeAPI {
    header: DLPackExchangeAPIHeader {
        version: DLPackVersion {
            major: VERSION.0,
            minor: VERSION.1,
        },
        prev_api: std::ptr::null_mut(),
    },
    managed_tensor_allocator: Some(allocate),
    managed_tensor_from_py_object_no_sync: Some(from_object),
    managed_tensor_to_py_object_no_sync: Some(to_object),
    dltensor_from_py_object_no_sync: Some(view_object),
    current_work_stream: Some(current_work_stream),
});

#[pymethods]
impl Tensor {
    /// The C exchange table of DLPack 1.3, in a capsule.
    #[classattr]
    #[pyo3(name = "__dlpack_c_exchange_api__")]
    fn dlpack_c_exchange_api(py: Python<'_>) -> PyResult<Py<PyAny>> {
        let table = (&raw const TABLE.0).cast_mut().cast();
        // SAFETY: a static table and a static name, and nothing to be done at its end.
        let capsule = unsafe { ffi::PyCapsule_New(table, CAPSULE.as_ptr(), None) };
        // SAFETY: a new reference, or NULL with an exception.
        Ok(unsafe { Bound::from_owned_ptr_or_err(py, capsule) }?.unbind())
    }
}

/// Runs a function of the table that C calls attached: 0, or -1 with an exception.
fn fence_call(body: impl FnOnce(Python<'_>) -> PyResult<()>) -> c_int {
    // SAFETY: DLPack asks callers of these functions to be attached.
    let py = unsafe { Python::assume_attached() };
    // Raised inside: what comes through the fence is as small as can be.
    let answer = fence(|| body(py).map_or_else(raise, |()| 0));
    answer.unwrap_or_else(|| raise(PyRuntimeError::new_err("crossdock met a bug of its own")))
}

#[cold]
fn raise(error: PyErr) -> c_int {
    Python::attach(|py| error.restore(py));
    -1
}

/// The tensor that an object of exactly our class is.
///
/// # Safety
/// - `object` is NULL or a live object, which lives during `'a`.
unsafe fn tensor_in<'a>(py: Python<'a>, object: *mut c_void) -> PyResult<&'a Tensor> {
    // SAFETY: the caller's promise.
    let object = unsafe { Borrowed::from_ptr_or_opt(py, object.cast()) };
    let tensor = object.and_then(|object| object.cast_exact::<Tensor>().ok());
    let wrong = || PyTypeError::new_err("this table exports crossdock.Tensor only");
    Ok(tensor.ok_or_else(wrong)?.get())
}

unsafe extern "C" fn from_object(
    object: *mut c_void,
    out: *mut *mut DLManagedTensorVersioned,
) -> c_int {
    fence_call(|py| {
        // SAFETY: the caller's object lives during the call.
        let tensor = unsafe { tensor_in(py, object) }?;
        let out = place(out)?;
        let managed = match tensor.plain_export()? {
            Some(managed) => managed,
            None => ordered_export(py, tensor)?,
        };
        // SAFETY: the caller's place, which is not NULL.
        unsafe { out.write(managed.as_ptr()) };
        Ok(())
    })
}

/// For work on the current stream, which waits for what is still pending on the tensor.
fn ordered_export(py: Python<'_>, tensor: &Tensor) -> PyResult<NonNull<DLManagedTensorVersioned>> {
    let device = tensor.ordered_by()?;
    let stream = if stream_numbers::has_numbers(device) {
        stream_numbers::current(py, device)?
    } else {
        None
    };
    let mut options = XdExportOptions::new();
    tensor.order_export(py, &mut options, stream.as_ref())?;
    tensor.managed(Ref::from(&options))
}

unsafe extern "C" fn to_object(
    managed: *mut DLManagedTensorVersioned,
    out: *mut *mut c_void,
) -> c_int {
    fence_call(|py| {
        let Some(managed) = NonNull::new(managed) else {
            return Err(PyBufferError::new_err("the tensor is NULL"));
        };
        // Stolen from here on, also where the rest fails.
        let incoming = Incoming(Kind::Versioned(managed));
        let out = place(out)?;
        let tensor = Py::new(py, Tensor::of(incoming.import(py)?))?;
        // SAFETY: the caller's place, which is not NULL.
        unsafe { out.write(tensor.into_ptr().cast()) };
        Ok(())
    })
}

unsafe extern "C" fn view_object(object: *mut c_void, out: *mut DLTensor) -> c_int {
    fence_call(|py| {
        // SAFETY: the caller's object lives during the call.
        let tensor = unsafe { tensor_in(py, object) }?;
        let out = place(out)?;
        let info = tensor.info()?;
        if info.read_only != 0 || info.padded != 0 {
            return Err(PyBufferError::new_err(
                "a borrowed DLTensor cannot say that it is read-only or padded: export it",
            ));
        }
        if !tensor.is_plain()? {
            // The same order as for an export, which is given back at once.
            drop(Incoming(Kind::Versioned(ordered_export(py, tensor)?)));
        }
        let view = DLTensor {
            data: std::ptr::with_exposed_provenance_mut(usize::try_from(info.data)?),
            device: info.device,
            ndim: i32::try_from(info.ndim)?,
            dtype: info.dtype,
            shape: info.shape.cast_mut(),
            strides: info.strides.cast_mut(),
            byte_offset: info.byte_offset,
        };
        // SAFETY: the caller's place, which is not NULL.
        unsafe { out.write(view) };
        Ok(())
    })
}

unsafe extern "C" fn current_work_stream(
    device_type: i32,
    device_id: i32,
    out: *mut *mut c_void,
) -> c_int {
    fence_call(|py| {
        let out = place(out)?;
        let device = DLDevice {
            device_type,
            device_id,
        };
        let native = if stream_numbers::has_order(device) {
            let stream = stream_numbers::current(py, device)?;
            stream.as_ref().map_or(Ok(0), stream_numbers::native)?
        } else {
            0
        };
        let native = std::ptr::with_exposed_provenance_mut(usize::try_from(native)?);
        // SAFETY: the caller's place, which is not NULL.
        unsafe { out.write(native) };
        Ok(())
    })
}

fn place<T>(out: *mut T) -> PyResult<NonNull<T>> {
    NonNull::new(out).ok_or_else(|| PyBufferError::new_err("the place for the answer is NULL"))
}

/// Needs no Python: its errors go through `set_error`.
unsafe extern "C" fn allocate(
    prototype: *mut DLTensor,
    out: *mut *mut DLManagedTensorVersioned,
    error_ctx: *mut c_void,
    set_error: DLPackSetError,
) -> c_int {
    let failed = match fence(|| {
        // SAFETY: the caller's prototype lives during the call.
        let prototype = unsafe { prototype.as_ref() };
        let (Some(prototype), Some(out)) = (prototype, NonNull::new(out)) else {
            return Err((c"BufferError", "an argument is NULL".to_owned()));
        };
        let managed = empty_like(prototype)?;
        // SAFETY: the caller's place, which is not NULL.
        unsafe { out.write(managed) };
        Ok(())
    }) {
        Some(Ok(())) => return 0,
        Some(Err(failed)) => failed,
        None => (c"RuntimeError", "crossdock met a bug of its own".to_owned()),
    };
    if let Some(set_error) = set_error {
        let message = CString::new(failed.1).unwrap_or_default();
        let (kind, message): (*const c_char, *const c_char) = (failed.0.as_ptr(), message.as_ptr());
        // SAFETY: the caller's own function and context, and two texts that live during the call.
        unsafe { set_error(error_ctx, kind, message) };
    }
    -1
}

/// An exception's name and its message.
type Refused = (&'static CStr, String);

fn empty_like(prototype: &DLTensor) -> Result<*mut DLManagedTensorVersioned, Refused> {
    let ndim = usize::try_from(prototype.ndim).ok();
    let shape = match ndim {
        Some(0) => &[][..],
        Some(ndim) if ndim <= crossdock_api::MAX_RANK && !prototype.shape.is_null() => {
            // SAFETY: the prototype promises `ndim` extents.
            unsafe { std::slice::from_raw_parts(prototype.shape, ndim) }
        }
        _ => return Err((c"BufferError", "the prototype has no shape".to_owned())),
    };
    let layout = XdLayout::compact(prototype.dtype, shape);
    let refused = |failed: Failed| (failed.class_name(), failed.what_and_why());
    let runtime: Handle<XdRuntime> = made(|out| (api().runtime_default)(out)).map_err(refused)?;
    if is_attached() {
        // SAFETY: asked just now.
        let py = unsafe { Python::assume_attached() };
        look_for(py, &runtime, prototype.device);
    }
    let find = |out: Out<'_, Owned<XdDevice>>| {
        (api().runtime_device)(runtime.lend(), prototype.device, out)
    };
    let device = made(find).map_err(refused)?;
    let make = |out: Out<'_, Owned<XdTensor>>| {
        (api().tensor_empty)(device.lend(), Ref::from(&layout), Ref::NULL, out)
    };
    let tensor = made(make).map_err(refused)?;
    let mut options = XdExportOptions::new();
    options.order = Order::UNORDERED;
    let mut managed = std::ptr::null_mut();
    let out = Out::from(&mut managed);
    check((api().tensor_export)(
        tensor.lend(),
        Ref::from(&options),
        out,
    ))
    .map_err(refused)?;
    Ok(managed)
}
