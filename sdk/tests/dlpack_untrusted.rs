//! What is checked of a tensor from outside before anything of it is used, and in which order.
#![expect(unsafe_code, reason = "forges the structs of wrong producers")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that cannot be set up has failed"
)]

use std::ptr::null_mut;

use crossdock_sdk::dlpack::{
    DLDataType, DLPackVersion, Device, DeviceType, DlpackError, Flags, MAX_RANK,
};

use forged::{Forged, refused};

#[path = "producers/forged.rs"]
mod forged;

/// One thing wrong with a tensor of 2 by 3 floats, and what the refusal has to name.
type Wrong = (fn(&mut Forged), &'static [&'static str]);

/// In the order in which they are checked.
const WRONG: [Wrong; 13] = [
    (|f| f.managed.version.major = 9, &["version", "9.3", "1.x"]),
    (|f| f.managed.dl_tensor.ndim = 65, &["ndim", "65", "64"]),
    (|f| f.managed.dl_tensor.ndim = -4, &["ndim", "-4", "64"]),
    (
        |f| f.managed.dl_tensor.shape = null_mut(),
        &["shape", "NULL", "2 extents"],
    ),
    (
        |f| f.shape[1] = -3,
        &["shape[1]", "-3", "expected 0 or more"],
    ),
    (
        |f| f.shape[0] = i64::MAX,
        &["shape", "9223372036854775807, 3", "more than"],
    ),
    (
        |f| {
            f.managed.dl_tensor.dtype = DLDataType {
                code: 2,
                bits: 7,
                lanes: 1,
            }
        },
        &["dtype", "bits 7", "expected"],
    ),
    (
        |f| f.shape[0] = 1 << 60,
        &[
            "shape",
            "1152921504606846976, 3",
            "9223372036854775807 bytes",
        ],
    ),
    (
        |f| f.strides[0] = i64::MAX,
        &["strides", "[9223372036854775807, 1]", "shape [2, 3]"],
    ),
    (
        |f| f.managed.dl_tensor.byte_offset = u64::MAX,
        &["byte_offset", "18446744073709551615", "24"],
    ),
    (
        |f| f.managed.dl_tensor.data = null_mut(),
        &["data", "NULL", "6 elements"],
    ),
    (
        |f| f.strides[0] = -1 << 40,
        &["data", "0x1000", "-4398046511104"],
    ),
    (
        |f| f.managed.dl_tensor.device.device_id = -1,
        &["device", "cpu:-1", "0 or more"],
    ),
];

#[test]
fn every_refusal_names_the_field_and_both_values_and_releases_once() {
    for (number, (spoil, named)) in WRONG.iter().enumerate() {
        let said = refused(spoil).to_string();
        for part in *named {
            assert!(said.contains(part), "{number}: {said:?} lacks {part:?}");
        }
    }
}

#[test]
fn of_two_wrong_fields_the_one_that_is_checked_first_is_named() {
    for (number, (later, _)) in WRONG.iter().enumerate().skip(1) {
        for (earlier, _) in WRONG.iter().take(number) {
            let alone = refused(earlier);
            let both = refused(|f| {
                later(f);
                earlier(f);
            });
            let kind = std::mem::discriminant(&alone);
            let same_field = std::mem::discriminant(&refused(later)) == kind;
            assert!(
                same_field || std::mem::discriminant(&both) == kind,
                "{number}: {both} and not {alone}"
            );
        }
    }
}

#[test]
fn unknown_flag_bits_are_accepted_and_dropped_86() {
    let mut forged = Forged::new(&[2], Some(&[1]));
    forged.managed.flags = 1 << 63 | 0b1001;
    assert_eq!(forged.import().unwrap().flags(), Flags::READ_ONLY);
}

#[test]
fn the_read_only_flag_is_kept_84() {
    for (flags, expected) in [(0, false), (1, true), (3, true), (2, false)] {
        let mut forged = Forged::new(&[2], Some(&[1]));
        forged.managed.flags = flags;
        let received = forged.import().unwrap();
        assert_eq!(received.view().is_read_only(), expected, "{flags:#x}");
        assert_eq!(received.flags().raw(), flags);
    }
}

#[test]
fn the_rank_ends_at_sixty_four() {
    assert_eq!(MAX_RANK, 64);
    let mut forged = Forged::new(&[1; 64], Some(&[0; 64]));
    assert_eq!(forged.import().unwrap().layout().rank(), 64);
    let mut forged = Forged::new(&[1; 65], Some(&[0; 65]));
    assert!(matches!(
        forged.import().expect_err("too many"),
        DlpackError::Rank {
            ndim: 65,
            limit: 64
        }
    ));
}

#[test]
fn null_strides_are_accepted_in_every_minor_version_10() {
    for minor in [0, 1, 2, 3, 99] {
        let mut forged = Forged::new(&[2, 3], None);
        forged.managed.version = DLPackVersion { major: 1, minor };
        assert_eq!(forged.import().unwrap().layout().strides(), [3, 1]);
    }
}

#[test]
fn negative_strides_stay_inside_the_owners_base_and_size() {
    let mut forged = Forged::new(&[2, 3], Some(&[-3, -1]));
    let received = forged.import().unwrap();
    // Five elements lie before the first: 20 bytes, and it needs 4 itself.
    assert!(received.view().check_within(20, 24).is_ok());
    for (data_at, size) in [(19, 24), (20, 23), (0, 24)] {
        let refused = received.view().check_within(data_at, size).unwrap_err();
        let said = refused.to_string();
        assert!(said.contains(&format!("has {size} bytes")), "{said}");
    }
}

#[test]
fn a_byte_offset_counts_when_the_owners_size_is_checked() {
    let mut forged = Forged::new(&[2, 3], Some(&[3, 1]));
    forged.managed.dl_tensor.byte_offset = 8;
    let received = forged.import().unwrap();
    assert!(received.view().check_within(0, 32).is_ok());
    assert!(received.view().check_within(0, 31).is_err());
}

#[test]
fn an_unaligned_address_is_accepted_and_reported_as_it_is_14() {
    let mut forged = Forged::new(&[2], Some(&[1]));
    forged.managed.dl_tensor.data = std::ptr::without_provenance_mut(0x1001);
    assert_eq!(forged.import().unwrap().data().addr(), 0x1001);
}

#[test]
fn a_device_type_that_nobody_knows_is_left_to_whoever_looks_it_up() {
    let mut forged = Forged::new(&[2], Some(&[1]));
    forged.managed.dl_tensor.device.device_type = 4711;
    let device: Device = forged.import().unwrap().device();
    assert_eq!(device.ty, DeviceType::from_raw(4711));
}
