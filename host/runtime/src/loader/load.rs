//! From a candidate file to a registered plugin: trust, preflight, negotiate, open, probe.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crossdock_sdk::abi::{ABI_MAJOR, ABI_MINOR};

use super::open::{open_c, open_rust};
use super::{
    AbiVersion, Environment, FileIdentity, Flavour, Preflight, check_ownership, preflight,
};
use crate::error::Error;
use crate::layers::Layer;
use crate::plugin::{Plugin, PluginIdentity};

/// The open plugins of the process: two runtimes share one, and a file is opened once.
static OPEN: Mutex<Vec<(FileIdentity, Weak<Plugin>)>> = Mutex::new(Vec::new());

/// Looks at a file without running any of its code.
///
/// # Errors
/// Who else may write to it, or why it is no plugin for this host.
pub(crate) fn inspect(path: &Path, environment: &Environment) -> Result<Preflight, Error> {
    let found = preflight(path).map_err(|error| Error::Load {
        path: path.to_owned(),
        why: format!("{error}: {}", error.why()),
        hint: error.hint(),
    })?;
    check_ownership(&found.path, environment).map_err(|error| Error::Load {
        path: path.to_owned(),
        why: error.why(),
        hint: error.hint(),
    })?;
    let host = AbiVersion {
        major: ABI_MAJOR,
        minor: ABI_MINOR,
    };
    found.check_version(host).map_err(|error| Error::Load {
        path: path.to_owned(),
        why: error.why(),
        hint: error.hint(),
    })?;
    Ok(found)
}

/// Loads an inspected file, or gives the plugin that was loaded from it before, in its own layers.
///
/// # Errors
/// Why its table was refused.
pub(crate) fn load(found: &Preflight, layers: &[Layer]) -> Result<Arc<Plugin>, Error> {
    if let Some(open) = already_open(found.identity) {
        return Ok(open);
    }
    let table = match found.flavour {
        Flavour::Rust => open_rust(&found.path)?,
        Flavour::C => open_c(&found.path)?,
    };
    let identity = PluginIdentity {
        name: found.description.name.clone(),
        vendor: found.description.vendor.clone(),
        version: found.description.version.clone(),
        path: Some(found.path.clone()),
    };
    let plugin = Arc::new(Plugin::start(identity, table, layers));
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|(_, plugin)| plugin.strong_count() > 0);
    open.push((found.identity, Arc::downgrade(&plugin)));
    Ok(plugin)
}

fn already_open(identity: FileIdentity) -> Option<Arc<Plugin>> {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.iter()
        .find(|(other, _)| *other == identity)
        .and_then(|(_, plugin)| plugin.upgrade())
}
