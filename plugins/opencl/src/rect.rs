//! Plans a strided copy as a few rectangles, which is the only strided form that OpenCL has.

use std::cmp::Reverse;

use crate::fault::Fault;

/// One dimension of a copy; strides in bytes, backwards below 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dimension {
    pub(crate) extent: u64,
    pub(crate) dst: i64,
    pub(crate) src: i64,
}

/// The same rectangle at several places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Bytes of a row, rows, slices.
    pub(crate) region: [usize; 3],
    pub(crate) dst: Pitches,
    pub(crate) src: Pitches,
    /// Where each rectangle starts, in bytes past the first element: destination, source.
    pub(crate) starts: Vec<(i64, i64)>,
    /// What the destination's elements take.
    pub(crate) dst_reach: Reach,
    /// What the source's elements take.
    pub(crate) src_reach: Reach,
}

/// Bytes before the first element, and from there to behind the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reach {
    pub(crate) before: u64,
    pub(crate) after: u64,
}

impl Reach {
    /// `bytes` in one run.
    pub(crate) const fn run(bytes: u64) -> Self {
        Self {
            before: 0,
            after: bytes,
        }
    }
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
        let narrow_item = i64::try_from(item).ok().ok_or_else(beyond)?;
        let reach = |side| reach(item, dimensions, side).ok_or_else(beyond);
        let (first, forward, mut outer) = sorted(narrow_item, dimensions)?;
        let mut rest = merged(item, forward)?;
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
        for far in rest {
            outer.push(far.signed()?);
        }
        Ok(Self {
            region: [
                narrow(row)?,
                narrow(rows.map_or(1, |rows| rows.extent))?,
                narrow(slices.map_or(1, |slices| slices.extent))?,
            ],
            dst: Pitches::of(row, rows.as_ref(), slices.as_ref(), |d| d.dst)?,
            src: Pitches::of(row, rows.as_ref(), slices.as_ref(), |d| d.src)?,
            starts: starts(first, &outer)?,
            dst_reach: reach(|d: &Dimension| d.dst)?,
            src_reach: reach(|d: &Dimension| d.src)?,
        })
    }

    /// Where the whole copy is one run of bytes: its length and start.
    pub(crate) fn run(&self) -> Option<(u64, (i64, i64))> {
        let ([row, 1, 1], [start]) = (self.region, self.starts.as_slice()) else {
            return None;
        };
        Some((u64::try_from(row).ok()?, *start))
    }
}

impl Pitches {
    fn of(
        row: u64,
        rows: Option<&Forward>,
        slices: Option<&Forward>,
        side: fn(&Forward) -> u64,
    ) -> Result<Self, Fault> {
        let pitch = rows.map_or(row, side);
        let height = rows.map_or(1, |rows| rows.extent);
        Ok(Self {
            row: narrow(pitch)?,
            slice: narrow(slices.map_or(pitch.saturating_mul(height), side))?,
        })
    }
}

/// A dimension that both sides walk forwards, without overlap.
#[derive(Debug, Clone, Copy)]
struct Forward {
    extent: u64,
    dst: u64,
    src: u64,
}

impl Forward {
    fn signed(self) -> Result<Dimension, Fault> {
        let signed = |stride: u64| i64::try_from(stride).ok().ok_or_else(beyond);
        Ok(Dimension {
            extent: self.extent,
            dst: signed(self.dst)?,
            src: signed(self.src)?,
        })
    }
}

