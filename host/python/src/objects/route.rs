//! `crossdock.Route`.

use crossdock_api::{COST_UNKNOWN, RouteKind, Text, XdRoute};
use pyo3::prelude::*;

use crate::link::handle::{Handle, text};
use crate::link::table::api;

/// How a tensor reaches a device, and why so. `str()` is the explanation.
#[pyclass(frozen, module = "crossdock")]
#[derive(Debug)]
pub(crate) struct Route(Handle<XdRoute>);

impl Route {
    pub(crate) const fn new(handle: Handle<XdRoute>) -> Self {
        Self(handle)
    }
}

#[pymethods]
impl Route {
    /// `"alias"`, `"direct"`, `"staged"` or `"refused"`.
    #[getter]
    fn kind(&self) -> &'static str {
        match (api().route_kind)(self.0.lend()) {
            RouteKind::ALIAS => "alias",
            RouteKind::DIRECT => "direct",
            RouteKind::STAGED => "staged",
            _ => "refused",
        }
    }

    /// The bytes that are copied; 0 for an alias.
    #[getter]
    fn bytes_copied(&self) -> u64 {
        (api().route_bytes_copied)(self.0.lend())
    }

    /// The seconds that it is expected to take, for this layout and kind of memory; `None` where that is not known.
    /// `str()` says where the number is from.
    #[getter]
    fn cost(&self) -> Option<f64> {
        let nanoseconds = (api().route_cost_ns)(self.0.lend());
        (nanoseconds != COST_UNKNOWN).then(|| nanoseconds as f64 / 1e9)
    }

    /// The routes that do not work, each with the reason.
    #[getter]
    fn refused(&self) -> Vec<String> {
        listed(|at| (api().route_refused)(self.0.lend(), at))
    }

    fn __str__(&self) -> String {
        text((api().route_text)(self.0.lend()))
    }

    fn __repr__(&self) -> String {
        format!(
            "<crossdock.Route {}, {} bytes copied>",
            self.kind(),
            self.bytes_copied()
        )
    }
}

/// Texts up to the NULL behind the last one.
fn listed<'a>(at: impl Fn(u64) -> Text<'a>) -> Vec<String> {
    (0..)
        .map(at)
        .take_while(|text| text.to_c_str().is_some())
        .map(text)
        .collect()
}
