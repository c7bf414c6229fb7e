//! How every function crosses from C to Rust and back.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `boundary` | the fence against panics, and what is answered when it caught one |
//! | `object` | the casts between handles and the objects behind them |
//! | `input` | texts, arrays and option structs of callers |
//! | `failure`, `error_object` | why a function failed, and `xd_error`, which says it |

pub(crate) mod boundary;
pub(crate) mod error_object;
pub(crate) mod failure;
pub(crate) mod input;
pub(crate) mod object;
