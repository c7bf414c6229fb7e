//! The contract between Crossdock and its device plugins, and nothing else.
//!
//! | module | for whom |
//! | --- | --- |
//! | [`plugin`] | those who write a plugin in Rust |
//! | [`abi`] | the binary contract, as the host reads it and as `plugin.h` shows it to C |
//! | [`dlpack`] | tensors as they come from and go to everybody else |
//! | [`pointers`] | a plugin that answers pointer queries itself |
//! | [`fence`] | the one place where a panic is stopped |
//! | [`deadline`] | waits with a limit |
//! | [`trust`], [`regular`], [`shown`] | files, folders and texts of others: whose they are, what kind they are, how they are shown |

pub mod abi;
pub mod deadline;
pub mod dlpack;
pub mod fence;
pub mod plugin;
pub mod pointers;
pub mod regular;
pub mod shown;
pub mod trust;
