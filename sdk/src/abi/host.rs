//! What a host gives a plugin: its services, and functions that a stream calls.

use core::ffi::c_void;

use abi_stable::StableAbi;

use super::Text;

/// What a host offers a plugin; valid until the process ends.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct HostServices {
    /// Bytes of this struct as the host knows it.
    pub struct_size: u32,
    /// The most verbose level that is wanted: 0 off, 1 error, to 5 trace. It changes while the
    /// process runs: read it, as an atomic, before a line is made.
    pub log_level: u32,
    /// Passed back to `log`.
    pub context: *mut c_void,
    /// Writes a log line (level, target, message); any thread; never calls back.
    pub log:
        Option<unsafe extern "C" fn(context: *mut c_void, level: u32, target: Text, message: Text)>,
}

/// A host function that a stream calls with its word.
#[repr(transparent)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct HostFunction(pub Option<unsafe extern "C" fn(word: *mut c_void)>);
