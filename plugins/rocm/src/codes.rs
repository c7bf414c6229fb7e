//! Numbers of HIP: results and what they stand for, attributes, flags.

use std::ffi::c_int;

use crossdock_plugin_gpu::vendor::{Code, ErrorKind};
use hip_sys::hiprt as sys;

/// `hipErrorInvalidValue`.
pub(crate) const INVALID_VALUE: c_int = 1;
/// `hipErrorInvalidDevicePointer`.
pub(crate) const INVALID_DEVICE_POINTER: c_int = 17;
/// `hipErrorNotSupported`.
pub(crate) const NOT_SUPPORTED: c_int = 801;

/// `hipErrorPeerAccessAlreadyEnabled` and `-NotEnabled`.
pub(crate) const PEER_ACCESS_ALREADY_ENABLED: c_int = 704;
pub(crate) const PEER_ACCESS_NOT_ENABLED: c_int = 705;

/// The calls by which the runtime is started and asked what there is.
const STARTING: [&str; 3] = ["hipInit", "hipRuntimeGetVersion", "hipGetDeviceCount"];

/// A version as people write it, as "7.0". An error for a version whose structs and numbers are not those here: it says
/// which version the library has.
pub(crate) fn version(library: &str, number: c_int) -> Result<String, String> {
    // 60_241_133 is version 6.2.41133.
    let (major, minor) = (number / 10_000_000, number / 100_000 % 100);
    match major {
        6 | 7 => Ok(format!("{major}.{minor}")),
        _ => Err(format!(
            "HIP 6 or 7: `{library}` is HIP {major}.{minor} (version {number})"
        )),
    }
}

/// What a result stands for.
pub(crate) fn error_kind(code: Code) -> ErrorKind {
    match code.number {
        // Where there is no device, some versions answer `hipErrorInvalidDevice` (101).
        101 if STARTING.contains(&code.call) => ErrorKind::NoDevice,
        // Invalid values, pitches, symbols, pointers, directions, devices and names.
        INVALID_VALUE | 12 | 13 | INVALID_DEVICE_POINTER | 21 | 101 | 500 => ErrorKind::Invalid,
        2 => ErrorKind::OutOfMemory,
        4 => ErrorKind::Exiting,
        35 => ErrorKind::TooOld,
        100 => ErrorKind::NoDevice,
        // Contexts and handles. For a stream that is gone HIP answers `hipErrorContextIsDestroyed` (709).
        201 | 400 | 709 => ErrorKind::Stale,
        600 => ErrorKind::NotReady,
        // Errors of the hardware, of kernels and of the layer below, after which a device may answer nothing else.
        214 | 700 | 702 | 710 | 719 | 999 | 1052 | 1053 => ErrorKind::Fatal,
        712 => ErrorKind::AlreadyRegistered,
        713 => ErrorKind::NotRegistered,
        304 => ErrorKind::Permission,
        217 | NOT_SUPPORTED => ErrorKind::Unsupported,
        900..=908 => ErrorKind::Capturing,
        _ => ErrorKind::Other,
    }
}

/// `hipDeviceAttribute*`.
pub(crate) mod device {
    use std::ffi::c_int;

    pub(crate) const CONCURRENT_MANAGED_ACCESS: c_int = 9;
    pub(crate) const MANAGED_MEMORY: c_int = 24;
    pub(crate) const MAX_PITCH: c_int = 58;
    pub(crate) const MEMORY_POOLS_SUPPORTED: c_int = 88;
    pub(crate) const CAN_USE_STREAM_WAIT_VALUE: c_int = 10_013;
}

/// `HIP_POINTER_ATTRIBUTE_BUFFER_ID`.
pub(crate) const BUFFER_ID: c_int = 7;

/// `hipMemoryType*` from HIP 6 on.
pub(crate) mod memory {
    use std::ffi::c_int;

    pub(crate) const HOST: c_int = 1;
    pub(crate) const DEVICE: c_int = 2;
    pub(crate) const MANAGED: c_int = 3;
}

/// `hipMemPoolAttr*`.
pub(crate) mod pool {
    use std::ffi::c_int;

