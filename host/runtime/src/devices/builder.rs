//! How a runtime is opened: where it looks for plugins, and what is around them.

use std::path::PathBuf;

use crossdock_layers::{Layer, requested};

use crate::devices::device_sorting::DeviceOrder;
use crate::devices::runtime::Runtime;
use crate::devices::shared::Shared;
use crate::error::Error;
use crate::hooks::host_services::log_level_changed;
use crate::plugin_files::Environment;
use crate::plugins::open_plugins;
use crate::process::trace;
use crate::route_data::costs::CostCache;

/// Says where a new runtime looks for plugins.
#[derive(Debug, Clone)]
#[must_use]
pub struct RuntimeBuilder {
    given: Vec<PathBuf>,
    folders: Vec<PathBuf>,
    search: bool,
    layers: Vec<Layer>,
    costs: Option<CostCache>,
    staging_bytes: Option<u64>,
    device_order: Option<String>,
}

impl RuntimeBuilder {
    pub(crate) const fn new() -> Self {
        Self {
            given: Vec::new(),
            folders: Vec::new(),
            search: true,
            layers: Vec::new(),
            costs: None,
            staging_bytes: None,
            device_order: None,
        }
    }

    /// Loads this file too. It is an error of `open` when it cannot be loaded.
    pub fn plugin(mut self, path: impl Into<PathBuf>) -> Self {
        self.given.push(path.into());
        self
    }

    /// Looks into this folder too, before the environment's.
    pub fn plugin_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folders.push(folder.into());
        self
    }

    /// Whether to search `CROSSDOCK_PLUGIN_PATH` and the standard folders; yes unless said otherwise.
    /// Other variables of the environment count either way.
    pub const fn search(mut self, yes: bool) -> Self {
        self.search = yes;
        self
    }

    /// Wraps each plugin that this runtime opens in these layers, then in those of the
    /// environment (`CROSSDOCK_LAYERS`, `CROSSDOCK_FAULT`). A plugin that another runtime of the
    /// process opened before keeps the layers that it was opened with.
    pub fn layers(mut self, layers: &[Layer]) -> Self {
        self.layers.extend_from_slice(layers);
        self
    }

    /// Whether costs are measured, and where they are kept; `CROSSDOCK_COSTS` unless said
    /// otherwise.
    pub fn costs(mut self, cache: CostCache) -> Self {
        self.costs = Some(cache);
        self
    }

    /// Host memory that one staged copy may use, and that is kept for the next one;
    /// `CROSSDOCK_STAGING_BYTES` unless said otherwise, else 7.5 MiB. A long copy on a stream may use up to 64 MiB.
    pub const fn staging_bytes(mut self, bytes: u64) -> Self {
        self.staging_bytes = Some(bytes);
        self
    }

    /// Gives these devices the first ids of their types, in this order: uuids, PCI bus ids or
    /// `PLUGIN:INDEX`, with `,` between them. Goes before `CROSSDOCK_DEVICE_ORDER`.
    pub fn device_order(mut self, order: impl Into<String>) -> Self {
        self.device_order = Some(order.into());
        self
    }

    /// Opens the runtime: the built-in plugin, then the given files, then what the search finds.
    ///
    /// # Errors
    /// As [`Runtime::load`] for a given file. A file that only the search found is listed by
    /// [`Runtime::refused`] instead. [`Error::Misuse`] for rules in `CROSSDOCK_FAULT` that cannot
    /// be read, and from a plugin that is being loaded.
    pub fn open(self) -> Result<Runtime, Error> {
        open_plugins::check_reentry("open a runtime")?;
        open_plugins::watch();
        log_level_changed();
        let environment = Environment::of_process();
        let asked = requested(environment.privileged)?;
        trace::begin_requested(environment.privileged);
        let new = asked
            .into_iter()
            .filter(|layer| !self.layers.contains(layer));
        let layers = self.layers.iter().cloned().chain(new).collect();
        let (shared, order) = (self.shared(&environment), self.order(&environment));
        let runtime = Runtime::start(environment, layers, shared);
        runtime.register_builtin();
        for path in &self.given {
            runtime.load(path)?;
        }
        runtime.search(&self.folders, self.search);
        if let Some(order) = order {
            runtime.number(&order);
        }
        Ok(runtime)
    }

    fn shared(&self, environment: &Environment) -> Shared {
        let staging = self.staging_bytes.or_else(|| staging_bytes(environment));
        let of_process = || CostCache::of_process(environment);
        Shared::new(staging, &self.costs.clone().unwrap_or_else(of_process))
    }

    fn order(&self, environment: &Environment) -> Option<DeviceOrder> {
        let text = match &self.device_order {
            Some(order) => order.clone(),
            None => environment.device_order()?.to_string_lossy().into_owned(),
        };
        let (order, warnings) = DeviceOrder::parse(&text);
        for warning in warnings {
            log::warn!(target: "crossdock::load", "{warning}");
        }
        Some(order)
    }
}

/// `CROSSDOCK_STAGING_BYTES`; a privileged process does not read it.
fn staging_bytes(environment: &Environment) -> Option<u64> {
    let text = std::env::var("CROSSDOCK_STAGING_BYTES").ok();
    let text = text.filter(|_| !environment.privileged)?;
    let bytes = text.parse().ok();
    if bytes.is_none() {
        let why = "is ignored: give a whole number of bytes";
        log::warn!(target: "crossdock::route", "CROSSDOCK_STAGING_BYTES=`{text}` {why}");
    }
    bytes
}
