//! Classes of copies: how the elements lie at each end, and in which kind of memory. Which way is the
//! cheapest depends on both.

use std::fmt;

use crossdock_sdk::abi::MemoryKind;
use crossdock_sdk::dlpack::Layout;
use serde::{Deserialize, Serialize};

/// How elements lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Arrangement {
    /// One behind the other.
    Compact,
    /// Rows of at least [`SHORTEST_ROW`] bytes, one behind the other with gaps between them.
    Pitched,
    /// In any other way: shorter runs, in another order, or over each other.
    Scattered,
}

/// The kind of memory that elements lie in, as one device sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Residence {
    /// The device's usual one, which for the host is pageable.
    Usual,
    /// Host memory that is locked for the device.
    Pinned,
    /// Memory that moves between the host and the device.
    Managed,
}

/// One end of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct EndClass {
    pub(crate) arrangement: Arrangement,
    pub(crate) residence: Residence,
}

/// Both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Class {
    pub(crate) source: EndClass,
    pub(crate) destination: EndClass,
}

impl Arrangement {
    pub(crate) fn of(layout: &Layout) -> Self {
        if layout.is_contiguous() {
            return Self::Compact;
        }
        let axes = layout.shape().iter().copied();
        let axes = axes.zip(layout.strides().iter().copied()).rev();
        // From the innermost axis on: elements without a gap, and how far all that was seen reaches.
        let (mut run, mut reach, mut has_gap) = (1_i64, 1_i64, false);
        for (extent, stride) in axes.filter(|(extent, _)| *extent != 1) {
            if !has_gap && stride == run {
                run = run.saturating_mul(extent);
                reach = run;
                continue;
            }
            has_gap = true;
            if stride < reach {
                return Self::Scattered;
            }
            reach = reach.saturating_add(stride.saturating_mul(extent - 1));
        }
        let row_bits = run.saturating_mul(i64::from(layout.element_bits()));
        if row_bits < SHORTEST_ROW * 8 {
            return Self::Scattered;
        }
        Self::Pitched
    }
}

impl Residence {
    pub(crate) fn of(kind: MemoryKind) -> Self {
        match kind {
            MemoryKind::PINNED => Self::Pinned,
            MemoryKind::MANAGED => Self::Managed,
            _ => Self::Usual,
        }
    }

    /// What is allocated to have it.
    pub(crate) const fn kind(self) -> MemoryKind {
        match self {
            Self::Usual => MemoryKind::DEVICE,
            Self::Pinned => MemoryKind::PINNED,
            Self::Managed => MemoryKind::MANAGED,
        }
    }
}

impl Class {
    /// Whether an end could be packed first.
    pub(crate) fn is_strided(&self) -> bool {
        [self.source, self.destination]
            .iter()
            .any(|end| end.arrangement != Arrangement::Compact)
    }
}

impl fmt::Display for EndClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.arrangement {
            Arrangement::Compact => "compact",
            Arrangement::Pitched => "pitched",
            Arrangement::Scattered => "scattered",
        })?;
        f.write_str(match self.residence {
            Residence::Usual => "",
            Residence::Pinned => " pinned",
            Residence::Managed => " managed",
        })
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {} memory", self.source, self.destination)
    }
}

/// Bytes of the shortest rows that are worth a copy each: a cache line.
pub(crate) const SHORTEST_ROW: i64 = 64;
