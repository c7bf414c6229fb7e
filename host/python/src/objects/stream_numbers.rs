//! The numbers by which Python's protocols name streams, and what they mean on each device.
//!
//! | device | `None` | `-1` | numbers | refused |
//! | --- | --- | --- | --- | --- |
//! | CUDA | legacy default stream | no order | 1 legacy default, 2 per thread (ready, where it is out of reach), a handle | 0 |
//! | `ROCm` | default stream | no order | 0 default, a handle | 1, 2 |
//! | `OpenCL` | ready for every queue | no order | the handle of a queue that was made or given here | others |
//! | others | ready | refused | none | all |
//!
//! The line for OpenCL is ours: no standard speaks of it. Managed memory has CUDA's numbers, but `None`
//! makes it ready (`export`), since the host may be the one to read it.
#![expect(unsafe_code, reason = "wraps stream handles that consumers vouch for")]

use crossdock_api::{DLDevice, ErrorKind, Out, Owned, Status, XdDevice, XdStream};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::interpreter::refusals::{instead, showing};
use crate::link::error::{Failed, check};
use crate::link::handle::{Handle, made};
use crate::link::process_runtime::device_of;
use crate::link::table::api;
use crate::objects::device::Device;
use crate::objects::stream::{Stream, current_stream};

const CUDA: i32 = 2;
const OPENCL: i32 = 4;
const ROCM: i32 = 10;
const CUDA_MANAGED: i32 = 13;

/// `cudaStreamPerThread`.
const CUDA_PER_THREAD: i64 = 2;
const PER_THREAD: u64 = CUDA_PER_THREAD.unsigned_abs();
/// `hipStreamLegacy`, which older versions of HIP lack; 0 names the same stream in all.
const HIP_LEGACY: u64 = 1;
/// `hipStreamPerThread`.
const HIP_PER_THREAD: u64 = 2;

/// Who numbers streams how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rules {
    Cuda,
    Rocm,
    OpenCl,
    Streamless,
}

impl Rules {
    const fn of(device: DLDevice) -> Self {
        match device.device_type {
            CUDA | CUDA_MANAGED => Self::Cuda,
            ROCM => Self::Rocm,
            OPENCL => Self::OpenCl,
            _ => Self::Streamless,
        }
    }
}

/// The device by which the runtime knows the streams of this one.
pub(crate) const fn home(device: DLDevice) -> DLDevice {
    match device.device_type {
        CUDA_MANAGED => DLDevice {
            device_type: CUDA,
            ..device
        },
        _ => device,
    }
}

/// Whether work on such a device is ordered by streams that Python's protocols can name.
pub(crate) fn has_numbers(device: DLDevice) -> bool {
    matches!(Rules::of(device), Rules::Cuda | Rules::Rocm)
}

/// Whether a consumer's stream has a say in an export from such a device.
pub(crate) fn has_order(device: DLDevice) -> bool {
    Rules::of(device) != Rules::Streamless
}

/// What a consumer's stream asks for.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// The tensor is ready when it is handed out.
    Ready,
    /// Nothing waits.
    Unordered,
    /// This stream waits.
    On(Handle<XdStream>),
}

/// What `stream` asks for on `device`.
///
/// # Errors
/// `TypeError` for what is no int, `ValueError` for a number that the device's rules refuse.
pub(crate) fn wanted(
    py: Python<'_>,
    device: DLDevice,
    stream: Option<&Bound<'_, PyAny>>,
) -> PyResult<Wanted> {
    let rules = Rules::of(device);
    let number = stream.map(|stream| number_of(rules, stream)).transpose()?;
    match (rules, number) {
        (Rules::Streamless | Rules::OpenCl, None) => Ok(Wanted::Ready),
        (Rules::Cuda | Rules::Rocm | Rules::OpenCl, Some(-1)) => Ok(Wanted::Unordered),
        (Rules::Cuda, None | Some(1)) | (Rules::Rocm, None | Some(0)) => {
            Ok(default_of(py, device)?.map_or(Wanted::Ready, Wanted::On))
        }
        (Rules::Cuda, Some(CUDA_PER_THREAD)) => per_thread(py, device),
        (Rules::Cuda, Some(handle @ 3..)) | (Rules::Rocm, Some(handle @ 3..)) => {
            // SAFETY: the consumer vouches for its handle, as the protocol asks.
            unsafe { wrapped(py, device, handle.unsigned_abs()) }.map(Wanted::On)
        }
        (Rules::OpenCl, Some(handle)) => queue(py, device, handle),
        (_, Some(number)) => Err(refused(rules, number)),
    }
}

