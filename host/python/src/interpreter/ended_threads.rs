//! Threads that Python ends inside of Rust frames.
//!
//! `CPython` before 3.14 ends a thread that asks for the interpreter too late by `pthread_exit`, which
//! unwinds its stack; Rust frames do not survive that, and a thread asks wherever Python code runs below
//! them: in `__index__`, or in a `__del__` that the collector comes to. From 3.14 on such a thread stays
//! where it is for ever. So it does here: when the interpreter begins to end, each of Python's other
//! threads is made to stay before its first frame is unwound, if one of ours is among its frames.
#![expect(
    unsafe_code,
    reason = "sends a signal to threads, and is called where they end"
)]

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossdock_api::fence;
use pyo3::prelude::*;

/// What the C library enters into its list of a thread (`struct _pthread_cleanup_buffer`; musl's has no
/// type). It runs the entries that lie beyond a frame before it unwinds that frame. These lie on no
/// stack, so they come before all frames.
#[repr(C)]
struct Buffer {
    routine: usize,
    argument: usize,
    #[cfg(not(target_env = "musl"))]
    cancel_type: usize,
    next: *mut Self,
}

#[repr(transparent)]
struct Entry(UnsafeCell<MaybeUninit<Buffer>>);

// SAFETY: only the one thread that took it writes to it.
unsafe impl Sync for Entry {}
// SAFETY: made empty, before any thread took it.
unsafe impl Send for Entry {}

unsafe extern "C" {
    fn _pthread_cleanup_push(
        entry: *mut Buffer,
        routine: unsafe extern "C" fn(*mut c_void),
        argument: *mut c_void,
    );
    fn _pthread_cleanup_pop(entry: *mut Buffer, runs: c_int);
    fn _Unwind_Backtrace(
        visit: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// Entries for the threads that are there when the interpreter begins to end, and how many are taken.
static ENTRIES: OnceLock<Box<[Entry]>> = OnceLock::new();
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Makes each of Python's other threads stay that Python would end inside of frames of ours.
pub(crate) fn keep(py: Python<'_>) -> PyResult<()> {
    if py.version_info() >= (3, 14) {
        return Ok(());
    }
    let threads = others(py)?;
    if threads.is_empty() {
        return Ok(());
    }
    let entry = |_| Entry(UnsafeCell::new(MaybeUninit::uninit()));
    // Another interpreter of this process was first.
    if ENTRIES.set(threads.iter().map(entry).collect()).is_err() {
        return Ok(());
    }
    let Some(signal) = free_signal() else {
        return Ok(());
    };
    let process = std::process::id();
    for thread in threads {
        // SAFETY: numbers; a thread that is not there any more is an error, which says nothing new.
        let _sent = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) };
    }
    Ok(())
}

/// The system's numbers of Python's other threads.
fn others(py: Python<'_>) -> PyResult<Vec<libc::pid_t>> {
    // What nobody imported has started no thread.
    let modules = py.import("sys")?.getattr("modules")?;
    let Ok(threading) = modules.get_item("threading") else {
        return Ok(Vec::new());
    };
    // SAFETY: it takes nothing and always succeeds.
    let own = unsafe { libc::gettid() };
    let mut numbers = Vec::new();
    for thread in threading.call_method0("enumerate")?.try_iter()? {
        let number: Option<libc::pid_t> = thread?.getattr("native_id")?.extract()?;
        numbers.extend(number.filter(|number| *number != own));
    }
    Ok(numbers)
}

/// A signal that nobody uses, with our handler. It interrupts no call that can go on.
fn free_signal() -> Option<c_int> {
    let realtime = (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev();
    // By default this one is ignored.
    std::iter::once(libc::SIGURG)
        .chain(realtime)
        .find(|signal| {
            // SAFETY: zeros are a valid value: the default handler.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: a signal, and a place for its action.
            let is_known = unsafe { libc::sigaction(*signal, ptr::null(), &raw mut action) } == 0;
            if !is_known || ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction) {
                return false;
            }
            action.sa_sigaction = handler();
            action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
            // SAFETY: a handler that does nothing but what a handler may, in a module that is never unloaded.
            unsafe { libc::sigaction(*signal, &raw const action, ptr::null_mut()) == 0 }
        })
}

