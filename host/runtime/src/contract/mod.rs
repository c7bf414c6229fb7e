//! A plugin's table as the host reads it.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `table` | the table: by its own size, checked hook by hook |
//! | `plugin_text` | texts that plugins lend in their error objects |
//! | `host_services` | what the host offers plugins |

pub(crate) mod host_services;
pub(crate) mod plugin_text;
pub(crate) mod table;
