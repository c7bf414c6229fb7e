//! `crossdock.PointerInfo`: who owns an address.

use crossdock_api::{MemoryKind, Out, Owned, PointerFlags, PointerInfo as Info};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::interpreter::attached::detached;
use crate::interpreter::calls::attribute_if_any;
use crate::interpreter::refusals::instead;
use crate::link::error::check;
use crate::link::handle::Handle;
use crate::link::process_runtime::runtime;
use crate::link::table::api;
use crate::objects::device::Device;

/// Who owns an address, as the plugins answer. `kind` of `"unowned"` makes the rest `None`.
#[pyclass(frozen, module = "crossdock")]
#[derive(Debug)]
pub(crate) struct PointerInfo {
    info: Info,
    device: Option<Py<Device>>,
}

impl PointerInfo {
    /// A fact, if anybody owns the address.
    fn known<T>(&self, fact: T) -> Option<T> {
        (self.info.kind != MemoryKind::UNOWNED).then_some(fact)
    }

    /// A number that is 0 where there is none.
    fn number(&self, number: u64) -> Option<u64> {
        self.known(number).filter(|number| *number != 0)
    }
}

#[pymethods]
impl PointerInfo {
    /// `"device"`, `"pinned"`, `"managed"`, `"host"` or `"unowned"`.
    #[getter]
    const fn kind(&self) -> &'static str {
        match self.info.kind {
            MemoryKind::DEVICE => "device",
            MemoryKind::PINNED => "pinned",
            MemoryKind::MANAGED => "managed",
            MemoryKind::HOST => "host",
            _ => "unowned",
        }
    }

    /// The device that owns it.
    #[getter]
    fn device(&self, py: Python<'_>) -> Option<Py<Device>> {
        self.device.as_ref().map(|device| device.clone_ref(py))
    }

    /// The first byte of the allocation: an address, or a handle.
    #[getter]
    fn base(&self) -> Option<u64> {
        self.known(self.info.base.word)
    }

    /// Bytes of the allocation.
    #[getter]
    fn size(&self) -> Option<u64> {
        self.known(self.info.size)
    }

    /// Where the host reaches the address.
    #[getter]
    fn host_pointer(&self) -> Option<u64> {
        self.number(self.info.host_pointer)
    }

    /// Where the device reaches the address.
    #[getter]
    fn device_pointer(&self) -> Option<u64> {
        self.number(self.info.device_pointer)
    }

    /// The vendor's context.
    #[getter]
    fn context(&self) -> Option<u64> {
        self.number(self.info.context)
    }

    /// Whether it migrates on demand.
    #[getter]
    fn managed(&self) -> Option<bool> {
        self.known(self.info.flags.contains(PointerFlags::MANAGED))
    }

    /// A number that no other allocation of the process has.
    #[getter]
    fn allocation_id(&self) -> Option<u64> {
        self.known(self.info.allocation_id)
    }

    /// Whether it is known to be read-only.
    #[getter]
    fn read_only(&self) -> Option<bool> {
        self.known(self.info.flags.contains(PointerFlags::READ_ONLY))
    }

    fn __repr__(&self) -> String {
        let device = self
            .device
            .as_ref()
            .map(|device| format!(" on {}", device.get().text()));
        let size = self.known(self.info.size);
        let size = size.map(|size| format!(", {size} bytes"));
        format!(
            "<crossdock.PointerInfo {}{}{}>",
            self.kind(),
            device.unwrap_or_default(),
            size.unwrap_or_default()
        )
    }
}

/// Who owns an address: every plugin is asked, which starts the drivers of those that nobody needed so far, and
/// nothing is read at the address.
#[pyfunction]
pub(crate) fn pointer_info(py: Python<'_>, address: &Bound<'_, PyAny>) -> PyResult<PointerInfo> {
    let address = match address.extract::<u64>() {
        Err(error) if attribute_if_any(address, "data_ptr")?.is_some() => {
            let why = "pointer_info takes an address: pass `t.data_ptr()` of a tensor";
            Err(instead(py, error, |_refused| Ok(PyTypeError::new_err(why))))
        }
        address => address,
    }?;
    let runtime = runtime(py)?;
    let (mut info, mut device) = (Info::default(), Owned::NULL);
    detached(py, || {
        let (info, device) = (Out::from(&mut info), Out::from(&mut device));
        check((api().pointer_query)(runtime.lend(), address, info, device))
    })?;
    let device = match device.is_null() {
        true => None,
        false => Some(Py::new(py, Device::new(Handle::new(device))?)?),
    };
    Ok(PointerInfo { info, device })
}
