//! What can be wrong with a DLPack tensor: each error names the field, what it held and what was allowed.

use super::device_type::{Device, DeviceType};

/// Why a tensor, or the text of a device or dtype, was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DlpackError {
    /// The struct has another layout; it was released through its own deleter.
    #[error(
        "version: the tensor has DLPack {found_major}.{found_minor}, \
         this library reads {own_major}.x"
    )]
    Version {
        /// The tensor's major version.
        found_major: u32,
        /// The tensor's minor version.
        found_minor: u32,
        /// The major version read here.
        own_major: u32,
    },
    /// A flag bit whose meaning is unknown.
    #[error("flags: {flags:#x} has the unknown bits {unknown:#x}")]
    UnknownFlags {
        /// All bits.
        flags: u64,
        /// Those without a meaning.
        unknown: u64,
    },
    /// More dimensions than anyone supports, or a negative number of them.
    #[error("ndim: {ndim} is not between 0 and {limit}")]
    Rank {
        /// The rank found.
        ndim: i64,
        /// The highest rank allowed.
        limit: usize,
    },
    /// Dimensions without extents.
    #[error("shape: NULL with ndim {ndim}, expected {ndim} extents")]
    NullShape {
        /// The rank found.
        ndim: usize,
    },
    /// A negative extent.
    #[error("shape[{axis}]: {extent} is negative, expected 0 or more")]
    NegativeExtent {
        /// Which dimension.
        axis: usize,
        /// Its extent.
        extent: i64,
    },
    /// More elements or bytes than 63 bits count.
    #[error("shape: {shape:?} takes more than {limit} bytes")]
    SizeOverflow {
        /// The shape.
        shape: Vec<i64>,
        /// Bits of one element; 1 where already the number of elements is too high.
        element_bits: u32,
        /// The most bytes a tensor may have.
        limit: i64,
    },
    /// A dtype outside the table.
    #[error(
        "dtype: code {code}, bits {bits}, lanes {lanes} is no DLPack type (expected {expected})"
    )]
    Dtype {
        /// The type code.
        code: u8,
        /// Bits of one lane.
        bits: u8,
        /// Lanes.
        lanes: u16,
        /// What this code allows.
        expected: &'static str,
    },
    /// Shape and strides of different lengths.
    #[error("strides: {strides} entries for {shape} dimensions")]
    StrideCount {
        /// Extents given.
        shape: usize,
        /// Strides given.
        strides: usize,
    },
    /// Elements further away than 63 bits of bytes.
    #[error("strides: {strides:?} over shape {shape:?} reach further than {limit} bytes")]
    SpanOverflow {
        /// The shape.
        shape: Vec<i64>,
        /// The strides.
        strides: Vec<i64>,
        /// The furthest byte allowed.
        limit: i64,
    },
    /// An offset that ends outside 63 bits, or in the middle of a byte.
    #[error(
        "byte_offset: {offset} {unit} with a span that ends {end} bytes behind it is out of range"
    )]
    Offset {
        /// The offset.
        offset: i128,
        /// Its unit, `bytes` or `bits`.
        unit: &'static str,
        /// The end of the span.
        end: i64,
    },
    /// A packed element in the middle of a byte, where nothing can begin.
    #[error(
        "index: its first element begins {bits} bits in, which is in the middle of a byte, and views of \
         packed elements begin at whole ones"
    )]
    MidByte {
        /// Bits before the element.
        bits: i128,
    },
    /// Elements, and no address.
    #[error("data: NULL with {numel} elements, expected NULL only for 0")]
    NullData {
        /// The number of elements.
        numel: i64,
    },
    /// An address from which the span leaves the address space.
    #[error(
        "data: {data:#x} with byte_offset {byte_offset} and the span {min}..{max} \
         leaves the address space"
    )]
    AddressSpace {
        /// The data word.
        data: usize,
        /// The offset.
        byte_offset: u64,
        /// Start of the span.
        min: i64,
        /// End of the span.
        max: i64,
    },
    /// A span that is not inside the allocation.
    #[error("data: the tensor covers {start}..{end} of an allocation that has {size} bytes")]
    OutsideAllocation {
        /// First byte, counted from the allocation's start.
        start: i128,
        /// End.
        end: i128,
        /// The allocation's size.
        size: u64,
    },
    /// A device type or id that is no such thing.
    #[error("device: {device} is no device (expected a type above 0 and an id of 0 or more)")]
    Device {
        /// The device found.
        device: Device,
    },
    /// Something a legacy struct cannot say; libraries of that time took one bit for a whole byte.
    #[error("flags: a legacy DLPack tensor cannot say {what}; ask for version {version}")]
    LegacyCannotSay {
        /// What it cannot say.
        what: &'static str,
        /// The version that can.
        version: &'static str,
    },
    /// A view of a layout that is not one.
    #[error("axis {axis}: start {start}, step {step}, length {len} is outside extent {extent}")]
    Slice {
        /// Which dimension.
        axis: usize,
        /// First index.
        start: i64,
        /// Step between indexes.
        step: i64,
        /// Number of indexes.
        len: i64,
        /// The extent it is taken from.
        extent: i64,
    },
    /// A list of axes that is no permutation of the layout's.
    #[error("axes: {axes:?} is no permutation of {rank} axes")]
    Axes {
        /// The list given.
        axes: Vec<usize>,
        /// The layout's rank.
        rank: usize,
    },
    /// No memory for the struct of an export.
    #[error("no memory for the {bytes} bytes of a managed tensor")]
    OutOfMemory {
        /// What was asked for.
        bytes: usize,
    },
    /// Text that names no device.
    #[error("device: {text:?} is not TYPE or TYPE:ID, as in cuda:1")]
    DeviceText {
        /// The text.
        text: String,
    },
    /// Text that names no type of devices.
    #[error("device: no device type {text:?}; there are {}", DeviceType::names())]
    DeviceTypeText {
        /// The text.
        text: String,
    },
    /// Text that names no dtype.
    #[error("dtype: {text:?} is no type name, as in float32 or int8x4")]
    DtypeText {
        /// The text.
        text: String,
    },
}
