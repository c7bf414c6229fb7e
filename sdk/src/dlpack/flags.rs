//! The flag bits of a versioned managed tensor.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// A set of DLPack flag bits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(u64);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// The consumer may not write.
    pub const READ_ONLY: Self = Self(1 << 0);
    /// The producer made a copy, which is the consumer's alone.
    pub const IS_COPIED: Self = Self(1 << 1);
    /// Elements smaller than a byte take a whole byte each.
    pub const IS_SUBBYTE_TYPE_PADDED: Self = Self(1 << 2);

    const KNOWN: u64 = 0b111;

    /// The set with these bits, known or not.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The bits.
    #[must_use]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The bits that DLPack 1.3 does not define.
    #[must_use]
    pub const fn unknown(self) -> u64 {
        self.0 & !Self::KNOWN
    }

    /// Only the flags that DLPack 1.3 defines.
    #[must_use]
    pub const fn known(self) -> Self {
        Self(self.0 & Self::KNOWN)
    }

    /// Whether every flag of `other` is set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags with those of `other` set or cleared.
    #[must_use]
    pub const fn with(self, other: Self, set: bool) -> Self {
        if set {
            Self(self.0 | other.0)
        } else {
            Self(self.0 & !other.0)
        }
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flags({:#x})", self.0)
    }
}
