//! The log of the script's library, in the log of the command.
#![expect(unsafe_code, reason = "takes texts from a function table")]

use std::ffi::{CStr, c_char, c_void};

use crossdock_api::XdApi;
use crossdock_sdk::fence::fence;
use log::{Level, Record};

/// Sends lines of the library that the table is of to the command's log, as far as it goes.
pub(crate) fn connect(api: &XdApi) {
    let level = log::max_level() as u32;
    // SAFETY: any thread may call the function, which needs no word.
    let failure = unsafe { (api.log_set)(Some(take), std::ptr::null_mut(), level) };
    // A library whose log goes elsewhere already keeps it.
    (api.error_free)(failure);
}

unsafe extern "C" fn take(
    _word: *mut c_void,
    level: u32,
    target: *const c_char,
    message: *const c_char,
) {
    // A line that cannot be written is not worth a crash.
    let _written = fence(|| {
        // SAFETY: the library lends both texts for the call.
        let target = unsafe { CStr::from_ptr(target) }.to_string_lossy();
        // SAFETY: as above.
        let message = unsafe { CStr::from_ptr(message) }.to_string_lossy();
        let level = Level::iter().find(|known| *known as u32 == level);
        let mut record = Record::builder();
        record.level(level.unwrap_or(Level::Trace)).target(&target);
        log::logger().log(&record.args(format_args!("{message}")).build());
    });
}
