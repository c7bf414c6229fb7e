//! Strided copies as rows and planes, which drivers copy by one call. What cannot be made of few such boxes is refused as
//! `UNSUPPORTED`: then the host packs it.

use crate::fault::Fault;

/// One dimension: its extent, and the bytes from one element to the next on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dimension {
    pub(crate) extent: u64,
    pub(crate) dst: i64,
    pub(crate) src: i64,
}

/// How rows and planes of a side lie. `pitch` is the bytes from row to row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Steps {
    pub(crate) pitch: u64,
    /// Rows from plane to plane.
    pub(crate) rows: u64,
}

/// A strided copy as equal boxes: `depth` planes of `height` rows of `width` bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) width: u64,
    pub(crate) height: u64,
    pub(crate) depth: u64,
    pub(crate) dst: Steps,
    pub(crate) src: Steps,
    /// Where each box begins on both sides.
    pub(crate) boxes: Vec<(u64, u64)>,
}

/// A dimension whose steps are known to be positive.
#[derive(Debug, Clone, Copy)]
struct Loop {
    extent: u64,
    dst: u64,
    src: u64,
}

impl Plan {
    /// The boxes of a copy of elements of `item` bytes, with rows at most `longest` bytes apart.
    pub(crate) fn of(item: u64, dimensions: &[Dimension], longest: u64) -> Result<Self, Fault> {
        let mut loops = loops(dimensions)?;
        let width = merge(item, &mut loops);
        let mut loops = loops.into_iter();
        let Some(rows) = loops.next() else {
            return Ok(Self::of_bytes(width));
        };
        let pitches = [rows.dst, rows.src];
        if pitches
            .iter()
            .any(|pitch| *pitch < width || *pitch > longest)
        {
            return Err(refused("its rows lie too close or too far apart"));
        }
        let mut rest: Vec<Loop> = loops.collect();
        let is_plane = |one: &Loop| {
            let is_whole = |step: u64, pitch| step.is_multiple_of(pitch);
            let is_apart = |step: u64, pitch| step / pitch >= rows.extent;
            is_whole(one.dst, rows.dst)
                && is_whole(one.src, rows.src)
                && is_apart(one.dst, rows.dst)
                && is_apart(one.src, rows.src)
        };
        let planes = rest.iter().position(is_plane).map(|at| rest.remove(at));
        let plane = planes.unwrap_or(Loop {
            extent: 1,
            dst: rows.dst * rows.extent,
            src: rows.src * rows.extent,
        });
        let steps = |pitch: u64, step: u64| Steps {
            pitch,
            rows: step / pitch,
        };
        Ok(Self {
            width,
            height: rows.extent,
            depth: plane.extent,
            dst: steps(rows.dst, plane.dst),
            src: steps(rows.src, plane.src),
            boxes: boxes(&rest)?,
        })
    }

    fn of_bytes(width: u64) -> Self {
        let steps = Steps {
            pitch: width,
            rows: 1,
        };
        Self {
            width,
            height: 1,
            depth: 1,
            dst: steps,
            src: steps,
            boxes: vec![(0, 0)],
        }
    }

    /// Whether it is one range of bytes on both sides.
    pub(crate) fn is_contiguous(&self) -> bool {
        self.height == 1 && self.depth == 1 && self.boxes.len() == 1
    }
}

/// The dimensions by the steps of the side that is written, the smallest first.
fn loops(dimensions: &[Dimension]) -> Result<Vec<Loop>, Fault> {
    let step = |bytes: i64| {
        let bytes = u64::try_from(bytes).ok().filter(|bytes| *bytes > 0);
        bytes.ok_or_else(|| refused("it goes backwards, or repeats elements"))
    };
    let kept = dimensions.iter().filter(|one| one.extent > 1);
    let loops = kept.map(|one| {
        Ok(Loop {
            extent: one.extent,
            dst: step(one.dst)?,
            src: step(one.src)?,
        })
    });
    let mut loops: Vec<_> = loops.collect::<Result<_, Fault>>()?;
    loops.sort_by_key(|one| (one.dst, one.src));
    Ok(loops)
}

