//! The layer that fails chosen calls.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `fault` | the layer |
//! | `fault_plan` | which calls fail, and how |

pub(crate) mod fault;
pub(crate) mod fault_plan;
