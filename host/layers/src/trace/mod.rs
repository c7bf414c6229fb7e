//! What a host and its plugins did, and when.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `trace_file` | the file, for Perfetto |
//! | `tracer` | the layer that writes every call of a hook into it |

pub mod trace_file;
pub(crate) mod tracer;
