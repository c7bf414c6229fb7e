//! The binary contract: every type and number that crosses between a host and a plugin.
//!
//! One plugin is one [`PluginTable`]: a `repr(C)` struct that begins with its own size and the ABI
//! version, then holds the mandatory hooks, then one pointer for each optional group of hooks. A
//! group is all present or all absent, and is frozen once released; growth is a new group at the
//! end of the table. Argument structs are frozen too.
//!
//! Rust plugins do not touch this module: they implement [`crate::plugin::Plugin`]. C plugins see
//! the same layouts in `crossdock/plugin.h`.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `status` | result codes |
//! | `types`, `strided` | handles, addresses, argument and answer structs; the arrays of a strided copy |
//! | `host` | what a host gives a plugin |
//! | `error` | the error object a plugin makes and frees |
//! | `table` | the table and its mandatory hooks |
//! | `groups`, `peer`, `streams` | the optional groups |
//! | `pointer` | pointers to constants |
//! | `module` | the `abi_stable` root module that carries a Rust plugin's table |
//!
//! # Growth
//!
//! A group is a struct of its own. That makes "all present or all absent" structural, keeps the
//! table far below the 64 fields that a prefix type can have, and lets a group's absence be one
//! NULL. A released group is frozen, so growth is a new group at the end. IPC is not in version 1.0:
//! no plugin here can implement it yet, and a group can be added at any minor version. Pools are
//! not objects of the contract: a device has one cache, which is trimmed and counted (`pool`),
//! whatever the vendor makes it of.
//!
//! Reading a table (`host/layers/src/contract/table.rs`): size and version first, then as many
//! bytes as both sides know into a zeroed copy, so that an older plugin's missing groups read as
//! NULL and a newer plugin's tail is ignored. Layout negotiation for Rust plugins happens before
//! that, in both directions, because a shorter table must be a prefix of the longer one.
//!
//! Handles are opaque words. Addresses are a word, a byte offset and a form: a pointer, or a
//! handle on which no arithmetic is done.

mod error;
mod groups;
mod host;
mod module;
mod peer;
mod pointer;
mod status;
mod streams;
mod strided;
mod table;
mod types;

pub use error::{RawError, Text};
pub use groups::{
    AdoptHooks, AsyncMemoryHooks, AttributeHooks, FillHooks, HostCallHooks, HostEventHooks,
    MapHooks, PoolHooks, RegisterHooks, StridedHooks, TimingHooks, WrapHooks,
};
pub use host::{HostFunction, HostServices};
pub use module::{
    ExportedHeader, PrefixedTable, ROOT_SYMBOL, StaticTable, address_of, exported_header, module_of,
};
pub use peer::PeerHooks;
pub use pointer::StaticPtr;
pub use status::Status;
pub use streams::StreamHooks;
pub use table::{
    ABI_MAJOR, ABI_MINOR, C_ENTRY_SYMBOL, DESCRIPTION_MAGIC, PluginTable, PluginTableRef,
};
pub use types::{
    Address, AddressForm, AdoptFlags, AllocateArgs, Capabilities, CopyArgs, DefaultStream,
    DeviceInfo, EventHandle, FillArgs, MemoryInfo, MemoryKind, MemoryUsage, PluginHandle,
    PointerFlags, PointerInfo, ProbeInfo, ProbeState, QueryCost, Side, StreamHandle, StridedArgs,
};
