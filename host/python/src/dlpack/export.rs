//! DLPack out: `Tensor.__dlpack__` and its relatives.
#![expect(
    unsafe_code,
    reason = "is called by Python directly, and hands fresh exports to capsules"
)]

use std::ptr::NonNull;

use crossdock_api::{
    CopyMode, DLDevice, DLManagedTensor, DLManagedTensorVersioned, ExportFlags, MemoryKind,
    NO_LIMIT, Order, Out, Owned, Ref, XdExportOptions, XdStream,
};
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::{Borrowed, ffi, prelude::*};

use crate::dlpack::export_format::{Form, form_of, form_of_draft, usual_form};
use crate::dlpack::kwargs_cache::{is_known, remember};
use crate::dlpack::negotiate::HOST;
use crate::dlpack::vectorcall::names;
use crate::interpreter::arguments::{Arguments, Entry, add_method, fence_entry};
use crate::interpreter::refusals::{instead, showing};
use crate::link::error::{check, copy_required};
use crate::link::handle::Handle;
use crate::link::table::api;
use crate::link::waiting;
use crate::managed::capsule::{self, CapsuleKind, Draft};
use crate::objects::device::Device;
use crate::objects::device_name::{device_from, pair_from};
use crate::objects::stream_numbers::{self, Wanted};
use crate::tensors::moving::copy_mode;
use crate::tensors::tensor::Tensor;

const DOC: &std::ffi::CStr =
    c"__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None, version=None)
--

Hands the tensor out as a DLPack capsule.

`max_version` of `None` or `(0, x)` gives the struct of DLPack 0.x, which cannot say that a
tensor is read-only: `BufferError`. `stream`, `dl_device` and `copy` are as the array API says;
an OpenCL device takes `None`, `-1` or one of its own queues. `version` is the keyword of the
draft before `max_version`: up to 60 the old struct, from 100 on the new one, both as `dltensor`.

Raises `BufferError`, `CopyRequiredError`, `UnsupportedDeviceError`, `TypeError`, `ValueError`.";

const DEVICE_DOC: &std::ffi::CStr = c"__dlpack_device__($self)
--

The DLPack pair `(type, id)` of its device. Touches neither the data nor the device.";

/// Puts the methods on the class.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let class = module.py().get_type::<Tensor>();
    let device = Entry::Alone(dlpack_device);
    add_method(&class, c"__dlpack_device__", DEVICE_DOC, device)?;
    add_method(&class, c"__dlpack__", DOC, Entry::Keywords(dlpack))
}

/// The tensor whose method Python calls.
///
/// # Safety
/// - `slf` is a live object of the class, which Python checked before it called the method.
unsafe fn tensor_of<'a>(py: Python<'a>, slf: *mut ffi::PyObject) -> &'a Tensor {
    // SAFETY: the caller's promise: a live object.
    let slf = unsafe { Borrowed::from_ptr(py, slf) };
    // SAFETY: the caller's promise: of this class.
    unsafe { slf.cast_unchecked::<Tensor>() }.get()
}

unsafe extern "C" fn dlpack(
    slf: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargs: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    fence_entry(|py| {
        // SAFETY: a method of the class alone.
        let tensor = unsafe { tensor_of(py, slf) };
        // SAFETY: what Python passes to such a method.
        let plain = match unsafe { is_known(args, nargs, kwnames) } {
            true => tensor.plain_export()?,
            false => None,
        };
        if let Some(managed) = plain {
            return Ok(hand_out(py, managed)?.into_ptr());
        }
        // SAFETY: what Python passes to such a method.
        let arguments = unsafe { Arguments::new(py, args, nargs, kwnames) };
        Ok(export_as_asked(py, tensor, &arguments)?.into_ptr())
    })
}

/// For a call that has to be read.
fn export_as_asked<'py>(
    py: Python<'py>,
    tensor: &Tensor,
    arguments: &Arguments<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let names = names(py)?;
    let keyword = names.max_version_name.as_ptr();
    let others = names.others.each_ref().map(Py::as_ptr);
    if let Some(version) = arguments.only_keyword(keyword, others)
        && let Some(Form::Versioned) = usual_form(version)
    {
        if let Some((names, count)) = arguments.names_up_to(keyword) {
            remember((&names, count), &version);
        }
        if let Some(managed) = tensor.plain_export()? {
            return hand_out(py, managed);
        }
    }
    Python::attach(|_| export(py, tensor, arguments))
}

