//! Functions of callers that the library calls.

use std::ffi::{c_char, c_void};

use crate::handles::{Failure, Ref, XdAnswer};
use crate::script::XdArguments;

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

/// A function that scripts call: the word of `xd_session_define`, the arguments and the place for its answer,
/// all lent for the call. A failure is the caller's, and an exception in the script. Called on threads of
/// Python, without its lock, also on several at once.
pub type ScriptFunction = Option<
    unsafe extern "C" fn(
        word: *mut c_void,
        arguments: Ref<'_, XdArguments<'_>>,
        answer: Ref<'_, XdAnswer>,
    ) -> Failure,
>;

/// Gives back what a word stands for, once.
pub type WordRelease = Option<unsafe extern "C" fn(word: *mut c_void)>;

/// Calls `deleter(tensor)` once before it returns, or never.
pub type ReleaseGate = Option<
    unsafe extern "C" fn(deleter: unsafe extern "C" fn(tensor: *mut c_void), tensor: *mut c_void),
>;
