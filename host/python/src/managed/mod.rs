//! DLPack's structs in transit, and Python objects that own memory.

pub(crate) mod capsule;
pub(crate) mod incoming;
pub(crate) mod py_owner;
