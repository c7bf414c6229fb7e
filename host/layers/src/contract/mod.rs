//! A plugin's table as a host reads it.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `table` | the table: by its own size, checked hook by hook |
//! | `plugin_text` | texts that plugins lend in their error objects |

pub(crate) mod plugin_text;
pub(crate) mod table;
