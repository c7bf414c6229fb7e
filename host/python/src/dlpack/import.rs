//! DLPack in: `from_dlpack`.
//!
//! A call without keywords goes the shortest way: the producer's type says how it is asked
//! (`producers`), and its capsule or struct is imported. Everything else is `negotiate`.
#![expect(
    unsafe_code,
    reason = "is called by Python directly, and calls exchange tables"
)]

use std::ptr::NonNull;

use crossdock_api::CopyMode;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::dlpack::failure::ExchangeError;
use crate::dlpack::negotiate::{self, Found, HOST, Request};
use crate::dlpack::producer_order::{failure_of_table, ready_behind_current};
use crate::dlpack::producers::{Producer, Table, is_compiled, producer_of, remember, traits_of};
use crate::dlpack::sign_bits::{is_conjugated, reject_negated};
use crate::dlpack::vectorcall::names;
use crate::interpreter::arguments::{Arguments, fence_entry};
use crate::interpreter::recursion_guard::RecursionGuard;
use crate::managed::capsule::Asked;
use crate::managed::incoming::{Incoming, Kind};
use crate::objects::stream_numbers;
use crate::objects::target::Target;
use crate::tensors::tensor::Tensor;

const DOC: &std::ffi::CStr = c"from_dlpack($module, x, /, *, device=None, copy=None)
--

Takes a tensor from any object that speaks DLPack, or from one of its capsules (once).

The result shares the memory unless a copy is needed to reach `device`, or asked for by
`copy=True`; then a write on one side is not seen on the other. `copy=False` forbids a copy.
A type with the C exchange API of DLPack 1.3 is asked through that, every other object as the
array API says: `__dlpack_device__` first, then `__dlpack__`. Where a compiled type gave a tensor
on the host, the next one is asked for `__dlpack__` alone, and its capsule says where it is.

Raises `UnsupportedDeviceError`, `CopyRequiredError`, `BufferError`, or what the producer raises.";

/// Adds `from_dlpack` to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    names(module.py())?;
    let function =
        crate::interpreter::arguments::function(module, c"from_dlpack", DOC, from_dlpack)?;
    module.add("from_dlpack", function)?;
    module.add_function(wrap_pyfunction!(_from_dlpack_or_refusal, module)?)
}

unsafe extern "C" fn from_dlpack(
    _module: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargs: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    fence_entry(|py| {
        // SAFETY: what Python passes to such a function.
        let arguments = unsafe { Arguments::new(py, args, nargs, kwnames) };
        let x = arguments.only_positional("from_dlpack")?;
        let tensor = if arguments.has_keywords() {
            // Whatever is dropped there is dropped at once.
            Python::attach(|_| {
                let [device, copy] = arguments.keywords("from_dlpack", ["device", "copy"])?;
                from_with(&x, device.as_ref(), truth(copy.as_ref())?)
            })?
        } else {
            from(&x)?
        };
        Ok(Py::new(py, tensor)?.into_ptr())
    })
}

/// The tensor of a producer for `asarray`, or the exception by which the producer refuses to export: then its next
/// protocol is asked.
///
/// # Errors
/// Every other failure of `from_dlpack`, which is final.
#[pyfunction]
pub(crate) fn _from_dlpack_or_refusal(
    x: &Bound<'_, PyAny>,
    device: Option<&Bound<'_, PyAny>>,
    copy: Option<&Bound<'_, PyAny>>,
) -> PyResult<Py<PyAny>> {
    let (py, copy) = (x.py(), truth(copy)?);
    match from_with(x, device, copy) {
        Ok(tensor) => Ok(Py::new(py, tensor)?.into_any()),
        Err(error) => Ok(error.refusal(py, copy)?.into_value(py).into_any()),
    }
}

/// A keyword that is true, false or None.
fn truth(keyword: Option<&Bound<'_, PyAny>>) -> PyResult<Option<bool>> {
    let keyword = keyword.filter(|keyword| !keyword.is_none());
    keyword.map(|keyword| keyword.is_truthy()).transpose()
}

/// The tensor of `x` on its own device.
///
/// # Errors
/// As `from_dlpack`.
pub(crate) fn from(x: &Bound<'_, PyAny>) -> Result<Tensor, ExchangeError> {
    if let Ok(own) = x.cast_exact::<Tensor>() {
        return Ok(own.get().share()?);
    }
    let traits = traits_of(x)?;
    if traits.has_sign_bits {
        reject_negated(x)?;
    }
    match traits.producer {
        Producer::OnHost => from_host(x),
        Producer::Table(table) => from_table(x, &table),
        Producer::Methods => {
            let found = Python::attach(|_| negotiate::negotiate(x, &Request::default()))?;
            if found.is_plainly_host && is_compiled(x) {
                remember(x, Producer::OnHost);
            }
            Ok(found.tensor)
        }
    }
}

