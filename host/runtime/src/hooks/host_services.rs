//! What the host offers plugins: the log.
#![expect(unsafe_code, reason = "plugins call back through C functions")]

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use crossdock_sdk::abi::{HostServices, Text};
use crossdock_sdk::fence::fence;

use crate::{process::late_log, process::process_state};

/// The services, alive until the process ends, with the level that the log takes now.
pub(crate) fn services() -> *const HostServices {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the struct has a few words"
    )]
    static SERVICES: Shared = Shared(UnsafeCell::new(HostServices {
        struct_size: size_of::<HostServices>() as u32,
        log_level: 0,
        context: std::ptr::null_mut(),
        log: Some(log),
    }));
    let services = SERVICES.0.get();
    // SAFETY: a field of a static; no reference to the struct exists.
    let level = unsafe { &raw mut (*services).log_level };
    // SAFETY: aligned, alive for ever, and written by this atomic alone.
    let level = unsafe { AtomicU32::from_ptr(level) };
    level.store(log::max_level() as u32, Ordering::Relaxed);
    services
}

/// Tells open plugins which lines the log takes now. It is told by itself whenever a runtime or a
/// plugin is opened; a program that changes the level of its log afterwards calls this.
pub fn log_level_changed() {
    services();
}

struct Shared(UnsafeCell<HostServices>);

// SAFETY: constant but for the level, which is written and read as an atomic; its context is NULL.
unsafe impl Sync for Shared {}

/// Writes a plugin's line to the host's log; once the process exits, to a fixed place.
unsafe extern "C" fn log(_context: *mut c_void, level: u32, target: Text, message: Text) {
    let write = || {
        let level = match level {
            1 => log::Level::Error,
            2 => log::Level::Warn,
            3 => log::Level::Info,
            4 => log::Level::Debug,
            _ => log::Level::Trace,
        };
        // SAFETY: the plugin lends both texts for the call.
        let target = unsafe { borrow(&target) };
        // SAFETY: as above.
        let message = unsafe { borrow(&message) };
        if process_state::exiting() {
            late_log::keep(&target, &message);
        } else {
            log::log!(target: "crossdock::plugin", level, "{target}: {message}");
        }
    };
    let _caught = fence(write);
}

/// # Safety
/// - `text` is NULL or has `len` readable bytes for as long as it is borrowed.
unsafe fn borrow(text: &Text) -> std::borrow::Cow<'_, str> {
    let Ok(length) = usize::try_from(text.len) else {
        return std::borrow::Cow::Borrowed("");
    };
    if text.ptr.is_null() {
        return std::borrow::Cow::Borrowed("");
    }
    // SAFETY: by the caller's promise.
    String::from_utf8_lossy(unsafe { std::slice::from_raw_parts(text.ptr, length) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_told_which_lines_the_log_takes() {
        let level = || {
            let services = services().cast_mut();
            // SAFETY: a field of the static struct; no reference to it exists.
            let level = unsafe { &raw mut (*services).log_level };
            // SAFETY: aligned, alive for ever, and written as an atomic.
            unsafe { AtomicU32::from_ptr(level) }.load(Ordering::Relaxed)
        };
        let before = log::max_level();
        for (filter, wanted) in [(log::LevelFilter::Warn, 2), (log::LevelFilter::Trace, 5)] {
            log::set_max_level(filter);
            assert_eq!(level(), wanted);
        }
        log::set_max_level(before);
    }
}
