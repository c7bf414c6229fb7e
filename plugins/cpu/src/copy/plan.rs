//! Chooses, for one copy, the kernel that moves it and the way it is cut for the workers.

use std::fmt;

use super::axes::{Axis, Ordered, order, too_large};
use super::contiguous::STREAMING_BYTES;

/// The elements of a copy: one shape, and where each element lies on both sides.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a> {
    /// Bits in one element, lanes included. Elements below 8 bits are packed, the first in the low bits.
    pub bits: u32,
    /// Elements along each axis.
    pub shape: &'a [i64],
    /// Destination strides in elements; no two elements may share a place.
    pub dst_strides: &'a [i64],
    /// Source strides in elements; zero and negative ones are ordinary.
    pub src_strides: &'a [i64],
    /// Bits from the destination address to the first element.
    pub dst_offset_bits: u64,
    /// Bits from the source address to the first element.
    pub src_offset_bits: u64,
}

/// Why a copy cannot be planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Shape and strides differ in length.
    RankMismatch,
    /// An element of this many bits cannot be copied.
    ElementBits {
        /// The bits asked for.
        bits: u32,
    },
    /// An extent is below zero.
    NegativeExtent,
    /// Two elements of the destination share memory, or its axes interleave.
    OverlappingDestination,
    /// An offset or a size does not fit an address.
    TooLarge,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RankMismatch => f.write_str("shape and strides differ in length"),
            Self::ElementBits { bits } => write!(f, "no copy of elements of {bits} bits"),
            Self::NegativeExtent => f.write_str("an extent is below zero"),
            Self::OverlappingDestination => f.write_str("elements of the destination overlap"),
            Self::TooLarge => f.write_str("the copy spans more than the address space"),
        }
    }
}

impl std::error::Error for Refusal {}

/// How the innermost part of a copy is moved, along the plan's axes `i` and `j`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    /// Nothing.
    Empty,
    /// One run of bytes; `i` counts them.
    Bytes,
    /// Runs of bytes, one for each step of `i`.
    Runs { bytes: usize },
    /// Destination dense along `i`, source dense along `j`.
    Transpose { width: Width },
    /// Destination dense along `i`, source strided.
    Gather { width: Width },
    /// Neither is dense; blocks of `i` and `j` stay in the first cache.
    Scatter { width: Width },
    /// Elements that do not start or end on a byte, one at a time.
    Bits { bits: usize },
}

/// A size in bytes that one register move covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    W1,
    W2,
    W4,
    W8,
    W16,
}

impl Width {
    fn new(bytes: usize) -> Option<Self> {
        Some(match bytes {
            1 => Self::W1,
            2 => Self::W2,
            4 => Self::W4,
            8 => Self::W8,
            16 => Self::W16,
            _ => return None,
        })
    }

    /// The width in bytes.
    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::W1 => 1,
            Self::W2 => 2,
            Self::W4 => 4,
            Self::W8 => 8,
            Self::W16 => 16,
        }
    }
}

/// A copy that is ready to run, any number of times, between any two addresses.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) kernel: Kernel,
    /// The kernel's first axis.
    pub(super) i: Axis,
    /// The kernel's second axis; of extent 1 where it has none.
    pub(super) j: Axis,
    /// Whether `j` is cut in chunks for the workers, and not `i`.
    pub(super) cut_j: bool,
    /// Steps of the cut axis in one chunk.
    pub(super) chunk: usize,
    /// The axes outside the kernel's.
    pub(super) outer: Vec<Axis>,
    pub(super) outer_count: usize,
    pub(super) dst_offset: isize,
    pub(super) src_offset: isize,
    /// Payload bytes, rounded up for packed elements.
    pub(super) bytes: usize,
    /// Whether stores go past the cache.
    pub(super) streaming: bool,
}

impl Plan {
    /// Plans the copy of `elements`.
    ///
    /// # Errors
    /// A [`Refusal`] when the destination overlaps itself or the numbers do not fit an address.
    pub fn new(elements: &Elements<'_>) -> Result<Self, Refusal> {
        let Some(ordered) = order(elements)? else {
            return Ok(Self::of_bytes(0));
        };
        let bits = usize::try_from(elements.bits).map_err(too_large)?;
        let count = ordered
            .axes
            .iter()
            .try_fold(1_usize, |count, axis| count.checked_mul(axis.extent))
            .ok_or(Refusal::TooLarge)?;
        let bytes = count
            .checked_mul(bits)
            .ok_or(Refusal::TooLarge)?
            .div_ceil(8);
        Ok(plan_ordered(ordered, bits, bytes))
    }

    /// Plans the copy of `bytes` consecutive bytes.
    #[must_use]
    pub fn of_bytes(bytes: usize) -> Self {
        let kernel = if bytes == 0 {
            Kernel::Empty
        } else {
            Kernel::Bytes
        };
        let inner = Axis {
            extent: bytes,
            dst: 1,
            src: 1,
        };
        finish(Vec::new(), bytes, (0, 0), kernel, (inner, Axis::ONE))
    }