/// Turns the dimensions so that the destination is walked forwards. Answers with the first place
/// then, the dimensions that rectangles can have, and those that only a list of places has: the
/// source's that run backwards or repeat.
#[expect(
    clippy::type_complexity,
    reason = "three lists that only the caller reads"
)]
fn sorted(
    item: i64,
    dimensions: &[Dimension],
) -> Result<((i64, i64), Vec<Forward>, Vec<Dimension>), Fault> {
    let (mut first, mut forward, mut outer) = ((0_i64, 0_i64), Vec::new(), Vec::new());
    for d in dimensions.iter().filter(|d| d.extent > 1) {
        let mut turned = *d;
        if d.dst < 0 {
            let steps = i64::try_from(d.extent - 1).ok().ok_or_else(beyond)?;
            let to = |start: i64, stride: i64| start.checked_add(stride.checked_mul(steps)?);
            first.0 = to(first.0, d.dst).ok_or_else(beyond)?;
            first.1 = to(first.1, d.src).ok_or_else(beyond)?;
            turned.dst = d.dst.checked_neg().ok_or_else(beyond)?;
            turned.src = d.src.checked_neg().ok_or_else(beyond)?;
        }
        if turned.dst < item {
            return Err(refuse("the destination overlaps itself"));
        }
        match (u64::try_from(turned.dst), u64::try_from(turned.src)) {
            (Ok(dst), Ok(src)) if turned.src >= item => forward.push(Forward {
                extent: d.extent,
                dst,
                src,
            }),
            _ => outer.push(turned),
        }
    }
    Ok((first, forward, outer))
}

/// Sorts the dimensions from far to near, and joins those that follow each other without a gap on
/// both sides.
fn merged(item: u64, mut wide: Vec<Forward>) -> Result<Vec<Forward>, Fault> {
    wide.sort_by_key(|d| Reverse((d.dst, d.src)));
    let mut joined: Vec<Forward> = Vec::new();
    for next in wide {
        let fits = |far: u64, near: u64| near.checked_mul(next.extent) == Some(far);
        match joined.last_mut() {
            Some(last) if fits(last.dst, next.dst) && fits(last.src, next.src) => {
                let extent = last.extent.checked_mul(next.extent).ok_or_else(beyond)?;
                *last = Forward { extent, ..next };
            }
            _ => joined.push(next),
        }
    }
    let sizes = joined.iter().all(|d| d.extent.checked_mul(item).is_some());
    if sizes { Ok(joined) } else { Err(beyond()) }
}

/// Whether `next` can be the slices over `rows`: OpenCL wants whole rows, and no overlap.
fn stacks(next: &Forward, rows: &Forward) -> bool {
    let fits = |slice: u64, row: u64| {
        slice.is_multiple_of(row)
            && row
                .checked_mul(rows.extent)
                .is_some_and(|least| slice >= least)
    };
    fits(next.dst, rows.dst) && fits(next.src, rows.src)
}

fn reach(item: u64, dimensions: &[Dimension], side: fn(&Dimension) -> i64) -> Option<Reach> {
    let mut reach = Reach::run(item);
    for d in dimensions.iter().filter(|d| d.extent > 1) {
        let stride = side(d);
        let far = stride.unsigned_abs().checked_mul(d.extent - 1)?;
        let end = if stride < 0 {
            &mut reach.before
        } else {
            &mut reach.after
        };
        *end = end.checked_add(far)?;
    }
    Some(reach)
}

/// Every place of the outer dimensions. All lie inside the reach, which was counted before.
fn starts(first: (i64, i64), outer: &[Dimension]) -> Result<Vec<(i64, i64)>, Fault> {
    let count = outer
        .iter()
        .try_fold(1_u64, |count, d| count.checked_mul(d.extent));
    if count.is_none_or(|count| count > MOST_RECTANGLES) {
        return Err(refuse("it needs too many rectangles"));
    }
    let mut starts = vec![first];
    for d in outer {
        let mut further = Vec::with_capacity(starts.len());
        for (dst, src) in starts {
            for i in 0..d.extent {
                let step = i64::try_from(i).ok().ok_or_else(beyond)?;
                let at = |start: i64, stride: i64| start.checked_add(stride.checked_mul(step)?);
                let place = at(dst, d.dst).zip(at(src, d.src));
                further.push(place.ok_or_else(beyond)?);
            }
        }
        starts = further;
    }
    Ok(starts)
}

fn beyond() -> Fault {
    refuse("it reaches beyond this machine's addresses")
}

