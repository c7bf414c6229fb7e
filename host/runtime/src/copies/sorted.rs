//! The elements of a layout in address order: rows that follow each other in memory.

use crossdock_sdk::dlpack::Layout;

use crate::error::Error;
use crate::tensors::tensor::compact;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crossdock_sdk::dlpack::Dtype;

    /// Shapes and strides of elements that do not overlap.
    const CASES: [(&[i64], &[i64]); 12] = [
        (&[], &[]),
        (&[1], &[7]),
        (&[5], &[1]),
        (&[5], &[-1]),
        (&[5], &[3]),
        (&[3, 1], &[1, 0]),
        (&[2, 3], &[3, 1]),
        (&[2, 3], &[1, 2]),
        (&[2, 3], &[4, 1]),
        (&[2, 1, 3], &[-4, 9, 1]),
        (&[2, 3, 4], &[-30, 2, -6]),
        (&[3, 2, 2], &[2, 24, -9]),
    ];

    fn layout((shape, strides): (&[i64], &[i64])) -> Layout {
        Layout::strided(Dtype::UINT8, shape, strides).unwrap()
    }

    /// The places of all indexes, the last axis running fastest.
    fn places(shape: &[i64], strides: &[i64]) -> Vec<i64> {
        let axes = shape.iter().zip(strides);
        axes.fold(vec![0], |before, (extent, stride)| {
            let with = |place: i64| (0..*extent).map(move |at| place + at * stride);
            before.into_iter().flat_map(with).collect()
        })
    }

    /// The places of the elements and which of those given they are, in address order.
    fn in_order(case: (&[i64], &[i64])) -> (Vec<i64>, Vec<i64>) {
        let mut elements: Vec<(i64, i64)> = places(case.0, case.1).into_iter().zip(0..).collect();
        elements.sort_unstable();
        elements.into_iter().unzip()
    }

    /// What `each` is called with; an end to what has none.
    fn all(
        run: impl FnOnce(&mut dyn FnMut(i64) -> Result<(), Error>) -> Result<(), Error>,
    ) -> Vec<i64> {
        let mut seen = Vec::new();
        let mut more = |place| {
            seen.push(place);
            if seen.len() > 1000 {
                return Err(Error::misuse("walk", "there is no end"));
            }
            Ok(())
        };
        run(&mut more).unwrap();
        seen
    }

    #[test]
    fn rows_and_parts_are_the_elements_in_address_order() {
        for case in CASES {
            let sorted = Sorted::of(&layout(case)).unwrap();
            let (expected, given) = in_order(case);
            let spread = |first: i64, shape: &[i64], strides: &[i64]| {
                places(shape, strides)
                    .into_iter()
                    .map(move |place| first + place)
                    .collect::<Vec<_>>()
            };
            let row = [sorted.row.cast_signed()];
            let rows = all(|each| sorted.rows(each));
            let by_rows: Vec<i64> = rows
                .iter()
                .flat_map(|first| spread(*first, &row, &[1]))
                .collect();
            assert_eq!(by_rows, expected, "{case:?}");
            assert_eq!(
                spread(sorted.given_first, &sorted.shape, &sorted.given),
                given,
                "{case:?}"
            );
            for depth in 0..=sorted.depth() {
                let parts = sorted.parts(depth);
                let firsts = all(|each| parts.each(each));
                let by_parts: Vec<i64> = firsts
                    .iter()
                    .flat_map(|first| spread(*first, &parts.shape, &parts.strides))
                    .collect();
                assert_eq!(by_parts, expected, "{case:?} by parts of depth {depth}");
                let count = usize::try_from(parts.count).unwrap();
                assert_eq!(count * firsts.len(), expected.len(), "{case:?}");
            }
        }
    }

    #[test]
    fn elements_are_as_given_where_their_addresses_rise_with_their_index() {
        for case in CASES {
            let rises = in_order(case).1.is_sorted();
            assert_eq!(
                Sorted::of(&layout(case)).unwrap().is_as_given(),
                rises,
                "{case:?}"
            );
        }
    }

    #[test]
    fn rows_are_as_long_as_they_can_be() {
        let rows = CASES.map(|case| {
            let sorted = Sorted::of(&layout(case)).unwrap();
            (sorted.row, sorted.depth())
        });
        let expected = [
            (1, 0),
            (1, 0),
            (5, 0),
            (5, 0),
            (1, 1),
            (3, 0),
            (6, 0),
            (6, 0),
            (3, 1),
            (3, 1),
            (1, 3),
            (1, 3),
        ];
        assert_eq!(rows, expected);
    }
}