    /// Payload bytes that the copy moves.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

fn plan_ordered(ordered: Ordered, bits: usize, bytes: usize) -> Plan {
    let Ordered {
        mut axes,
        dst_offset,
        src_offset,
    } = ordered;
    let dense = isize::try_from(bits).ok();
    let mut run_bits = bits;
    if let Some(first) = axes.first().copied()
        && Some(first.dst) == dense
        && Some(first.src) == dense
    {
        run_bits = bits.saturating_mul(first.extent);
        axes.remove(0);
    }
    let whole = |stride: isize| stride % 8 == 0;
    let on_bytes = run_bits.is_multiple_of(8)
        && whole(dst_offset)
        && whole(src_offset)
        && axes.iter().all(|axis| whole(axis.dst) && whole(axis.src));
    if !on_bytes {
        return plan_bits(axes, (dst_offset, src_offset), (bits, run_bits), bytes);
    }
    for axis in &mut axes {
        axis.dst /= 8;
        axis.src /= 8;
    }
    let offsets = (dst_offset / 8, src_offset / 8);
    let run = run_bits / 8;
    if axes.is_empty() {
        let inner = Axis {
            extent: run,
            dst: 1,
            src: 1,
        };
        return finish(axes, bytes, offsets, Kernel::Bytes, (inner, Axis::ONE));
    }
    let Some(width) = Width::new(run) else {
        let inner = axes.remove(0);
        return finish(
            axes,
            bytes,
            offsets,
            Kernel::Runs { bytes: run },
            (inner, Axis::ONE),
        );
    };
    let (kernel, inner) = choose(&mut axes, width);
    finish(axes, bytes, offsets, kernel, inner)
}

/// A packed copy: the strides stay in bits, and the run is taken apart into its elements again.
fn plan_bits(
    mut axes: Vec<Axis>,
    offsets: (isize, isize),
    (bits, run_bits): (usize, usize),
    bytes: usize,
) -> Plan {
    let inner = if run_bits == bits && !axes.is_empty() {
        axes.remove(0)
    } else {
        let stride = isize::try_from(bits).unwrap_or(isize::MAX);
        Axis {
            extent: run_bits / bits,
            dst: stride,
            src: stride,
        }
    };
    finish(
        axes,
        bytes,
        offsets,
        Kernel::Bits { bits },
        (inner, Axis::ONE),
    )
}

/// Takes the kernel's axes out of `axes`.
fn choose(axes: &mut Vec<Axis>, width: Width) -> (Kernel, (Axis, Axis)) {
    let i = axes.remove(0);
    let element = isize::try_from(width.bytes()).unwrap_or(isize::MAX);
    let nearest = axes
        .iter()
        .enumerate()
        .filter(|(_, axis)| axis.src != 0)
        .min_by_key(|(_, axis)| axis.src.unsigned_abs())
        .map(|(at, axis)| (at, *axis))
        .filter(|(_, axis)| axis.src.unsigned_abs() < i.src.unsigned_abs());
    let Some((at, j)) = nearest else {
        let dense = i.dst == element;
        let kernel = if dense {
            Kernel::Gather { width }
        } else {
            Kernel::Scatter { width }
        };
        return (kernel, (i, Axis::ONE));
    };
    axes.remove(at);
    // A tile is a cache line wide; a few elements of it are not worth turning a whole one round.
    let least = (LINE / width.bytes() / 4).max(2);
    let tiled = i.dst == element && j.src == element && i.extent >= least && j.extent >= least;
    let kernel = if tiled {
        Kernel::Transpose { width }
    } else {
        Kernel::Scatter { width }
    };
    (kernel, (i, j))
}

fn finish(
    outer: Vec<Axis>,
    bytes: usize,
    (dst_offset, src_offset): (isize, isize),
    kernel: Kernel,
    (i, j): (Axis, Axis),
) -> Plan {
    // The longer axis is the one that every worker finds a part of.
    let cut_j = j.extent > i.extent;
    let (cut, across) = if cut_j { (j, i) } else { (i, j) };
    let (step, multiple) = match kernel {
        Kernel::Empty | Kernel::Bytes => (1, LINE),
        Kernel::Runs { bytes } => (bytes, 1),
        Kernel::Gather { width } => (width.bytes(), LINE / width.bytes()),
        Kernel::Transpose { width } | Kernel::Scatter { width } => {
            let lines = if cut_j { 1 } else { PANEL_LINES };
            (
                width.bytes().saturating_mul(across.extent),
                lines * LINE / width.bytes(),
            )
        }
        // Two workers must not write bits of one byte: a packed copy is a single chunk.
        Kernel::Bits { .. } => (1, i.extent.max(1)),
    };
    let chunk = (CHUNK_BYTES / step.max(1)).clamp(1, cut.extent.max(1));
    Plan {
        kernel,
        i,
        j,
        cut_j,
        chunk: chunk.next_multiple_of(multiple),
        outer_count: outer
            .iter()
            .fold(1, |count, axis| axis.extent.saturating_mul(count)),
        outer,
        dst_offset,
        src_offset,
        bytes,
        streaming: bytes >= STREAMING_BYTES,
    }
}

/// Bytes in a cache line: the unit of full stores past the cache.
pub(super) const LINE: usize = 64;

/// Lines of the destination that a transpose writes side by side.
pub(super) const PANEL_LINES: usize = 4;

/// Payload that a worker takes at a time: large against the cost of taking it, small against the copy.
pub(super) const CHUNK_BYTES: usize = 512 << 10;
