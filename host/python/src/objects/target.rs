//! Where a tensor goes: a device, or one kind of its memory, as in `"cuda_host:1"`.

use crossdock_api::{MemoryKind, Out, XdDevice};
use pyo3::prelude::*;

use crate::link::handle::{Handle, c_text, made};
use crate::link::process_runtime::{looking, runtime};
use crate::link::table::api;
use crate::objects::device::Device;
use crate::objects::device_name::device_from;

/// A device, and the kind of memory that is asked for: `UNOWNED` where any will do.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) device: Py<Device>,
    pub(crate) kind: MemoryKind,
}

impl From<Py<Device>> for Target {
    fn from(device: Py<Device>) -> Self {
        let kind = MemoryKind::UNOWNED;
        Self { device, kind }
    }
}

impl Target {
    /// A target as callers name it: as a device is named, or by the text of a kind of memory.
    ///
    /// # Errors
    /// As [`device_from`].
    pub(crate) fn from_any(spec: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Ok(name) = spec.extract::<String>() else {
            return Ok(device_from(spec)?.into());
        };
        let py = spec.py();
        let (name, runtime) = (c_text(&name)?, runtime(py)?);
        let mut kind = MemoryKind::UNOWNED;
        let device: Handle<XdDevice> = looking(py, runtime, || {
            made(|out| {
                let (name, kind) = (name.as_c_str().into(), Out::from(&mut kind));
                (api().runtime_target_named)(runtime.lend(), name, out, kind)
            })
        })?;
        let device = Py::new(py, Device::new(device)?)?;
        Ok(Self { device, kind })
    }

    /// Whether a kind of memory is asked for.
    pub(crate) fn is_of_a_kind(&self) -> bool {
        self.kind != MemoryKind::UNOWNED
    }
}