unsafe extern "C" fn dlpack_device(
    slf: *mut ffi::PyObject,
    _nothing: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    fence_entry(|py| {
        // SAFETY: a method of the class alone.
        let device = unsafe { tensor_of(py, slf) }.info()?.device;
        if device == HOST {
            return Ok(names(py)?.host.clone_ref(py).into_ptr());
        }
        let pair = (device.device_type, device.device_id).into_pyobject(py)?;
        Ok(pair.into_ptr())
    })
}

fn export<'py>(
    py: Python<'py>,
    tensor: &Tensor,
    arguments: &Arguments<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    const NAME: &str = "__dlpack__";
    arguments.no_positional(NAME)?;
    let [stream, max_version, dl_device, copy, version] = arguments.keywords(
        NAME,
        ["stream", "max_version", "dl_device", "copy", "version"],
    )?;
    let form = form_asked_for(max_version.as_ref(), version.as_ref())?;
    let given = |value: Option<Bound<'py, PyAny>>| value.filter(|value| !value.is_none());
    let own = tensor.info()?.device;
    let target = match given(dl_device) {
        Some(device) if pair_from(&device)? != Some(own) => Some(device_from(&device)?),
        _ => None,
    };
    let target = target.as_ref().map(|device| device.get());
    let copy = given(copy).map(|copy| truth(&copy)).transpose()?;
    let goal = target.map_or(own, Device::pair);
    let wanted = match given(stream) {
        // The host may be the one to read it.
        None if target.is_none() && tensor.is_host_reachable()? => Wanted::Ready,
        stream => stream_numbers::wanted(py, order_of(tensor, target)?, stream.as_ref())?,
    };
    let moved = match (target, copy) {
        (None, None | Some(false)) => None,
        (None, Some(true)) => Some(tensor.moved_on(py, None, CopyMode::ALWAYS, &wanted)?),
        (Some(target), copy) => Some(arrived(py, tensor, target, copy, &wanted)?),
    };
    let mut options = XdExportOptions::new();
    let (exported, is_copied) = match &moved {
        Some((moved, is_copied)) => (moved, *is_copied),
        None => (tensor, false),
    };
    if is_copied {
        options.flags = ExportFlags::IS_COPIED;
    }
    match &wanted {
        Wanted::On(stream)
            if goal == exported.info()?.device && stream_numbers::has_order(goal) =>
        {
            exported.order_export(py, &mut options, Some(stream))?;
        }
        Wanted::Unordered => options.order = Order::UNORDERED,
        // A copy that was made on the consumer's stream is in its order already.
        _ => exported.order_export(py, &mut options, None)?,
    }
    let options = Ref::from(&options);
    match form {
        Form::Versioned => exported.versioned(py, options),
        Form::Legacy => exported.legacy(py, options),
        Form::Draft => exported.draft(py, options),
    }
}

fn form_asked_for(
    max_version: Option<&Bound<'_, PyAny>>,
    version: Option<&Bound<'_, PyAny>>,
) -> PyResult<Form> {
    match (max_version, version) {
        (Some(_), Some(_)) => Err(PyTypeError::new_err(
            "max_version and version are keywords of different protocols: give one",
        )),
        (None, Some(version)) => form_of_draft(version),
        (max_version, None) => form_of(max_version),
    }
}

/// The device whose rules a consumer's stream follows: the one that it asks for, or where that has
/// no streams, the one whose work is waited for.
fn order_of(tensor: &Tensor, target: Option<&Device>) -> PyResult<DLDevice> {
    match target.map(Device::pair) {
        Some(goal) if stream_numbers::has_order(goal) => Ok(goal),
        _ => tensor.ordered_by(),
    }
}

/// The tensor in memory of the very device that a consumer asks for, and whether that is a copy.
/// Pinned and managed memory of that device is none to DLPack.
fn arrived(
    py: Python<'_>,
    tensor: &Tensor,
    target: &Device,
    copy: Option<bool>,
    wanted: &Wanted,
) -> PyResult<(Tensor, bool)> {
    let moved = tensor.moved_on(
        py,
        Some((target, MemoryKind::UNOWNED)),
        copy_mode(copy),
        wanted,
    )?;
    if moved.0.info()?.device == target.pair() {
        return Ok(moved);
    }
    if copy == Some(false) {
        let why = format!("the memory is no plain memory of {}", target.text());
        return Err(copy_required(py, why));
    }
    tensor.moved_on(
        py,
        Some((target, MemoryKind::UNOWNED)),
        CopyMode::ALWAYS,
        wanted,
    )
}

fn truth(copy: &Bound<'_, PyAny>) -> PyResult<bool> {
    copy.extract().map_err(|error| {
        let why = |copy: &str| PyTypeError::new_err(format!("copy is None or a bool, not {copy}"));
        instead(copy.py(), error, |_refused| Ok(showing(copy, why)))
    })
}

