//! Plans a strided copy as a few rectangles, which is the only strided form that OpenCL has.

use std::cmp::Reverse;

use crate::fault::Fault;

/// One dimension of a copy; strides in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dimension {
    pub(crate) extent: u64,
    pub(crate) dst: u64,
    pub(crate) src: u64,
}

/// The same rectangle at several places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Bytes of a row, rows, slices.
    pub(crate) region: [usize; 3],
    pub(crate) dst: Pitches,
    pub(crate) src: Pitches,
    /// Where each rectangle starts, in bytes past the first element: destination, source.
    pub(crate) starts: Vec<(u64, u64)>,
    /// Bytes from the first element to behind the last one: destination, source.
    pub(crate) span: (u64, u64),
}

/// Bytes from row to row and from slice to slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pitches {
    pub(crate) row: usize,
    pub(crate) slice: usize,
}

impl Plan {
    /// Finds the rectangles, or answers `Unsupported` where there are none or too many.
    pub(crate) fn of(item: u64, dimensions: &[Dimension]) -> Result<Self, Fault> {
        let mut rest = merged(item, dimensions)?;
        let span = span(item, &rest).ok_or_else(|| refuse("it reaches beyond 64 bits"))?;
        let mut row = item;
        if let Some(inner) = rest.last().copied()
            && inner.dst == item
            && inner.src == item
        {
            row = inner.extent * item;
            rest.pop();
        }
        let rows = rest.pop_if(|next| next.dst >= row && next.src >= row);
        let slices = rows.and_then(|rows| rest.pop_if(|next| stacks(next, &rows)));
        let pitches = |side: fn(&Dimension) -> u64| -> Result<Pitches, Fault> {
            let row_pitch = rows.as_ref().map_or(row, side);
            let height = rows.map_or(1, |rows| rows.extent);
            let slice_pitch = slices
                .as_ref()
                .map_or(row_pitch.saturating_mul(height), side);
            Ok(Pitches {
                row: narrow(row_pitch)?,
                slice: narrow(slice_pitch)?,
            })
        };
        Ok(Self {
            region: [
                narrow(row)?,
                narrow(rows.map_or(1, |rows| rows.extent))?,
                narrow(slices.map_or(1, |slices| slices.extent))?,
            ],
            dst: pitches(|dimension| dimension.dst)?,
            src: pitches(|dimension| dimension.src)?,
            starts: starts(&rest)?,
            span,
        })
    }

    /// The length, when the whole copy is one run of bytes.
    pub(crate) fn run(&self) -> Option<u64> {
        let [row, rows, slices] = self.region;
        let one = rows == 1 && slices == 1 && self.starts.len() == 1;
        one.then(|| u64::try_from(row).unwrap_or(u64::MAX))
    }
}

/// Sorts the dimensions from far to near, drops those of one element, and joins those that follow
/// each other without a gap on both sides.
fn merged(item: u64, dimensions: &[Dimension]) -> Result<Vec<Dimension>, Fault> {
    let mut wide: Vec<_> = dimensions
        .iter()
        .copied()
        .filter(|d| d.extent > 1)
        .collect();
    if wide.iter().any(|d| d.dst < item || d.src < item) {
        return Err(refuse("an extent overlaps itself or is repeated"));
    }
    wide.sort_by_key(|d| Reverse((d.dst, d.src)));
    let mut joined: Vec<Dimension> = Vec::new();
    for next in wide {
        let fits = |far: u64, near: u64| near.checked_mul(next.extent) == Some(far);
        match joined.last_mut() {
            Some(last) if fits(last.dst, next.dst) && fits(last.src, next.src) => {
                let extent = last.extent.checked_mul(next.extent);
                let extent =
                    extent.ok_or_else(|| refuse("it has more than 64 bits of elements"))?;
                *last = Dimension { extent, ..next };
            }
            _ => joined.push(next),
        }
    }
    Ok(joined)
}

/// Whether `next` can be the slices over `rows`: OpenCL wants whole rows, and no overlap.
fn stacks(next: &Dimension, rows: &Dimension) -> bool {
    let fits = |slice: u64, row: u64| {
        slice.is_multiple_of(row)
            && row
                .checked_mul(rows.extent)
                .is_some_and(|least| slice >= least)
    };
    fits(next.dst, rows.dst) && fits(next.src, rows.src)
}

fn span(item: u64, dimensions: &[Dimension]) -> Option<(u64, u64)> {
    let reach = |side: fn(&Dimension) -> u64| {
        dimensions.iter().try_fold(item, |sum, d| {
            sum.checked_add(side(d).checked_mul(d.extent - 1)?)
        })
    };
    Some((reach(|d| d.dst)?, reach(|d| d.src)?))
}

