//! What the plugins that are written for tests have in common: each is opened from a table of this
//! program, and its devices are all of one type.
#![expect(unsafe_code, reason = "reads a table")]

use std::sync::Arc;

use crossdock_layers::Table;
use crossdock_sdk::abi::DeviceInfo;
use crossdock_sdk::dlpack::DeviceType;
use crossdock_sdk::plugin::table_of;

use crate::plugins::plugin::{Plugin, PluginIdentity};

/// The plugin `P` under this name, open.
pub(crate) fn start<P: crossdock_sdk::plugin::Plugin>(name: String) -> Arc<Plugin> {
    let identity = PluginIdentity {
        name: name.into(),
        vendor: "test".to_owned(),
        version: "1.0.0".to_owned(),
        devices: vec!["ext_dev".to_owned()],
        driver: None,
        path: None,
    };
    // SAFETY: the sdk made this table; it is a constant of this program.
    let table = unsafe { Table::read(table_of::<P>()) }.unwrap();
    let plugin = Plugin::new(identity, table, &[]);
    plugin.start(|| plugin.bring_up());
    Arc::new(plugin)
}

/// What such a plugin says of its device, which can do nothing special.
pub(crate) fn device_info() -> DeviceInfo {
    DeviceInfo::new(DeviceType::EXT_DEV, 0, "")
}
