//! How every function crosses from C.

pub(crate) mod boundary;
pub(crate) mod error_object;
pub(crate) mod failure;
pub(crate) mod input;
pub(crate) mod object;