fn starts(outer: &[Dimension]) -> Result<Vec<(u64, u64)>, Fault> {
    let count = outer
        .iter()
        .try_fold(1_u64, |count, d| count.checked_mul(d.extent));
    if count.is_none_or(|count| count > MOST_RECTANGLES) {
        return Err(refuse("it needs too many rectangles"));
    }
    let mut starts = vec![(0, 0)];
    for d in outer {
        starts = starts
            .iter()
            .flat_map(|(dst, src)| (0..d.extent).map(move |i| (dst + i * d.dst, src + i * d.src)))
            .collect();
    }
    Ok(starts)
}

fn narrow(bytes: u64) -> Result<usize, Fault> {
    usize::try_from(bytes)
        .ok()
        .ok_or_else(|| refuse("it is beyond this machine's address size"))
}

fn refuse(why: &str) -> Fault {
    Fault::unsupported(
        "copy_strided",
        format!("no rectangle copy for this pattern: {why}"),
    )
}

/// Beyond this, packing on the host is cheaper than queueing commands.
const MOST_RECTANGLES: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(list: &[(u64, u64, u64)]) -> Vec<Dimension> {
        let of = |&(extent, dst, src): &(u64, u64, u64)| Dimension { extent, dst, src };
        list.iter().map(of).collect()
    }

    /// Every (destination, source) byte pair that a plan moves.
    fn moved(plan: &Plan) -> Vec<(usize, usize)> {
        let [bytes, rows, slices] = plan.region;
        let inside: Vec<_> = (0..slices)
            .flat_map(|slice| (0..rows).map(move |row| (slice, row)))
            .flat_map(|(slice, row)| (0..bytes).map(move |byte| (slice, row, byte)))
            .collect();
        let mut pairs = Vec::new();
        for (dst, src) in &plan.starts {
            let (dst, src) = (narrow(*dst).unwrap(), narrow(*src).unwrap());
            pairs.extend(inside.iter().map(|(slice, row, byte)| {
                let at = |start: usize, pitches: Pitches| {
                    start + slice * pitches.slice + row * pitches.row + byte
                };
                (at(dst, plan.dst), at(src, plan.src))
            }));
        }
        pairs.sort_unstable();
        pairs
    }

    fn wanted(item: u64, dimensions: &[Dimension]) -> Vec<(usize, usize)> {
        let mut places = vec![(0, 0)];
        for d in dimensions {
            places = places
                .iter()
                .flat_map(|(a, b)| (0..d.extent).map(move |i| (a + i * d.dst, b + i * d.src)))
                .collect();
        }
        let byte = |at: u64| narrow(at).unwrap();
        let mut pairs: Vec<_> = places
            .iter()
            .flat_map(|(a, b)| (0..item).map(move |i| (byte(a + i), byte(b + i))))
            .collect();
        pairs.sort_unstable();
        pairs
    }

    #[test]
    fn every_plan_moves_exactly_the_bytes_that_were_asked_for() {
        for (item, list) in [
            (4, vec![(6, 4, 4)]),
            (4, vec![(3, 16, 24), (4, 4, 4)]),
            (4, vec![(3, 16, 32), (4, 4, 8)]),
            (4, vec![(2, 64, 128), (3, 16, 32), (4, 4, 8)]),
            (2, vec![(3, 100, 90), (2, 50, 30), (5, 4, 6)]),
            (
                4,
                vec![(2, 512, 300), (2, 128, 150), (3, 32, 40), (4, 4, 8)],
            ),
            (4, vec![(4, 12, 4), (3, 4, 16)]),
            (8, vec![(1, 0, 0), (5, 8, 16), (1, 7, 7)]),
        ] {
            let dimensions = dims(&list);
            let plan = Plan::of(item, &dimensions).unwrap();
            assert_eq!(moved(&plan), wanted(item, &dimensions), "{list:?}");
            let end = moved(&plan).iter().map(|(dst, _)| dst + 1).max().unwrap();
            assert_eq!(plan.span.0, end as u64, "{list:?}");
        }
    }

    #[test]
    fn a_copy_without_gaps_is_one_run() {
        let plan = Plan::of(4, &dims(&[(2, 48, 48), (3, 16, 16), (4, 4, 4)])).unwrap();
        assert_eq!(plan.run(), Some(96));
    }

    #[test]
    fn repeated_elements_and_endless_lists_are_refused() {
        assert!(Plan::of(4, &dims(&[(3, 4, 0)])).is_err());
        let endless = dims(&[(5000, 40_000, 8), (3, 16, 40_000), (2, 4, 20_000_000)]);
        assert!(Plan::of(4, &endless).is_err());
    }
}
