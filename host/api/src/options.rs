//! Structs of arguments. Those that may grow begin with their size, and what is all zero means the
//! default.
#![expect(unsafe_code, reason = "reads arrays that C vouches for")]

use std::ffi::c_void;
use std::marker::PhantomData;

use crossdock_sdk::abi::MemoryKind;
use crossdock_sdk::dlpack::{DLDataType, DLDevice, MAX_RANK};

use crate::handles::{Ref, XdDevice, XdStream};
use crate::numbers::{CopyMode, ExportFlags, MemoryFlags, Order, RouteKind, RuntimeFlags};
use crate::text::Text;

/// A time limit that there is none: `XD_NO_LIMIT`.
pub const NO_LIMIT: u64 = u64::MAX;

/// A cost that is not known: `XD_COST_UNKNOWN`.
pub const COST_UNKNOWN: u64 = u64::MAX;

/// Dtype, shape and strides: `xd_layout`. It never changes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct XdLayout<'a> {
    pub(crate) dtype: DLDataType,
    pub(crate) ndim: u32,
    pub(crate) shape: *const i64,
    pub(crate) strides: *const i64,
    /// Not 0: elements smaller than a byte take whole bytes.
    pub(crate) padded: u32,
    pub(crate) reserved: u32,
    pub(crate) arrays: PhantomData<&'a [i64]>,
}

impl<'a> XdLayout<'a> {
    /// Compact row-major order; elements smaller than a byte are packed.
    ///
    /// A rank that no layout has is carried as it is, and refused where the layout is used.
    #[must_use]
    pub fn compact(dtype: DLDataType, shape: &'a [i64]) -> Self {
        Self {
            dtype,
            ndim: u32::try_from(shape.len()).unwrap_or(u32::MAX),
            shape: shape.as_ptr(),
            strides: std::ptr::null(),
            padded: 0,
            reserved: 0,
            arrays: PhantomData,
        }
    }

    /// With strides in elements; `None` where they are not as many as the extents.
    #[must_use]
    pub fn strided(dtype: DLDataType, shape: &'a [i64], strides: &'a [i64]) -> Option<Self> {
        (shape.len() == strides.len()).then_some(Self {
            strides: strides.as_ptr(),
            ..Self::compact(dtype, shape)
        })
    }

    /// The same with elements smaller than a byte padded to whole bytes.
    #[must_use]
    pub const fn padded(mut self) -> Self {
        self.padded = 1;
        self
    }

    /// The type of one element, unchecked.
    #[must_use]
    pub const fn dtype(&self) -> DLDataType {
        self.dtype
    }

    /// The number of dimensions, unchecked.
    #[must_use]
    pub const fn ndim(&self) -> u32 {
        self.ndim
    }

    /// Whether elements smaller than a byte take whole bytes.
    #[must_use]
    pub const fn is_padded(&self) -> bool {
        self.padded != 0
    }

    /// The extents; `None` where they are NULL with dimensions, or too many.
    #[must_use]
    pub fn shape(&self) -> Option<&'a [i64]> {
        self.array(self.shape)
    }

    /// The strides in elements; `None` where they are NULL, which means compact, or too many.
    #[must_use]
    pub fn strides(&self) -> Option<&'a [i64]> {
        self.array(self.strides)
    }

    fn array(&self, first: *const i64) -> Option<&'a [i64]> {
        let count = usize::try_from(self.ndim).ok()?;
        if count == 0 {
            return Some(&[]);
        }
        if first.is_null() || count > MAX_RANK {
            return None;
        }
        // SAFETY: the fields are private: Rust fills them from slices of this length that live for
        // `'a`, and C promises the same of an array that is not NULL.
        Some(unsafe { std::slice::from_raw_parts(first, count) })
    }
}

