//! From a candidate file to a loaded plugin, which is neither probed nor opened: trust, preflight, negotiation.

use std::path::Path;
use std::sync::Arc;

use crossdock_layers::Layer;
use crossdock_sdk::abi::{ABI_MAJOR, ABI_MINOR};

use super::open::{open_c, open_rust};
use super::surroundings::Surroundings;
use crate::error::Error;
use crate::plugin_files::{AbiVersion, Environment, Flavour, Preflight, preflight};
use crate::plugins::open_plugins::{self, Source, open_once};
use crate::plugins::plugin::{Plugin, PluginIdentity};

/// Looks at a file without running any of its code.
///
/// # Errors
/// Who else may write to it, or why it is no plugin for this host.
pub(crate) fn inspect(path: &Path, environment: &Environment) -> Result<Preflight, Error> {
    let found = preflight(path, environment).map_err(|error| Error::Load {
        path: path.to_owned(),
        why: format!("{error}: {}", error.why()),
        hint: error.hint(),
    })?;
    let host = AbiVersion {
        major: ABI_MAJOR,
        minor: ABI_MINOR,
    };
    found.check_version(host).map_err(|error| Error::Load {
        path: path.to_owned(),
        why: format!("{error}: {}", error.why()),
        hint: error.hint(),
    })?;
    Ok(found)
}

/// Loads an inspected file without looking for its driver, or gives the plugin that was loaded from it, or from its equal, before, in
/// its own layers.
///
/// # Errors
/// Why its table was refused.
pub(crate) fn load(found: Preflight, layers: &[Layer]) -> Result<Arc<Plugin>, Error> {
    if let Some(plugin) = already_open(&found)? {
        return Ok(plugin);
    }
    open_once(Source::File(found.identity), Some(found), |found| {
        let Some(found) = found else {
            return Err(Error::misuse("load a plugin", "there is no file"));
        };
        let before = Surroundings::now();
        let table = match found.flavour {
            Flavour::Rust => open_rust(found)?,
            Flavour::C => open_c(found)?,
        };
        let remarks = before.changes();
        for remark in &remarks {
            log::warn!(target: "crossdock::load", "`{}`: {remark}", found.path.display());
        }
        let identity = PluginIdentity {
            name: found.description.name.as_str().into(),
            vendor: found.description.vendor.clone(),
            version: found.description.version.clone(),
            devices: found.description.devices.clone(),
            driver: found.description.driver.clone(),
            path: Some(found.path.clone()),
        };
        Ok(Plugin::new(identity, table, layers).with_remarks(remarks))
    })
}

/// The open plugin of the same file, or of one with equal bytes.
fn already_open(found: &Preflight) -> Result<Option<Arc<Plugin>>, Error> {
    for open in open_plugins::files() {
        let (Some(file), Some(plugin)) = (&open.file, open.plugin()) else {
            continue;
        };
        if file.identity == found.identity && !file.is_unchanged(found) {
            return Err(Error::Load {
                path: found.path.clone(),
                why: "it was written over while it is loaded".to_owned(),
                hint: "restart the program, and install each new build by rename (`mv new old`)"
                    .to_owned(),
            });
        }
        if file.identity != found.identity && file.has_the_bytes_of(found) {
            let (copy, first) = (found.path.display(), file.path.display());
            log::info!(target: "crossdock::load", "`{copy}` is a duplicate of `{first}`");
            return Ok(Some(plugin));
        }
    }
    Ok(None)
}