/// The calling thread's default stream. A driver that reaches that from its own thread alone gives no stream of
/// it, so the tensor is ready when it is handed out.
fn per_thread(py: Python<'_>, device: DLDevice) -> PyResult<Wanted> {
    let device: Handle<XdDevice> = device_of(py, home(device))?;
    // SAFETY: the number names a stream that each thread has, whose end comes with the thread's.
    match unsafe { wrap(&device, PER_THREAD) } {
        Ok(stream) => Ok(Wanted::On(stream)),
        Err(failed) if failed.status() == Status::UNSUPPORTED => Ok(Wanted::Ready),
        Err(failed) => Err(failed.into()),
    }
}

fn number_of(rules: Rules, stream: &Bound<'_, PyAny>) -> PyResult<i64> {
    let py = stream.py();
    let better = |error: &PyErr| {
        if error.is_instance_of::<PyOverflowError>(py) {
            return showing(stream, |stream| {
                PyValueError::new_err(format!("{stream} is no handle of a stream"))
            });
        }
        let hint = match (stream.is_instance_of::<Stream>(), rules) {
            (true, Rules::Streamless) => format!(": {NO_STREAMS}"),
            (true, _) => ": give its `.native_handle`".to_owned(),
            (false, _) => String::new(),
        };
        showing(stream, |stream| {
            PyTypeError::new_err(format!("a stream is None or an int, not {stream}{hint}"))
        })
    };
    let number = stream.extract::<i64>();
    number.map_err(|error| instead(py, error, |error| Ok(better(error))))
}

const NO_STREAMS: &str = "DLPack has no streams for this device: give stream=None";

fn refused(rules: Rules, number: i64) -> PyErr {
    let why = match rules {
        Rules::Cuda => "on CUDA it is None, 1, 2, a handle or -1; 0 is ambiguous",
        Rules::Rocm => "on ROCm it is None, 0, a handle or -1",
        Rules::OpenCl => {
            "on OpenCL it is None, -1, or the handle of a queue that was made or given here"
        }
        Rules::Streamless => NO_STREAMS,
    };
    PyValueError::new_err(format!("stream {number} is refused: {why}"))
}

/// A queue is believed only where it is alive here: a wrong handle cannot be told from a right one.
fn queue(py: Python<'_>, device: DLDevice, handle: i64) -> PyResult<Wanted> {
    let word = u64::try_from(handle).map_err(|_negative| refused(Rules::OpenCl, handle))?;
    let found = known(py, device, word)?;
    let found = found.ok_or_else(|| refused(Rules::OpenCl, handle))?;
    Ok(Wanted::On(found))
}

/// The stream of a device that has this handle, if it is alive here.
///
/// # Errors
/// The device is unknown, or its plugin failed.
pub(crate) fn known(
    py: Python<'_>,
    device: DLDevice,
    word: u64,
) -> PyResult<Option<Handle<XdStream>>> {
    // It counts as made from the start, and lives when somebody asks.
    let _default = default_of(py, device)?;
    let device: Handle<XdDevice> = device_of(py, device)?;
    let mut found = Owned::NULL;
    check((api().stream_find)(
        device.lend(),
        word,
        Out::from(&mut found),
    ))?;
    Ok((!found.is_null()).then(|| Handle::new(found)))
}

/// The default stream of a device, where it has one.
///
/// # Errors
/// The device is unknown, or its plugin failed.
pub(crate) fn default_of(py: Python<'_>, device: DLDevice) -> PyResult<Option<Handle<XdStream>>> {
    let device: Handle<XdDevice> = device_of(py, home(device))?;
    let stream: Result<Handle<XdStream>, Failed> =
        made(|out| (api().stream_default)(device.lend(), out));
    match stream {
        Ok(stream) => Ok(Some(stream)),
        Err(failed) if failed.status() == Status::UNSUPPORTED => Ok(None),
        Err(failed) if failed.kind() == ErrorKind::REFUSED => Ok(None),
        Err(failed) => Err(failed.into()),
    }
}

/// A stream of somebody else.
///
/// # Safety
/// - `native` is a live stream of the device, and lives until the work on it is done.
pub(crate) unsafe fn wrapped(
    py: Python<'_>,
    device: DLDevice,
    native: u64,
) -> PyResult<Handle<XdStream>> {
    let device: Handle<XdDevice> = device_of(py, home(device))?;
    // SAFETY: the caller's promise, passed on.
    Ok(unsafe { wrap(&device, native) }?)
}

/// The same on a device that was found.
///
/// # Safety
/// As [`wrapped`].
unsafe fn wrap(device: &Handle<XdDevice>, native: u64) -> Result<Handle<XdStream>, Failed> {
    made(|out| {
        // SAFETY: the caller's promise, passed on.
        unsafe { (api().stream_wrap)(device.lend(), native, out) }
    })
}

