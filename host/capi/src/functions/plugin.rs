//! `xd_plugin`: a registered plugin.
#![expect(unsafe_code, reason = "exports functions by name")]

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, OnceLock};

use crossdock::{Plugin, PluginState};
use crossdock_api::{Owned, ProbeState, Ref, Text, XdPlugin};

use crate::crossing::boundary::{fence_free, fence_value};
use crate::crossing::error_object::c_text;
use crate::crossing::object::{Handle, look, retain};

impl Handle for XdPlugin {
    type Object = PluginObject;
    const NAME: &'static str = "plugin";
}

/// A plugin with its texts as C reads them.
#[derive(Debug)]
pub(crate) struct PluginObject {
    pub(crate) plugin: Arc<Plugin>,
    name: CString,
    vendor: CString,
    version: CString,
    path: CString,
    /// Made when it is known: a plugin may be looked at later.
    detail: OnceLock<CString>,
}

impl PluginObject {
    pub(crate) fn new(plugin: &Arc<Plugin>) -> Self {
        let path = plugin.path().map(|path| path.as_os_str().as_bytes());
        Self {
            plugin: Arc::clone(plugin),
            name: c_text(plugin.name()),
            vendor: c_text(plugin.vendor()),
            version: c_text(plugin.version()),
            path: c_text(path.unwrap_or_default()),
            detail: OnceLock::new(),
        }
    }

    fn detail(&self) -> Option<&CStr> {
        let detail = match self.plugin.state() {
            PluginState::NotLookedAt => return None,
            PluginState::Absent { detail } => detail.as_str(),
            PluginState::Broken { why } => why.as_str(),
            _ => "",
        };
        Some(self.detail.get_or_init(|| c_text(detail)))
    }
}

/// Exports an accessor of a text for each name.
macro_rules! texts {
    ($($function:ident => $part:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $function(plugin: Ref<'_, XdPlugin>) -> Text<'_> {
            fence_value(|| look(plugin).map(|plugin| Text::new(&plugin.$part)))
        }
    )*};
}

texts! {
    xd_plugin_name => name;
    xd_plugin_vendor => vendor;
    xd_plugin_version => version;
    xd_plugin_path => path;
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_plugin_detail(plugin: Ref<'_, XdPlugin>) -> Text<'_> {
    fence_value(|| look(plugin).map(|plugin| Text::new(plugin.detail().unwrap_or_default())))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_plugin_state(plugin: Ref<'_, XdPlugin>) -> ProbeState {
    fence_value(|| {
        Some(match look(plugin)?.plugin.state() {
            PluginState::NotLookedAt => ProbeState::NOT_LOOKED_AT,
            PluginState::Ready => ProbeState::READY,
            PluginState::Absent { .. } => ProbeState::ABSENT,
            _ => ProbeState::BROKEN,
        })
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_plugin_retain(plugin: Ref<'_, XdPlugin>) -> Owned<XdPlugin> {
    fence_value(|| retain(plugin))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_plugin_free(plugin: Owned<XdPlugin>) {
    fence_free(plugin);
}
