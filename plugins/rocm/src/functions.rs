//! The runtime's functions, opened by their names. The compiler compares each declaration, but that of the newer
//! `hipStreamGetDevice`, with AMD's for HIP 5.4, which those of HIP 6 and 7 agree with for these functions.
#![expect(unsafe_code, reason = "asks a library for its version")]
#![expect(non_snake_case, reason = "functions have the runtime's names")]

use std::ffi::{c_char, c_int, c_uint, c_void};

use crossdock_plugin_gpu::functions;
use crossdock_plugin_gpu::vendor::{HostFunction, Library, Unusable};
use hip_sys::hiprt as sys;

use crate::codes;
use crate::structs::{Attributes, Planes, PoolAccess, PoolProperties};

/// The library's names, the newest first.
const NAMES: [&str; 2] = ["libamdhip64.so.7", "libamdhip64.so.6"];

/// `hipRuntimeGetVersion`.
type AskVersion = unsafe extern "C" fn(*mut c_int) -> c_int;

/// Compares a declaration with AMD's.
macro_rules! compare {
    // Newer than the declarations of HIP 5.4: not compared.
    (hipStreamGetDevice($($any:tt)*)) => {};
    ($name:ident($($ours:ty as $theirs:ty),*)) => {
        const _: unsafe extern "C" fn($($theirs),*) -> sys::hipError_t = sys::$name;
        $(const _: () = assert!(size_of::<$ours>() == size_of::<$theirs>());)*
        $(const _: () = assert!(align_of::<$ours>() == align_of::<$theirs>());)*
    };
}

functions! {
    Functions, compared by compare;
    required {
        hipInit(u32 as c_uint);
        hipRuntimeGetVersion(*mut c_int as *mut c_int);
        hipDrvGetErrorName(c_int as sys::hipError_t, *mut *const c_char as *mut *const c_char);
        hipDrvGetErrorString(c_int as sys::hipError_t, *mut *const c_char as *mut *const c_char);
        hipGetLastError();
        hipPeekAtLastError();
        hipGetDeviceCount(*mut c_int as *mut c_int);
        hipGetDevice(*mut c_int as *mut c_int);
        hipSetDevice(c_int as c_int);
        hipDeviceGetName(*mut c_char as *mut c_char, c_int as c_int, c_int as sys::hipDevice_t);
        hipDeviceGetUuid(*mut [u8; 16] as *mut sys::hipUUID, c_int as sys::hipDevice_t);
        hipDeviceTotalMem(*mut usize as *mut usize, c_int as sys::hipDevice_t);
        hipDeviceGetAttribute(
            *mut c_int as *mut c_int, c_int as sys::hipDeviceAttribute_t, c_int as c_int,
        );
        hipDeviceGetPCIBusId(*mut c_char as *mut c_char, c_int as c_int, c_int as c_int);
        hipDeviceCanAccessPeer(*mut c_int as *mut c_int, c_int as c_int, c_int as c_int);
        hipDeviceEnablePeerAccess(c_int as c_int, u32 as c_uint);
        hipDeviceDisablePeerAccess(c_int as c_int);
        hipThreadExchangeStreamCaptureMode(*mut c_int as *mut sys::hipStreamCaptureMode);
        hipPointerGetAttributes(
            *mut Attributes as *mut sys::hipPointerAttribute_t, u64 as *const c_void,
        );
        hipMemGetAddressRange(
            *mut u64 as *mut sys::hipDeviceptr_t, *mut usize as *mut usize,
            u64 as sys::hipDeviceptr_t,
        );
        hipMemGetInfo(*mut usize as *mut usize, *mut usize as *mut usize);
        hipMalloc(*mut u64 as *mut *mut c_void, usize as usize);
        hipHostMalloc(*mut u64 as *mut *mut c_void, usize as usize, u32 as c_uint);
        hipMallocManaged(*mut u64 as *mut *mut c_void, usize as usize, u32 as c_uint);
        hipFree(u64 as *mut c_void);
        hipHostFree(u64 as *mut c_void);
        hipHostRegister(u64 as *mut c_void, usize as usize, u32 as c_uint);
        hipHostUnregister(u64 as *mut c_void);
        hipStreamCreateWithFlags(*mut u64 as *mut sys::hipStream_t, u32 as c_uint);
        hipStreamDestroy(u64 as sys::hipStream_t);
        hipStreamQuery(u64 as sys::hipStream_t);
        hipStreamSynchronize(u64 as sys::hipStream_t);
        hipStreamWaitEvent(u64 as sys::hipStream_t, u64 as sys::hipEvent_t, u32 as c_uint);
        hipStreamGetDevice(u64 as u64, *mut c_int as *mut c_int);
        hipStreamIsCapturing(
            u64 as sys::hipStream_t, *mut c_int as *mut sys::hipStreamCaptureStatus,
        );
        hipLaunchHostFunc(
            u64 as sys::hipStream_t, Option<HostFunction> as sys::hipHostFn_t,
            *mut c_void as *mut c_void,
        );
        hipEventCreateWithFlags(*mut u64 as *mut sys::hipEvent_t, u32 as c_uint);
        hipEventDestroy(u64 as sys::hipEvent_t);
        hipEventRecord(u64 as sys::hipEvent_t, u64 as sys::hipStream_t);
        hipEventQuery(u64 as sys::hipEvent_t);
        hipEventSynchronize(u64 as sys::hipEvent_t);
        hipEventElapsedTime(*mut f32 as *mut f32, u64 as sys::hipEvent_t, u64 as sys::hipEvent_t);
        hipMemcpyAsync(
            u64 as *mut c_void, u64 as *const c_void, usize as usize, c_int as sys::hipMemcpyKind,
            u64 as sys::hipStream_t,
        );
        hipMemcpyPeerAsync(
            u64 as *mut c_void, c_int as c_int, u64 as *const c_void, c_int as c_int,
            usize as usize, u64 as sys::hipStream_t,
        );
        hipMemcpy2DAsync(
            u64 as *mut c_void, usize as usize, u64 as *const c_void, usize as usize,
            usize as usize, usize as usize, c_int as sys::hipMemcpyKind, u64 as sys::hipStream_t,
        );
        hipMemcpy3DAsync(*const Planes as *const sys::hipMemcpy3DParms, u64 as sys::hipStream_t);
        hipMemsetD8Async(
            u64 as sys::hipDeviceptr_t, u8 as u8, usize as usize, u64 as sys::hipStream_t,
        );
        hipMemsetD16Async(
            u64 as sys::hipDeviceptr_t, u16 as u16, usize as usize, u64 as sys::hipStream_t,
        );
        hipMemsetD32Async(
            u64 as sys::hipDeviceptr_t, c_int as c_int, usize as usize, u64 as sys::hipStream_t,
        );
        hipMemset2DAsync(
            u64 as *mut c_void, usize as usize, c_int as c_int, usize as usize, usize as usize,
            u64 as sys::hipStream_t,
        );
    }
    optional {
        hipPointerGetAttribute(
            *mut u64 as *mut c_void, c_int as sys::hipPointer_attribute,
            u64 as sys::hipDeviceptr_t,
        );
        hipMemPoolCreate(
            *mut u64 as *mut sys::hipMemPool_t,
            *const PoolProperties as *const sys::hipMemPoolProps,
        );
        hipMemPoolDestroy(u64 as sys::hipMemPool_t);
        hipMemPoolTrimTo(u64 as sys::hipMemPool_t, usize as usize);
        hipMemPoolSetAttribute(
            u64 as sys::hipMemPool_t, c_int as sys::hipMemPoolAttr, *mut u64 as *mut c_void,
        );
        hipMemPoolGetAttribute(
            u64 as sys::hipMemPool_t, c_int as sys::hipMemPoolAttr, *mut u64 as *mut c_void,
        );
        hipMemPoolSetAccess(
            u64 as sys::hipMemPool_t, *const PoolAccess as *const sys::hipMemAccessDesc,
            usize as usize,
        );
        hipMallocFromPoolAsync(
            *mut u64 as *mut *mut c_void, usize as usize, u64 as sys::hipMemPool_t,
            u64 as sys::hipStream_t,
        );
        hipFreeAsync(u64 as *mut c_void, u64 as sys::hipStream_t);
        hipStreamWaitValue32(
            u64 as sys::hipStream_t, u64 as *mut c_void, u32 as u32, u32 as c_uint, u32 as u32,
        );
    }
}

