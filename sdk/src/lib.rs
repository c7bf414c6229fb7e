//! The contract between Crossdock and its device plugins, and nothing else.
//!
//! | module | for whom |
//! | --- | --- |
//! | [`plugin`] | those who write a plugin in Rust |
//! | [`abi`] | the binary contract, as the host reads it and as `plugin.h` shows it to C |
//! | [`dlpack`] | tensors as they come from and go to everybody else |
//! | [`handles`] | a plugin's streams and events, by the words that hooks carry |
//! | [`pointers`] | a plugin that answers pointer queries itself |
//! | `accounts` | users and groups of the system |
//! | `chunks` | memory of tables that grows and never moves |
//! | [`deadline`] | waits with a limit |
//! | [`log`] | the crate `log`, whose lines a plugin file sends to the host: no plugin names a version of its own |
//! | [`fence`] | the one place where a panic is stopped |
//! | [`child`] | child processes, whatever else reaps them |
//! | [`threads`] | threads that block all signals |
//! | [`trust`], [`regular`], [`shown`] | files, folders and texts of others: whose they are, what kind they are, how they are shown |

pub mod abi;
mod accounts;
pub mod child;
mod chunks;
pub mod deadline;
pub mod dlpack;
pub mod fence;
pub mod handles;
pub mod plugin;
pub mod pointers;
pub mod regular;
pub mod shown;
pub mod threads;
pub mod trust;

pub use log;
