//! Strided regions as runs of bits that lie side by side in both ends of a copy.

use std::ops::Range;

use crossdock_sdk::abi::Status;
use crossdock_sdk::plugin::Error;

/// Bits that lie side by side in both ends, as distances from the first byte of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) dst: i64,
    pub(crate) src: i64,
    pub(crate) bits: i64,
}

/// A region, checked: no bit of its destination is there twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) runs: Vec<Run>,
}

/// A shape with the strides of both ends, in elements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Elements<'a> {
    pub(crate) bits: u32,
    pub(crate) shape: &'a [i64],
    pub(crate) dst: &'a [i64],
    pub(crate) src: &'a [i64],
}

/// One axis: its extent, and how far apart its elements are in both ends, in bits.
#[derive(Debug, Clone, Copy)]
struct Axis {
    extent: i64,
    dst: i64,
    src: i64,
}

impl Region {
    /// Bytes that lie side by side in both ends.
    pub(crate) fn compact(bytes: u64) -> Result<Self, Error> {
        let bits = i64::try_from(bytes)
            .ok()
            .and_then(|bytes| bytes.checked_mul(8));
        let bits = bits.ok_or_else(too_large)?;
        let run = Run {
            dst: 0,
            src: 0,
            bits,
        };
        Ok(Self { runs: vec![run] })
    }

    /// The runs of a strided region.
    pub(crate) fn strided(elements: Elements<'_>) -> Result<Self, Error> {
        let mut axes = axes(elements)?;
        let bits = i64::from(elements.bits);
        // The innermost axes of both ends that make one block.
        let mut block = bits;
        while let Some(axis) = axes.last() {
            if axis.extent != 1 && (axis.dst != block || axis.src != block) {
                break;
            }
            block = block.checked_mul(axis.extent).ok_or_else(too_large)?;
            axes.pop();
        }
        let count = axes
            .iter()
            .try_fold(1_i64, |count, axis| count.checked_mul(axis.extent));
        if count.is_none_or(|count| count > MAX_RUNS) {
            return Err(Error::unsupported(OPERATION));
        }
        let mut runs = vec![Run {
            dst: 0,
            src: 0,
            bits: block,
        }];
        for axis in axes.iter().rev() {
            let along = |index: i64| {
                let (dst, src) = (index * axis.dst, index * axis.src);
                runs.iter().map(move |run| Run {
                    dst: run.dst + dst,
                    src: run.src + src,
                    ..*run
                })
            };
            runs = (0..axis.extent).flat_map(along).collect();
        }
        let region = Self { runs };
        region.check_destination()?;
        Ok(region)
    }

    /// The bytes around the destination's first one that its bits lie in.
    pub(crate) fn written(&self) -> (i64, i64) {
        reach(self.runs.iter().map(|run| (run.dst, run.bits)))
    }

    /// The bytes around the source's first one that its bits lie in.
    pub(crate) fn read(&self) -> (i64, i64) {
        reach(self.runs.iter().map(|run| (run.src, run.bits)))
    }

    /// Whether a bit of one end is a bit of the other, where they begin `apart` bytes from each other.
    pub(crate) fn overlaps_itself(&self, apart: i128) -> bool {
        let Some(apart) = i64::try_from(apart)
            .ok()
            .and_then(|bytes| bytes.checked_mul(8))
        else {
            return false;
        };
        let written = merged(
            self.runs
                .iter()
                .map(|run| run.dst..run.dst + run.bits)
                .collect(),
        );
        let at = |run: &Run| {
            Some(run.src.checked_sub(apart)?..run.src.checked_sub(apart)?.checked_add(run.bits)?)
        };
        let read = merged(self.runs.iter().filter_map(at).collect());
        let mut read = read.iter().peekable();
        written.iter().any(|written| {
            while read.next_if(|read| read.end <= written.start).is_some() {}
            read.peek().is_some_and(|read| read.start < written.end)
        })
    }

    /// Whether both ends are rows of whole bytes that lie behind each other.
    pub(crate) fn is_pitched(&self) -> bool {
        let is_whole = |run: &Run| run.dst % 8 == 0 && run.src % 8 == 0 && run.bits % 8 == 0;
        let ascends = |pair: &[Run]| match pair {
            [one, next] => one.dst + one.bits <= next.dst && one.src + one.bits <= next.src,
            _ => true,
        };
        self.runs.iter().all(is_whole) && self.runs.windows(2).all(ascends)
    }

    fn check_destination(&self) -> Result<(), Error> {
        let written = merged(
            self.runs
                .iter()
                .map(|run| run.dst..run.dst + run.bits)
                .collect(),
        );
        let distinct: i64 = written.iter().map(|range| range.end - range.start).sum();
        let moved: i64 = self.runs.iter().map(|run| run.bits).sum();
        if distinct == moved {
            return Ok(());
        }
        let why = "elements of the destination overlap";
        Err(Error::new(Status::INVALID, OPERATION, why))
    }
}

