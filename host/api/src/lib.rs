//! The types of the function table `xd_api`: how everything in a process that is not part of the
//! runtime talks to it. No code of the runtime is here.
//!
//! # The table
//!
//! [`XdApi`] is `repr(C)`: its size, its version, then every `xd_` function as a pointer that is
//! never NULL. C sees the same struct as `xd_api` in `crossdock/crossdock.h`, where each function
//! is documented in full. It grows at its end only, and its minor version with it; the order, the
//! names and the types of what is released never change. A reader compares the major version and
//! the size before it calls anything: [`XdApi::from_raw`].
//!
//! # The rules of every function
//!
//! - *Threads*: any, also at once, unless the function says otherwise. Handles may be shared.
//! - *Failure*: a function that can fail returns an [`Owned`] error, NULL when it worked. It writes
//!   its out parameters only when it worked.
//! - *NULL*: a NULL argument is an error where nothing says otherwise. Accessors answer 0 or the
//!   empty text for a NULL handle, and every `_free` accepts it.
//! - *Handles* are counted. `_retain` gives the same handle again, `_free` gives one back, and the
//!   object lives until the last one is gone. A handle that was freed, or that never was one, cannot
//!   be told from a live one: using it is undefined.
//! - *Texts* are UTF-8 with a NUL at the end. One that a handle lends lives as long as the handle.
//! - *Memory* is freed by the side that made it.
//!
//! # How to call it from Rust
//!
//! The parameter types carry what C promises in words: [`Ref`] lends a handle or a struct, [`Out`]
//! a place to write to, [`Text`] a text, [`Owned`] moves a handle. So most functions are safe to
//! call; those whose arguments no type can vouch for are `unsafe`.

mod answers;
mod callbacks;
mod foreign;
mod handles;
mod lists;
mod numbers;
mod options;
mod script;
mod table;
mod table_macro;
mod text;

#[cfg(test)]
mod header_tests;
#[cfg(test)]
mod layouts_for_tests;
#[cfg(test)]
mod snapshot_tests;

pub use self::answers::{NameText, XdAxisSlice, XdTensorInfo};
pub use self::callbacks::{LogFunction, ReleaseGate, ScriptFunction, WordRelease};
pub use self::foreign::TableRefused;
pub use self::handles::{
    Failure, Out, Owned, Ref, XdAnswer, XdDevice, XdError, XdEvent, XdPlugin, XdRegistration,
    XdRoute, XdRuntime, XdScript, XdSession, XdStream, XdTensor,
};
pub use self::lists::{XdDeviceList, XdErrorList, XdList, XdPluginList};
pub use self::numbers::{
    CopyMode, ErrorKind, ExportFlags, MemoryFlags, Order, RouteKind, RuntimeFlags, SessionFlags,
    SessionStateKind, StopOutcome, ValueKind, WaitKind,
};
pub use self::options::{
    COST_UNKNOWN, NO_LIMIT, XdEmptyOptions, XdExportOptions, XdImportOptions, XdLayout, XdMemory,
    XdMoveOptions, XdRuntimeOptions,
};
pub use self::script::{
    PlaceText, StreamFunction, XdArguments, XdRunOptions, XdScriptInfo, XdScriptOptions,
    XdSessionOptions, XdSessionState, XdValue,
};
pub use self::table::{API_MAJOR, API_MINOR, XdApi};
pub use self::text::Text;

pub use crossdock_sdk::abi::{
    AddressForm, Capabilities, DeviceInfo, MemoryInfo, MemoryKind, MemoryUsage, PointerFlags,
    PointerInfo, ProbeState, Status,
};
pub use crossdock_sdk::dlpack::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackExchangeAPI,
    DLPackExchangeAPIHeader, DLPackSetError, DLPackVersion, DLTensor, Flags, MAX_RANK, serial_of,
};

/// Runs code of others that must not unwind into C.
pub use crossdock_sdk::fence::fence;

/// Starts threads that block all signals.
pub use crossdock_sdk::threads::Thread;
