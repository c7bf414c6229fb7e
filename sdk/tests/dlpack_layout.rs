//! Layouts against a model that lists every element, and the validator against random headers.
#![expect(unsafe_code, reason = "hands random headers to the validator")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot be set up has failed"
)]

use std::collections::BTreeSet;
use std::ptr::null_mut;

use crossdock_sdk::dlpack::{
    AxisSlice, DLDataType, DLDevice, DLTensor, DlpackError, Dtype, Flags, Layout, validate,
};
use proptest::prelude::*;

/// The position of every element, in row-major order.
fn positions(shape: &[i64], strides: &[i64]) -> Vec<i64> {
    let mut all = vec![0];
    for (extent, stride) in shape.iter().zip(strides) {
        all = all
            .iter()
            .flat_map(|at| (0..*extent).map(move |index| at + index * stride))
            .collect();
    }
    all
}

fn positions_of(layout: &Layout) -> Vec<i64> {
    positions(layout.shape(), layout.strides())
}

fn dtypes() -> impl Strategy<Value = (Dtype, bool)> {
    let names = [
        "float32",
        "float4_e2m1fn",
        "float6_e2m3fn",
        "int1",
        "uint8x3",
        "float4_e2m1fnx3",
        "complex128",
    ];
    (proptest::sample::select(names.to_vec()), any::<bool>())
        .prop_map(|(name, padded)| (name.parse().unwrap(), padded))
}

prop_compose! {
    fn layouts()(
        (dtype, padded) in dtypes(),
        axes in prop::collection::vec((0_i64..5, -20_i64..20), 0..5),
        compact in any::<bool>(),
    ) -> Layout {
        let (shape, strides): (Vec<_>, Vec<_>) = axes.into_iter().unzip();
        let packed = if compact { Layout::compact(dtype, &shape) } else { Layout::strided(dtype, &shape, &strides) };
        packed.unwrap().with_padding(padded).unwrap()
    }
}

/// A layout of bytes.
fn bytes(shape: &[i64], strides: &[i64]) -> Layout {
    Layout::strided(Dtype::UINT8, shape, strides).unwrap()
}

#[test]
fn axes_on_which_elements_share_a_place_are_named() {
    const FAR: i64 = 1 << 31;
    let cases: [(&[i64], &[i64], &[usize]); 15] = [
        (&[3], &[0], &[0]),
        (&[2, 3, 4], &[0, 1, 0], &[0, 2]),
        (&[5, 3], &[1, 1], &[0, 1]),
        (&[4, 3], &[2, 3], &[0, 1]),
        (&[4, 2], &[-2, 4], &[0, 1]),
        // 1 + 2 = 3: no two of these axes alone.
        (&[2, 2, 2], &[3, 1, 2], &[0, 1, 2]),
        (&[2, 9, 2, 2], &[3, 100, 1, 2], &[0, 2, 3]),
        (&[FAR, FAR], &[1, FAR - 1], &[0, 1]),
        (&[FAR, 3], &[1, 0], &[1]),
        // What shares no place: one inside the other, interleaved, with no meaning.
        (&[3, 3], &[2, 3], &[]),
        (&[4, 5], &[-1, 4], &[]),
        (&[1, 4], &[0, 1], &[]),
        (&[0, 4], &[0, 0], &[]),
        (&[FAR, 3, 2], &[6, 2, 3], &[]),
        (&[FAR, 2], &[2, 2 * FAR - 1], &[]),
    ];
    for (shape, strides, axes) in cases {
        assert_eq!(
            bytes(shape, strides).overlapping_axes(),
            axes,
            "shape {shape:?}, strides {strides:?}"
        );
    }
}

#[test]
fn a_layout_that_no_short_search_decides_counts_as_shared() {
    let strides = [1 << 41 | 9, 1 << 40 | 15, 1 << 40 | 37];
    let layout = bytes(&[1 << 20; 3], &strides);
    assert_eq!(layout.overlapping_axes(), [0, 1, 2]);
}

