//! The `extern "C"` functions behind a table: each reads its arguments, crosses the panic fence,
//! calls the trait, and turns the answer into a status.
#![expect(unsafe_code, reason = "this is the boundary")]

use core::ffi::c_void;
use core::marker::PhantomData;

use super::{Error, Host, Plugin};
use crate::abi::{
    Address, AdoptFlags, AllocateArgs, CopyArgs, DefaultStream, DeviceInfo, EventHandle, FillArgs,
    HostFunction, HostServices, MemoryInfo, MemoryKind, MemoryUsage, PluginHandle, PointerInfo,
    ProbeInfo, RawError, Status, StreamHandle, StridedArgs,
};
use crate::fence::{fence, fence_with_message};

type ErrorOut = *mut *mut RawError;

/// An argument as it crosses: read and checked before the trait sees it.
trait Argument {
    type Read;

    /// # Safety
    /// - A pointer is NULL or valid for reads of what it points at.
    unsafe fn read(self) -> Result<Self::Read, Error>;
}

macro_rules! plain_arguments {
    ($($plain:ty),*) => {$(
        impl Argument for $plain {
            type Read = Self;

            unsafe fn read(self) -> Result<Self, Error> {
                Ok(self)
            }
        }
    )*};
}
plain_arguments!(
    u32,
    u64,
    StreamHandle,
    EventHandle,
    MemoryKind,
    AdoptFlags,
    DefaultStream,
    Status
);
plain_arguments!(HostFunction, *mut c_void);

impl<T: Copy> Argument for *const T {
    type Read = T;

    unsafe fn read(self) -> Result<T, Error> {
        if self.is_null() {
            return Err(null("an argument struct"));
        }
        // SAFETY: not NULL, and the caller promises that it can be read.
        Ok(unsafe { core::ptr::read(self) })
    }
}

fn null(what: &'static str) -> Error {
    Error::new(Status::INVALID, "hook", format!("{what} is NULL"))
}

/// Runs `body` behind the panic fence and reports its failure through `error`.
///
/// # Safety
/// - `error` is NULL or valid for a write.
unsafe fn fenced(error: ErrorOut, body: impl FnOnce() -> Result<(), Error>) -> Status {
    let failure = match fence_with_message(body) {
        Ok(Ok(())) => return Status::OK,
        Ok(Err(failure)) => failure,
        Err(panic) => Error::new(
            Status::PANIC,
            "hook",
            format!("the plugin panicked: {panic}"),
        ),
    };
    let status = failure.status();
    // A poll that says "not yet" says all there is to say, and allocates nothing.
    if !error.is_null() && status != Status::NOT_READY {
        // SAFETY: not NULL, and valid for a write by the caller's promise.
        unsafe { error.write(failure.into_raw()) };
    }
    status
}

/// Runs `body` on the plugin behind the fence and writes its answer to `out`.
///
/// # Safety
/// - `plugin` is a live handle that `open` of the same `P` gave.
/// - `out` is NULL or valid for a write; so is `error`.
unsafe fn fenced_answer<P: Plugin, T>(
    plugin: PluginHandle,
    out: *mut T,
    error: ErrorOut,
    body: impl FnOnce(&P) -> Result<T, Error>,
) -> Status {
    let work = || {
        if out.is_null() {
            return Err(null("the out parameter"));
        }
        // SAFETY: `plugin` is live by the caller's promise.
        let answer = body(unsafe { instance::<P>(plugin) }?)?;
        // SAFETY: not NULL, and valid for a write by the caller's promise.
        unsafe { out.write(answer) };
        Ok(())
    };
    // SAFETY: forwarded.
    unsafe { fenced(error, work) }
}

/// # Safety
/// - `plugin` is none, or a live handle that `open` of the same `P` gave.
unsafe fn instance<'a, P>(plugin: PluginHandle) -> Result<&'a P, Error> {
    let address = usize::try_from(plugin.raw()).map_err(|_too_wide| null("the plugin handle"))?;
    let pointer = core::ptr::with_exposed_provenance::<P>(address);
    // SAFETY: NULL or, by the caller's promise, the live `P` that `open` exposed.
    unsafe { pointer.as_ref() }.ok_or_else(|| null("the plugin handle"))
}

/// Frees an error object of this library.
pub(super) unsafe extern "C" fn error_free(error: *mut RawError) {
    // SAFETY: the host gives back what a hook of this library made, once.
    let free = || unsafe { Error::free_raw(error) };
    let _caught = fence(free);
}

/// The hooks of a plugin's life, which make, end or do without an instance.
pub(super) struct Life<P>(PhantomData<P>);

impl<P: Plugin> Life<P> {
    pub(super) unsafe extern "C" fn probe(out: *mut ProbeInfo, error: ErrorOut) -> Status {
        let work = || {
            if out.is_null() {
                return Err(null("the out parameter"));
            }
            let info = P::probe()?;
            // SAFETY: not NULL, and the host's to be written.
            unsafe { out.write(info) };
            Ok(())
        };
        // SAFETY: `error` is the host's, NULL or valid for a write.
        unsafe { fenced(error, work) }
    }

