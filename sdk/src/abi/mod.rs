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
//! | `types` | handles, addresses, argument and answer structs |
//! | `error` | the error object a plugin makes and frees |
//! | `table` | the table and its mandatory hooks |
//! | `groups`, `streams` | the optional groups |
//! | `pointer` | pointers to constants |
//! | `module` | the `abi_stable` root module that carries a Rust plugin's table |

mod error;
mod groups;
mod module;
mod pointer;
mod status;
mod streams;
mod table;
mod types;

pub use error::{RawError, Text};
pub use groups::{
    AdoptHooks, AsyncMemoryHooks, AttributeHooks, FillHooks, HostCallHooks, HostEventHooks,
    MapHooks, PoolHooks, RegisterHooks, StridedHooks, TimingHooks, WrapHooks,
};
pub use module::{
    ExportedHeader, PrefixedTable, ROOT_SYMBOL, StaticTable, address_of, exported_header, module_of,
};
pub use pointer::StaticPtr;
pub use status::Status;
pub use streams::StreamHooks;
pub use table::{
    ABI_MAJOR, ABI_MINOR, C_ENTRY_SYMBOL, DESCRIPTION_MAGIC, PluginTable, PluginTableRef,
};
pub use types::{
    Address, AddressForm, AdoptFlags, AllocateArgs, Capabilities, CopyArgs, DefaultStream,
    DeviceInfo, EventHandle, FillArgs, HostFunction, HostServices, MemoryInfo, MemoryKind,
    MemoryUsage, PluginHandle, PointerFlags, PointerInfo, ProbeInfo, ProbeState, QueryCost, Side,
    StreamHandle, StridedArgs,
};
