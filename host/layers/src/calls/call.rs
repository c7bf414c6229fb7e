//! Every hook once: the call as data, the C function of a layer's table, and that table.
#![expect(
    unsafe_code,
    reason = "the functions of a table are C functions, and call those of another"
)]

use std::ffi::c_void;

use crossdock_sdk::abi::{
    Address, AdoptFlags, AdoptHooks, AllocateArgs, AsyncMemoryHooks, AttributeHooks, CopyArgs,
    DefaultStream, DeviceInfo, EventHandle, FillArgs, FillHooks, HostCallHooks, HostEventHooks,
    HostFunction, MapHooks, MemoryInfo, MemoryKind, MemoryUsage, PeerHooks, PluginHandle,
    PluginTable, PointerInfo, PoolHooks, RegisterHooks, StaticPtr, Status, StreamHandle,
    StreamHooks, StridedArgs, StridedHooks, TimingHooks, WrapHooks,
};
use crossdock_sdk::fence::{fence, fence_with_message};

use crate::calls::arguments::Argument;
use crate::calls::describe::Describe;
use crate::calls::layered::{Layered, answer, error_free};
use crate::contract::table::ErrorOut;
use crate::contract::table::Table;

/// The C function of a hook, which `$find`s the same hook of the table inside.
macro_rules! shim {
    ($Variant:ident $hook:ident($($arg:ident: $ty:ty),*), $find:expr) => {
        unsafe extern "C" fn $hook(
            plugin: PluginHandle,
            $($arg: $ty,)*
            error: ErrorOut,
        ) -> Status {
            let work = || {
                // SAFETY: the host calls this table with the handle that was made for it.
                let layered = unsafe { Layered::of(plugin) };
                let find: fn(&Table) -> _ = $find;
                let Some(hook) = find(layered.table()) else {
                    return Err(Layered::missing(stringify!($hook)));
                };
                // SAFETY: the caller keeps to this hook's contract.
                $(let $arg = unsafe { Argument::hold($arg) };)*
                let call = Call::$Variant { $($arg: <$ty as Argument>::seen(&$arg)),* };
                // SAFETY: the caller's own arguments, to the hook that they are meant for.
                let inner = |error| unsafe {
                    hook(layered.handle(), $(<$ty as Argument>::pass(&$arg),)* error)
                };
                layered.through(&call, inner)?;
                // SAFETY: the caller's out parameters are valid until this function returns.
                $(unsafe { <$ty as Argument>::deliver(&$arg) };)*
                Ok(())
            };
            // SAFETY: `error` is the caller's: NULL or valid for a write.
            unsafe { answer(error, fence_with_message(work)) }
        }
    };
}