    pub(crate) const REUSE_ALLOW_INTERNAL_DEPENDENCIES: c_int = 3;
    pub(crate) const RELEASE_THRESHOLD: c_int = 4;
    pub(crate) const RESERVED_MEM_CURRENT: c_int = 5;
    pub(crate) const RESERVED_MEM_HIGH: c_int = 6;
}

/// Flags of calls.
pub(crate) mod flags {
    /// `hipHostMallocPortable` and `-Mapped`, `hipHostRegisterPortable` and `-Mapped`: memory of the host that all
    /// devices reach.
    pub(crate) const PORTABLE_MAPPED: u32 = 3;
    /// `hipHostRegisterReadOnly`: the device only reads it.
    pub(crate) const READ_ONLY: u32 = 8;
    /// `hipMemAttachGlobal`: managed memory that every stream may use.
    pub(crate) const ATTACH_GLOBAL: u32 = 1;
    /// `hipStreamNonBlocking`: a stream that the default stream neither waits for nor holds up.
    pub(crate) const NON_BLOCKING: u32 = 1;
    /// `hipStreamWaitValueGte`: until the word is at least the value.
    pub(crate) const AT_LEAST: u32 = 0;
    /// The mask of that wait: all bits of the word count.
    pub(crate) const WHOLE: u32 = u32::MAX;
}

/// `hipStreamCaptureModeRelaxed`.
pub(crate) const RELAXED: c_int = 2;

/// Compares a number with AMD's. Those of kinds of memory are left out: the declarations are of HIP 5, which numbers
/// them in another way.
macro_rules! compare {
    ($($ours:expr => $theirs:expr),* $(,)?) => {
        $(const _: () = assert!($ours as i64 == $theirs as i64);)*
    };
}

compare! {
    INVALID_VALUE => sys::hipError_t::hipErrorInvalidValue,
    INVALID_DEVICE_POINTER => sys::hipError_t::hipErrorInvalidDevicePointer,
    NOT_SUPPORTED => sys::hipError_t::hipErrorNotSupported,
    PEER_ACCESS_ALREADY_ENABLED => sys::hipError_t::hipErrorPeerAccessAlreadyEnabled,
    PEER_ACCESS_NOT_ENABLED => sys::hipError_t::hipErrorPeerAccessNotEnabled,
    device::CONCURRENT_MANAGED_ACCESS =>
        sys::hipDeviceAttribute_t::hipDeviceAttributeConcurrentManagedAccess,
    device::MANAGED_MEMORY => sys::hipDeviceAttribute_t::hipDeviceAttributeManagedMemory,
    device::MAX_PITCH => sys::hipDeviceAttribute_t::hipDeviceAttributeMaxPitch,
    device::MEMORY_POOLS_SUPPORTED =>
        sys::hipDeviceAttribute_t::hipDeviceAttributeMemoryPoolsSupported,
    device::CAN_USE_STREAM_WAIT_VALUE =>
        sys::hipDeviceAttribute_t::hipDeviceAttributeCanUseStreamWaitValue,
    BUFFER_ID => sys::hipPointer_attribute::HIP_POINTER_ATTRIBUTE_BUFFER_ID,
    pool::REUSE_ALLOW_INTERNAL_DEPENDENCIES =>
        sys::hipMemPoolAttr::hipMemPoolReuseAllowInternalDependencies,
    pool::RELEASE_THRESHOLD => sys::hipMemPoolAttr::hipMemPoolAttrReleaseThreshold,
    pool::RESERVED_MEM_CURRENT => sys::hipMemPoolAttr::hipMemPoolAttrReservedMemCurrent,
    pool::RESERVED_MEM_HIGH => sys::hipMemPoolAttr::hipMemPoolAttrReservedMemHigh,
    flags::PORTABLE_MAPPED => sys::hipHostMallocPortable | sys::hipHostMallocMapped,
    flags::PORTABLE_MAPPED => sys::hipHostRegisterPortable | sys::hipHostRegisterMapped,
    flags::ATTACH_GLOBAL => sys::hipMemAttachGlobal,
    flags::NON_BLOCKING => sys::hipStreamNonBlocking,
    flags::AT_LEAST => sys::hipStreamWaitValueGte,
    RELAXED => sys::hipStreamCaptureMode::hipStreamCaptureModeRelaxed,
}