/// Gives structs that begin with their size that size.
macro_rules! sized_options {
    ($($name:ident $(<$lifetime:lifetime>)?),*) => {$(
        impl $(<$lifetime>)? $name $(<$lifetime>)? {
            /// Bytes of this struct, as this version knows it.
            pub const SIZE: u64 = size_of::<Self>() as u64;
        }
    )*};
}
pub(crate) use sized_options;

sized_options!(
    XdRuntimeOptions<'a>,
    XdMemory<'a>,
    XdImportOptions<'a>,
    XdEmptyOptions<'a>,
    XdExportOptions<'a>,
    XdMoveOptions<'a>
);

/// How a runtime is opened: `xd_runtime_options`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct XdRuntimeOptions<'a> {
    pub(crate) struct_size: u64,
    /// What is changed from the default.
    pub flags: RuntimeFlags,
    pub(crate) reserved: u32,
    pub(crate) plugins: *const Text<'a>,
    pub(crate) plugin_count: u64,
    pub(crate) folders: *const Text<'a>,
    pub(crate) folder_count: u64,
    /// As `CROSSDOCK_LAYERS`; NULL: none but the environment's.
    pub layers: Text<'a>,
    /// As `CROSSDOCK_FAULT`; NULL: none but the environment's.
    pub fault: Text<'a>,
    /// As `CROSSDOCK_DEVICE_ORDER`; NULL: the environment's.
    pub device_order: Text<'a>,
    /// As `CROSSDOCK_COSTS`; NULL: the environment's.
    pub costs: Text<'a>,
    /// As `CROSSDOCK_STAGING_BYTES`; 0: the environment's.
    pub staging_bytes: u64,
}

impl<'a> XdRuntimeOptions<'a> {
    /// Loads these files first, then looks into these folders, then into the standard ones.
    #[must_use]
    pub const fn new(plugins: &'a [Text<'a>], folders: &'a [Text<'a>]) -> Self {
        Self {
            struct_size: Self::SIZE,
            flags: RuntimeFlags(0),
            reserved: 0,
            plugins: plugins.as_ptr(),
            plugin_count: plugins.len() as u64,
            folders: folders.as_ptr(),
            folder_count: folders.len() as u64,
            layers: Text::NULL,
            fault: Text::NULL,
            device_order: Text::NULL,
            costs: Text::NULL,
            staging_bytes: 0,
        }
    }

    /// The given files; `None` where they are NULL with a count, or too many.
    #[must_use]
    pub fn plugins(&self) -> Option<&'a [Text<'a>]> {
        texts(self.plugins, self.plugin_count)
    }

    /// The given folders; `None` where they are NULL with a count, or too many.
    #[must_use]
    pub fn folders(&self) -> Option<&'a [Text<'a>]> {
        texts(self.folders, self.folder_count)
    }
}

/// More files or folders than anybody has: a count above is a mistake.
const MOST_TEXTS: u64 = 1 << 16;

fn texts<'a>(first: *const Text<'a>, count: u64) -> Option<&'a [Text<'a>]> {
    if count == 0 {
        return Some(&[]);
    }
    if first.is_null() || count > MOST_TEXTS {
        return None;
    }
    let count = usize::try_from(count).ok()?;
    // SAFETY: the fields are private: Rust fills them from a slice of this length that lives for
    // `'a`, and C promises the same of an array that is not NULL.
    Some(unsafe { std::slice::from_raw_parts(first, count) })
}

/// Memory with an owner: `xd_memory`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct XdMemory<'a> {
    pub(crate) struct_size: u64,
    /// Where the memory is claimed to be.
    pub device: DLDevice,
    /// Its address, or its handle on devices that have handles; NULL where there is no element.
    pub data: *mut c_void,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
    /// Dtype, shape and strides.
    pub layout: XdLayout<'a>,
    /// What holds for the memory.
    pub flags: MemoryFlags,
    pub(crate) reserved: u32,
    /// Passed to `release`.
    pub owner: *mut c_void,
    /// Gives the memory back: called once, on any thread. None: nothing is to be done.
    pub release: Option<unsafe extern "C" fn(owner: *mut c_void)>,
    /// The stream whose work writes the memory; NULL: it is ready.
    pub stream: Ref<'a, XdStream>,
}

