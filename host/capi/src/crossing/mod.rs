//! How every function crosses from C to Rust and back.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `boundary` | the fence against panics, and what is answered when it caught one |
//! | `object` | the casts between handles and the objects behind them |
//! | `input` | texts, arrays and option structs of callers |
//! | `failure`, `error_object` | why a function failed, and `xd_error`, which says it |
//!
//! - *Types carry the promises.* `Ref`, `Out`, `Text` and `Owned` are pointers with a lifetime,
//!   `repr(transparent)`. What C promises in words, Rust proves by making one, so most functions
//!   of the table are safe to call, and the casts behind them are in one file each:
//!   `crossing/object.rs` (handles), `crossing/input.rs` (texts, arrays, options),
//!   `crossing/boundary.rs` (fence and out parameters).
//! - *A handle is an `Arc`* of one object, and its address is its identity. A table has no way to
//!   tell a handle that was freed.
//! - *What comes in is taken first*: a tensor or memory that an import is given is released once
//!   on every way out, a NULL beside it included.
//! - *Options grow*: a struct begins with its size; what an older caller lacks is zero, which is
//!   the default, and what a newer one asks for beyond what is known here must be zero.
//! - *One process, one runtime*: `xd_runtime_default` opens it, or answers with the one that a
//!   host chose. Only its handles hold it, by a weak place that is swapped without a lock:
//!   opening calls plugins and the log, which may ask for it again.
//! - There is no copy in an export: `xd_tensor_to` copies or moves, by `copy=` as the array API
//!   says it, and its result is handed out.

pub(crate) mod boundary;
pub(crate) mod error_object;
pub(crate) mod failure;
pub(crate) mod input;
pub(crate) mod object;
