//! DLPack's structs in transit, and the Python objects that own memory.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `incoming` | a tensor that was taken from its producer |
//! | `capsule` | how a tensor travels through Python |
//! | `py_owner` | Python objects that keep memory alive, given back on any thread |
//! | `ends` | the interpreter's end, forks, and the release of tensors of others |

pub(crate) mod capsule;
pub(crate) mod ends;
pub(crate) mod incoming;
pub(crate) mod py_owner;