/// Calls a function of the table by its name.
macro_rules! call {
    ($hip:ident.$name:ident($($argument:expr),* $(,)?)) => {{
        let before = $hip.before_call();
        // SAFETY: the arguments are what the runtime's header asks for: out-parameters of this function's own, and
        // handles that are alive, as `Vendor` asks, and memory for which the caller of an unsafe method vouches.
        let number = unsafe { ($hip.0.$name)($($argument),*) };
        $hip.checked(before, stringify!($name), number)
    }};
    ($hip:ident.$name:ident?($($argument:expr),* $(,)?)) => {
        match $hip.0.$name {
            Some(function) => {
                let before = $hip.before_call();
                // SAFETY: as above.
                let number = unsafe { function($($argument),*) };
                $hip.checked(before, stringify!($name), number)
            }
            None => Err(crossdock_plugin_gpu::vendor::Code {
                number: $crate::codes::NOT_SUPPORTED,
                call: stringify!($name),
            }),
        }
    };
}
pub(crate) use call;

impl Functions {
    /// Whether a thread's last error outlives calls that succeed: from HIP 7 on.
    pub(crate) fn keeps_errors(&self) -> bool {
        self.library() == NAMES[0]
    }

    /// Whether the runtime has all that is asked of pools: a version that lacks one has none.
    pub(crate) const fn have_pools(&self) -> bool {
        self.hipMemPoolCreate.is_some()
            && self.hipMemPoolDestroy.is_some()
            && self.hipMemPoolTrimTo.is_some()
            && self.hipMemPoolSetAttribute.is_some()
            && self.hipMemPoolGetAttribute.is_some()
            && self.hipMemPoolSetAccess.is_some()
            && self.hipMallocFromPoolAsync.is_some()
            && self.hipFreeAsync.is_some()
    }

    /// Opens the runtime's library. A library of a version that is not supported may lack functions too: then the version
    /// is the error.
    pub(crate) fn load() -> Result<Self, Unusable> {
        let library = Library::open(&NAMES, "AMD's HIP runtime")?;
        // SAFETY: the declaration is that of the runtime's header.
        let asked = unsafe { library.find::<AskVersion>("hipRuntimeGetVersion") };
        let mut number = 0;
        // SAFETY: the number's place is our own.
        if asked.is_some_and(|ask| unsafe { ask(&raw mut number) } == 0) {
            codes::version(library.name(), number).map_err(Unusable::Absent)?;
        }
        Self::of(library)
    }
}
