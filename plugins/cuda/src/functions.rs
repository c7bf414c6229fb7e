//! The driver's functions, opened by their names. The compiler compares each declaration with NVIDIA's.
#![expect(non_snake_case, reason = "functions have the driver's names")]

use std::ffi::{c_char, c_int, c_uint, c_void};

use crossdock_plugin_gpu::functions;
use crossdock_plugin_gpu::vendor::{Answer, Code, HostFunction, Library, Unusable};
use cudarc::driver::sys;

use crate::structs::{Planes, PoolAccess, PoolProperties, RowsCopy};

/// The library that every driver of NVIDIA's comes with.
pub(crate) const LIBRARY: &str = "libcuda.so.1";

/// Compares a declaration with NVIDIA's.
macro_rules! compare {
    ($name:ident($($ours:ty as $theirs:ty),*)) => {
        const _: unsafe fn($($theirs),*) -> sys::CUresult = sys::$name;
        $(const _: () = assert!(size_of::<$ours>() == size_of::<$theirs>());)*
        $(const _: () = assert!(align_of::<$ours>() == align_of::<$theirs>());)*
    };
}

functions! {
    Functions, compared by compare;
    required {
        cuInit(u32 as c_uint);
        cuDriverGetVersion(*mut c_int as *mut c_int);
        cuGetErrorName(c_int as sys::CUresult, *mut *const c_char as *mut *const c_char);
        cuGetErrorString(c_int as sys::CUresult, *mut *const c_char as *mut *const c_char);
        cuDeviceGetCount(*mut c_int as *mut c_int);
        cuDeviceGetName(*mut c_char as *mut c_char, c_int as c_int, c_int as sys::CUdevice);
        cuDeviceGetUuid(*mut [u8; 16] as *mut sys::CUuuid, c_int as sys::CUdevice);
        cuDeviceTotalMem_v2(*mut usize as *mut usize, c_int as sys::CUdevice);
        cuDeviceGetAttribute(
            *mut c_int as *mut c_int, c_int as sys::CUdevice_attribute, c_int as sys::CUdevice,
        );
        cuDeviceGetPCIBusId(*mut c_char as *mut c_char, c_int as c_int, c_int as sys::CUdevice);
        cuDevicePrimaryCtxRetain(*mut u64 as *mut sys::CUcontext, c_int as sys::CUdevice);
        cuDevicePrimaryCtxRelease_v2(c_int as sys::CUdevice);
        cuCtxPushCurrent_v2(u64 as sys::CUcontext);
        cuCtxPopCurrent_v2(*mut u64 as *mut sys::CUcontext);
        cuCtxGetDevice(*mut c_int as *mut sys::CUdevice);
        cuDeviceCanAccessPeer(
            *mut c_int as *mut c_int, c_int as sys::CUdevice, c_int as sys::CUdevice,
        );
        cuCtxEnablePeerAccess(u64 as sys::CUcontext, u32 as c_uint);
        cuCtxDisablePeerAccess(u64 as sys::CUcontext);
        cuThreadExchangeStreamCaptureMode(*mut c_int as *mut sys::CUstreamCaptureMode);
        cuPointerGetAttributes(
            u32 as c_uint, *mut c_int as *mut sys::CUpointer_attribute,
            *mut *mut c_void as *mut *mut c_void, u64 as sys::CUdeviceptr,
        );
        cuMemGetInfo_v2(*mut usize as *mut usize, *mut usize as *mut usize);
        cuMemAlloc_v2(*mut u64 as *mut sys::CUdeviceptr, usize as usize);
        cuMemHostAlloc(*mut u64 as *mut *mut c_void, usize as usize, u32 as c_uint);
        cuMemAllocManaged(*mut u64 as *mut sys::CUdeviceptr, usize as usize, u32 as c_uint);
        cuMemFree_v2(u64 as sys::CUdeviceptr);
        cuMemFreeHost(u64 as *mut c_void);
        cuMemHostRegister_v2(u64 as *mut c_void, usize as usize, u32 as c_uint);
        cuMemHostUnregister(u64 as *mut c_void);
        cuStreamCreate(*mut u64 as *mut sys::CUstream, u32 as c_uint);
        cuStreamDestroy_v2(u64 as sys::CUstream);
        cuStreamQuery(u64 as sys::CUstream);
        cuStreamSynchronize(u64 as sys::CUstream);
        cuStreamWaitEvent(u64 as sys::CUstream, u64 as sys::CUevent, u32 as c_uint);
        cuStreamGetCtx(u64 as sys::CUstream, *mut u64 as *mut sys::CUcontext);
        cuStreamIsCapturing(u64 as sys::CUstream, *mut c_int as *mut sys::CUstreamCaptureStatus);
        cuLaunchHostFunc(
            u64 as sys::CUstream, Option<HostFunction> as sys::CUhostFn,
            *mut c_void as *mut c_void,
        );
        cuEventCreate(*mut u64 as *mut sys::CUevent, u32 as c_uint);
        cuEventDestroy_v2(u64 as sys::CUevent);
        cuEventRecord(u64 as sys::CUevent, u64 as sys::CUstream);
        cuEventQuery(u64 as sys::CUevent);
        cuEventSynchronize(u64 as sys::CUevent);
        cuEventElapsedTime(*mut f32 as *mut f32, u64 as sys::CUevent, u64 as sys::CUevent);
        cuMemcpyAsync(
            u64 as sys::CUdeviceptr, u64 as sys::CUdeviceptr, usize as usize, u64 as sys::CUstream,
        );
        cuMemcpyHtoDAsync_v2(
            u64 as sys::CUdeviceptr, u64 as *const c_void, usize as usize, u64 as sys::CUstream,
        );
        cuMemcpyDtoHAsync_v2(
            u64 as *mut c_void, u64 as sys::CUdeviceptr, usize as usize, u64 as sys::CUstream,
        );
        cuMemcpyDtoDAsync_v2(
            u64 as sys::CUdeviceptr, u64 as sys::CUdeviceptr, usize as usize, u64 as sys::CUstream,
        );
        cuMemcpyPeerAsync(
            u64 as sys::CUdeviceptr, u64 as sys::CUcontext, u64 as sys::CUdeviceptr,
            u64 as sys::CUcontext, usize as usize, u64 as sys::CUstream,
        );
        cuMemcpy2DAsync_v2(*const RowsCopy as *const sys::CUDA_MEMCPY2D, u64 as sys::CUstream);
        cuMemcpy3DAsync_v2(*const Planes as *const sys::CUDA_MEMCPY3D, u64 as sys::CUstream);
        cuMemsetD8Async(u64 as sys::CUdeviceptr, u8 as u8, usize as usize, u64 as sys::CUstream);
        cuMemsetD16Async(u64 as sys::CUdeviceptr, u16 as u16, usize as usize, u64 as sys::CUstream);
        cuMemsetD32Async(
            u64 as sys::CUdeviceptr, u32 as c_uint, usize as usize, u64 as sys::CUstream,
        );
        cuMemsetD2D8Async(
            u64 as sys::CUdeviceptr, usize as usize, u8 as u8, usize as usize, usize as usize,
            u64 as sys::CUstream,
        );
        cuMemsetD2D16Async(
            u64 as sys::CUdeviceptr, usize as usize, u16 as u16, usize as usize, usize as usize,
            u64 as sys::CUstream,
        );
        cuMemsetD2D32Async(
            u64 as sys::CUdeviceptr, usize as usize, u32 as c_uint, usize as usize, usize as usize,
            u64 as sys::CUstream,
        );
}
    optional {
        cuDeviceGetUuid_v2(*mut [u8; 16] as *mut sys::CUuuid, c_int as sys::CUdevice);
        cuMemPoolCreate(
            *mut u64 as *mut sys::CUmemoryPool,
            *const PoolProperties as *const sys::CUmemPoolProps,
        );
        cuMemPoolDestroy(u64 as sys::CUmemoryPool);
        cuMemPoolTrimTo(u64 as sys::CUmemoryPool, usize as usize);
        cuMemPoolSetAttribute(
            u64 as sys::CUmemoryPool, c_int as sys::CUmemPool_attribute, *mut u64 as *mut c_void,
        );
        cuMemPoolGetAttribute(
            u64 as sys::CUmemoryPool, c_int as sys::CUmemPool_attribute, *mut u64 as *mut c_void,
        );
        cuMemPoolSetAccess(
            u64 as sys::CUmemoryPool, *const PoolAccess as *const sys::CUmemAccessDesc,
            usize as usize,
        );
        cuMemAllocFromPoolAsync(
            *mut u64 as *mut sys::CUdeviceptr, usize as usize, u64 as sys::CUmemoryPool,
            u64 as sys::CUstream,
        );
        cuMemFreeAsync(u64 as sys::CUdeviceptr, u64 as sys::CUstream);
        cuStreamWaitValue32_v2(
            u64 as sys::CUstream, u64 as sys::CUdeviceptr, u32 as sys::cuuint32_t, u32 as c_uint,
        );
    }
}

