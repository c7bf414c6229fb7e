//! The drivers' results: number, names and text. Both vendors have the same numbers; 800 is CUDA's alone.

use std::ffi::CStr;

use crossdock_sim_engine::Error;

/// A result that is no success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) i32);

macro_rules! codes {
    ($($constant:ident = $number:literal, $cuda:literal, $hip:literal, $text:literal;)*) => {
        impl Code {
            $(pub(crate) const $constant: Self = Self($number);)*
        }

        /// Names of a number, CUDA's and HIP's, and its text.
        pub(crate) const fn words(number: i32) -> Option<([&'static CStr; 2], &'static CStr)> {
            match number {
                0 => Some(([c"CUDA_SUCCESS", c"hipSuccess"], c"no error")),
                // What faults say; nothing here answers it by itself.
                700 => Some((
                    [c"CUDA_ERROR_ILLEGAL_ADDRESS", c"hipErrorIllegalAddress"],
                    c"an illegal memory access was encountered",
                )),
                $($number => Some(([$cuda, $hip], $text)),)*
                _ => None,
            }
        }
    };
}

codes! {
    INVALID_VALUE = 1, c"CUDA_ERROR_INVALID_VALUE", c"hipErrorInvalidValue", c"invalid argument";
    OUT_OF_MEMORY = 2, c"CUDA_ERROR_OUT_OF_MEMORY", c"hipErrorOutOfMemory", c"out of memory";
    NOT_INITIALIZED = 3, c"CUDA_ERROR_NOT_INITIALIZED", c"hipErrorNotInitialized", c"initialization error";
    DEINITIALIZED = 4, c"CUDA_ERROR_DEINITIALIZED", c"hipErrorDeinitialized", c"driver shutting down";
    NO_DEVICE = 100, c"CUDA_ERROR_NO_DEVICE", c"hipErrorNoDevice", c"no CUDA-capable device is detected";
    INVALID_DEVICE = 101, c"CUDA_ERROR_INVALID_DEVICE", c"hipErrorInvalidDevice", c"invalid device ordinal";
    INVALID_CONTEXT = 201, c"CUDA_ERROR_INVALID_CONTEXT", c"hipErrorInvalidContext", c"invalid device context";
    MAP_FAILED = 205, c"CUDA_ERROR_MAP_FAILED", c"hipErrorMapFailed", c"mapping of buffer object failed";
    PEER_ACCESS_UNSUPPORTED = 217, c"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", c"hipErrorPeerAccessUnsupported", c"peer access is not supported between these two devices";
    INVALID_HANDLE = 400, c"CUDA_ERROR_INVALID_HANDLE", c"hipErrorInvalidHandle", c"invalid resource handle";
    ILLEGAL_STATE = 401, c"CUDA_ERROR_ILLEGAL_STATE", c"hipErrorIllegalState", c"the operation cannot be performed in the present state";
    NOT_FOUND = 500, c"CUDA_ERROR_NOT_FOUND", c"hipErrorNotFound", c"named symbol not found";
    NOT_READY = 600, c"CUDA_ERROR_NOT_READY", c"hipErrorNotReady", c"device not ready";
    PEER_ACCESS_ALREADY_ENABLED = 704, c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", c"hipErrorPeerAccessAlreadyEnabled", c"peer access is already enabled";
    PEER_ACCESS_NOT_ENABLED = 705, c"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", c"hipErrorPeerAccessNotEnabled", c"peer access has not been enabled";
    CONTEXT_IS_DESTROYED = 709, c"CUDA_ERROR_CONTEXT_IS_DESTROYED", c"hipErrorContextIsDestroyed", c"context is destroyed";
    HOST_MEMORY_ALREADY_REGISTERED = 712, c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", c"hipErrorHostMemoryAlreadyRegistered", c"part or all of the requested memory range is already mapped";
    HOST_MEMORY_NOT_REGISTERED = 713, c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", c"hipErrorHostMemoryNotRegistered", c"pointer does not correspond to a registered memory region";
    LAUNCH_FAILED = 719, c"CUDA_ERROR_LAUNCH_FAILED", c"hipErrorLaunchFailure", c"unspecified launch failure";
    NOT_PERMITTED = 800, c"CUDA_ERROR_NOT_PERMITTED", c"", c"operation not permitted";
    NOT_SUPPORTED = 801, c"CUDA_ERROR_NOT_SUPPORTED", c"hipErrorNotSupported", c"operation not supported";
    CAPTURE_UNSUPPORTED = 900, c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", c"hipErrorStreamCaptureUnsupported", c"operation not permitted when stream is capturing";
    CAPTURE_INVALIDATED = 901, c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", c"hipErrorStreamCaptureInvalidated", c"operation failed due to a previous error during capture";
    CAPTURE_MERGE = 902, c"CUDA_ERROR_STREAM_CAPTURE_MERGE", c"hipErrorStreamCaptureMerge", c"operation would result in a merge of separate capture sequences";
    CAPTURE_UNMATCHED = 903, c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", c"hipErrorStreamCaptureUnmatched", c"capture was not ended in the same stream as it began";
    CAPTURE_UNJOINED = 904, c"CUDA_ERROR_STREAM_CAPTURE_UNJOINED", c"hipErrorStreamCaptureUnjoined", c"capturing stream has unjoined work";
    CAPTURE_ISOLATION = 905, c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION", c"hipErrorStreamCaptureIsolation", c"dependency created on uncaptured work in another stream";
    CAPTURE_IMPLICIT = 906, c"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", c"hipErrorStreamCaptureImplicit", c"operation would make the legacy stream depend on a capturing blocking stream";
    CAPTURED_EVENT = 907, c"CUDA_ERROR_CAPTURED_EVENT", c"hipErrorCapturedEvent", c"operation not permitted on an event last recorded in a capturing stream";
    CAPTURE_WRONG_THREAD = 908, c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", c"hipErrorStreamCaptureWrongThread", c"attempt to terminate a thread-local capture sequence from another thread";
    UNKNOWN = 999, c"CUDA_ERROR_UNKNOWN", c"hipErrorUnknown", c"unknown error";
}

impl From<Error> for Code {
    fn from(error: Error) -> Self {
        match error {
            Error::Invalid { .. } => Self::INVALID_VALUE,
            Error::Stale { .. } => Self::INVALID_HANDLE,
            Error::OutOfMemory { .. } => Self::OUT_OF_MEMORY,
            Error::TimedOut => Self::NOT_READY,
            Error::Failed(failure) => Self(failure.status),
            Error::InHostFunction => Self::NOT_PERMITTED,
            Error::Forked => Self::NOT_INITIALIZED,
            // The vendor's driver would wait for ever; the report says what for.
            Error::Standstill(_) => Self::LAUNCH_FAILED,
            _ => Self::UNKNOWN,
        }
    }
}
