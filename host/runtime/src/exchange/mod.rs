//! DLPack, in.

pub(crate) mod import;