proptest! {
    #[test]
    fn elements_share_a_place_exactly_where_the_model_finds_it_twice(layout in layouts()) {
        let positions = positions_of(&layout);
        let places: BTreeSet<i64> = positions.iter().copied().collect();
        let axes = layout.overlapping_axes();
        prop_assert_eq!(axes.is_empty(), places.len() == positions.len(), "{:?}", axes);
        // The axes that are named share a place by themselves.
        let strides = layout.strides();
        let part: (Vec<i64>, Vec<i64>) =
            axes.iter().map(|&axis| (layout.shape()[axis], strides[axis])).unzip();
        let part = positions_of(&bytes(&part.0, &part.1));
        let apart: BTreeSet<i64> = part.iter().copied().collect();
        prop_assert!(axes.is_empty() || apart.len() < part.len(), "{:?}", axes);
    }

    #[test]
    fn the_span_is_that_of_every_element(layout in layouts()) {
        let bits = i64::from(layout.element_bits());
        let all = positions_of(&layout);
        let min = all.iter().map(|at| (at * bits).div_euclid(8)).min().unwrap_or(0);
        let max = all.iter().map(|at| ((at + 1) * bits + 7).div_euclid(8)).max().unwrap_or(0);
        prop_assert_eq!((layout.span().min, layout.span().max), (min, max));
        prop_assert_eq!(layout.numel(), i64::try_from(all.len()).unwrap());
    }

    /// Rule 18.
    #[test]
    fn contiguous_means_one_element_after_the_other(layout in layouts()) {
        let all = positions_of(&layout);
        let in_order = all.iter().zip(0_i64..).all(|(at, index)| *at == index);
        prop_assert_eq!(layout.is_contiguous(), in_order);
    }

    #[test]
    fn a_slice_takes_the_elements_it_names(
        layout in layouts(),
        picks in prop::collection::vec((0_i64..5, -3_i64..4, 0_i64..5), 5),
    ) {
        let picks = &picks[..layout.rank()];
        let slices: Vec<_> = picks.iter().map(|&(start, step, len)| AxisSlice { start, step, len }).collect();
        let indexes: Vec<Vec<i64>> =
            picks.iter().map(|&(start, step, len)| (0..len).map(|i| start + i * step).collect()).collect();
        match layout.slice(&slices) {
            Ok((part, offset)) => {
                let mut expected = vec![0_i64];
                for (axis, stride) in indexes.iter().zip(layout.strides()) {
                    expected = expected.iter().flat_map(|at| axis.iter().map(move |i| at + i * stride)).collect();
                }
                let found: Vec<_> = positions_of(&part).into_iter().map(|at| at + offset).collect();
                prop_assert_eq!(&found, &expected);
                let whole: BTreeSet<_> = positions_of(&layout).into_iter().collect();
                prop_assert!(found.iter().all(|at| whole.contains(at)));
            }
            Err(DlpackError::Slice { axis, extent, .. }) => {
                let (start, step, len) = picks[axis];
                let outside = indexes[axis].iter().any(|i| !(0..extent).contains(i));
                prop_assert!(outside || step == 0 || (len == 0 && start > extent));
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    #[test]
    fn reversing_twice_changes_nothing(layout in layouts()) {
        let back: Vec<_> = layout.shape().iter().map(|&extent| AxisSlice::reversed(extent)).collect();
        let (once, there) = layout.slice(&back).unwrap();
        let (twice, again) = once.slice(&back).unwrap();
        prop_assert_eq!(there + again, 0);
        prop_assert_eq!(positions_of(&twice), positions_of(&layout));
    }

    #[test]
    fn permuting_there_and_back_changes_nothing(
        (layout, axes) in layouts().prop_flat_map(|layout| {
            let axes: Vec<_> = (0..layout.rank()).collect();
            (Just(layout), Just(axes).prop_shuffle())
        }),
    ) {
        let there = layout.permute(&axes).unwrap();
        let mut inverse = vec![0; axes.len()];
        axes.iter().enumerate().for_each(|(to, &from)| inverse[from] = to);
        prop_assert_eq!(there.permute(&inverse).unwrap(), layout.clone());
        prop_assert_eq!(there.span(), layout.span());
    }

    /// Every split of the elements that strides can say is found, and nothing else.
    #[test]
    fn a_reshape_keeps_every_element_in_its_place(layout in layouts(), cuts in prop::collection::vec(1_i64..5, 0..4)) {
        let product: i64 = cuts.iter().product();
        let mut shape = cuts.clone();
        if layout.numel() % product == 0 {
            shape.push(layout.numel() / product);
        }
        let all = positions_of(&layout);
        let possible = shape.iter().product::<i64>() == layout.numel() && splits(&all, &shape);
        match layout.reshape(&shape) {
            Some(other) => {
                prop_assert_eq!(other.shape(), &shape);
                prop_assert_eq!(positions_of(&other), all);
            }
            None => prop_assert!(!possible, "{:?} as {:?}", layout, shape),
        }
    }

    #[test]
    fn random_headers_are_refused_or_described_and_never_read_out_of_bounds(
        numbers in (any::<i32>(), any::<i32>(), any::<u64>(), any::<u64>(), any::<usize>()),
        small in any::<bool>(),
        raw in (0_u8..20, any::<u8>(), 0_u16..4),
        ndim in prop_oneof![-2_i32..70, any::<i32>()],
        dims in prop::collection::vec(prop_oneof![any::<i64>(), -2_i64..6], 128),
        nulls in (any::<bool>(), any::<bool>()),
    ) {
        let (device_type, device_id, flags, byte_offset, data) = numbers;
        // Exactly as long as the rank promises: an address sanitizer sees the first number too many.
        let rank = usize::try_from(ndim).unwrap_or(0).min(64);
        let mut shape = dims[..rank].to_vec().into_boxed_slice();
        let mut strides = dims[64..64 + rank].to_vec().into_boxed_slice();
        let tensor = DLTensor {
            data: std::ptr::without_provenance_mut(data),
            device: DLDevice { device_type, device_id },
            ndim,
            dtype: if small { DLDataType { code: raw.0, bits: raw.1, lanes: raw.2 } } else { Dtype::INT8.to_raw() },
            shape: if nulls.0 { null_mut() } else { shape.as_mut_ptr() },
            strides: if nulls.1 { null_mut() } else { strides.as_mut_ptr() },
            byte_offset: if small { byte_offset } else { byte_offset % 4096 },
        };
        let flags = if small { flags } else { flags & 7 };
        // SAFETY: shape and strides are NULL or have as many numbers as the rank says.
        let result = unsafe { validate(&tensor, Flags::from_raw(flags)) };
        if let Ok(view) = result {
            prop_assert_eq!(view.layout().shape(), &*shape);
            prop_assert_eq!(view.device().to_raw(), tensor.device);
            prop_assert!(view.layout().span().min <= 0 && view.layout().span().max >= 0);
            prop_assert!(view.layout().numel() == 0 || !view.data().is_null());
        }
    }
}

/// Whether some strides give exactly these positions under this shape.
fn splits(positions: &[i64], shape: &[i64]) -> bool {
    if positions.is_empty() {
        return true;
    }
    let mut inner: i64 = shape.iter().product();
    let strides: Vec<_> = shape
        .iter()
        .map(|&extent| {
            inner /= extent;
            let next = usize::try_from(inner).unwrap();
            if extent == 1 {
                0
            } else {
                positions[next] - positions[0]
            }
        })
        .collect();
    self::positions(shape, &strides) == positions
}

#[test]
fn strides_of_extents_of_one_carry_no_meaning_18() {
    let layout = Layout::strided(Dtype::FLOAT32, &[1, 2, 1, 3], &[-99, 3, i64::MAX, 1]).unwrap();
    assert!(layout.is_contiguous());
    assert_eq!(layout.span().max, 24);
    assert_eq!(layout.reshape(&[6]).unwrap().strides(), [1]);
}

#[test]
fn a_packed_slice_that_begins_inside_a_byte_has_no_byte_offset() {
    let layout = Layout::compact(Dtype::FLOAT4_E2M1FN, &[8]).unwrap();
    let (_, offset) = layout
        .slice(&[AxisSlice {
            start: 3,
            step: 1,
            len: 2,
        }])
        .unwrap();
    assert!(matches!(
        layout.byte_offset_of(offset),
        Err(DlpackError::MidByte { bits: _ })
    ));
    assert_eq!(layout.byte_offset_of(4).unwrap(), 2);
}

#[test]
fn axes_that_are_no_permutation_are_refused() {
    let layout = Layout::compact(Dtype::INT8, &[2, 3]).unwrap();
    for axes in [[0, 0].as_slice(), &[0], &[0, 2], &[0, 1, 2]] {
        assert!(matches!(
            layout.permute(axes),
            Err(DlpackError::Axes { .. })
        ));
    }
}
