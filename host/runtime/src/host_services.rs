//! What the host offers plugins: the log.
#![expect(unsafe_code, reason = "plugins call back through C functions")]

use std::ffi::c_void;

use crossdock_sdk::abi::{HostServices, Text};
use crossdock_sdk::fence::fence;

use crate::{late_log, life};

/// The services, alive until the process ends.
pub(crate) fn services() -> *const HostServices {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the struct has a few words"
    )]
    static SERVICES: Shared = Shared(HostServices {
        struct_size: size_of::<HostServices>() as u32,
        log_level: 5,
        context: std::ptr::null_mut(),
        log: Some(log),
    });
    &raw const SERVICES.0
}

struct Shared(HostServices);

// SAFETY: constant, and its context is NULL.
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
        if life::exiting() {
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
