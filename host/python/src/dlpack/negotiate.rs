//! How a producer is asked: what it knows of today's protocol, of the first one and of the draft
//! between them, and what is done where it refuses.

use crossdock_api::{DLDevice, XdStream};
use pyo3::exceptions::{
    PyAttributeError, PyBufferError, PyException, PyNotImplementedError, PyRecursionError,
    PyRuntimeError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::dlpack::failure::ExchangeError;
use crate::dlpack::producer_order;
use crate::dlpack::vectorcall::{VERSION, names};
use crate::interpreter::calls;
use crate::interpreter::recursion_guard::RecursionGuard;
use crate::interpreter::refusals::showing;
use crate::link::handle::Handle;
use crate::link::process_runtime::device_of;
use crate::managed::capsule::{self, Asked};
use crate::managed::incoming::Incoming;
use crate::objects::device_name::pair_from;
use crate::objects::stream_numbers;
use crate::tensors::tensor::Tensor;

/// CPU, pinned for CUDA, pinned for `ROCm`, and managed: the host reads these without a plugin.
const HOST_READABLE: [i32; 4] = [1, 3, 11, 13];

/// The one device of the host.
pub(crate) const HOST: DLDevice = DLDevice {
    device_type: 1,
    device_id: 0,
};

/// What is asked for beside the tensor itself.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Request {
    /// Another device.
    pub(crate) target: Option<DLDevice>,
    /// As the array API's keyword.
    pub(crate) copy: Option<bool>,
}

/// What a producer gave.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) tensor: Tensor,
    /// The producer says that nobody else has this memory.
    pub(crate) is_copied: bool,
    /// It is the host's, and came for `__dlpack__(max_version=)`.
    pub(crate) is_plainly_host: bool,
}

/// The tensor that `x` gives: on the target if `x` can bring it there, else where it lies.
///
/// # Errors
/// As `from_dlpack`.
pub(crate) fn negotiate(x: &Bound<'_, PyAny>, request: &Request) -> Result<Found, ExchangeError> {
    let py = x.py();
    if let Some(incoming) = capsule::take(x, Asked::Today)? {
        return ordered(py, incoming, HOST, None);
    }
    let _guard = RecursionGuard::enter()?;
    let stated = stated_device(x)?;
    // A device that is unknown here fails before the producer does any work.
    if !HOST_READABLE.contains(&stated.device_type) {
        drop(device_of(py, stated)?);
    }
    let target = request.target.filter(|target| *target != stated);
    let request = Request { target, ..*request };
    let mut refused = None;
    if request.is_special() {
        match special(x, stated, &request) {
            Err(ExchangeError::Refused(error)) if request.may_ask_plainly(py, &error) => {
                refused = Some(ExchangeError::Refused(error));
            }
            answer => return answer,
        }
    }
    // If the shorter question is refused as well, the first answer is the one to show.
    plain(x, stated).map_err(|second| match second {
        ExchangeError::Refused(error) if error.is_instance_of::<PyException>(py) => {
            refused.unwrap_or(ExchangeError::Refused(error))
        }
        second => second,
    })
}

impl Request {
    const fn is_special(&self) -> bool {
        self.target.is_some() || self.copy.is_some()
    }

    /// Whether what the producer refused can be done here, from what it gives when asked plainly.
    fn may_ask_plainly(&self, py: Python<'_>, error: &PyErr) -> bool {
        if self.target.is_some() {
            // Of a device that it never heard of a producer may say anything. One that asks for itself
            // would do so twice as often at each level.
            return error.is_instance_of::<PyException>(py)
                && !error.is_instance_of::<PyRecursionError>(py);
        }
        // It does not know the keyword.
        let unknown = error.is_instance_of::<PyTypeError>(py)
            || error.is_instance_of::<PyNotImplementedError>(py);
        // TensorFlow, PyTorch and JAX say by a RuntimeError what they cannot do.
        let cannot = error.is_instance_of::<PyBufferError>(py)
            || error.is_instance_of::<PyValueError>(py)
            || error.is_instance_of::<PyRuntimeError>(py);
        let is_too_deep = error.is_instance_of::<PyRecursionError>(py);
        unknown || (cannot && !is_too_deep && self.copy == Some(true))
    }
}

