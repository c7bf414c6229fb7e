//! The CPU plugin that is linked in, registered through the same table as every plugin file.
#![expect(
    unsafe_code,
    reason = "reads the linked-in plugin's table by address, as for a file"
)]

use std::sync::Arc;

use crossdock_layers::Layer;
use crossdock_layers::Table;
use crossdock_plugin_cpu::Cpu;
use crossdock_sdk::plugin::{Plugin as _, table_of};

use crate::error::Error;
use crate::plugin_files::Description;
use crate::plugins::open_plugins::{self, Source, open_once};
use crate::plugins::plugin::{Plugin, PluginIdentity};

/// The built-in CPU plugin, in these layers if it is not open yet; all runtimes of the process share
/// it.
pub(crate) fn cpu(
    layers: impl FnOnce() -> Result<Vec<Layer>, Error>,
) -> Result<Arc<Plugin>, Error> {
    let plugin = open_once(Source::BuiltIn, None, |_| read(&layers()?))?;
    open_plugins::start(&plugin)?;
    Ok(plugin)
}

fn read(layers: &[Layer]) -> Result<Plugin, Error> {
    let refuse = |why: String| Error::Load {
        path: "cpu (built in)".into(),
        why,
        hint: "rebuild this host".to_owned(),
    };
    let description = Description::parse(Cpu::DESCRIPTION.as_bytes())
        .map_err(|error| refuse(error.to_string()))?;
    // SAFETY: the sdk made this table for `Cpu`; it is a constant of this program.
    let table =
        unsafe { Table::read(table_of::<Cpu>()) }.map_err(|error| refuse(error.to_string()))?;
    let identity = PluginIdentity {
        name: description.name.into(),
        vendor: description.vendor,
        version: description.version,
        devices: description.devices,
        driver: description.driver,
        path: None,
    };
    Ok(Plugin::new(identity, table, layers))
}
