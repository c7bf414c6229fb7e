//! A plugin's table as the host reads it: by its own size, checked hook by hook.
#![expect(unsafe_code, reason = "reads a struct of another library")]

use std::ptr::NonNull;

use crossdock_sdk::abi::{
    ABI_MAJOR, ABI_MINOR, AdoptHooks, AsyncMemoryHooks, AttributeHooks, Capabilities, FillHooks,
    HostCallHooks, HostEventHooks, MapHooks, PeerHooks, PluginTable, PoolHooks, QueryCost,
    RawError, RegisterHooks, StreamHooks, StridedHooks, TimingHooks, WrapHooks,
};

/// Why a table was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Another major version of the contract.
    #[error(
        "it was built for plugin ABI {plugin_major}.{plugin_minor}; \
         this host speaks {ABI_MAJOR}.{ABI_MINOR}"
    )]
    Version {
        /// The plugin's major version.
        plugin_major: u32,
        /// The plugin's minor version.
        plugin_minor: u32,
    },
    /// Too short to hold the mandatory hooks.
    #[error("its table has {size} bytes; the mandatory hooks need {needed}")]
    Short {
        /// The size it claims.
        size: u32,
        /// The size that is needed.
        needed: usize,
    },
    /// Longer than a table of its version is.
    #[error(
        "its table has {size} bytes, and one of version {ABI_MAJOR}.{minor} has {most} at most"
    )]
    Long {
        /// The size it claims.
        size: u32,
        /// The plugin's minor version.
        minor: u32,
        /// The size of this host's table.
        most: usize,
    },
    /// A mandatory hook is NULL.
    #[error("its mandatory hook `{hook}` is NULL")]
    MissingHook {
        /// The hook.
        hook: &'static str,
    },
    /// A hook of a group that is there is NULL.
    #[error("its group `{group}` lacks the hook `{hook}`")]
    PartialGroup {
        /// The group.
        group: &'static str,
        /// The hook.
        hook: &'static str,
    },
    /// Reserved words that say something, in a version in which they say nothing.
    #[error("its reserved words are {words:?}, and not zero")]
    Reserved {
        /// The words.
        words: [u32; 2],
    },
}

/// Where a hook leaves its error object.
pub type ErrorOut = *mut *mut RawError;

/// A checked copy of a plugin's table. What lies beyond the plugin's own size reads as absent.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    raw: PluginTable,
}

impl Table {
    /// Reads and checks the table at `address`.
    ///
    /// # Errors
    /// What is wrong with it.
    ///
    /// # Safety
    /// - `address` points at a table whose first four words can be read and that has `struct_size`
    ///   bytes, made of hooks and groups that stay valid until the process ends.
    pub unsafe fn read(address: NonNull<PluginTable>) -> Result<Self, TableError> {
        // SAFETY: the head can be read, by the caller's promise, and begins with these words.
        let head = unsafe { address.cast::<Head>().read() };
        let Head { size, major, minor } = head;
        if major != ABI_MAJOR {
            return Err(TableError::Version {
                plugin_major: major,
                plugin_minor: minor,
            });
        }
        let known = (size as usize).min(size_of::<PluginTable>());
        if known < MANDATORY_BYTES {
            return Err(TableError::Short {
                size,
                needed: MANDATORY_BYTES,
            });
        }
        // What a later version adds is not known here.
        let most = size_of::<PluginTable>();
        if (0..=ABI_MINOR).contains(&minor) && size as usize > most {
            return Err(TableError::Long { size, minor, most });
        }
        let mut raw = std::mem::MaybeUninit::<PluginTable>::zeroed();
        // SAFETY: the plugin's table has `size` bytes, ours are at least `known`; they are apart.
        unsafe {
            std::ptr::copy_nonoverlapping(
                address.as_ptr().cast::<u8>(),
                raw.as_mut_ptr().cast::<u8>(),
                known,
            );
        }
        // SAFETY: integers, raw pointers and optional functions: zero is a value of each.
        let raw = unsafe { raw.assume_init() };
        let table = Self { raw };
        table.check_mandatory()?;
        table.check_groups()?;
        // What they say in a later version is nothing that this host has to know.
        let words = raw.reserved;
        if (0..=ABI_MINOR).contains(&minor) && words != [0; 2] {
            return Err(TableError::Reserved { words });
        }
        Ok(table)
    }

    /// The copy itself.
    #[inline]
    #[must_use]
    pub const fn raw(&self) -> &PluginTable {
        &self.raw
    }