impl<'a> XdMemory<'a> {
    /// Memory of `device` at `data`, which nobody needs to give back.
    #[must_use]
    pub const fn new(device: DLDevice, data: *mut c_void, layout: XdLayout<'a>) -> Self {
        Self {
            struct_size: Self::SIZE,
            device,
            data,
            byte_offset: 0,
            layout,
            flags: MemoryFlags(0),
            reserved: 0,
            owner: std::ptr::null_mut(),
            release: None,
            stream: Ref::NULL,
        }
    }
}

/// How a tensor is taken: `xd_import_options`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct XdImportOptions<'a> {
    pub(crate) struct_size: u64,
    /// The stream whose work writes the memory; NULL: it is ready.
    pub stream: Ref<'a, XdStream>,
    /// Where it is wanted; NULL: where it is.
    pub device: Ref<'a, XdDevice>,
    /// Whether it may or must be copied.
    pub copy: CopyMode,
    /// The kind of memory that is wanted there; 0: any.
    pub kind: MemoryKind,
}

impl XdImportOptions<'_> {
    /// The default: what a NULL pointer means as well.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            struct_size: Self::SIZE,
            stream: Ref::NULL,
            device: Ref::NULL,
            copy: CopyMode::IF_NEEDED,
            kind: MemoryKind::UNOWNED,
        }
    }
}

impl Default for XdImportOptions<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// How a new tensor is allocated: `xd_empty_options`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct XdEmptyOptions<'a> {
    pub(crate) struct_size: u64,
    /// `DEVICE` (or 0), `PINNED` or `MANAGED`.
    pub kind: MemoryKind,
    pub(crate) reserved: u32,
    /// The stream in whose order device memory is allocated; NULL: it may be used at once.
    pub stream: Ref<'a, XdStream>,
}

impl XdEmptyOptions<'_> {
    /// The default: what a NULL pointer means as well.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            struct_size: Self::SIZE,
            kind: MemoryKind::DEVICE,
            reserved: 0,
            stream: Ref::NULL,
        }
    }
}

impl Default for XdEmptyOptions<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// How a tensor is handed out: `xd_export_options`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct XdExportOptions<'a> {
    pub(crate) struct_size: u64,
    /// What is said of the tensor.
    pub flags: ExportFlags,
    /// Who keeps the order.
    pub order: Order,
    /// The stream of [`Order::STREAM`]; else NULL.
    pub stream: Ref<'a, XdStream>,
}

impl XdExportOptions<'_> {
    /// The default: what a NULL pointer means as well.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            struct_size: Self::SIZE,
            flags: ExportFlags(0),
            order: Order::READY,
            stream: Ref::NULL,
        }
    }
}

impl Default for XdExportOptions<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// How a tensor is moved: `xd_move_options`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct XdMoveOptions<'a> {
    pub(crate) struct_size: u64,
    /// The only route that is allowed, or the best.
    pub route: RouteKind,
    /// Whether it may or must copy.
    pub copy: CopyMode,
    /// The kind of memory that is wanted on the device; 0: any.
    pub kind: MemoryKind,
    pub(crate) reserved: u32,
    /// The stream in whose order it is moved; NULL: it is done when the function returns.
    pub stream: Ref<'a, XdStream>,
}

impl XdMoveOptions<'_> {
    /// The default: what a NULL pointer means as well.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            struct_size: Self::SIZE,
            route: RouteKind::BEST,
            copy: CopyMode::IF_NEEDED,
            kind: MemoryKind::UNOWNED,
            reserved: 0,
            stream: Ref::NULL,
        }
    }
}

impl Default for XdMoveOptions<'_> {
    fn default() -> Self {
        Self::new()
    }
}