    pub(super) unsafe extern "C" fn open(
        host: *const HostServices,
        out: *mut PluginHandle,
        error: ErrorOut,
    ) -> Status {
        let work = || {
            // SAFETY: the host keeps its services alive until the process ends.
            let host = unsafe { Host::from_raw(host) };
            // SAFETY: `out` is the host's, NULL or valid for a write.
            unsafe { Self::open_with(host, out) }
        };
        // SAFETY: `error` is the host's, NULL or valid for a write.
        unsafe { fenced(error, work) }
    }

    /// `open` of a plugin file, whose `log` is not the host's and is connected first.
    pub(super) unsafe extern "C" fn open_in_file(
        host: *const HostServices,
        out: *mut PluginHandle,
        error: ErrorOut,
    ) -> Status {
        let work = || {
            // SAFETY: the host keeps its services alive until the process ends.
            let host = unsafe { Host::from_raw(host) };
            // SAFETY: `out` is the host's, NULL or valid for a write.
            unsafe { Self::open_with(host.with_log(), out) }
        };
        // SAFETY: `error` is the host's, NULL or valid for a write.
        unsafe { fenced(error, work) }
    }

    /// # Safety
    /// - `out` is NULL or valid for a write.
    unsafe fn open_with(host: Host, out: *mut PluginHandle) -> Result<(), Error> {
        if out.is_null() {
            return Err(null("the out parameter"));
        }
        let word = Box::into_raw(Box::new(P::open(host)?)).expose_provenance();
        // SAFETY: not NULL, and valid for a write by the caller's promise.
        unsafe { out.write(PluginHandle::from_raw(word as u64)) };
        Ok(())
    }

    pub(super) unsafe extern "C" fn close(plugin: PluginHandle, error: ErrorOut) -> Status {
        let work = || {
            // SAFETY: `plugin` is live: the host closes a handle once.
            let live: &P = unsafe { instance(plugin) }?;
            let pointer = core::ptr::from_ref(live).cast_mut();
            // SAFETY: `open` made it of a `Box<P>`, and the host promises that no other hook runs.
            drop(unsafe { Box::from_raw(pointer) });
            Ok(())
        };
        // SAFETY: `error` is the host's, NULL or valid for a write.
        unsafe { fenced(error, work) }
    }

    pub(super) unsafe extern "C" fn at_fork_child(plugin: PluginHandle) {
        // SAFETY: `plugin` is none or live.
        let live = unsafe { instance::<P>(plugin) };
        let _caught = fence(|| live.map(Plugin::at_fork_child));
    }

    pub(super) unsafe extern "C" fn at_exit(plugin: PluginHandle) {
        // SAFETY: `plugin` is none or live.
        let live = unsafe { instance::<P>(plugin) };
        let _caught = fence(|| live.map(Plugin::at_exit));
    }
}

/// Calls a trait method, inside `unsafe` where the trait says so.
macro_rules! call {
    (safe $call:expr) => {
        $call
    };
    (unsafe $call:expr) => {
        // SAFETY: the method's conditions on memory are the table's, which the host keeps.
        unsafe { $call }
    };
}

/// Writes the shims of one trait: `safe name(argument: Raw) -> Out`.
macro_rules! shims {
    ($bound:ident {
        $($mode:tt $hook:ident($($arg:ident: $raw:ty),*) $(-> $out:ty)?;)*
    } $($table:tt)*) => {
        #[doc = concat!("The hooks of `", stringify!($bound), "`.")]
        pub(super) struct $bound<P>(PhantomData<P>);

        impl<P: super::$bound> $bound<P> {
            $(shims!(@one $mode $bound $hook($($arg: $raw),*) $(-> $out)?);)*
            shims!(@hooks $($table)*; $($hook)*);
        }
    };
    (@one $mode:tt $bound:ident $hook:ident($($arg:ident: $raw:ty),*) -> $out:ty) => {
        pub(super) unsafe extern "C" fn $hook(
            plugin: PluginHandle,
            $($arg: $raw,)*
            out: *mut $out,
            error: ErrorOut,
        ) -> Status {
            let work = |live: &P| {
                // SAFETY: pointers among the arguments are NULL or readable, by the table.
                $(let $arg = unsafe { Argument::read($arg) }?;)*
                call!($mode super::$bound::$hook(live, $($arg),*))
            };
            // SAFETY: the host gives a live handle, and out and error pointers that are NULL or its own.
            unsafe { fenced_answer(plugin, out, error, work) }
        }
    };
    (@one $mode:tt $bound:ident $hook:ident($($arg:ident: $raw:ty),*)) => {
        pub(super) unsafe extern "C" fn $hook(
            plugin: PluginHandle,
            $($arg: $raw,)*
            error: ErrorOut,
        ) -> Status {
            let work = |live: &P| {
                // SAFETY: pointers among the arguments are NULL or readable, by the table.
                $(let $arg = unsafe { Argument::read($arg) }?;)*
                call!($mode super::$bound::$hook(live, $($arg),*))
            };
            let mut done = ();
            // SAFETY: the host gives a live handle, and an error pointer that is NULL or its own.
            unsafe { fenced_answer(plugin, &raw mut done, error, work) }
        }
    };
    (@hooks;  $($hook:ident)*) => {};
    (@hooks $table:ident; $($hook:ident)*) => {
        pub(super) const HOOKS: &'static crate::abi::$table =
            &crate::abi::$table { $($hook: Some(Self::$hook)),* };
    };
}

