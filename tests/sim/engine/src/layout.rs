//! Arguments of work: sides of strided copies, words in memory, host accesses.

/// One side of a strided copy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Strided {
    /// Address of the element with index 0 in every dimension.
    pub address: u64,
    /// Bits from there to that element, for elements that do not fill bytes.
    pub bit_offset: u64,
    /// One a dimension, in elements.
    pub strides: Vec<i64>,
}

/// What a memory wait compares with its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Condition {
    /// The word equals the value.
    Equal,
    /// The word is at least the value: their difference, wrapped and read as signed, is not negative.
    AtLeast,
    /// The word and the value have a bit in common.
    And,
    /// Some bit is in neither of them.
    Nor,
}

/// A word in memory that streams wait for and write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word {
    /// Aligned to its width.
    pub address: u64,
    /// 32 or 64.
    pub bits: u32,
    /// Compared with, or written.
    pub value: u64,
}

/// What host code does to bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Access {
    /// It looks at them.
    Read,
    /// It changes them.
    Write,
}

/// Which memory an allocation is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum MemoryKind {
    /// The host cannot touch it: a load or store there ends the process.
    #[default]
    Device,
    /// Host memory that the device reaches under the same address.
    Pinned,
    /// Memory of a device that host code reaches under the same address.
    Managed,
}

/// Whose memory an address is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Owner {
    /// Index of the device.
    pub device: u32,
    /// What memory; registered host memory is `Pinned`.
    pub kind: MemoryKind,
    /// First address.
    pub base: u64,
    /// Its length.
    pub bytes: u64,
    /// Number of the allocation, never used again.
    pub id: u64,
    /// The pool that it comes from; 0 is none.
    pub pool: u64,
    /// Whether it is host memory that was registered, and no allocation.
    pub is_registered: bool,
}
