//! The tables that one open plugin is called through.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `layer` | which layers there are |
//! | `environment` | which layers the process asks for |
//! | `layer_stack` | the tables, one around another |

pub(crate) mod environment;
pub(crate) mod layer;
pub(crate) mod layer_stack;
