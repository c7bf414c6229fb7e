//! The functions of `xd_script`, `xd_session` and `xd_value`.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `script` | finding Python, and starting it for scripts |
//! | `function` | functions of the caller that scripts call |
//! | `session`, `session_output` | a session, and what it prints |
//! | `value` | what crosses to a script and back |

pub(crate) mod function;
pub(crate) mod script;
pub(crate) mod session;
pub(crate) mod session_output;
pub(crate) mod value;