    /// What an answer of its pointer query costs.
    #[must_use]
    pub const fn query_cost(&self) -> QueryCost {
        self.raw.query_cost
    }

    /// Whether its pointer query has to ask the driver.
    #[must_use]
    pub fn asks_driver(&self) -> bool {
        self.query_cost() != QueryCost::TABLE
    }

    /// The first of these capabilities whose group is absent, and that group. Bits of later versions have
    /// groups that this host does not know.
    #[must_use]
    pub fn lacking(&self, claimed: Capabilities) -> Option<(&'static str, &'static str)> {
        let groups = [
            (
                Capabilities::ASYNC_COPY,
                "streams",
                self.streams().is_some(),
            ),
            (
                Capabilities::STRIDED_COPY,
                "strided",
                self.strided().is_some(),
            ),
            (
                Capabilities::SUB_BYTE_STRIDES,
                "strided",
                self.strided().is_some(),
            ),
            (
                Capabilities::POLLED_HOST_CALLS,
                "host_calls",
                self.host_calls().is_some(),
            ),
            (Capabilities::FILL, "fill", self.fill().is_some()),
            (
                Capabilities::REGISTER,
                "register",
                self.register().is_some(),
            ),
            (Capabilities::ADOPT_HOST, "adopt", self.adopt().is_some()),
            (Capabilities::ADOPT_NATIVE, "adopt", self.adopt().is_some()),
            (Capabilities::TIMING, "timing", self.timing().is_some()),
            (
                Capabilities::HOST_EVENTS,
                "host_events",
                self.host_events().is_some(),
            ),
        ];
        let is_lacking =
            |(capability, _, is_there): &(_, _, bool)| claimed.contains(*capability) && !is_there;
        let (capability, group, _) = groups.into_iter().find(is_lacking)?;
        let mut names = Capabilities::NAMES.iter();
        let (_, name) = names.find(|(named, _)| *named == capability)?;
        Some((name, group))
    }

    fn check_mandatory(&self) -> Result<(), TableError> {
        macro_rules! check {
            ($($hook:ident)*) => {$(
                if self.raw.$hook.is_none() {
                    return Err(TableError::MissingHook { hook: stringify!($hook) });
                }
            )*};
        }
        check!(error_free probe open device_count device_info memory_info allocate free copy);
        check!(pointer_query retire at_fork_child at_exit close);
        Ok(())
    }
}

/// The words that every table of every version begins with.
#[repr(C)]
#[derive(Clone, Copy)]
struct Head {
    size: u32,
    major: u32,
    minor: u32,
}

/// Bytes up to the first optional group.
const MANDATORY_BYTES: usize = std::mem::offset_of!(PluginTable, streams);

macro_rules! groups {
    ($($group:ident: $hooks:ident { $($hook:ident)* })*) => {
        impl Table {
            $(
                #[doc = concat!("The group `", stringify!($group), "`, where it is there.")]
                #[inline]
                #[must_use]
                pub fn $group(&self) -> Option<&'static $hooks> {
                    // SAFETY: NULL, or a group that stays valid until the process ends.
                    unsafe { self.raw.$group.as_ptr().as_ref() }
                }
            )*

            fn check_groups(&self) -> Result<(), TableError> {
                $(
                    if let Some(group) = self.$group() {
                        $(if group.$hook.is_none() {
                            return Err(TableError::PartialGroup {
                                group: stringify!($group),
                                hook: stringify!($hook),
                            });
                        })*
                    }
                )*
                Ok(())
            }
        }
    };
}

groups! {
    streams: StreamHooks {
        stream_create stream_default stream_native stream_destroy stream_synchronize stream_query
        stream_wait_event event_create event_record event_query event_synchronize event_destroy
    }
    wrap: WrapHooks { stream_wrap }
    host_events: HostEventHooks { event_create_host event_complete }
    host_calls: HostCallHooks { stream_host_call }
    timing: TimingHooks { event_elapsed }
    strided: StridedHooks { copy_strided }
    fill: FillHooks { fill }
    register: RegisterHooks { register_host unregister_host }
    adopt: AdoptHooks { adopt release_adopted }
    map: MapHooks { map unmap }
    async_memory: AsyncMemoryHooks { allocate_async free_async }
    attributes: AttributeHooks { device_attribute }
    pool: PoolHooks { memory_trim memory_usage memory_reset_peaks }
    peer: PeerHooks { peer_can_access peer_enable peer_disable }
}
