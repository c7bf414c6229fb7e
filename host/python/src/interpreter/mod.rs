//! Whether this thread may talk to Python, and how Python is called.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `attached` | whether this thread has the interpreter's lock (the GIL), and work without it |
//! | `gate`, `ended_threads` | the interpreter's end waits for threads that give something back; threads that Python ends inside of Rust frames |
//! | `calls`, `arguments` | calls of code that may be Python's; calls from Python without a tuple or a dict |
//! | `refusals`, `integers` | errors of conversions in better words; shapes, strides and axes |
//! | `recursion_guard` | how deep producers may ask other producers |

pub(crate) mod arguments;
pub(crate) mod attached;
pub(crate) mod calls;
pub(crate) mod ended_threads;
pub(crate) mod gate;
pub(crate) mod integers;
pub(crate) mod recursion_guard;
pub(crate) mod refusals;
