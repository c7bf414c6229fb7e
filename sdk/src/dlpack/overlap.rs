//! Whether elements of a layout share a place: what may be read that way and must not be written.

use super::dims::Dims;
use super::strided::{Layout, MAX_RANK};

impl Layout {
    /// The axes along which elements share a place, such as those of a broadcast (stride 0) or of a sliding window;
    /// none where each element has a place of its own. A layout whose axes only interleave, such as extents (3, 2) with
    /// strides (2, 3), has none.
    ///
    /// It is exact for up to two axes and for those that lie one inside the other, whatever their size, and for all
    /// others that a bounded search decides. What that leaves open counts as shared, with every axis named.
    #[must_use]
    pub fn overlapping_axes(&self) -> Vec<usize> {
        if self.is_contiguous() {
            return Vec::new();
        }
        let mut room = [Axis::default(); MAX_RANK];
        let axes = walked(&self.dims, &mut room);
        if are_nested(axes) {
            return Vec::new();
        }
        overlapping(axes)
    }
}

/// An axis with several indexes.
#[derive(Debug, Clone, Copy, Default)]
struct Axis {
    /// Which one.
    number: usize,
    /// The furthest that two indexes lie apart: the extent less 1.
    steps: i128,
    /// How far apart neighbours are, in elements and without the direction.
    stride: i128,
}

impl Axis {
    const fn reach(&self) -> i128 {
        // Both have 63 bits.
        self.steps * self.stride
    }
}

/// The axes that are walked at all, the shortest stride first.
fn walked<'a>(dims: &Dims, room: &'a mut [Axis; MAX_RANK]) -> &'a [Axis] {
    let mut count = 0;
    let axes = dims.axes().enumerate();
    for ((number, (extent, stride)), place) in axes
        .filter(|(_, (extent, _))| *extent > 1)
        .zip(room.iter_mut())
    {
        *place = Axis {
            number,
            steps: i128::from(extent) - 1,
            stride: i128::from(stride).abs(),
        };
        count += 1;
    }
    let axes = room.get_mut(..count).unwrap_or_default();
    axes.sort_unstable_by_key(|axis| axis.stride);
    axes
}

/// Whether each axis steps over everything that the axes inside it reach, as nearly all layouts do.
fn are_nested(axes: &[Axis]) -> bool {
    let mut reach = 0_i128;
    axes.iter().all(|axis| {
        let is_outside = axis.stride > reach;
        // At most 64 times 126 bits; a layout's span has 63.
        reach = reach.saturating_add(axis.reach());
        is_outside
    })
}

/// The axes of the first overlap that is found: of one axis, else of two, else of several.
fn overlapping(axes: &[Axis]) -> Vec<usize> {
    let still: Vec<usize> = axes
        .iter()
        .filter(|axis| axis.stride == 0)
        .map(|axis| axis.number)
        .collect();
    if !still.is_empty() {
        return ordered(still);
    }
    for (at, outer) in axes.iter().enumerate() {
        for inner in axes.iter().take(at) {
            if meets(outer, inner) {
                return ordered(vec![inner.number, outer.number]);
            }
        }
    }
    if axes.len() < 3 {
        return Vec::new();
    }
    let mut search = Search::new(axes);
    if search.run(axes, 0, false) {
        return ordered(search.part);
    }
    let is_undecided = search.left == 0;
    let left_open = axes.iter().filter(|_| is_undecided);
    ordered(left_open.map(|axis| axis.number).collect())
}

fn ordered(mut axes: Vec<usize>) -> Vec<usize> {
    axes.sort_unstable();
    axes
}

/// Whether going along one axis and back along another leads to the same place: the least such way is as many steps
/// along each as the other's stride has of their common divisors.
fn meets(one: &Axis, other: &Axis) -> bool {
    let common = divisor(one.stride, other.stride);
    other.stride / common <= one.steps && one.stride / common <= other.steps
}

/// Looks for steps along several axes, forwards or backwards and not all 0, that lead back to where they began.
struct Search {
    /// Of the first so many axes: how far they reach together, and what divides all their strides.
    inside: Vec<(i128, i128)>,
    /// The axes of the way that was found.
    part: Vec<usize>,
    /// How many places may still be looked at.
    left: u32,
}

impl Search {
    fn new(axes: &[Axis]) -> Self {
        let mut inside = vec![(0, 0)];
        for axis in axes {
            let (reach, common) = inside.last().copied().unwrap_or_default();
            inside.push((reach + axis.reach(), divisor(common, axis.stride)));
        }
        Self {
            inside,
            part: Vec::new(),
            left: PLACES,
        }
    }

    /// Whether `axes`, which are the first ones, lead from `away` back to 0; `moved` where steps along the others led
    /// there, so that these may stay. The outermost comes first: few of its steps can be made up for by the others.
    fn run(&mut self, axes: &[Axis], away: i128, moved: bool) -> bool {
        let Some((axis, within)) = axes.split_last() else {
            return away == 0 && moved;
        };
        let Some(&(reach, common)) = self.inside.get(within.len()) else {
            return false;
        };
        // Until an axis moves, a way and its mirror image are one.
        let least = if moved { -axis.steps } else { 0 };
        let first = (-reach - away).div_euclid(axis.stride)
            + i128::from((-reach - away).rem_euclid(axis.stride) != 0);
        let last = (reach - away).div_euclid(axis.stride);
        let mut steps = first.max(least);
        while steps <= last.min(axis.steps) {
            let Some(left) = self.left.checked_sub(1) else {
                return false;
            };
            self.left = left;
            let next = away + steps * axis.stride;
            let may_return = if common == 0 {
                next == 0
            } else {
                next % common == 0
            };
            if may_return && self.run(within, next, moved || steps != 0) {
                if steps != 0 {
                    self.part.push(axis.number);
                }
                return true;
            }
            steps += 1;
        }
        false
    }
}

/// The greatest common divisor; 0 has every divisor.
fn divisor(mut one: i128, mut other: i128) -> i128 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// A search of so many places takes less than the copy of a few pages.
const PLACES: u32 = 1 << 14;