#[expect(
    clippy::fn_to_numeric_cast_any,
    reason = "the C library takes handlers as numbers"
)]
fn handler() -> libc::sighandler_t {
    enter as *const () as libc::sighandler_t
}

/// The handler. It allocates nothing and takes no lock.
unsafe extern "C" fn enter(_signal: c_int) {
    let _caught = fence(|| {
        let taken = TAKEN.fetch_add(1, Ordering::Relaxed);
        if let Some(entry) = ENTRIES.get().and_then(|entries| entries.get(taken)) {
            enter_last(entry.0.get().cast());
        }
    });
}

/// Puts an entry into this thread's list behind those that are in it: the thread may wait inside of the C
/// library, which takes its own entry out together with what was entered later.
fn enter_last(own: *mut Buffer) {
    // SAFETY: room for an entry, which nobody else took, and which lives as long as the process.
    unsafe { _pthread_cleanup_push(own, stay, ptr::null_mut()) };
    // SAFETY: entered just now.
    let Some(mut last) = (unsafe { next_of(own) }) else {
        return;
    };
    // SAFETY: the first of the list.
    unsafe { _pthread_cleanup_pop(own, 0) };
    // SAFETY: in this thread's list, whose entries are alive, as the thread does nothing else meanwhile.
    while let Some(next) = unsafe { next_of(last) } {
        last = next;
    }
    // SAFETY: in no list now.
    unsafe { set_next(own, ptr::null_mut()) };
    // SAFETY: the last of the list.
    unsafe { set_next(last, own) };
}

/// The entry behind this one.
///
/// # Safety
/// - It is alive, and nobody writes to it meanwhile.
unsafe fn next_of(entry: *mut Buffer) -> Option<*mut Buffer> {
    // SAFETY: the caller's promise.
    let next = unsafe { (*entry).next };
    (!next.is_null()).then_some(next)
}

/// # Safety
/// As [`next_of`], and nobody reads it meanwhile.
unsafe fn set_next(entry: *mut Buffer, next: *mut Buffer) {
    // SAFETY: the caller's promise.
    unsafe { (*entry).next = next };
}

/// Called where a thread ends by `pthread_exit`: does not come back if that is to unwind frames of ours.
unsafe extern "C" fn stay(_argument: *mut c_void) {
    let _caught = fence(|| {
        while has_frames_of_ours() {
            // SAFETY: it takes nothing.
            unsafe { libc::pause() };
        }
    });
}

/// What a walk through the frames found so far.
#[derive(Default)]
struct Walk {
    has_left: bool,
    has_come_back: bool,
}

/// Whether there are frames of this module below those of the C library, which called it.
fn has_frames_of_ours() -> bool {
    let mut walk = Walk::default();
    // SAFETY: the function takes the frames and the walk, which outlives the call.
    unsafe { _Unwind_Backtrace(visit, (&raw mut walk).cast()) };
    walk.has_come_back
}

unsafe extern "C" fn visit(context: *mut c_void, walk: *mut c_void) -> c_int {
    /// To go on (`_URC_NO_REASON`), and to stop (`_URC_END_OF_STACK`).
    const ON: c_int = 0;
    const STOP: c_int = 5;
    let is_found = fence(|| {
        // SAFETY: `has_frames_of_ours` gives its walk, which nobody else uses meanwhile.
        let walk = unsafe { &mut *walk.cast::<Walk>() };
        // SAFETY: a frame of the walk.
        let address = unsafe { _Unwind_GetIP(context) };
        let is_ours = module_of(address) == module_of((&raw const TAKEN).addr());
        walk.has_left |= !is_ours;
        walk.has_come_back |= is_ours && walk.has_left;
        walk.has_come_back
    });
    if is_found == Some(false) { ON } else { STOP }
}

/// Where the module begins that has the address.
fn module_of(address: usize) -> *mut c_void {
    // SAFETY: zeros are a valid value.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for, and there is a place for the answer.
    unsafe { libc::dladdr(ptr::without_provenance(address), &raw mut info) };
    info.dli_fbase
}
