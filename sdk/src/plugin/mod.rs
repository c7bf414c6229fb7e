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
//! In a `cdylib`, one more line makes the file: `crossdock_sdk::export_plugin!(Nothing);`. Every
//! hook runs behind the panic fence; a plugin author writes no `extern` function.

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
    Adopt, AsyncMemory, Attributes, Fill, HostCalls, HostEvents, Map, Plugin, Register, Streams,
    Strided, Timing, Wrap,
};

pub use crate::describe;
pub use log::Level;
