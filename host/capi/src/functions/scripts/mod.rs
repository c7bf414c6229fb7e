//! The functions of `xd_script`, `xd_session` and `xd_value`.

pub(crate) mod script;
pub(crate) mod session;
pub(crate) mod session_output;
pub(crate) mod value;
