//! The `abi_stable` root module that carries a Rust plugin's table.
#![expect(
    unsafe_code,
    reason = "an exported header is unsafe to make: its constructor's type is erased"
)]

use core::ptr::NonNull;

use abi_stable::library::{
    CheckTypeLayout, LibHeader, RootModule, RootModuleError, RootModuleResult,
};
use abi_stable::package_version_strings;
use abi_stable::prefix_type::{PrefixRef, PrefixRefTrait, WithMetadata};
use abi_stable::sabi_types::VersionStrings;
use abi_stable::std_types::{RErr, ROk};

use super::{PluginTable, PluginTableRef};
use crate::fence::fence;

/// What the export macro puts under [`ROOT_SYMBOL`].
pub type ExportedHeader = LibHeader;

/// A table with the metadata that `abi_stable` keeps before it.
pub type PrefixedTable = WithMetadata<PluginTable>;

/// The symbol that a Rust plugin exports; `abi_stable`'s mangled `root_module_loader`.
pub const ROOT_SYMBOL: &str = "_1as_0lib_1header_0root_bmodule_bloader";

impl RootModule for PluginTableRef {
    abi_stable::declare_root_module_statics! {PluginTableRef}
    const BASE_NAME: &'static str = "crossdock_plugin";
    const NAME: &'static str = "crossdock_plugin";
    const VERSION_STRINGS: VersionStrings = package_version_strings!();
}

/// The address of the table inside a checked root module: what a C plugin's entry returns as well.
///
/// The reference itself points at the metadata before the table.
#[must_use]
pub fn address_of(module: PluginTableRef) -> NonNull<PluginTable> {
    let prefixed = PrefixRefTrait::to_prefix_ref(module).to_raw_ptr();
    // SAFETY: a `PrefixRef` points at a `WithMetadata` that lives as long as the process, so the
    // place of its field `value` is inside it.
    let value = unsafe { &raw const (*prefixed).value };
    // SAFETY: the place of a field of a live object is not null.
    unsafe { NonNull::new_unchecked(value.cast_mut().cast::<PluginTable>()) }
}

/// The header for a plugin whose constructor hands out `TABLE`.
#[must_use]
pub const fn exported_header<S: StaticTable>() -> ExportedHeader {
    // SAFETY: `construct` erases a `PrefixRef` of exactly the prefix type named here.
    unsafe { LibHeader::from_constructor::<PluginTableRef>(construct::<S>, CheckTypeLayout::Yes) }
}

/// A type that knows a table which lives as long as the process.
pub trait StaticTable: 'static {
    /// The table with its metadata.
    const PREFIXED: &'static PrefixedTable;
}

/// The root module of a static table, as a plugin's constructor gives it.
#[must_use]
pub fn module_of<S: StaticTable>() -> PluginTableRef {
    PluginTableRef(S::PREFIXED.static_as_prefix())
}

/// Called by the host's `abi_stable`.
extern "C" fn construct<S: StaticTable>() -> RootModuleResult {
    let table = fence(|| S::PREFIXED.static_as_prefix());
    // SAFETY: erasing the type of a prefix is what `RootModuleResult` is defined as; the host
    // casts it back after comparing layouts.
    let erased = table.map(|table: PrefixRef<_>| unsafe { table.cast() });
    erased.map_or(RErr(RootModuleError::Unwound), ROk)
}