/// Asks with the keywords `dl_device` and `copy`, those of them that are wanted.
fn special(
    x: &Bound<'_, PyAny>,
    stated: DLDevice,
    request: &Request,
) -> Result<Found, ExchangeError> {
    let py = x.py();
    let goal = request.target.unwrap_or(stated);
    let keywords = PyDict::new(py);
    let stream = with_stream(&keywords, goal)?;
    keywords.set_item("max_version", VERSION)?;
    if let Some(target) = request.target {
        keywords.set_item("dl_device", (target.device_type, target.device_id))?;
    }
    if let Some(copy) = request.copy {
        keywords.set_item("copy", copy)?;
    }
    let answer = calls::method(x, "__dlpack__", Some(&keywords));
    let capsule = answer.map_err(ExchangeError::refused)?;
    let incoming = taken(x, &capsule, Asked::Today)?;
    let is_there = incoming.device() == Some(goal);
    if !is_there {
        // One that ignores `dl_device` answers from its own device.
        check_device(&incoming, stated)?;
    }
    ordered(py, incoming, goal, stream.filter(|_| is_there))
}

/// Asks for the tensor as it is.
fn plain(x: &Bound<'_, PyAny>, stated: DLDevice) -> Result<Found, ExchangeError> {
    let py = x.py();
    let keywords = PyDict::new(py);
    let stream = with_stream(&keywords, stated)?;
    let answer = if stream.is_none() {
        names(py)?.ask_for_versioned(x)
    } else {
        keywords.set_item("max_version", VERSION)?;
        calls::method(x, "__dlpack__", Some(&keywords))
    };
    let is_today = answer.is_ok();
    let (capsule, asked) = match answer {
        Ok(capsule) => (capsule, Asked::Today),
        Err(first) if first.is_instance_of::<PyTypeError>(py) => older(x, &keywords, first)?,
        Err(error) => return Err(ExchangeError::refused(error)),
    };
    let incoming = taken(x, &capsule, asked)?;
    check_device(&incoming, stated)?;
    let mut found = ordered(py, incoming, stated, stream)?;
    found.is_plainly_host = is_today && stated == HOST;
    Ok(found)
}

/// The tensor of one whose tensors were on the host, and which was asked as if this one were: no
/// stream was named.
pub(crate) fn elsewhere(x: &Bound<'_, PyAny>, incoming: Incoming) -> Result<Found, ExchangeError> {
    let stated = stated_device(x)?;
    check_device(&incoming, stated)?;
    let stream = if stream_numbers::has_numbers(stated) {
        stream_numbers::default_of(x.py(), stated)?
    } else {
        None
    };
    ordered(x.py(), incoming, stated, stream)
}

/// Asks one that does not know `max_version`: in the words of the draft if it speaks them, else
/// in those of the first protocol.
fn older<'py>(
    x: &Bound<'py, PyAny>,
    keywords: &Bound<'py, PyDict>,
    first: PyErr,
) -> Result<(Bound<'py, PyAny>, Asked), ExchangeError> {
    if keywords.contains("max_version")? {
        keywords.del_item("max_version")?;
    }
    let mut asked = Asked::Today;
    if let Some(info) = calls::attribute_if_any(x, "__dlpack_info__")? {
        let answer = calls::call(&info, PyTuple::empty(x.py()), None)?;
        let version = draft_version(answer.extract()?)?;
        keywords.set_item("version", version)?;
        if version >= FIRST_VERSIONED {
            asked = Asked::DraftVersioned;
        }
    }
    // The first error is the one to show: the producer may know the keyword, and have meant
    // something else. Where it did not, it is the second.
    let answer = calls::method(x, "__dlpack__", Some(keywords)).map_err(|second| {
        let py = x.py();
        let is_newer = asked == Asked::DraftVersioned
            || is_about_keyword(py, &first)
            // Not a failure: the program is to end.
            || !second.is_instance_of::<PyException>(py);
        let is_same = second.is_instance_of::<PyTypeError>(py);
        ExchangeError::refused(if is_newer && !is_same { second } else { first })
    });
    Ok((answer?, asked))
}

/// Whether Python itself refused the keyword.
fn is_about_keyword(py: Python<'_>, error: &PyErr) -> bool {
    error.value(py).to_string().contains("'max_version'")
}

/// The draft's number of a version: 60 is 0.6, 130 is 1.3.
const OLDEST: i64 = 20;
pub(crate) const LAST_LEGACY: i64 = 60;
pub(crate) const FIRST_VERSIONED: i64 = 100;
pub(crate) const NEWEST: u32 = VERSION.0 * 100 + VERSION.1 * 10;

