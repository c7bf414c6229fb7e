//! Structs that functions take or write; a released one never changes.

use std::ffi::CStr;

use crossdock_sdk::abi::{AddressForm, MemoryKind};
use crossdock_sdk::dlpack::{DLDataType, DLDevice};

/// Which indexes of one axis a slice takes: `xd_axis_slice`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers write its fields")]
pub struct XdAxisSlice {
    /// The first index.
    pub start: i64,
    /// From one index to the next; may be negative, not zero.
    pub step: i64,
    /// How many indexes.
    pub len: i64,
}

/// A name that fits into a fixed place: `char[XD_NAME_BYTES]`.
#[repr(transparent)]
#[derive(Debug, Clone, Copy)]
pub struct NameText([u8; Self::BYTES]);

impl NameText {
    /// `XD_NAME_BYTES`.
    pub const BYTES: usize = 64;

    /// No text yet.
    pub const EMPTY: Self = Self([0; Self::BYTES]);

    /// `name`, cut off where it does not fit.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut bytes = [0; Self::BYTES];
        for (place, byte) in bytes.iter_mut().zip(name.bytes().take(Self::BYTES - 1)) {
            *place = byte;
        }
        Self(bytes)
    }

    /// The text.
    #[must_use]
    pub fn to_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

/// What a tensor is: `xd_tensor_info`. The two arrays have `ndim` numbers each, are lent by the
/// tensor's handle, and are NULL where `ndim` is 0.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "a released struct never changes")]
pub struct XdTensorInfo {
    /// Where DLPack says that it is: `cuda_host:0` and the like for pinned and managed memory.
    pub device: DLDevice,
    /// The type of one element.
    pub dtype: DLDataType,
    /// The number of dimensions, at most 64.
    pub ndim: u32,
    /// The extents.
    pub shape: *const i64,
    /// The strides, in elements.
    pub strides: *const i64,
    /// Elements.
    pub numel: u64,
    /// Bytes of the elements when they lie compact.
    pub nbytes: u64,
    /// Address or handle, by `form`; 0 where there is no element.
    pub data: u64,
    /// Bytes from `data` to the first element; 0 for addresses, which have it added already.
    pub byte_offset: u64,
    /// How to read `data`.
    pub form: AddressForm,
    /// Whose memory it is.
    pub memory_kind: MemoryKind,
    /// Not 0: writing is refused.
    pub read_only: u32,
    /// Not 0: the elements lie in compact row-major order.
    pub contiguous: u32,
    /// Not 0: elements smaller than a byte take whole bytes.
    pub padded: u32,
    /// Zero.
    pub reserved: u32,
}
