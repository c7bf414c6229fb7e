//! Python scripts.

pub(crate) mod script;
pub(crate) mod session;
pub(crate) mod session_output;
pub(crate) mod value;
