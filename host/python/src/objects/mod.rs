//! The small classes of the package, and how callers name what they stand for.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `device`, `device_name`, `target` | `Device`; how callers name one; a device or one kind of its memory |
//! | `dtype`, `typestr`, `format` | `Dtype`; its text in the array interfaces; its format in the buffer protocol |
//! | `numpy_dispatch` | how NumPy before 2.4 gets the dtype of a tensor |
//! | `stream`, `event`, `busy_streams` | `Stream`, `Event`; streams of others that work while nobody holds them |
//! | `stream_numbers` | the numbers by which Python's protocols name streams |
//! | `plugin`, `route`, `pointer`, `memory_usage`, `trace` | the other classes, and `trace` |

pub(crate) mod busy_streams;
pub(crate) mod device;
pub(crate) mod device_name;
pub(crate) mod dtype;
pub(crate) mod event;
pub(crate) mod format;
pub(crate) mod memory_usage;
pub(crate) mod numpy_dispatch;
pub(crate) mod plugin;
pub(crate) mod pointer;
pub(crate) mod route;
pub(crate) mod stream;
pub(crate) mod stream_numbers;
pub(crate) mod target;
pub(crate) mod trace;
pub(crate) mod typestr;