/// The highest version that both speak. The structs of 0.61 to 0.99 were never released.
fn draft_version(theirs: i64) -> PyResult<i64> {
    match theirs {
        FIRST_VERSIONED.. => Ok(theirs.min(NEWEST.into())),
        LAST_LEGACY.. => Ok(LAST_LEGACY),
        OLDEST.. => Ok(theirs),
        _ => Err(PyBufferError::new_err(format!(
            "the producer speaks DLPack up to version {theirs}, which nothing here reads"
        ))),
    }
}

/// Adds the stream that work here is on, where the device's protocol names streams.
fn with_stream(
    keywords: &Bound<'_, PyDict>,
    device: DLDevice,
) -> PyResult<Option<Handle<XdStream>>> {
    let Some((number, stream)) = stream_numbers::offered(keywords.py(), device)? else {
        return Ok(None);
    };
    keywords.set_item("stream", number)?;
    Ok(Some(stream))
}

/// What `x.__dlpack_device__()` says.
fn stated_device(x: &Bound<'_, PyAny>) -> Result<DLDevice, ExchangeError> {
    let asked = names(x.py())?.ask_for_device(x);
    let answer =
        asked.map_err(|error| ExchangeError::refused(speaks_none(x, &error).unwrap_or(error)))?;
    let pair = pair_from(&answer)?.ok_or_else(|| {
        showing(&answer, |answer| {
            PyTypeError::new_err(format!(
                "__dlpack_device__ gave {answer}, which is no pair of a device type and an id"
            ))
        })
    })?;
    Ok(pair)
}

/// What an object without DLPack is told, in the exception that Python raises for it.
#[cold]
fn speaks_none(x: &Bound<'_, PyAny>, error: &PyErr) -> Option<PyErr> {
    let kind = x.get_type();
    let has = |name: &str| kind.hasattr(name).unwrap_or(true);
    let is_missing = error.is_instance_of::<PyAttributeError>(x.py());
    if !is_missing || has("__dlpack_device__") || has("__dlpack__") {
        return None;
    }
    let module = kind.module().map(|module| module.to_string());
    let other = if module.is_ok_and(|module| module.starts_with("pyopencl")) {
        "`xd.from_opencl` takes memory of OpenCL"
    } else {
        "`xd.asarray(x)` also takes the CUDA array interface, buffers, __array_interface__ and \
         numbers"
    };
    Some(PyAttributeError::new_err(format!(
        "{} has no __dlpack_device__, so it does not speak DLPack: {other}",
        kind.name().ok()?
    )))
}

/// The tensor in what `x.__dlpack__` gave.
///
/// # Errors
/// `BufferError` where it is no capsule of DLPack that still has its tensor.
pub(crate) fn taken(
    x: &Bound<'_, PyAny>,
    capsule: &Bound<'_, PyAny>,
    asked: Asked,
) -> PyResult<Incoming> {
    if let Some(incoming) = capsule::take(capsule, asked)? {
        return Ok(incoming);
    }
    Err(PyBufferError::new_err(format!(
        "{}.__dlpack__ gave {}, which is no DLPack capsule",
        x.get_type().name()?,
        capsule.get_type().name()?
    )))
}

/// Refuses a tensor that lies elsewhere than its producer said.
///
/// # Errors
/// `BufferError` with both; one whose version is unknown is left to its import.
pub(crate) fn check_device(incoming: &Incoming, stated: DLDevice) -> PyResult<()> {
    match incoming.device() {
        Some(device) if device != stated => Err(PyBufferError::new_err(format!(
            "the producer said that its tensor is on device ({}, {}), and exported one on \
             ({}, {})",
            stated.device_type, stated.device_id, device.device_type, device.device_id
        ))),
        _ => Ok(()),
    }
}

/// Imports a tensor that its producer made ready on `stream`, a stream of the device that it stated: other streams wait
/// for that.
fn ordered(
    py: Python<'_>,
    incoming: Incoming,
    stated: DLDevice,
    stream: Option<Handle<XdStream>>,
) -> Result<Found, ExchangeError> {
    let is_copied = incoming.is_copied();
    let tensor = Tensor::of(incoming.import(py)?);
    if let Some(stream) = stream {
        producer_order::ready_behind(py, &tensor, stated, stream)?;
    }
    Ok(Found {
        tensor,
        is_copied,
        is_plainly_host: false,
    })
}
