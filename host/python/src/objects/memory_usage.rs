//! `crossdock.MemoryUsage`.

use pyo3::prelude::*;

/// What a plugin has of a device's memory, in bytes; `None` for a number that it does not know.
#[pyclass(frozen, eq, get_all, module = "crossdock")]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MemoryUsage {
    /// What it has of the driver or the system: used memory, and what was freed and is kept.
    reserved: Option<u64>,
    /// What is allocated.
    used: Option<u64>,
    /// The most that `reserved` was.
    peak_reserved: Option<u64>,
    /// The most that `used` was.
    peak_used: Option<u64>,
}

impl From<crossdock_api::MemoryUsage> for MemoryUsage {
    fn from(usage: crossdock_api::MemoryUsage) -> Self {
        let known = |number| (number != u64::MAX).then_some(number);
        Self {
            reserved: known(usage.reserved),
            used: known(usage.used),
            peak_reserved: known(usage.peak_reserved),
            peak_used: known(usage.peak_used),
        }
    }
}

#[pymethods]
impl MemoryUsage {
    fn __repr__(&self) -> String {
        let text = |number: Option<u64>| number.map_or("None".to_owned(), |n| n.to_string());
        format!(
            "MemoryUsage(reserved={}, used={}, peak_reserved={}, peak_used={})",
            text(self.reserved),
            text(self.used),
            text(self.peak_reserved),
            text(self.peak_used)
        )
    }
}
