//! Crossdock for C: the functions behind `xd_api` and `crossdock/crossdock.h`.
//!
//! Every function is an `extern "C" fn xd_*` that says nothing but: take the arguments, call the
//! runtime, give the answer. They are in the room `functions`, a file for each object. What all of them
//! share is in the room `crossing`: the fence against panics, the casts between handles and objects, and
//! what callers pass in. So a NULL, a wrong size or an unknown number becomes an error in one place, and
//! the files named after objects hold no cast.
//!
//! A Rust program of the host that hands the table on, the command for instance, calls [`api`]; what
//! a binding in Rust does with the table looks like this:
//!
//! ```
//! use crossdock_api::{Out, Owned, Text};
//!
//! let api = crossdock_capi::api();
//! let (mut runtime, mut device) = (Owned::NULL, Owned::NULL);
//! let failure = (api.runtime_default)(Out::from(&mut runtime));
//! assert!(failure.is_null(), "{:?}", (api.error_text)(failure.lend()));
//! let name = Text::new(c"cpu:0");
//! let failure = (api.runtime_device_named)(runtime.lend(), name, Out::from(&mut device));
//! assert!(failure.is_null(), "{:?}", (api.error_text)(failure.lend()));
//! (api.device_free)(device);
//! (api.runtime_free)(runtime);
//! ```
//!
//! Everything in a process that is not Rust of the host talks to the runtime through `xd_api`:
//! its size, its version, then every `xd_` function, none of them NULL. `host/api` has its types
//! and no code of the runtime, `host/capi` has the functions. A test parses `crossdock.h` and
//! compares sizes, places, numbers and signatures with Rust; a snapshot keeps what is there from
//! moving.
//!
//! The library's file is `libcrossdock_capi.so` in the build folder, because a second target
//! named `crossdock` would collide; its soname is the installed one.

mod crossing;
mod functions;

pub use self::functions::table::api;
