//! Functions of callers that the library calls.

use std::ffi::{c_char, c_void};

/// Takes a log line: the word of `xd_log_set`, a level from 1 (error) to 5 (trace), the target and
/// the message, both lent for the call. Called on any thread, also on several at once.
pub type LogFunction = Option<
    unsafe extern "C" fn(
        word: *mut c_void,
        level: u32,
        target: *const c_char,
        message: *const c_char,
    ),
>;

/// Calls `deleter(tensor)` once before it returns, or never.
pub type ReleaseGate = Option<
    unsafe extern "C" fn(deleter: unsafe extern "C" fn(tensor: *mut c_void), tensor: *mut c_void),
>;
