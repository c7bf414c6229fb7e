//! A Python in this process: its library, and calls of it by the stable ABI.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `libpython` | the functions of the C API, looked up by name |
//! | `loaded`, `running`, `open` | a Python that is here already, what it says of itself, and opening one |
//! | `gil` | the interpreter's lock (the GIL) on this thread, how it is let go, and objects that need it |
//! | `value`, `tensor`, `method` | values and tensors that cross, and functions of ours as Python calls them |
//! | `host_module`, `host_table`, `package` (with `package.py`) | modules that the host builds in, its function table, and the package's files |
//! | `run` | Python's own command line |
//!
//! - *Opening* (`python/open.rs`), once a process: a Python that is there already is the one
//!   (`python/loaded.rs`), and a library that was opened for its user alone is opened for all, as
//!   extension modules need it.
//! - *Built-in modules* (`python/host_module.rs`), entered before Python starts, because nothing
//!   of ours runs between its start and the script's: `_crossdock_host` with the table, and
//!   `crossdock`, which loads the package that lies with the file that the table is in
//!   (`python/package.py`).
//! - `crossdock run` hands Python's `main` the words behind it, with the interpreter of the
//!   environment as its name; that selects the environment. It opens the `libcrossdock.so.1`
//!   beside it and hands out that table, and its own copy only where there is none.

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
