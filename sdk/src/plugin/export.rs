//! From a type that implements `Plugin` to the table and symbols of a plugin file.

use core::marker::PhantomData;
use core::ptr::NonNull;

use super::{Plugin, shims};
use crate::abi::{
    ABI_MAJOR, ABI_MINOR, ExportedHeader, PluginTable, PrefixedTable, StaticPtr, StaticTable,
    exported_header,
};

/// Carries the table of `P`.
#[derive(Debug)]
pub struct TableOf<P>(PhantomData<fn() -> P>);

impl<P: Plugin> StaticTable for TableOf<P> {
    const PREFIXED: &'static PrefixedTable = &PrefixedTable::new(table::<P>());
}

/// Carries the table of `P` as a plugin file exports it: `open` connects the file's `log` first.
#[derive(Debug)]
pub struct FileTableOf<P>(PhantomData<fn() -> P>);

impl<P: Plugin> StaticTable for FileTableOf<P> {
    const PREFIXED: &'static PrefixedTable = &PrefixedTable::new(PluginTable {
        open: Some(shims::Life::<P>::open_in_file),
        ..table::<P>()
    });
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the table is some hundred bytes long, and a constant cannot convert with a check"
)]
const fn table<P: Plugin>() -> PluginTable {
    let groups = P::GROUPS;
    PluginTable {
        struct_size: size_of::<PluginTable>() as u32,
        abi_major: ABI_MAJOR,
        abi_minor: ABI_MINOR,
        query_cost: P::QUERY_COST,
        reserved: [0; 2],
        description: StaticPtr::text(P::DESCRIPTION),
        error_free: Some(shims::error_free),
        probe: Some(shims::Life::<P>::probe),
        open: Some(shims::Life::<P>::open),
        device_count: Some(shims::Mandatory::<P>::device_count),
        device_info: Some(shims::Mandatory::<P>::device_info),
        memory_info: Some(shims::Mandatory::<P>::memory_info),
        allocate: Some(shims::Mandatory::<P>::allocate),
        free: Some(shims::Mandatory::<P>::free),
        copy: Some(shims::Mandatory::<P>::copy),
        pointer_query: Some(shims::Mandatory::<P>::pointer_query),
        retire: Some(shims::Mandatory::<P>::retire),
        at_fork_child: Some(shims::Life::<P>::at_fork_child),
        at_exit: Some(shims::Life::<P>::at_exit),
        close: Some(shims::Life::<P>::close),
        streams: groups.streams,
        wrap: groups.wrap,
        host_events: groups.host_events,
        host_calls: groups.host_calls,
        timing: groups.timing,
        strided: groups.strided,
        fill: groups.fill,
        register: groups.register,
        adopt: groups.adopt,
        map: groups.map,
        async_memory: groups.async_memory,
        attributes: groups.attributes,
        pool: groups.pool,
        peer: groups.peer,
    }
}

/// The table of `P`, for a host that links the plugin in.
#[must_use]
pub fn table_of<P: Plugin>() -> NonNull<PluginTable> {
    crate::abi::address_of(crate::abi::module_of::<TableOf<P>>())
}

/// The header that [`export_plugin!`](crate::export_plugin) exports.
#[must_use]
pub const fn header_of<P: Plugin>() -> ExportedHeader {
    exported_header::<FileTableOf<P>>()
}

/// The description's bytes, for the section `.crossdock`.
///
/// # Panics
/// At compile time, when `N` is not the text's length.
#[must_use]
pub const fn description_bytes<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(text.as_bytes());
    bytes
}

/// Makes a plugin's self-description: `describe!(name = "mine", vendor = "me", devices = "ext_dev")`.
///
/// `devices` lists the DLPack device types, comma-separated; the version is the crate's. A plugin that
/// starts a vendor's driver names its library behind that, as it is opened: `driver = "libcuda.so.1"`.
/// A host whose search finds the file calls `probe` and `open` when somebody first needs a device of these
/// types; one that is told to load the file, at once, as it does without a driver.
///
/// No driver works in the child of a fork once the parent started it, so there the plugin is opened
/// only if its driver was not started before. One without is opened anew after `at_fork_child`, and what
/// the host reaches of its memory is private to the process (no `MAP_SHARED`): a child uses its copy of it.
#[macro_export]
macro_rules! describe {
    (
        name = $name:literal,
        vendor = $vendor:literal,
        devices = $devices:literal
        $(, driver = $driver:literal)? $(,)?
    ) => {
        concat!(
            "CROSSDOCK1\0name=",
            $name,
            "\0vendor=",
            $vendor,
            "\0version=",
            env!("CARGO_PKG_VERSION"),
            "\0abi=",
            $crate::abi_number!(major),
            ".",
            $crate::abi_number!(minor),
            "\0devices=",
            $devices,
            $("\0driver=", $driver,)?
            "\0\0"
        )
    };
}

/// Exports a type that implements [`Plugin`] from a `cdylib`: its root module under
/// [`ROOT_SYMBOL`](crate::abi::ROOT_SYMBOL), and its description in the section `.crossdock`.
///
/// What the file logs through [`log`](crate::log) goes to the host's log from `open` on. `close` drops the plugin,
/// so its `Drop` is the end of it ([`Plugin`] says when that runs); the file stays loaded.
#[macro_export]
macro_rules! export_plugin {
    ($plugin:ty) => {
        const _: () = {
            const TEXT: &str = <$plugin as $crate::plugin::Plugin>::DESCRIPTION;

            // SAFETY: the section is read by hosts only, as bytes, and no linker gives it meaning.
            #[unsafe(link_section = ".crossdock")]
            #[used]
            static DESCRIPTION: [u8; TEXT.len()] = $crate::plugin::description_bytes(TEXT);

            // SAFETY: a plugin file exports this symbol once, with the type that hosts expect.
            #[unsafe(export_name = "_1as_0lib_1header_0root_bmodule_bloader")]
            #[expect(non_upper_case_globals, reason = "the symbol's name is given")]
            static crossdock_root_module: $crate::abi::ExportedHeader =
                $crate::plugin::header_of::<$plugin>();
        };
    };
}
