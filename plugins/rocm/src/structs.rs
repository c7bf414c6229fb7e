//! Structs that the runtime reads and writes, with integers in them. HIP 6 and 7 have them alike.

use std::ffi::c_int;

use hip_sys::hiprt as sys;

/// `hipPointerAttribute_t`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Attributes {
    pub(crate) kind: c_int,
    pub(crate) device: c_int,
    pub(crate) device_pointer: u64,
    pub(crate) host_pointer: u64,
    pub(crate) is_managed: c_int,
    flags: u32,
}

/// `hipMemcpy3DParms`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Planes {
    pub(crate) src: PlanesSide,
    pub(crate) dst: PlanesSide,
    /// Bytes of a row, rows of a plane, planes.
    pub(crate) extent: [usize; 3],
    pub(crate) kind: c_int,
}

/// A side of it: an array, where it begins, and a `hipPitchedPtr`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct PlanesSide {
    array: u64,
    first: [usize; 3],
    address: u64,
    pitch: usize,
    width: usize,
    height: usize,
}

impl PlanesSide {
    /// Rows that are `pitch` bytes apart, and planes that are `height` rows apart.
    pub(crate) fn new(address: u64, pitch: usize, height: usize) -> Self {
        Self {
            address,
            pitch,
            width: pitch,
            height,
            ..Self::default()
        }
    }
}

/// `hipMemPoolProps`: memory of a device, for this process alone.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct PoolProperties {
    /// `hipMemAllocationTypePinned`.
    allocation: c_int,
    handles: c_int,
    /// `hipMemLocationTypeDevice`.
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

/// `hipMemAccessDesc`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct PoolAccess {
    /// `hipMemLocationTypeDevice`.
    location: c_int,
    device: c_int,
    flags: c_int,
}

impl PoolAccess {
    /// `hipMemAccessFlagsProtReadWrite`, or none.
    pub(crate) const fn of(device: c_int, is_open: bool) -> Self {
        Self {
            location: 1,
            device,
            flags: if is_open { 3 } else { 0 },
        }
    }
}

/// Compares a struct and places in it with AMD's.
macro_rules! compare {
    ($ours:ty as $theirs:ty { $($($field:ident).+ as $their:ident),* $(,)? }) => {
        const _: () = assert!(size_of::<$ours>() == size_of::<$theirs>());
        $(const _: () = assert!(
            std::mem::offset_of!($ours, $($field).+) == std::mem::offset_of!($theirs, $their)
        );)*
    };
}

compare!(Attributes as sys::hipPointerAttribute_t {
    kind as memoryType, device as device, device_pointer as devicePointer,
    host_pointer as hostPointer, is_managed as isManaged, flags as allocationFlags,
});
compare!(Planes as sys::hipMemcpy3DParms {
    src.array as srcArray, src.first as srcPos, src.address as srcPtr, dst.array as dstArray,
    dst.first as dstPos, dst.address as dstPtr, extent as extent, kind as kind,
});
compare!(PoolProperties as sys::hipMemPoolProps {
    allocation as allocType, handles as handleTypes, location as location,
});
compare!(PoolAccess as sys::hipMemAccessDesc {
    location as location, flags as flags,
});