/// The axes in bits. Their whole reach fits, so that no distance inside overflows.
fn axes(elements: Elements<'_>) -> Result<Vec<Axis>, Error> {
    let bits = i64::from(elements.bits);
    let strides = elements.dst.iter().zip(elements.src);
    let mut axes = Vec::with_capacity(elements.shape.len());
    let (mut dst_reach, mut src_reach, mut count) = (bits, bits, bits);
    for (&extent, (&dst, &src)) in elements.shape.iter().zip(strides) {
        if extent < 1 {
            let why = format!("an extent of {extent}");
            return Err(Error::new(Status::INVALID, OPERATION, why));
        }
        let step = |stride: i64| stride.checked_mul(bits).ok_or_else(too_large);
        let axis = Axis {
            extent,
            dst: step(dst)?,
            src: step(src)?,
        };
        let reach =
            |step: i64, reach: i64| step.checked_abs()?.checked_mul(extent)?.checked_add(reach);
        dst_reach = reach(axis.dst, dst_reach).ok_or_else(too_large)?;
        src_reach = reach(axis.src, src_reach).ok_or_else(too_large)?;
        count = count.checked_mul(extent).ok_or_else(too_large)?;
        axes.push(axis);
    }
    Ok(axes)
}

/// The first byte and the one behind the last that some bits lie in.
fn reach(bits: impl Iterator<Item = (i64, i64)>) -> (i64, i64) {
    let hull = bits.fold((0, 0), |(low, high), (first, bits)| {
        (first.min(low), (first + bits).max(high))
    });
    (hull.0.div_euclid(8), (hull.1 + 7).div_euclid(8))
}

/// The same numbers in order, each once, as few ranges as can be.
fn merged(mut ranges: Vec<Range<i64>>) -> Vec<Range<i64>> {
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<i64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

fn too_large() -> Error {
    let why = "the region is larger than the address space";
    Error::new(Status::INVALID, OPERATION, why)
}

const OPERATION: &str = "copy_strided";

/// More runs than this are not copied: each is kept until the copy runs.
const MAX_RUNS: i64 = 1 << 22;

#[cfg(test)]
mod tests {
    use super::*;

    fn strided(bits: u32, shape: &[i64], dst: &[i64], src: &[i64]) -> Result<Region, Error> {
        Region::strided(Elements {
            bits,
            shape,
            dst,
            src,
        })
    }

    #[test]
    fn rows_are_one_run_each() {
        let region = strided(32, &[3, 4], &[10, 1], &[4, 1]).unwrap();
        assert_eq!(region.runs.len(), 3);
        assert_eq!((region.written(), region.read()), ((0, 96), (0, 48)));
        assert!(region.is_pitched());
    }

    #[test]
    fn a_compact_region_is_one_run() {
        let region = strided(4, &[2, 3, 1], &[3, 1, 9], &[3, 1, -7]).unwrap();
        assert_eq!(
            region.runs,
            [Run {
                dst: 0,
                src: 0,
                bits: 24
            }]
        );
        assert_eq!(region, Region::compact(3).unwrap());
    }

    #[test]
    fn elements_that_only_interleave_are_taken_and_those_that_overlap_are_refused() {
        let region = strided(8, &[2, 3], &[1, 2], &[3, 1]).unwrap();
        assert_eq!(region.written(), (0, 6));
        assert!(!region.is_pitched());
        let refused = strided(8, &[2, 3], &[1, 1], &[3, 1]).unwrap_err();
        assert_eq!(refused.status(), Status::INVALID);
        let refused = strided(8, &[2], &[0], &[1]).unwrap_err();
        assert_eq!(refused.status(), Status::INVALID);
    }

    #[test]
    fn a_source_may_repeat_and_walk_backwards() {
        let region = strided(16, &[3, 2], &[2, 1], &[0, -1]).unwrap();
        assert_eq!(region.read(), (-2, 2));
        assert_eq!(region.runs.len(), 6);
    }

    #[test]
    fn ends_overlap_where_a_bit_is_in_both() {
        let rows = strided(8, &[4], &[2], &[2]).unwrap();
        assert!(rows.overlaps_itself(0));
        assert!(rows.overlaps_itself(2) && rows.overlaps_itself(-2));
        assert!(!rows.overlaps_itself(1) && !rows.overlaps_itself(-1) && !rows.overlaps_itself(8));
        assert!(Region::compact(10).unwrap().overlaps_itself(9));
        assert!(!Region::compact(10).unwrap().overlaps_itself(10));
    }

    #[test]
    fn what_leaves_the_address_space_is_refused() {
        for (shape, stride) in [(i64::MAX, 1), (2, i64::MAX), (2, i64::MIN), (0, 1), (-1, 1)] {
            let refused = strided(128, &[shape], &[stride], &[1]).unwrap_err();
            assert_eq!(refused.status(), Status::INVALID, "{shape} by {stride}");
        }
    }
}
