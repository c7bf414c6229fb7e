//! Numbers of the driver's API: results and what they stand for, attributes, flags.

use std::ffi::c_int;

use crossdock_plugin_gpu::vendor::{Code, ErrorKind};

/// `CUDA_ERROR_NOT_SUPPORTED`.
pub(crate) const NOT_SUPPORTED: c_int = 801;

/// `CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED` and `_NOT_ENABLED`.
pub(crate) const PEER_ACCESS_ALREADY_ENABLED: c_int = 704;
pub(crate) const PEER_ACCESS_NOT_ENABLED: c_int = 705;

/// The oldest driver that has all that is needed: 11.0.
pub(crate) const OLDEST: c_int = 11_000;

/// 13000 is version 13.0.
pub(crate) fn version_text(number: c_int) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

/// What a result stands for.
pub(crate) const fn error_kind(code: Code) -> ErrorKind {
    match code.number {
        // Invalid values, devices and names.
        1 | 101 | 500 => ErrorKind::Invalid,
        2 => ErrorKind::OutOfMemory,
        4 => ErrorKind::Exiting,
        34 => ErrorKind::Stub,
        100 => ErrorKind::NoDevice,
        // Contexts and handles.
        201 | 400 => ErrorKind::Stale,
        600 => ErrorKind::NotReady,
        // Errors of the hardware and of kernels, after which a context answers nothing else; a device that cannot be
        // used now (46), and a context that is gone (709): the device's own, since where one of others is gone its
        // handle is refused (201).
        46 | 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721 | 999 => ErrorKind::Fatal,
        712 => ErrorKind::AlreadyRegistered,
        713 => ErrorKind::NotRegistered,
        304 | 800 => ErrorKind::Permission,
        NOT_SUPPORTED => ErrorKind::Unsupported,
        // Driver and kernel module, or forward compatibility, do not fit.
        803 | 804 => ErrorKind::TooOld,
        900..=908 => ErrorKind::Capturing,
        _ => ErrorKind::Other,
    }
}

/// `CU_DEVICE_ATTRIBUTE_*`.
pub(crate) mod device {
    use std::ffi::c_int;

    pub(crate) const MAX_PITCH: c_int = 11;
    pub(crate) const MANAGED_MEMORY: c_int = 83;
    pub(crate) const CONCURRENT_MANAGED_ACCESS: c_int = 89;
    pub(crate) const MEMORY_POOLS_SUPPORTED: c_int = 115;
}

/// `CU_POINTER_ATTRIBUTE_*`.
pub(crate) mod pointer {
    use std::ffi::c_int;

    pub(crate) const CONTEXT: c_int = 1;
    pub(crate) const MEMORY_TYPE: c_int = 2;
    pub(crate) const DEVICE_POINTER: c_int = 3;
    pub(crate) const BUFFER_ID: c_int = 7;
    pub(crate) const IS_MANAGED: c_int = 8;
    pub(crate) const DEVICE_ORDINAL: c_int = 9;
    pub(crate) const RANGE_START_ADDR: c_int = 11;
    pub(crate) const RANGE_SIZE: c_int = 12;

    /// `CU_MEMORYTYPE_HOST` and `_DEVICE`.
    pub(crate) const HOST: u64 = 1;
    pub(crate) const DEVICE: u64 = 2;
}

/// `CU_MEMPOOL_ATTR_*`.
pub(crate) mod pool {
    use std::ffi::c_int;

    pub(crate) const REUSE_ALLOW_INTERNAL_DEPENDENCIES: c_int = 3;
    pub(crate) const RELEASE_THRESHOLD: c_int = 4;
    pub(crate) const RESERVED_MEM_CURRENT: c_int = 5;
    pub(crate) const RESERVED_MEM_HIGH: c_int = 6;
}

/// Flags of calls.
pub(crate) mod flags {
    /// `CU_MEMHOSTALLOC_PORTABLE` and `_DEVICEMAP`, `CU_MEMHOSTREGISTER_PORTABLE` and `_DEVICEMAP`: memory of the host
    /// that all contexts know and all devices reach.
    pub(crate) const PORTABLE_MAPPED: u32 = 3;
    /// `CU_MEMHOSTREGISTER_READ_ONLY`: the device only reads it.
    pub(crate) const READ_ONLY: u32 = 8;
    /// `CU_MEM_ATTACH_GLOBAL`: managed memory that every stream may use.
    pub(crate) const ATTACH_GLOBAL: u32 = 1;
    /// `CU_STREAM_NON_BLOCKING`: a stream that the legacy default stream neither waits for nor holds up.
    pub(crate) const NON_BLOCKING: u32 = 1;
    /// `CU_STREAM_WAIT_VALUE_GEQ`: until the word minus the value is not negative, as a signed number of 32 bits.
    pub(crate) const AT_LEAST: u32 = 0;
}

/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
pub(crate) const RELAXED: c_int = 2;