/// The tensor of one whose last tensor was on the host.
fn from_host(x: &Bound<'_, PyAny>) -> Result<Tensor, ExchangeError> {
    let asked = {
        let _guard = RecursionGuard::enter()?;
        names(x.py())?.ask_for_versioned(x)
    };
    let capsule = match asked {
        Ok(capsule) => capsule,
        Err(error) => {
            return not_on_host(x, |x| {
                drop(error);
                negotiate::negotiate(x, &Request::default())
            });
        }
    };
    let incoming = negotiate::taken(x, &capsule, Asked::Today)?;
    match incoming.device() {
        Some(device) if device != HOST => not_on_host(x, |x| negotiate::elsewhere(x, incoming)),
        _ => Ok(Tensor::of(incoming.import(x.py())?)),
    }
}

#[cold]
fn not_on_host(
    x: &Bound<'_, PyAny>,
    ask: impl FnOnce(&Bound<'_, PyAny>) -> Result<Found, ExchangeError>,
) -> Result<Tensor, ExchangeError> {
    remember(x, Producer::Methods);
    Python::attach(|_| Ok(ask(x)?.tensor))
}

/// The tensor of `x`, on a device that is asked for, or copied.
fn from_with(
    x: &Bound<'_, PyAny>,
    device: Option<&Bound<'_, PyAny>>,
    copy: Option<bool>,
) -> Result<Tensor, ExchangeError> {
    let py = x.py();
    let device = device.filter(|device| !device.is_none());
    let target = device.map(Target::from_any).transpose()?;
    let mode = match copy {
        None => CopyMode::IF_NEEDED,
        Some(true) => CopyMode::ALWAYS,
        Some(false) => CopyMode::NEVER,
    };
    if target.is_none() && copy != Some(true) {
        if copy.is_none() {
            return from(x);
        }
        let is_fixed = x.cast_exact::<Tensor>().is_ok() || is_capsule(x);
        if is_fixed || matches!(producer_of(x)?, Producer::Table(_)) {
            return from(x);
        }
    }
    let target = target.as_ref();
    let is_own = x.cast_exact::<Tensor>().is_ok() || is_capsule(x);
    let by_table = target.is_none() && matches!(producer_of(x)?, Producer::Table(_));
    // No producer is asked for memory of a kind: DLPack's pair does not say of which device it is.
    if is_own || by_table || target.is_some_and(Target::is_of_a_kind) {
        return Ok(from(x)?.moved(py, target, mode)?);
    }
    reject_negated(x)?;
    let request = Request {
        target: target.map(|target| target.device.get().pair()),
        copy,
    };
    Python::attach(|_| {
        let found = negotiate::negotiate(x, &request)?;
        let tensor = found.tensor;
        let device = tensor.info()?.device;
        let arrived = target.is_none_or(|target| device == target.device.get().pair());
        match copy {
            Some(true) if found.is_copied && arrived => Ok(tensor),
            Some(true) if found.is_copied => Ok(tensor.moved(py, target, CopyMode::IF_NEEDED)?),
            None | Some(false) if arrived => Ok(tensor),
            _ => Ok(tensor.moved(py, target, mode)?),
        }
    })
}

fn is_capsule(x: &Bound<'_, PyAny>) -> bool {
    // SAFETY: any object may be asked.
    unsafe { ffi::PyCapsule_CheckExact(x.as_ptr()) != 0 }
}

fn negotiated(x: &Bound<'_, PyAny>, request: &Request) -> Result<Tensor, ExchangeError> {
    Python::attach(|_| Ok(negotiate::negotiate(x, request)?.tensor))
}

/// Through the producer's C functions, and ordered behind the stream that it works on.
fn from_table(x: &Bound<'_, PyAny>, table: &Table) -> Result<Tensor, ExchangeError> {
    let py = x.py();
    let Some(export) = table.managed_tensor_from_py_object_no_sync else {
        return negotiated(x, &Request::default());
    };
    let mut managed = std::ptr::null_mut();
    // SAFETY: an object of exactly the type that published the table, and a place of ours.
    let answer = unsafe { export(x.as_ptr().cast(), &raw mut managed) };
    let managed = match NonNull::new(managed) {
        Some(managed) if answer == 0 => Incoming(Kind::Versioned(managed)),
        _ => {
            return Err(ExchangeError::refused(failure_of_table(
                py,
                "exported nothing",
            )));
        }
    };
    // Its `__dlpack__` knows what to do with such a one: refuse it.
    if managed.is_complex() && is_conjugated(x)? {
        drop(managed);
        return negotiated(x, &Request::default());
    }
    let device = managed.device();
    let Some(device) = device.filter(|device| stream_numbers::has_numbers(*device)) else {
        return Ok(Tensor::of(managed.import(py)?));
    };
    let tensor = Tensor::of(managed.import(py)?);
    ready_behind_current(py, table, &tensor, device)?;
    Ok(tensor)
}
