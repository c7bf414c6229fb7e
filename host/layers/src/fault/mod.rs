//! The layer that fails chosen calls.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `fault_layer` | the layer |
//! | `fault_plan` | which calls fail, and how |

pub(crate) mod fault_layer;
pub(crate) mod fault_plan;
