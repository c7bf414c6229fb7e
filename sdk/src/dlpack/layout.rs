//! The C structs of DLPack 1.3, field by field, with their sizes and offsets proved when this file compiles.

use std::ffi::{c_char, c_int, c_void};

/// The version that exports carry.
pub const VERSION: DLPackVersion = DLPackVersion { major: 1, minor: 3 };

/// A version of DLPack; another major number means another struct.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DLPackVersion {
    /// Changes when the layout changes.
    pub major: u32,
    /// Changes when values are added.
    pub minor: u32,
}

/// A device as C sees it; [`Device`](super::Device) is the type to work with.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DLDevice {
    /// A `DLDeviceType`. Never a Rust enum, because any number may arrive.
    pub device_type: i32,
    /// The device's index among those of its type.
    pub device_id: i32,
}

/// An element type as C sees it; [`Dtype`](super::Dtype) is the type to work with.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DLDataType {
    /// A `DLDataTypeCode`.
    pub code: u8,
    /// Bits of one lane; both halves of a complex number are counted.
    pub bits: u8,
    /// Values in one element; 1 unless it is a vector type.
    pub lanes: u16,
}

/// A tensor as C sees it; it owns nothing.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DLTensor {
    /// An address, or a handle on devices without addresses (`cl_mem`, Metal buffers).
    pub data: *mut c_void,
    /// Where `data` lives.
    pub device: DLDevice,
    /// The number of dimensions.
    pub ndim: i32,
    /// The type of one element.
    pub dtype: DLDataType,
    /// `ndim` extents.
    pub shape: *mut i64,
    /// `ndim` strides in elements; NULL meant compact row-major before version 1.2.
    pub strides: *mut i64,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
}

/// A managed tensor of DLPack 0.x; it knows neither its version nor any flag.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// The producer's own pointer.
    pub manager_ctx: *mut c_void,
    /// Releases the struct and what it owns; may be NULL.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// A managed tensor of DLPack 1.x. The fields up to `flags` keep their places in every future version.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DLManagedTensorVersioned {
    /// The version whose layout the rest has.
    pub version: DLPackVersion,
    /// The producer's own pointer.
    pub manager_ctx: *mut c_void,
    /// Releases the struct and what it owns; may be NULL.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
    /// The bits of [`Flags`](super::Flags).
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}

/// Reports an error of [`DLPackManagedTensorAllocator`]: context, kind and message.
pub type DLPackSetError = Option<
    unsafe extern "C" fn(error_ctx: *mut c_void, kind: *const c_char, message: *const c_char),
>;

/// Makes a new tensor like the prototype's dtype, shape and device.
pub type DLPackManagedTensorAllocator = Option<
    unsafe extern "C" fn(
        prototype: *mut DLTensor,
        out: *mut *mut DLManagedTensorVersioned,
        error_ctx: *mut c_void,
        set_error: DLPackSetError,
    ) -> c_int,
>;

/// Exports a Python object, without synchronizing.
pub type DLPackManagedTensorFromPyObjectNoSync = Option<
    unsafe extern "C" fn(py_object: *mut c_void, out: *mut *mut DLManagedTensorVersioned) -> c_int,
>;

/// Turns a managed tensor into a Python object; takes the tensor over.
pub type DLPackManagedTensorToPyObjectNoSync = Option<
    unsafe extern "C" fn(
        tensor: *mut DLManagedTensorVersioned,
        out_py_object: *mut *mut c_void,
    ) -> c_int,
>;

/// Describes a Python object for the length of one call, without ownership.
pub type DLPackDLTensorFromPyObjectNoSync =
    Option<unsafe extern "C" fn(py_object: *mut c_void, out: *mut DLTensor) -> c_int>;

/// Says which stream a framework works on now.
pub type DLPackCurrentWorkStream = Option<
    unsafe extern "C" fn(
        device_type: i32,
        device_id: i32,
        out_current_stream: *mut *mut c_void,
    ) -> c_int,
>;

/// The part of the exchange table that never changes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DLPackExchangeAPIHeader {
    /// Checked before anything behind the header is read.
    pub version: DLPackVersion,
    /// An older table, or NULL.
    pub prev_api: *mut Self,
}

/// The table behind `__dlpack_c_exchange_api__`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DLPackExchangeAPI {
    /// Version and older tables.
    pub header: DLPackExchangeAPIHeader,
    /// Never NULL.
    pub managed_tensor_allocator: DLPackManagedTensorAllocator,
    /// Never NULL.
    pub managed_tensor_from_py_object_no_sync: DLPackManagedTensorFromPyObjectNoSync,
    /// Never NULL.
    pub managed_tensor_to_py_object_no_sync: DLPackManagedTensorToPyObjectNoSync,
    /// NULL where the framework has no such call.
    pub dltensor_from_py_object_no_sync: DLPackDLTensorFromPyObjectNoSync,
    /// Never NULL.
    pub current_work_stream: DLPackCurrentWorkStream,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::{offset_of, size_of};

    assert!(size_of::<DLPackVersion>() == 8);
    assert!(size_of::<DLDevice>() == 8);
    assert!(size_of::<DLDataType>() == 4);
    assert!(size_of::<DLTensor>() == 48);
    assert!(offset_of!(DLTensor, data) == 0);
    assert!(offset_of!(DLTensor, device) == 8);
    assert!(offset_of!(DLTensor, ndim) == 16);
    assert!(offset_of!(DLTensor, dtype) == 20);
    assert!(offset_of!(DLTensor, shape) == 24);
    assert!(offset_of!(DLTensor, strides) == 32);
    assert!(offset_of!(DLTensor, byte_offset) == 40);
    assert!(size_of::<DLManagedTensor>() == 64);
    assert!(offset_of!(DLManagedTensor, manager_ctx) == 48);
    assert!(offset_of!(DLManagedTensor, deleter) == 56);
    assert!(size_of::<DLManagedTensorVersioned>() == 80);
    assert!(offset_of!(DLManagedTensorVersioned, version) == 0);
    assert!(offset_of!(DLManagedTensorVersioned, manager_ctx) == 8);
    assert!(offset_of!(DLManagedTensorVersioned, deleter) == 16);
    assert!(offset_of!(DLManagedTensorVersioned, flags) == 24);
    assert!(offset_of!(DLManagedTensorVersioned, dl_tensor) == 32);
    assert!(size_of::<DLPackExchangeAPIHeader>() == 16);
    assert!(size_of::<DLPackExchangeAPI>() == 56);
    assert!(offset_of!(DLPackExchangeAPI, managed_tensor_allocator) == 16);
    assert!(offset_of!(DLPackExchangeAPI, current_work_stream) == 48);
};
