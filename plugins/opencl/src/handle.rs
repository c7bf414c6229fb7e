//! Owned OpenCL objects: released once, without a panic, and never after a fork or exit.
#![expect(
    unsafe_code,
    reason = "counting references of vendor objects is a vendor call on a raw handle"
)]

use std::{
    ffi::c_void,
    fmt,
    marker::PhantomData,
    ptr::NonNull,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use crossdock_sdk::log;
use opencl3::{command_queue, context::context, event, memory};

use crate::fault::{Fault, Kind};

/// Says whether the driver may still be called from this process.
#[derive(Debug)]
pub(crate) struct DriverState {
    pid: u32,
    exiting: AtomicBool,
    forked: AtomicBool,
    leaked: AtomicU64,
    late: Mutex<Option<Fault>>,
}

impl DriverState {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            pid: std::process::id(),
            exiting: AtomicBool::new(false),
            forked: AtomicBool::new(false),
            leaked: AtomicU64::new(0),
            late: Mutex::new(None),
        })
    }

    /// Answers `Forked` in a child and `Exiting` once the process is ending.
    pub(crate) fn check(&self, operation: &'static str) -> Result<(), Fault> {
        if self.exiting.load(Ordering::Acquire) {
            return Err(Fault::new(
                Kind::Exiting,
                operation,
                "the process is ending; OpenCL is not called any more",
            ));
        }
        if self.forked.load(Ordering::Acquire) || std::process::id() != self.pid {
            self.forked.store(true, Ordering::Release);
            return Err(Fault::new(
                Kind::Forked,
                operation,
                "OpenCL was opened by the parent of this process, and does not survive a fork",
            ));
        }
        Ok(())
    }

    /// From here on nothing of the vendor's is called.
    pub(crate) fn exit(&self) {
        self.exiting.store(true, Ordering::Release);
    }

    /// Called in a child: everything inherited is dead.
    pub(crate) fn forked(&self) {
        self.forked.store(true, Ordering::Release);
    }

    /// How many objects were left alone because the driver could not be called.
    pub(crate) fn leaked(&self) -> u64 {
        self.leaked.load(Ordering::Relaxed)
    }

    /// The failure of an earlier release, told once.
    pub(crate) fn take_late(&self) -> Option<Fault> {
        self.late
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    pub(crate) fn leak(&self) {
        self.leaked.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn record_late(&self, fault: Fault) {
        log::error!(target: TARGET, "{fault}");
        *self.late.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
    }
}

/// One reference to a vendor object, given back on drop.
pub(crate) struct Owned<K: Counted> {
    raw: NonNull<c_void>,
    driver_state: Arc<DriverState>,
    kind: PhantomData<K>,
}

impl<K: Counted> Owned<K> {
    /// Takes over one reference that the caller holds.
    ///
    /// # Safety
    /// - `raw` is null or a live object of kind `K`;
    /// - one of its references belongs to the caller, who gives it away.
    pub(crate) unsafe fn adopt(
        raw: *mut c_void,
        driver_state: &Arc<DriverState>,
        operation: &'static str,
    ) -> Result<Self, Fault> {
        let Some(raw) = NonNull::new(raw) else {
            return Err(Fault::new(
                Kind::Vendor,
                operation,
                format!("`{operation}` reported success and returned no object"),
            ));
        };
        Ok(Self {
            raw,
            driver_state: Arc::clone(driver_state),
            kind: PhantomData,
        })
    }

    /// Adds a reference to somebody else's object.
    ///
    /// # Safety
    /// `raw` is a live object of kind `K`.
    pub(crate) unsafe fn retain(
        raw: *mut c_void,
        driver_state: &Arc<DriverState>,
    ) -> Result<Self, Fault> {
        driver_state.check(K::RETAIN)?;
        // SAFETY: `retain` needs a live object of kind `K`: the caller promises it.
        let status = unsafe { K::retain(raw) };
        status.map_err(|code| Fault::native(K::RETAIN, code))?;
        // SAFETY: `adopt` needs a live object and a reference: the line above made one.
        unsafe { Self::adopt(raw, driver_state, K::RETAIN) }
    }

    /// The vendor's handle, borrowed.
    pub(crate) const fn raw(&self) -> *mut c_void {
        self.raw.as_ptr()
    }

    /// The vendor's handle as the word that others pass around.
    pub(crate) fn word(&self) -> u64 {
        word_of(self.raw.as_ptr())
    }

    pub(crate) const fn driver_state(&self) -> &Arc<DriverState> {
        &self.driver_state
    }
}

impl<K: Counted> fmt::Debug for Owned<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(K::RELEASE).field(&self.raw).finish()
    }
}