macro_rules! hooks {
    (
        mandatory { $($Must:ident $must:ident($($arg:ident: $ty:ty),*);)* }
        $($group:ident: $Hooks:ident {
            $($Variant:ident $hook:ident($($garg:ident: $gty:ty),*);)*
        })*
    ) => {
        /// One call of a hook.
        pub(crate) enum Call<'a> {
            $($Must { $($arg: <$ty as Argument>::Seen<'a>),* },)*
            $($($Variant { $($garg: <$gty as Argument>::Seen<'a>),* },)*)*
        }

        impl Call<'_> {
            /// Every hook that a layer can be around.
            pub(crate) const NAMES: &'static [&'static str] =
                &[$(stringify!($must),)* $($(stringify!($hook),)*)*];

            /// The hook's name.
            pub(crate) const fn hook(&self) -> &'static str {
                match self {
                    $(Self::$Must { .. } => stringify!($must),)*
                    $($(Self::$Variant { .. } => stringify!($hook),)*)*
                }
            }

            /// Shows every argument with its name.
            pub(crate) fn each(&self, mut show: impl FnMut(&'static str, &dyn Describe)) {
                match self {
                    $(Self::$Must { $($arg),* } => { $(show(stringify!($arg), $arg);)* })*
                    $($(Self::$Variant { $($garg),* } => {
                        $(show(stringify!($garg), $garg);)*
                    })*)*
                }
            }
        }

        $(shim!($Must $must($($arg: $ty),*), |table| table.raw().$must);)*
        $($(shim!(
            $Variant $hook($($garg: $gty),*),
            |table| table.$group().and_then(|group| group.$hook)
        );)*)*

        /// The table of a layer around `inner`: every hook is ours, and a group is there where
        /// `inner` has it.
        pub(crate) fn table_around(inner: &Table) -> PluginTable {
            PluginTable {
                struct_size: TABLE_BYTES,
                error_free: Some(error_free),
                $($must: Some($must),)*
                at_fork_child: Some(at_fork_child),
                at_exit: Some(at_exit),
                $($group: inner.$group().map_or(StaticPtr::NULL, |_| {
                    StaticPtr::new(const { &$Hooks { $($hook: Some($hook)),* } })
                }),)*
                // `probe` and `open` carry no handle: the host calls the plugin's own.
                ..*inner.raw()
            }
        }
    };
}

hooks! {
    mandatory {
        DeviceCount device_count(count: *mut u32);
        DeviceInfo device_info(device: u32, info: *mut DeviceInfo);
        MemoryInfo memory_info(device: u32, info: *mut MemoryInfo);
        Allocate allocate(args: *const AllocateArgs, address: *mut Address);
        Free free(address: *const Address, kind: MemoryKind);
        Copy copy(args: *const CopyArgs, stream: StreamHandle);
        PointerQuery pointer_query(address: *const Address, info: *mut PointerInfo);
        Retire retire(deadline_ns: u64);
        Close close();
    }
    streams: StreamHooks {
        StreamCreate stream_create(device: u32, stream: *mut StreamHandle);
        StreamDefault stream_default(device: u32, which: DefaultStream, stream: *mut StreamHandle);
        StreamNative stream_native(stream: StreamHandle, native: *mut u64);
        StreamDestroy stream_destroy(stream: StreamHandle);
        StreamSynchronize stream_synchronize(stream: StreamHandle, timeout_ns: u64);
        StreamQuery stream_query(stream: StreamHandle);
        StreamWaitEvent stream_wait_event(stream: StreamHandle, event: EventHandle);
        EventCreate event_create(device: u32, event: *mut EventHandle);
        EventRecord event_record(event: EventHandle, stream: StreamHandle);
        EventQuery event_query(event: EventHandle);
        EventSynchronize event_synchronize(event: EventHandle, timeout_ns: u64);
        EventDestroy event_destroy(event: EventHandle);
    }
    wrap: WrapHooks {
        StreamWrap stream_wrap(device: u32, native: u64, stream: *mut StreamHandle);
    }
    host_events: HostEventHooks {
        EventCreateHost event_create_host(device: u32, event: *mut EventHandle);
        EventComplete event_complete(event: EventHandle, status: Status);
    }
    host_calls: HostCallHooks {
        StreamHost stream_host_call(
            stream: StreamHandle, function: HostFunction, word: *mut c_void
        );
    }
    timing: TimingHooks {
        EventElapsed event_elapsed(start: EventHandle, end: EventHandle, elapsed_ns: *mut u64);
    }
    strided: StridedHooks {
        CopyStrided copy_strided(args: *const StridedArgs, stream: StreamHandle);
    }
    fill: FillHooks {
        Fill fill(args: *const FillArgs, stream: StreamHandle);
    }
    register: RegisterHooks {
        RegisterHost register_host(device: u32, pointer: *mut c_void, size: u64);
        UnregisterHost unregister_host(device: u32, pointer: *mut c_void);
    }
    adopt: AdoptHooks {
        Adopt adopt(
            device: u32,
            foreign: *const Address,
            kind: MemoryKind,
            size: u64,
            flags: AdoptFlags,
            address: *mut Address
        );
        ReleaseAdopted release_adopted(device: u32, address: *const Address);
    }
    map: MapHooks {
        Map map(device: u32, address: *const Address, size: u64, pointer: *mut *mut c_void);
        Unmap unmap(device: u32, address: *const Address, pointer: *mut c_void);
    }
    async_memory: AsyncMemoryHooks {
        AllocateAsync allocate_async(stream: StreamHandle, size: u64, address: *mut Address);
        FreeAsync free_async(stream: StreamHandle, address: *const Address);
    }
    attributes: AttributeHooks {
        DeviceAttribute device_attribute(device: u32, key: u32, value: *mut u64);
    }
    pool: PoolHooks {
        MemoryTrim memory_trim(device: u32, keep_bytes: u64);
        MemoryUsage memory_usage(device: u32, usage: *mut MemoryUsage);
        MemoryResetPeaks memory_reset_peaks(device: u32);
    }
    peer: PeerHooks {
        PeerCanAccess peer_can_access(device: u32, peer: u32, can: *mut u32);
        PeerEnable peer_enable(device: u32, peer: u32);
        PeerDisable peer_disable(device: u32, peer: u32);
    }
}

/// No layer looks at this: the child of a fork touches no lock.
unsafe extern "C" fn at_fork_child(plugin: PluginHandle) {
    let _caught = fence(|| {
        // SAFETY: the host calls this table with the handle that was made for it.
        let layered = unsafe { Layered::of(plugin) };
        if let Some(hook) = layered.table().raw().at_fork_child {
            // SAFETY: the handle that the table inside gave.
            unsafe { hook(layered.handle()) };
        }
    });
}

/// No layer looks at this: the process is exiting.
unsafe extern "C" fn at_exit(plugin: PluginHandle) {
    let _caught = fence(|| {
        // SAFETY: the host calls this table with the handle that was made for it.
        let layered = unsafe { Layered::of(plugin) };
        if let Some(hook) = layered.table().raw().at_exit {
            // SAFETY: the handle that the table inside gave.
            unsafe { hook(layered.handle()) };
        }
    });
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the table has a few dozen words"
)]
const TABLE_BYTES: u32 = size_of::<PluginTable>() as u32;
