//! A Python in this process: its library, and calls of it by the stable ABI.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `libpython` | the functions of the C API, looked up by name |
//! | `loaded`, `running`, `open` | a Python that is here already, what it says of itself, and opening one |
//! | `gil` | the interpreter's lock (the GIL) on this thread, how it is let go, and objects that need it |
//! | `value`, `tensor`, `method` | values and tensors that cross, and functions of ours as Python calls them |
//! | `host_module`, `host_table`, `package` | modules that the host builds in, its function table, and the package's files |
//! | `run` | Python's own command line |

pub(crate) mod gil;
pub(crate) mod host_module;
pub(crate) mod host_table;
pub(crate) mod libpython;
pub(crate) mod loaded;
pub(crate) mod method;
pub(crate) mod open;
pub(crate) mod package;
pub(crate) mod run;
pub(crate) mod running;
pub(crate) mod tensor;
pub(crate) mod value;
