//! The way to the runtime. This crate contains none: everything goes through one function table.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `table` | where the function table comes from |
//! | `handle`, `error` | owned handles and the texts that they lend; failures as Python exceptions |
//! | `process_runtime` | the one runtime of the process |
//! | `waiting` | waits for devices, which a signal ends |

pub(crate) mod error;
pub(crate) mod handle;
pub(crate) mod process_runtime;
pub(crate) mod table;
pub(crate) mod waiting;