impl<K: Counted> Drop for Owned<K> {
    fn drop(&mut self) {
        if self.driver_state.check(K::RELEASE).is_err() {
            self.driver_state.leak();
            return;
        }
        // SAFETY: `release` needs
        // - a live object of kind `K`: `self` holds one of its references;
        // - no later use through that reference: `self` is being dropped.
        let status = unsafe { K::release(self.raw.as_ptr()) };
        if let Err(code) = status {
            self.driver_state
                .record_late(Fault::native(K::RELEASE, code));
        }
    }
}

// SAFETY: the OpenCL specification (Appendix A.2, "Multiple Host Threads") makes every call
// thread-safe but `clSetKernelArg` and its kin, which this plugin never calls.
unsafe impl<K: Counted> Send for Owned<K> {}
// SAFETY: as above; shared use is use from several threads.
unsafe impl<K: Counted> Sync for Owned<K> {}

/// A kind of vendor object that counts its references.
pub(crate) trait Counted {
    const RETAIN: &'static str;
    const RELEASE: &'static str;

    /// # Safety
    /// `raw` is a live object of this kind.
    unsafe fn retain(raw: *mut c_void) -> Result<(), i32>;

    /// # Safety
    /// `raw` is a live object of this kind, and the caller gives up one reference.
    unsafe fn release(raw: *mut c_void) -> Result<(), i32>;
}

macro_rules! counted {
    (
        $kind:ident, $alias:ident,
        $retain:path, $retain_name:literal, $release:path, $release_name:literal
    ) => {
        #[doc = concat!("The kind that `", $release_name, "` releases.")]
        #[derive(Debug)]
        pub(crate) enum $kind {}

        #[doc = concat!("An object that `", $release_name, "` releases.")]
        pub(crate) type $alias = Owned<$kind>;

        impl Counted for $kind {
            const RETAIN: &'static str = $retain_name;
            const RELEASE: &'static str = $release_name;

            unsafe fn retain(raw: *mut c_void) -> Result<(), i32> {
                // SAFETY: a live object of this kind: the caller promises it.
                unsafe { $retain(raw) }
            }

            unsafe fn release(raw: *mut c_void) -> Result<(), i32> {
                // SAFETY: a live object and a reference to give up: the caller promises both.
                unsafe { $release(raw) }
            }
        }
    };
}

counted!(
    ContextKind,
    Context,
    context::retain_context,
    "clRetainContext",
    context::release_context,
    "clReleaseContext"
);
counted!(
    QueueKind,
    Queue,
    command_queue::retain_command_queue,
    "clRetainCommandQueue",
    release_idle_queue,
    "clReleaseCommandQueue"
);
counted!(
    MemoryKind,
    Memory,
    memory::retain_mem_object,
    "clRetainMemObject",
    memory::release_mem_object,
    "clReleaseMemObject"
);
counted!(
    MarkKind,
    CommandEvent,
    event::retain_event,
    "clRetainEvent",
    event::release_event,
    "clReleaseEvent"
);

/// Releases a queue whose commands are done, as far as their events tell.
///
/// Intel's runtime says that a command is done a little before it has put the command away. When the
/// queue dies in between, one of its threads waits for itself for ever, so the last reference goes
/// only when the driver has put everything away.
///
/// # Safety
/// `raw` is a live queue, and the caller gives up one reference.
unsafe fn release_idle_queue(raw: *mut c_void) -> Result<(), i32> {
    let count = command_queue::get_command_queue_info(raw, command_queue::CL_QUEUE_REFERENCE_COUNT);
    if count.is_ok_and(|count| u32::from(count) == 1) {
        command_queue::finish(raw)?;
    }
    // SAFETY: a live queue and a reference to give up: the caller promises both.
    unsafe { command_queue::release_command_queue(raw) }
}

/// A pointer as the 64-bit word of the contract.
pub(crate) fn word_of<T>(pointer: *const T) -> u64 {
    u64::try_from(pointer.expose_provenance()).unwrap_or(u64::MAX)
}

/// The log target of this plugin.
pub(crate) const TARGET: &str = "crossdock::plugin::opencl";