fn narrow(bytes: u64) -> Result<usize, Fault> {
    usize::try_from(bytes).ok().ok_or_else(beyond)
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

    fn dims(list: &[(u64, i64, i64)]) -> Vec<Dimension> {
        let of = |&(extent, dst, src): &(u64, i64, i64)| Dimension { extent, dst, src };
        list.iter().map(of).collect()
    }

    /// Every (destination, source) byte pair that a plan moves.
    fn moved(plan: &Plan) -> Vec<(i64, i64)> {
        let [bytes, rows, slices] = plan.region;
        let inside: Vec<_> = (0..slices)
            .flat_map(|slice| (0..rows).map(move |row| (slice, row)))
            .flat_map(|(slice, row)| (0..bytes).map(move |byte| (slice, row, byte)))
            .collect();
        let mut pairs = Vec::new();
        for (dst, src) in &plan.starts {
            pairs.extend(inside.iter().map(|(slice, row, byte)| {
                let at = |start: i64, pitches: Pitches| {
                    start + (slice * pitches.slice + row * pitches.row + byte).cast_signed() as i64
                };
                (at(*dst, plan.dst), at(*src, plan.src))
            }));
        }
        pairs.sort_unstable();
        pairs
    }

    fn wanted(item: i64, dimensions: &[Dimension]) -> Vec<(i64, i64)> {
        let mut places = vec![(0, 0)];
        for d in dimensions {
            let steps = 0..d.extent.cast_signed();
            places = places
                .iter()
                .flat_map(|(a, b)| steps.clone().map(move |i| (a + i * d.dst, b + i * d.src)))
                .collect();
        }
        let mut pairs: Vec<_> = places
            .iter()
            .flat_map(|(a, b)| (0..item).map(move |i| (a + i, b + i)))
            .collect();
        pairs.sort_unstable();
        pairs
    }

    fn check(item: u64, list: &[(u64, i64, i64)]) -> Plan {
        let dimensions = dims(list);
        let plan = Plan::of(item, &dimensions).unwrap();
        let pairs = moved(&plan);
        assert_eq!(pairs, wanted(item.cast_signed(), &dimensions), "{list:?}");
        for (reach, places) in [
            (plan.dst_reach, pairs.iter().map(|pair| pair.0).collect()),
            (
                plan.src_reach,
                pairs.iter().map(|pair| pair.1).collect::<Vec<_>>(),
            ),
        ] {
            let ends = (places.iter().min().unwrap(), places.iter().max().unwrap());
            let counted = (-reach.before.cast_signed(), reach.after.cast_signed() - 1);
            assert_eq!((*ends.0, *ends.1), counted, "{list:?}");
        }
        plan
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
            check(item, &list);
        }
    }

    #[test]
    fn sides_that_run_backwards_or_repeat_are_lists_of_rectangles() {
        assert_eq!(check(4, &[(6, -4, -4)]).run(), Some((24, (-20, -20))));
        assert_eq!(check(4, &[(6, 4, -4)]).starts.len(), 6);
        assert_eq!(check(4, &[(5, -24, 24), (6, 4, 4)]).starts.len(), 5);
        assert_eq!(check(4, &[(5, 24, 0), (6, 4, 4)]).region, [24, 1, 1]);
        assert_eq!(check(4, &[(5, 24, 24), (6, 4, -4)]).region, [4, 5, 1]);
        check(2, &[(3, -40, 10), (2, 20, -50), (4, -4, 2)]);
    }

    #[test]
    fn a_copy_without_gaps_is_one_run() {
        let plan = check(4, &[(2, 48, 48), (3, 16, 16), (4, 4, 4)]);
        assert_eq!(plan.run(), Some((96, (0, 0))));
    }

    #[test]
    fn a_destination_that_overlaps_and_endless_lists_are_refused() {
        assert!(Plan::of(4, &dims(&[(3, 0, 4)])).is_err());
        assert!(Plan::of(4, &dims(&[(3, 2, 4)])).is_err());
        assert!(Plan::of(4, &dims(&[(i64::MAX as u64, i64::MIN, 4)])).is_err());
        let endless = dims(&[(5000, 40_000, 8), (3, 16, 40_000), (2, 4, 20_000_000)]);
        assert!(Plan::of(4, &endless).is_err());
        assert!(Plan::of(4, &dims(&[(5000, 4, -4)])).is_err());
    }
}
