//! `crossdock.Plugin`.

use crossdock_api::{ProbeState, XdPlugin};
use pyo3::prelude::*;

use crate::interpreter::attached::detached;
use crate::link::error::check;
use crate::link::handle::{Handle, text};
use crate::link::process_runtime::runtime;
use crate::link::table::api;

/// A registered plugin.
#[pyclass(frozen, module = "crossdock")]
#[derive(Debug)]
pub(crate) struct Plugin(Handle<XdPlugin>);

impl Plugin {
    pub(crate) const fn new(handle: Handle<XdPlugin>) -> Self {
        Self(handle)
    }
}

#[pymethods]
impl Plugin {
    /// Its name, as in `libcrossdock_plugin_NAME.so`.
    #[getter]
    fn name(&self) -> String {
        text((api().plugin_name)(self.0.lend()))
    }

    /// Who made it.
    #[getter]
    fn vendor(&self) -> String {
        text((api().plugin_vendor)(self.0.lend()))
    }

    /// Its own version.
    #[getter]
    fn version(&self) -> String {
        text((api().plugin_version)(self.0.lend()))
    }

    /// Its file; `None` for the plugin that is built in.
    #[getter]
    fn path(&self) -> Option<String> {
        Some(text((api().plugin_path)(self.0.lend()))).filter(|path| !path.is_empty())
    }

    /// `"ready"`, `"absent"` or `"broken"`, as it was found when it was first needed; `"not looked at"` before.
    #[getter]
    fn state(&self) -> &'static str {
        match (api().plugin_state)(self.0.lend()) {
            ProbeState::NOT_LOOKED_AT => "not looked at",
            ProbeState::READY => "ready",
            ProbeState::ABSENT => "absent",
            _ => "broken",
        }
    }

    /// What was looked for and where (absent), or why it does not work (broken).
    #[getter]
    fn detail(&self) -> String {
        text((api().plugin_detail)(self.0.lend()))
    }

    /// Removes it: its devices are gone, and tensors on it can be dropped at any time. While another
    /// runtime of the process keeps the plugin, they can be read as well. Else its work is drained, for at
    /// most five seconds, and reading and copying them fails as `RETIRED`. `load_plugin` brings it back.
    fn retire(&self, py: Python<'_>) -> PyResult<()> {
        let runtime = runtime(py)?;
        let retire = || check((api().runtime_retire_plugin)(runtime.lend(), self.0.lend()));
        Ok(detached(py, retire)?)
    }

    fn __repr__(&self) -> String {
        format!(
            "<crossdock.Plugin {} {}, {}>",
            self.name(),
            self.version(),
            self.state()
        )
    }
}
