//! The functions of `crossdock.h`, a file for each object, and the table of them all.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `table` | the table of all functions |
//! | `library`, `log_function`, `trace`, `names` | the library itself: versions, forks of deleters, the log, the trace, names of numbers |
//! | `runtime`, `default_runtime`, `plugin`, `device`, `lists` | runtimes, plugins and devices |
//! | `stream`, `event`, `route`, `pointer`, `registration` | the other small objects |
//! | `tensors` | `xd_tensor` |
//! | `scripts` | `xd_script`, `xd_session` and `xd_value` |

pub(crate) mod default_runtime;
pub(crate) mod device;
pub(crate) mod event;
pub(crate) mod library;
pub(crate) mod lists;
pub(crate) mod log_function;
pub(crate) mod names;
pub(crate) mod plugin;
pub(crate) mod pointer;
pub(crate) mod registration;
pub(crate) mod route;
pub(crate) mod runtime;
pub(crate) mod scripts;
pub(crate) mod stream;
pub(crate) mod table;
pub(crate) mod tensors;
pub(crate) mod trace;
