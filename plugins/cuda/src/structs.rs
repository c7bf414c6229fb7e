//! Structs that the driver reads, with integers in them.

use std::ffi::c_int;

use cudarc::driver::sys;

/// `CU_MEMORYTYPE_HOST` and `_DEVICE`.
const HOST: c_int = 1;
const DEVICE: c_int = 2;

/// `CUDA_MEMCPY2D`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct RowsCopy {
    pub(crate) src: RowsSide,
    pub(crate) dst: RowsSide,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// A side of it.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct RowsSide {
    x: usize,
    y: usize,
    kind: c_int,
    host: u64,
    device: u64,
    array: u64,
    pitch: usize,
}

impl RowsSide {
    pub(crate) fn new(address: u64, is_host: bool, pitch: usize) -> Self {
        let (kind, host, device) = placed(address, is_host);
        Self {
            kind,
            host,
            device,
            pitch,
            ..Self::default()
        }
    }
}

/// `CUDA_MEMCPY3D`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Planes {
    pub(crate) src: PlanesSide,
    pub(crate) dst: PlanesSide,
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

/// A side of it.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct PlanesSide {
    x: usize,
    y: usize,
    z: usize,
    level: usize,
    kind: c_int,
    host: u64,
    device: u64,
    array: u64,
    reserved: u64,
    pitch: usize,
    height: usize,
}

impl PlanesSide {
    pub(crate) fn new(address: u64, is_host: bool, pitch: usize, height: usize) -> Self {
        let (kind, host, device) = placed(address, is_host);
        Self {
            kind,
            host,
            device,
            pitch,
            height,
            ..Self::default()
        }
    }
}

const fn placed(address: u64, is_host: bool) -> (c_int, u64, u64) {
    if is_host {
        (HOST, address, 0)
    } else {
        (DEVICE, 0, address)
    }
}

/// `CUmemPoolProps`: memory of a device, for this process alone.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct PoolProperties {
    /// `CU_MEM_ALLOCATION_TYPE_PINNED`.
    allocation: c_int,
    handles: c_int,
    /// `CU_MEM_LOCATION_TYPE_DEVICE`.
    location: c_int,
    device: c_int,
    security: u64,
    rest: [u8; 64],
}

impl PoolProperties {
    pub(crate) const fn of(device: c_int) -> Self {
        Self {
            allocation: 1,
            handles: 0,
            location: 1,
            device,
            security: 0,
            rest: [0; 64],
        }
    }
}

/// `CUmemAccessDesc`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct PoolAccess {
    /// `CU_MEM_LOCATION_TYPE_DEVICE`.
    location: c_int,
    device: c_int,
    flags: c_int,
}

impl PoolAccess {
    /// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`, or none.
    pub(crate) const fn of(device: c_int, is_open: bool) -> Self {
        Self {
            location: 1,
            device,
            flags: if is_open { 3 } else { 0 },
        }
    }
}

/// Compares a struct and places in it with NVIDIA's.
macro_rules! compare {
    ($ours:ty as $theirs:ty { $($($field:ident).+ as $their:ident),* $(,)? }) => {
        const _: () = assert!(size_of::<$ours>() == size_of::<$theirs>());
        $(const _: () = assert!(
            std::mem::offset_of!($ours, $($field).+) == std::mem::offset_of!($theirs, $their)
        );)*
    };
}

compare!(RowsCopy as sys::CUDA_MEMCPY2D {
    src.kind as srcMemoryType, src.host as srcHost, src.device as srcDevice, src.pitch as srcPitch,
    dst.x as dstXInBytes, dst.kind as dstMemoryType, dst.host as dstHost, dst.device as dstDevice,
    dst.pitch as dstPitch, width as WidthInBytes, height as Height,
});
compare!(Planes as sys::CUDA_MEMCPY3D {
    src.kind as srcMemoryType, src.host as srcHost, src.device as srcDevice, src.pitch as srcPitch,
    src.height as srcHeight, dst.x as dstXInBytes, dst.kind as dstMemoryType, dst.host as dstHost,
    dst.device as dstDevice, dst.pitch as dstPitch, dst.height as dstHeight, width as WidthInBytes,
    height as Height, depth as Depth,
});
compare!(PoolProperties as sys::CUmemPoolProps {
    allocation as allocType, handles as handleTypes, location as location,
});
compare!(PoolAccess as sys::CUmemAccessDesc {
    location as location, flags as flags,
});