#[pymethods]
impl Tensor {
    /// The highest version that `__dlpack__(version=)` of the draft gives: 130, which is DLPack 1.3.
    #[pyo3(name = "__dlpack_info__")]
    fn dlpack_info(&self) -> u32 {
        crate::dlpack::negotiate::NEWEST
    }
}

impl Tensor {
    /// The device whose streams order the work on it.
    pub(crate) fn ordered_by(&self) -> PyResult<DLDevice> {
        match self.info()?.memory_kind {
            MemoryKind::MANAGED => Ok(self.own_device()?.pair()),
            _ => Ok(self.info()?.device),
        }
    }

    /// Whether no stream has a say in its export, and no work on it is pending.
    pub(crate) fn is_plain(&self) -> PyResult<bool> {
        Ok(!stream_numbers::has_order(self.info()?.device) && !self.is_pending()?)
    }

    /// Whether work that writes it may still run.
    pub(crate) fn is_pending(&self) -> PyResult<bool> {
        let mut event = Owned::NULL;
        let failure = (api().tensor_ready)(self.handle().lend(), Out::from(&mut event));
        let pending = check(failure).is_err() || !event.is_null();
        if !event.is_null() {
            (api().event_free)(event);
        }
        Ok(pending)
    }

    /// Waits for that work, without the interpreter.
    fn make_ready(&self, py: Python<'_>) -> PyResult<()> {
        if !self.is_pending()? {
            return Ok(());
        }
        let handle = self.handle();
        waiting::wait(py, NO_LIMIT, |limit| {
            check((api().tensor_synchronize)(handle.lend(), limit))
        })
    }

    /// Lets an export come after the work on the tensor, on a stream or here and now.
    pub(crate) fn order_export<'a>(
        &self,
        py: Python<'_>,
        options: &mut XdExportOptions<'a>,
        stream: Option<&'a Handle<XdStream>>,
    ) -> PyResult<()> {
        let Some(stream) = stream else {
            // Waiting once more would be for another thread's write, which may need the interpreter.
            options.order = Order::UNORDERED;
            return self.make_ready(py);
        };
        options.order = Order::STREAM;
        options.stream = stream.lend();
        Ok(())
    }

    /// The struct of DLPack 1.x, where no stream has a say and no work on it is pending.
    ///
    /// # Errors
    /// As [`Tensor::managed`].
    #[inline]
    pub(crate) fn plain_export(&self) -> PyResult<Option<NonNull<DLManagedTensorVersioned>>> {
        if stream_numbers::has_order(self.info()?.device) {
            return Ok(None);
        }
        let mut managed: *mut DLManagedTensorVersioned = std::ptr::null_mut();
        let out = Out::from(&mut managed);
        check((api().tensor_try_export)(self.handle().lend(), out))?;
        Ok(NonNull::new(managed))
    }

    /// The struct of DLPack 1.x.
    ///
    /// # Errors
    /// `BufferError` where DLPack cannot say what the tensor is.
    pub(crate) fn managed(
        &self,
        options: Ref<'_, XdExportOptions<'_>>,
    ) -> PyResult<NonNull<DLManagedTensorVersioned>> {
        let mut managed: *mut DLManagedTensorVersioned = std::ptr::null_mut();
        let out = Out::from(&mut managed);
        check((api().tensor_export)(self.handle().lend(), options, out))?;
        NonNull::new(managed).ok_or_else(nothing)
    }

    fn versioned<'py>(
        &self,
        py: Python<'py>,
        options: Ref<'_, XdExportOptions<'_>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        hand_out(py, self.managed(options)?)
    }

    fn draft<'py>(
        &self,
        py: Python<'py>,
        options: Ref<'_, XdExportOptions<'_>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        hand_out::<Draft>(py, self.managed(options)?.cast())
    }

    fn legacy<'py>(
        &self,
        py: Python<'py>,
        options: Ref<'_, XdExportOptions<'_>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut managed: *mut DLManagedTensor = std::ptr::null_mut();
        let out = Out::from(&mut managed);
        check((api().tensor_export_legacy)(
            self.handle().lend(),
            options,
            out,
        ))?;
        hand_out(py, NonNull::new(managed).ok_or_else(nothing)?)
    }
}

fn nothing() -> PyErr {
    PyBufferError::new_err("the runtime exported nothing")
}

#[inline]
fn hand_out<T: CapsuleKind>(py: Python<'_>, managed: NonNull<T>) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: a fresh export that this call owns.
    unsafe { capsule::wrap(py, managed) }
}
