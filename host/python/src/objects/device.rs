//! `crossdock.Device`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use crossdock_api::{Capabilities, DLDevice, DeviceInfo, MemoryInfo, NameText, Out, XdDevice};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFrozenSet};

use crate::interpreter::attached::detached;
use crate::link::error::check;
use crate::link::handle::{Handle, written};
use crate::link::table::api;
use crate::link::waiting::{self, Of};
use crate::objects::memory_usage::MemoryUsage;
use crate::objects::stream::limit;

/// A device of a plugin. Two are equal when they are the same device; `str()` is `"opencl:0"`.
#[pyclass(frozen, module = "crossdock")]
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) handle: Handle<XdDevice>,
    info: DeviceInfo,
}

impl Device {
    pub(crate) fn new(handle: Handle<XdDevice>) -> PyResult<Self> {
        let info = written(|out| (api().device_describe)(handle.lend(), out))?;
        Ok(Self { handle, info })
    }

    /// The DLPack pair under which it is registered.
    pub(crate) const fn pair(&self) -> DLDevice {
        DLDevice {
            device_type: self.info.dl_type,
            device_id: self.info.dl_id,
        }
    }
}

impl Device {
    /// Its name as in `opencl:0`, or nothing.
    pub(crate) fn text(&self) -> String {
        device_name(self.pair()).unwrap_or_default()
    }
}

/// `opencl:0`.
pub(crate) fn device_name(pair: DLDevice) -> PyResult<String> {
    let mut name = NameText::EMPTY;
    check((api().dl_device_text)(pair, Out::from(&mut name)))?;
    Ok(name.to_c_str().to_string_lossy().into_owned())
}

#[pymethods]
impl Device {
    /// The type's name, as in `"opencl"`.
    #[getter]
    fn r#type(&self) -> PyResult<String> {
        let mut name = device_name(self.pair())?;
        name.truncate(name.find(':').unwrap_or(name.len()));
        Ok(name)
    }

    /// The id within its type.
    #[getter]
    const fn id(&self) -> i32 {
        self.info.dl_id
    }

    /// Its name for people.
    #[getter]
    fn name(&self) -> String {
        fixed_text(&self.info.name)
    }

    /// Its identity across processes as 16 bytes, or `None`.
    #[getter]
    fn uuid<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let uuid = self.info.uuid;
        (uuid != [0; 16]).then(|| PyBytes::new(py, &uuid))
    }

    /// Its place on the PCI bus, as in `"0000:03:00.0"`, or `None`.
    #[getter]
    fn pci_bus_id(&self) -> Option<String> {
        Some(fixed_text(&self.info.pci_bus_id)).filter(|id| !id.is_empty())
    }

    /// Its memory now, in bytes: `(free, total)`; free is `None` where the driver does not say.
    fn memory(&self, py: Python<'_>) -> PyResult<(Option<u64>, u64)> {
        let mut memory = MemoryInfo::default();
        let handle = &self.handle;
        detached(py, || {
            check((api().device_memory)(handle.lend(), Out::from(&mut memory)))
        })?;
        let free = (memory.free != u64::MAX).then_some(memory.free);
        Ok((free, memory.total))
    }

    /// What its plugin has of its memory, for the whole process.
    fn memory_usage(&self, py: Python<'_>) -> PyResult<MemoryUsage> {
        let mut usage = crossdock_api::MemoryUsage::UNKNOWN;
        let handle = &self.handle;
        detached(py, || {
            check((api().device_memory_usage)(
                handle.lend(),
                Out::from(&mut usage),
            ))
        })?;
        Ok(usage.into())
    }

    /// Begins the peaks of `memory_usage` anew.
    fn reset_peaks(&self, py: Python<'_>) -> PyResult<()> {
        let handle = &self.handle;
        Ok(detached(py, || {
            check((api().device_reset_peaks)(handle.lend()))
        })?)
    }

    /// Gives back memory that was freed and is kept for later, until at most `keep` bytes of it are left.
    #[pyo3(signature = (keep=0))]
    fn trim(&self, py: Python<'_>, keep: u64) -> PyResult<()> {
        let handle = &self.handle;
        Ok(detached(py, || {
            check((api().device_trim)(handle.lend(), keep))
        })?)
    }

    /// What works on it, as in `{"fill", "pinned"}`.
    #[getter]
    fn capabilities<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyFrozenSet>> {
        let has = self.info.capabilities;
        let named = Capabilities::NAMES.iter();
        let names = named.filter(|(bit, _)| has.contains(*bit));
        PyFrozenSet::new(py, names.map(|(_, name)| name.to_lowercase()))
    }

    /// Waits until the work on all its streams is done; `DeviceTimeoutError` after `timeout` seconds.
    #[pyo3(signature = (timeout=None))]
    fn synchronize(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let device = Arc::new(Handle::new((api().device_retain)(self.handle.lend())));
        let of = Of::Device(self.info.dl_type, self.info.dl_id);
        waiting::wait_once(py, of, limit(timeout)?, move |limit| {
            check((api().device_synchronize)(device.lend(), limit))
        })
    }

    /// Pickled by its name: it is the device that has this name where it is loaded.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        let named = py.import("crossdock")?.getattr("device")?;
        Ok((named, (device_name(self.pair())?,)))
    }

    /// The DLPack pair `(type, id)`.
    fn __dlpack_device__(&self) -> (i32, i32) {
        (self.info.dl_type, self.info.dl_id)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| {
            (api().device_equal)(self.handle.lend(), other.get().handle.lend()) != 0
        })
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.info.dl_type, self.info.dl_id).hash(&mut hasher);
        hasher.finish()
    }

    fn __str__(&self) -> PyResult<String> {
        device_name(self.pair())
    }

    fn __repr__(&self) -> PyResult<String> {
        Ok(format!("crossdock.device({:?})", device_name(self.pair())?))
    }
}

/// A text in a fixed place that ends with a NUL.
fn fixed_text(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}