/// The mandatory hooks that take an instance.
pub(super) struct Mandatory<P>(PhantomData<P>);

impl<P: Plugin> Mandatory<P> {
    pub(super) unsafe extern "C" fn device_count(
        plugin: PluginHandle,
        out: *mut u32,
        error: ErrorOut,
    ) -> Status {
        // SAFETY: the host gives a live handle, and out and error pointers that are NULL or its own.
        unsafe { fenced_answer(plugin, out, error, |live: &P| Ok(live.device_count())) }
    }

    shims!(@one safe Plugin device_info(device: u32) -> DeviceInfo);
    shims!(@one safe Plugin memory_info(device: u32) -> MemoryInfo);
    shims!(@one safe Plugin allocate(args: *const AllocateArgs) -> Address);
    shims!(@one unsafe Plugin free(address: *const Address, kind: MemoryKind));
    shims!(@one unsafe Plugin copy(args: *const CopyArgs, stream: StreamHandle));
    shims!(@one safe Plugin pointer_query(address: *const Address) -> PointerInfo);
    shims!(@one safe Plugin retire(deadline_ns: u64));
}

shims!(Streams {
    safe stream_create(device: u32) -> StreamHandle;
    safe stream_default(device: u32, which: DefaultStream) -> StreamHandle;
    safe stream_native(stream: StreamHandle) -> u64;
    safe stream_destroy(stream: StreamHandle);
    safe stream_synchronize(stream: StreamHandle, timeout_ns: u64);
    safe stream_query(stream: StreamHandle);
    safe stream_wait_event(stream: StreamHandle, event: EventHandle);
    safe event_create(device: u32) -> EventHandle;
    safe event_record(event: EventHandle, stream: StreamHandle);
    safe event_query(event: EventHandle);
    safe event_synchronize(event: EventHandle, timeout_ns: u64);
    safe event_destroy(event: EventHandle);
} StreamHooks);

shims!(Wrap { unsafe stream_wrap(device: u32, native: u64) -> StreamHandle; } WrapHooks);

shims!(HostEvents {
    safe event_create_host(device: u32) -> EventHandle;
    safe event_complete(event: EventHandle, status: Status);
} HostEventHooks);

shims!(HostCalls {
    unsafe stream_host_call(stream: StreamHandle, function: HostFunction, word: *mut c_void);
} HostCallHooks);

shims!(Timing { safe event_elapsed(start: EventHandle, end: EventHandle) -> u64; } TimingHooks);

shims!(Strided {
    unsafe copy_strided(args: *const StridedArgs, stream: StreamHandle);
} StridedHooks);

shims!(Fill { unsafe fill(args: *const FillArgs, stream: StreamHandle); } FillHooks);

shims!(Register {
    unsafe register_host(device: u32, pointer: *mut c_void, size: u64);
    safe unregister_host(device: u32, pointer: *mut c_void);
} RegisterHooks);

shims!(Adopt {
    unsafe adopt(
        device: u32, foreign: *const Address, kind: MemoryKind, size: u64, flags: AdoptFlags
    ) -> Address;
    safe release_adopted(device: u32, adopted: *const Address);
} AdoptHooks);

shims!(Map {
    safe map(device: u32, address: *const Address, size: u64) -> *mut c_void;
    safe unmap(device: u32, address: *const Address, pointer: *mut c_void);
} MapHooks);

shims!(AsyncMemory {
    safe allocate_async(stream: StreamHandle, size: u64) -> Address;
    unsafe free_async(stream: StreamHandle, address: *const Address);
} AsyncMemoryHooks);

shims!(Attributes { safe device_attribute(device: u32, key: u32) -> u64; } AttributeHooks);

shims!(Pool {
    safe memory_trim(device: u32, keep_bytes: u64);
    safe memory_usage(device: u32) -> MemoryUsage;
    safe memory_reset_peaks(device: u32);
} PoolHooks);

/// The hooks of `Peer`.
pub(super) struct Peer<P>(PhantomData<P>);

impl<P: super::Peer> Peer<P> {
    unsafe extern "C" fn peer_can_access(
        plugin: PluginHandle,
        device: u32,
        peer: u32,
        out: *mut u32,
        error: ErrorOut,
    ) -> Status {
        let work = |live: &P| live.peer_can_access(device, peer).map(u32::from);
        // SAFETY: the host gives a live handle, and out and error pointers that are NULL or its own.
        unsafe { fenced_answer(plugin, out, error, work) }
    }

    shims!(@one safe Peer peer_enable(device: u32, peer: u32));
    shims!(@one safe Peer peer_disable(device: u32, peer: u32));
    shims!(@hooks PeerHooks; peer_can_access peer_enable peer_disable);
}