/// Calls a function of the table by its name.
macro_rules! call {
    ($cuda:ident.$name:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: the arguments are what the driver's header asks for: out-parameters of this function's own, and
        // handles that are alive, as `Vendor` asks, and memory for which the caller of an unsafe method vouches.
        $crate::functions::checked(stringify!($name), unsafe { ($cuda.0.$name)($($argument),*) })
    };
    ($cuda:ident.$name:ident?($($argument:expr),* $(,)?)) => {
        match $cuda.0.$name {
            Some(function) => {
                // SAFETY: as above.
                $crate::functions::checked(stringify!($name), unsafe { function($($argument),*) })
            }
            None => Err($crate::functions::lacks(stringify!($name))),
        }
    };
}
pub(crate) use call;

impl Functions {
    /// Whether the driver has all that is asked of pools: a version that lacks one has none.
    pub(crate) const fn have_pools(&self) -> bool {
        self.cuMemPoolCreate.is_some()
            && self.cuMemPoolDestroy.is_some()
            && self.cuMemPoolTrimTo.is_some()
            && self.cuMemPoolSetAttribute.is_some()
            && self.cuMemPoolGetAttribute.is_some()
            && self.cuMemPoolSetAccess.is_some()
            && self.cuMemAllocFromPoolAsync.is_some()
            && self.cuMemFreeAsync.is_some()
    }

    /// Opens the driver's library.
    pub(crate) fn load() -> Result<Self, Unusable> {
        Self::of(Library::open(&[LIBRARY], "NVIDIA's driver")?)
    }
}

/// The answer that a result's number stands for.
pub(crate) const fn checked(call: &'static str, number: c_int) -> Answer {
    match number {
        0 => Ok(()),
        number => Err(Code { number, call }),
    }
}

/// The answer where the driver is older than the function.
pub(crate) const fn lacks(call: &'static str) -> Code {
    let number = crate::codes::NOT_SUPPORTED;
    Code { number, call }
}
