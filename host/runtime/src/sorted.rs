//! The elements of a layout in address order: rows that follow each other in memory.

use crossdock_sdk::dlpack::Layout;

use crate::error::Error;
use crate::tensor::compact;

/// The axes of a layout, reversed where their stride is negative, the largest stride outermost.
#[derive(Debug)]
pub(crate) struct Sorted {
    /// Of the axes with several indexes.
    pub(crate) shape: Vec<i64>,
    /// From one index to the next in the compact elements that are given, in elements.
    pub(crate) given: Vec<i64>,
    /// Elements from the start of those that are given to the one with the lowest place.
    pub(crate) given_first: i64,
    /// Elements of a row, which lie in one piece.
    pub(crate) row: u64,
    /// Of the rows: extents and strides, in elements.
    outer: Vec<(i64, i64)>,
    /// Elements from index 0 in every dimension to the lowest place.
    first: i64,
}

impl Sorted {
    /// The elements of `layout`, of which there is one at least and none overlaps another.
    pub(crate) fn of(layout: &Layout) -> Result<Self, Error> {
        let compact = compact(layout)?;
        let strides = layout.strides().iter().zip(compact.strides());
        let (mut first, mut given_first) = (0, 0);
        let mut axes = Vec::with_capacity(layout.rank());
        for (&extent, (&stride, &given)) in layout.shape().iter().zip(strides) {
            if extent == 1 {
                continue;
            }
            if stride < 0 {
                first += (extent - 1) * stride;
                given_first += (extent - 1) * given;
                axes.push((extent, -stride, -given));
            } else {
                axes.push((extent, stride, given));
            }
        }
        axes.sort_by_key(|(_, stride, _)| std::cmp::Reverse(*stride));
        let mut outer: Vec<(i64, i64)> = axes.iter().map(|axis| (axis.0, axis.1)).collect();
        let mut row = 1;
        while let Some((extent, _)) = outer.pop_if(|(_, stride)| *stride == row) {
            row *= extent;
        }
        Ok(Self {
            shape: axes.iter().map(|axis| axis.0).collect(),
            given: axes.iter().map(|axis| axis.2).collect(),
            given_first,
            row: row.unsigned_abs(),
            outer,
            first,
        })
    }

    /// Whether the elements are given in this order.
    pub(crate) fn is_as_given(&self) -> bool {
        let mut next = 1;
        let axes = self.shape.iter().zip(&self.given).rev();
        let mut in_order = axes.map(|(extent, given)| {
            let expected = next;
            next *= extent;
            *given == expected
        });
        self.given_first == 0 && in_order.all(|is| is)
    }

    /// Calls `each` with the place of every row, in elements from the one with index 0 in every
    /// dimension.
    pub(crate) fn rows(&self, each: impl FnMut(i64) -> Result<(), Error>) -> Result<(), Error> {
        walk(&self.outer, self.first, each)
    }

    /// How many axes there are outside of the rows.
    pub(crate) fn depth(&self) -> usize {
        self.outer.len()
    }

    /// The same elements in larger parts: only the outermost `depth` axes are outside of them.
    pub(crate) fn parts(&self, depth: usize) -> Parts<'_> {
        let (outer, inside) = self.outer.split_at(depth.min(self.outer.len()));
        let row = (self.row.cast_signed(), 1);
        let (shape, strides): (Vec<i64>, Vec<i64>) = inside.iter().copied().chain([row]).unzip();
        Parts {
            outer,
            first: self.first,
            count: shape.iter().product(),
            shape,
            strides,
        }
    }
}

/// Parts of one layout at several places.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    outer: &'a [(i64, i64)],
    first: i64,
    /// Elements of a part.
    pub(crate) count: i64,
    pub(crate) shape: Vec<i64>,
    /// In elements.
    pub(crate) strides: Vec<i64>,
}

impl Parts<'_> {
    /// Calls `each` with the place of every part, as [`Sorted::rows`].
    pub(crate) fn each(&self, each: impl FnMut(i64) -> Result<(), Error>) -> Result<(), Error> {
        walk(self.outer, self.first, each)
    }
}

fn walk(
    axes: &[(i64, i64)],
    first: i64,
    mut each: impl FnMut(i64) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut index = vec![0; axes.len()];
    loop {
        let steps = index.iter().zip(axes);
        let place: i64 = steps.map(|(at, (_, stride))| at * stride).sum();
        each(first + place)?;
        let mut axes = index.iter_mut().zip(axes).rev();
        let moved = axes.any(|(at, (extent, _))| {
            *at = if *at + 1 < *extent { *at + 1 } else { 0 };
            *at > 0
        });
        if !moved {
            return Ok(());
        }
    }
}
