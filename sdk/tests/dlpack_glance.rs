//! A look at a tensor says nothing that the check of everything would not say.
#![expect(unsafe_code, reason = "looks at forged structs")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot be set up has failed"
)]

use crossdock_sdk::dlpack::{DLDataType, Flags, glance, validate};
use proptest::prelude::*;

use forged::Forged;

#[path = "producers/forged.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod forged;

/// Looks, and compares with the check where the look found something.
fn is_found(forged: &Forged) -> bool {
    let tensor = &forged.managed.dl_tensor;
    // SAFETY: the forged arrays are as long as its rank says, or NULL.
    let found = unsafe { glance(tensor) };
    // SAFETY: as above.
    let checked = unsafe { validate(tensor, Flags::NONE) };
    let Some(found) = found else {
        return false;
    };
    let checked = checked.expect("the check takes what a look finds");
    let (shape, rest) = found.shape.split_at(found.rank);
    assert_eq!(checked.layout().shape(), shape);
    assert!(checked.layout().is_contiguous() && checked.layout().numel() > 0);
    assert!(rest.iter().all(|extent| *extent == 0));
    assert_eq!((checked.data(), checked.byte_offset()), (found.data, 0));
    assert_eq!(checked.layout().dtype(), found.dtype);
    assert_eq!(checked.device(), found.device);
    true
}

#[test]
fn usual_tensors_are_found() {
    assert!(is_found(&Forged::new(&[], None)));
    assert!(is_found(&Forged::new(&[2, 3], None)));
    assert!(is_found(&Forged::new(&[2, 3], Some(&[3, 1]))));
    assert!(is_found(&Forged::new(&[2, 1, 3], Some(&[3, -7, 1]))));
}

#[test]
fn unusual_tensors_are_left_to_the_check() {
    assert!(!is_found(&Forged::new(&[2, 0], None)));
    assert!(!is_found(&Forged::new(&[1, 1, 1, 1, 1], None)));
    assert!(!is_found(&Forged::new(&[2, 3], Some(&[1, 2]))));
    assert!(!is_found(&Forged::new(&[3], Some(&[-1]))));
    assert!(!is_found(&Forged::new(&[1 << 62], None)));
    let mut packed = Forged::new(&[2, 2], None);
    packed.managed.dl_tensor.dtype.bits = 4;
    packed.managed.dl_tensor.dtype.code = 0;
    assert!(!is_found(&packed));
    // DLPack 0.x has another meaning for elements of one bit, however many there are in a byte.
    packed.managed.dl_tensor.dtype.bits = 1;
    packed.managed.dl_tensor.dtype.lanes = 8;
    assert!(!is_found(&packed));
}

const NUMBERS: [i64; 12] = [
    0,
    1,
    1,
    2,
    3,
    8,
    -1,
    1 << 31,
    1 << 61,
    i64::MAX,
    i64::MIN,
    255,
];

proptest! {
    #[test]
    fn a_look_agrees_with_the_check(
        shape in prop::collection::vec(prop::sample::select(&NUMBERS[..]), 0..6),
        strides in prop::option::of(prop::collection::vec(prop::sample::select(&NUMBERS[..]), 6)),
        (code, bits, lanes) in (0_u8..19, prop::sample::select(vec![0_u8, 1, 4, 8, 16, 32, 64]), 0_u16..4),
        data in prop::sample::select(vec![0_usize, 1, 0x1000, usize::MAX - 7]),
        (ty, id, offset) in (-1_i32..5, -1_i32..2, prop::sample::select(vec![0_u64, 0, 0, 4, u64::MAX])),
        ndim in prop::option::weighted(0.1, -2_i32..0),
    ) {
        let strides = strides.map(|mut strides| {
            strides.truncate(shape.len());
            strides
        });
        let mut forged = Forged::new(&shape, strides.as_deref());
        let tensor = &mut forged.managed.dl_tensor;
        tensor.dtype = DLDataType { code, bits, lanes };
        tensor.data = std::ptr::without_provenance_mut(data);
        tensor.device.device_type = ty;
        tensor.device.device_id = id;
        tensor.byte_offset = offset;
        tensor.ndim = ndim.unwrap_or_else(|| i32::try_from(shape.len()).unwrap());
        is_found(&forged);
    }
}
