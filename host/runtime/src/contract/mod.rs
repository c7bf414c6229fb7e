//! A plugin's table as the host reads it.

pub(crate) mod host_services;
pub(crate) mod plugin_text;
pub(crate) mod table;
