//! Puts the axes of a copy in order: positive and ascending in the destination, merged where they touch.

use super::plan::{Elements, Refusal};

/// One axis of a copy; strides in bits while planning, in bytes once planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    pub(crate) extent: usize,
    pub(crate) dst: isize,
    pub(crate) src: isize,
}

impl Axis {
    /// An axis that is not there.
    pub(crate) const ONE: Self = Self {
        extent: 1,
        dst: 0,
        src: 0,
    };

    /// How far the last element lies from the first, in the destination and in the source.
    fn span(&self) -> Result<(isize, isize), Refusal> {
        let steps = isize::try_from(self.extent.saturating_sub(1)).map_err(too_large)?;
        let dst = self.dst.checked_mul(steps).ok_or(Refusal::TooLarge)?;
        let src = self.src.checked_mul(steps).ok_or(Refusal::TooLarge)?;
        Ok((dst, src))
    }
}

/// The axes of a copy in the order in which the destination is written, and where it starts.
#[derive(Debug)]
pub(super) struct Ordered {
    /// Innermost first; strides in bits; no axis has an extent below 2.
    pub(super) axes: Vec<Axis>,
    /// Bits from the given destination address to the lowest element written.
    pub(super) dst_offset: isize,
    /// Bits from the given source address to the element that goes there.
    pub(super) src_offset: isize,
}

/// Orders, checks and merges the axes of `elements`; `None` when there is nothing to copy.
pub(super) fn order(elements: &Elements<'_>) -> Result<Option<Ordered>, Refusal> {
    let rank = elements.shape.len();
    if elements.dst_strides.len() != rank || elements.src_strides.len() != rank {
        return Err(Refusal::RankMismatch);
    }
    if elements.bits == 0 || elements.bits > MAX_ELEMENT_BITS {
        return Err(Refusal::ElementBits {
            bits: elements.bits,
        });
    }
    if elements.shape.iter().any(|&extent| extent < 0) {
        return Err(Refusal::NegativeExtent);
    }
    if elements.shape.contains(&0) {
        return Ok(None);
    }
    let mut ordered = Ordered {
        axes: Vec::with_capacity(rank),
        dst_offset: isize::try_from(elements.dst_offset_bits).map_err(too_large)?,
        src_offset: isize::try_from(elements.src_offset_bits).map_err(too_large)?,
    };
    let strides = elements.dst_strides.iter().zip(elements.src_strides);
    for (&extent, (&dst, &src)) in elements.shape.iter().zip(strides) {
        if extent > 1 {
            ordered.push(axis(elements.bits, extent, dst, src)?)?;
        }
    }
    ordered.axes.sort_by_key(|axis| axis.dst);
    ordered.refuse_overlap(elements.bits)?;
    ordered.merge();
    Ok(Some(ordered))
}

impl Ordered {
    /// Adds an axis, turned round where the destination would be written backwards.
    fn push(&mut self, mut axis: Axis) -> Result<(), Refusal> {
        let (dst_span, src_span) = axis.span()?;
        if axis.dst == 0 {
            return Err(Refusal::OverlappingDestination);
        }
        if axis.dst < 0 {
            self.dst_offset = self
                .dst_offset
                .checked_add(dst_span)
                .ok_or(Refusal::TooLarge)?;
            self.src_offset = self
                .src_offset
                .checked_add(src_span)
                .ok_or(Refusal::TooLarge)?;
            axis.dst = axis.dst.checked_neg().ok_or(Refusal::TooLarge)?;
            axis.src = axis.src.checked_neg().ok_or(Refusal::TooLarge)?;
        }
        self.axes.push(axis);
        Ok(())
    }

    /// Each axis must step over all that the axes inside it write; the source's reach must be a number.
    fn refuse_overlap(&self, bits: u32) -> Result<(), Refusal> {
        let mut written = isize::try_from(bits).map_err(too_large)?;
        let mut read = 0_isize;
        for axis in &self.axes {
            if axis.dst < written {
                return Err(Refusal::OverlappingDestination);
            }
            let (dst_span, src_span) = axis.span()?;
            written = written.checked_add(dst_span).ok_or(Refusal::TooLarge)?;
            let reach = src_span.checked_abs().ok_or(Refusal::TooLarge)?;
            read = read.checked_add(reach).ok_or(Refusal::TooLarge)?;
        }
        written
            .checked_add(self.dst_offset)
            .ok_or(Refusal::TooLarge)?;
        let furthest = self.src_offset.checked_abs().ok_or(Refusal::TooLarge)?;
        read.checked_add(furthest).ok_or(Refusal::TooLarge)?;
        Ok(())
    }

    /// Joins neighbouring axes that are one longer axis on both sides.
    fn merge(&mut self) {
        let mut merged: Vec<Axis> = Vec::with_capacity(self.axes.len());
        for &axis in &self.axes {
            if let Some(last) = merged.last_mut()
                && touches(*last, axis)
            {
                last.extent = last.extent.saturating_mul(axis.extent);
            } else {
                merged.push(axis);
            }
        }
        self.axes = merged;
    }
}

/// Whether one step of `outer` is the step after the last of `inner`, on both sides.
fn touches(inner: Axis, outer: Axis) -> bool {
    let Ok(extent) = isize::try_from(inner.extent) else {
        return false;
    };
    inner.dst.checked_mul(extent) == Some(outer.dst)
        && inner.src.checked_mul(extent) == Some(outer.src)
}

fn axis(bits: u32, extent: i64, dst: i64, src: i64) -> Result<Axis, Refusal> {
    let in_bits = |stride: i64| {
        stride
            .checked_mul(i64::from(bits))
            .and_then(|stride| isize::try_from(stride).ok())
            .ok_or(Refusal::TooLarge)
    };
    Ok(Axis {
        extent: usize::try_from(extent).map_err(too_large)?,
        dst: in_bits(dst)?,
        src: in_bits(src)?,
    })
}

/// Every conversion here fails for one reason.
pub(super) fn too_large(_: std::num::TryFromIntError) -> Refusal {
    Refusal::TooLarge
}

/// A bound that keeps the arithmetic on bits away from its limits; far above any element in use.
const MAX_ELEMENT_BITS: u32 = 1 << 16;
