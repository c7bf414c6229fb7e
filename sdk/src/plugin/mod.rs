//! How a plugin is written in Rust: implement [`Plugin`], name the optional groups, export it.
//!
//! ```
//! use crossdock_sdk::abi::*;
//! use crossdock_sdk::plugin::{Error, Groups, Host, Plugin, describe};
//!
//! struct Nothing;
//!
//! impl Plugin for Nothing {
//!     const DESCRIPTION: &'static str =
//!         describe!(name = "nothing", vendor = "me", devices = "ext_dev");
//!     const GROUPS: Groups<Self> = Groups::new();
//!
//!     fn probe() -> Result<ProbeInfo, Error> {
//!         Ok(ProbeInfo::absent("a device that does nothing: there is none"))
//!     }
//!     fn open(_: Host) -> Result<Self, Error> {
//!         Err(Error::new(Status::NO_DEVICE, "open", "there is no such device"))
//!     }
//!     fn device_count(&self) -> u32 { 0 }
//!     fn device_info(&self, _: u32) -> Result<DeviceInfo, Error> { Err(Error::unsupported("device_info")) }
//!     fn memory_info(&self, _: u32) -> Result<MemoryInfo, Error> { Err(Error::unsupported("memory_info")) }
//!     fn allocate(&self, _: AllocateArgs) -> Result<Address, Error> { Err(Error::unsupported("allocate")) }
//!     unsafe fn free(&self, _: Address, _: MemoryKind) -> Result<(), Error> { Err(Error::unsupported("free")) }
//!     unsafe fn copy(&self, _: CopyArgs, _: StreamHandle) -> Result<(), Error> { Err(Error::unsupported("copy")) }
//!     fn pointer_query(&self, _: Address) -> Result<PointerInfo, Error> { Ok(PointerInfo::default()) }
//! }
//! assert_eq!(Nothing::DESCRIPTION, "CROSSDOCK1\0name=nothing\0vendor=me\0version=1.0.0\0abi=1.0\0devices=ext_dev\0\0");
//! ```
//!
//! In a `cdylib`, one more line makes the file: `crossdock_sdk::export_plugin!(Nothing);`. Under the name
//! `libcrossdock_plugin_NAME.so` hosts find it in the folders that they search (`CROSSDOCK_PLUGIN_PATH`), under any other
//! one where its path is given. Every hook runs behind the panic fence; a plugin author writes no `extern` function.
//!
//! What each plugin needs is here: [`Handles`](crate::handles::Handles) for its streams and events,
//! [`PointerTable`](crate::pointers::PointerTable) for the answer of the pointer query,
//! [`Deadline`](crate::deadline::Deadline) for hooks that wait, [`HostCall`] for host functions, and
//! [`Host::log`] with [`Level`], or the macros of [`log`], for the log.
//! `examples/plugin-rust` of the checkout is a whole plugin with all of them.
//!
//! # What holds for every hook
//! - **Threads.** Any thread may call any hook, and several at once, so what changes lies behind locks or atomics.
//!   One at a time are [`Plugin::probe`], [`Plugin::open`] and [`Plugin::retire`], the end of the plugin (its
//!   `Drop`, after all others), and the hooks that submit to one stream: those of two streams are not.
//! - **Locks.** A hook that submits never blocks. A plugin holds no lock over its vendor's calls, which may run
//!   callbacks of others, nor over a host function, which is the host's code.
//! - **Arguments.** A device is an index below [`Plugin::device_count`]; any other is `INVALID`. A size is never 0.
//!   Arrays are borrowed for the call, memory until the work on it is done.
//! - **Handles** are words of the plugin's choice; 0 is none. The host gives them back as they are; one whose object
//!   is gone is `STALE`. Addresses are asked about by anybody, and one that is not known is an answer.
//! - **Errors.** After one nothing has changed, unless the hook says otherwise. After `UNSUPPORTED` the host tries
//!   another way; any other ends what it was about. What happens to *work* that was submitted is told later,
//!   as [`Streams`] has it. Beside the statuses that a hook names, any may answer `OOM_HOST`, `DEVICE_LOST` and
//!   `VENDOR`.
//! - **Panics** become the answer `PANIC`. The host then calls the plugin no more, except to complete host events
//!   that others wait for.
//! - **The host's services** ([`Host`]) may be kept and used from any thread until the process ends.
//!
//! The contract of each hook, in the same five points everywhere, stands at its field of
//! [`PluginTable`](crate::abi::PluginTable) or of its group, and the suite of `crossdock conform` checks it.

mod error;
mod export;
mod groups;
mod host;
mod host_call;
mod shims;
mod texts;
mod traits;

pub use error::Error;
pub use export::{FileTableOf, TableOf, description_bytes, header_of, table_of};
pub use groups::Groups;
pub use host::Host;
pub use host_call::HostCall;
pub use texts::{fixed_text, read_fixed_text};
pub use traits::{
    Adopt, AsyncMemory, Attributes, Fill, HostCalls, HostEvents, Map, Peer, Plugin, Pool, Register,
    Streams, Strided, Timing, Wrap,
};

pub use crate::describe;
pub use log::Level;