/// The integer that the vendor's API uses for a stream.
pub(crate) fn native(stream: &Handle<XdStream>) -> PyResult<u64> {
    let mut native = 0;
    check((api().stream_native_handle)(
        stream.lend(),
        Out::from(&mut native),
    ))?;
    Ok(native)
}

/// The stream that work here is on now, where the device has any.
///
/// # Errors
/// The device is unknown, or its plugin failed.
pub(crate) fn current(py: Python<'_>, device: DLDevice) -> PyResult<Option<Handle<XdStream>>> {
    if default_of(py, device)?.is_none() {
        return Ok(None);
    }
    let device = Bound::new(py, Device::new(device_of(py, home(device))?)?)?;
    Ok(Some(current_stream(device.as_any())?.get().share()))
}

/// That stream and its number for a producer; `None` on devices whose protocol names none.
///
/// DLPack has no number for the stream of this thread on `ROCm`: there it is the default stream, and work on
/// another waits for what the producer announced on it.
///
/// # Errors
/// As [`current`].
pub(crate) fn offered(
    py: Python<'_>,
    device: DLDevice,
) -> PyResult<Option<(u64, Handle<XdStream>)>> {
    let Some(stream) = current_with_number(py, device)? else {
        return Ok(None);
    };
    match (Rules::of(device), native(&stream)?) {
        // Their numbers for the default stream.
        (Rules::Cuda, 0) => Ok(Some((1, stream))),
        (Rules::Rocm, 0 | HIP_LEGACY) => Ok(Some((0, stream))),
        (Rules::Rocm, HIP_PER_THREAD) => {
            Ok(default_of(py, device)?.map(|default_stream| (0, default_stream)))
        }
        (_, native) => Ok(Some((native, stream))),
    }
}

/// The entry `stream` of a CUDA array interface, for the stream that work here is on.
#[derive(Debug)]
pub(crate) enum StreamEntry {
    /// The device's protocol names no streams.
    Streamless,
    /// This number names it.
    Numbered(u64, Handle<XdStream>),
    /// No number names it to every reader: the memory is complete before it is described.
    Unnamed(Handle<XdStream>),
}

/// The entry `stream` of the description of memory on `device`.
///
/// On `ROCm` the interface may not say 0, older versions of HIP have no stream 1, and readers disagree
/// about 2: only handles are named there.
///
/// # Errors
/// As [`current`].
pub(crate) fn stream_entry(py: Python<'_>, device: DLDevice) -> PyResult<StreamEntry> {
    if Rules::of(device) != Rules::Rocm {
        let offered = offered(py, device)?;
        return Ok(offered.map_or(StreamEntry::Streamless, |(number, stream)| {
            StreamEntry::Numbered(number, stream)
        }));
    }
    let Some(stream) = current_with_number(py, device)? else {
        return Ok(StreamEntry::Streamless);
    };
    Ok(match native(&stream)? {
        0..=HIP_PER_THREAD => StreamEntry::Unnamed(stream),
        native => StreamEntry::Numbered(native, stream),
    })
}

/// The stream behind which the work is that the entry `stream` of a CUDA array interface names; `None` for the
/// default stream of a device that has none.
///
/// A driver that reaches the default stream of a thread from that thread alone gives no stream of it: the
/// legacy default stream comes behind it, as behind every stream that is not made to ignore it.
///
/// # Errors
/// The device is unknown, or its plugin refused the stream.
///
/// # Safety
/// - A handle is a live stream of the device, and lives until the work on it is done.
pub(crate) unsafe fn of_stream_entry(
    py: Python<'_>,
    device: DLDevice,
    number: u64,
) -> PyResult<Option<Handle<XdStream>>> {
    match (Rules::of(device), number) {
        // Which integer HIP has for it depends on its version.
        (Rules::Rocm, HIP_LEGACY) => default_of(py, device),
        (Rules::Cuda, PER_THREAD) => match per_thread(py, device)? {
            Wanted::On(stream) => Ok(Some(stream)),
            _ => default_of(py, device),
        },
        // SAFETY: the caller's promise, passed on.
        _ => unsafe { wrapped(py, device, number) }.map(Some),
    }
}

/// The stream that work here is on, where the device has one and Python's protocols can name it.
fn current_with_number(py: Python<'_>, device: DLDevice) -> PyResult<Option<Handle<XdStream>>> {
    // Managed memory may come without a plugin for its device.
    if !has_numbers(device) || device_of(py, home(device)).is_err() {
        return Ok(None);
    }
    current(py, device)
}