/// Joins dimensions that lie without gaps on both sides. Returns the bytes of a row, and leaves the others in `loops`.
fn merge(item: u64, loops: &mut Vec<Loop>) -> u64 {
    let mut width = item;
    while let Some(first) = loops.first().copied() {
        if first.dst != width || first.src != width {
            break;
        }
        width = width.saturating_mul(first.extent);
        loops.remove(0);
    }
    let mut merged: Vec<Loop> = Vec::new();
    for next in loops.drain(..) {
        let follows = |before: &&mut Loop| {
            let is_next = |step: u64, by: u64| step.checked_mul(before.extent) == Some(by);
            is_next(before.dst, next.dst) && is_next(before.src, next.src)
        };
        match merged.last_mut().filter(follows) {
            Some(before) => before.extent = before.extent.saturating_mul(next.extent),
            None => merged.push(next),
        }
    }
    *loops = merged;
    width
}

/// Where the boxes begin that the outer dimensions make.
fn boxes(outer: &[Loop]) -> Result<Vec<(u64, u64)>, Fault> {
    let count = outer.iter().try_fold(1_u64, |count, one| {
        count
            .checked_mul(one.extent)
            .filter(|count| *count <= MOST_BOXES)
    });
    if count.is_none() {
        return Err(refused("it is too many rectangles"));
    }
    let mut all = vec![(0, 0)];
    for one in outer {
        let shifted = |at: u64| {
            let by = (one.dst.wrapping_mul(at), one.src.wrapping_mul(at));
            move |(dst, src): &(u64, u64)| (dst.wrapping_add(by.0), src.wrapping_add(by.1))
        };
        all = (0..one.extent)
            .flat_map(|at| all.iter().map(shifted(at)).collect::<Vec<_>>())
            .collect();
    }
    Ok(all)
}

fn refused(why: &str) -> Fault {
    Fault::unsupported(
        "copy_strided",
        format!("the driver does not copy this: {why}"),
    )
}

/// A copy of more rectangles than this is packed instead.
const MOST_BOXES: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: u64 = 1 << 31;

    fn plan(item: u64, dimensions: &[(u64, i64, i64)]) -> Result<Plan, Fault> {
        let all = dimensions
            .iter()
            .map(|&(extent, dst, src)| Dimension { extent, dst, src });
        Plan::of(item, &all.collect::<Vec<_>>(), LONGEST)
    }

    /// Every pair of bytes that a plan copies, in order.
    fn pairs(plan: &Plan) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        for (dst, src) in &plan.boxes {
            for plane in 0..plan.depth {
                for row in 0..plan.height {
                    let at =
                        |start: u64, steps: Steps| start + (plane * steps.rows + row) * steps.pitch;
                    let (dst, src) = (at(*dst, plan.dst), at(*src, plan.src));
                    all.extend((0..plan.width).map(|byte| (dst + byte, src + byte)));
                }
            }
        }
        all.sort_unstable();
        all
    }

    fn wanted(item: u64, dimensions: &[(u64, i64, i64)]) -> Vec<(u64, u64)> {
        let mut all: Vec<(i64, i64)> = (0..item.cast_signed()).map(|at| (at, at)).collect();
        for &(extent, dst, src) in dimensions {
            let shift = |at: i64| all.iter().map(move |(d, s)| (d + at * dst, s + at * src));
            all = (0..extent.cast_signed()).flat_map(shift).collect();
        }
        let mut all: Vec<_> = all
            .into_iter()
            .map(|(dst, src)| (dst.cast_unsigned(), src.cast_unsigned()))
            .collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn boxes_copy_what_the_strides_say() {
        let shapes: [&[(u64, i64, i64)]; 7] = [
            &[],
            &[(6, 4, 4)],
            &[(5, 64, 48), (4, 4, 4)],
            &[(3, 512, 1024), (5, 64, 48), (4, 4, 4)],
            &[(2, 4096, 8192), (3, 512, 1000), (5, 64, 48), (4, 4, 4)],
            &[(7, 4, 64), (5, 28, 4)],
            &[(3, 40, 20), (2, 20, 60), (5, 4, 4)],
        ];
        for shape in shapes {
            let made = plan(4, shape).unwrap();
            assert_eq!(pairs(&made), wanted(4, shape), "{shape:?}: {made:?}");
        }
        assert!(plan(4, &[(6, 24, 24), (6, 4, 4)]).unwrap().is_contiguous());
    }

    #[test]
    fn what_is_no_rectangle_is_refused() {
        let refused: [&[(u64, i64, i64)]; 4] = [
            &[(4, -4, 4)],
            &[(4, 4, 0)],
            &[(100, 4, 400), (100, 404, 4)],
            &[(3, 1 << 40, 4)],
        ];
        for shape in refused {
            let error = plan(4, shape).unwrap_err();
            assert_eq!(error.status, crossdock_sdk::abi::Status::UNSUPPORTED);
        }
    }
}
