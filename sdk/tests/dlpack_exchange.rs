//! Export and import of managed tensors: who releases what, and what is refused.
#![expect(unsafe_code, reason = "forges the structs of wrong producers")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot be set up has failed"
)]

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

use forged::{Forged, refused};

#[path = "producers/forged.rs"]
mod forged;

use crossdock_sdk::dlpack::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DataWord,
    Device, DeviceType, DlpackError, Dtype, Flags, Layout, Produced, Received, TensorView, export,
    export_legacy,
};

#[test]
fn a_received_tensor_is_released_once_and_its_struct_not_touched_afterwards_30_32() {
    let mut forged = Forged::new(&[2, 3], Some(&[1, 2]));
    let received = forged.import().unwrap();
    assert_eq!(received.layout().shape(), [2, 3]);
    assert_eq!(received.layout().strides(), [1, 2]);
    assert_eq!(forged.released(), 0);
    drop(received);
    assert_eq!(forged.released(), 1);
}

#[test]
fn a_received_tensor_may_be_dropped_on_another_thread_33() {
    let mut forged = Forged::new(&[2], Some(&[1]));
    let received = forged.import().unwrap();
    std::thread::scope(|scope| scope.spawn(move || drop(received)).join().unwrap());
    assert_eq!(forged.released(), 1);
}

#[test]
fn a_null_deleter_is_no_error_31() {
    let mut forged = Forged::new(&[2], Some(&[1]));
    forged.managed.deleter = None;
    drop(forged.import().unwrap());
    forged.managed.version.major = 9;
    assert!(forged.import().is_err());
    assert_eq!(forged.released(), 0);
}

#[test]
fn another_major_version_is_released_unread_and_both_versions_named_6() {
    let error = refused(|forged| {
        forged.managed.version = DLPackVersion { major: 2, minor: 7 };
        forged.managed.dl_tensor.ndim = 1_000_000;
        forged.managed.dl_tensor.shape = std::ptr::without_provenance_mut(8);
    });
    assert_eq!(
        error,
        DlpackError::Version {
            found_major: 2,
            found_minor: 7,
            own_major: 1
        }
    );
    assert!(error.to_string().contains("2.7") && error.to_string().contains("1.x"));
}

#[test]
fn a_newer_minor_version_is_accepted_7() {
    let mut forged = Forged::new(&[2], Some(&[1]));
    forged.managed.version.minor = 99;
    assert!(forged.import().is_ok());
}

#[test]
fn null_strides_are_compact_row_major_10() {
    for minor in [0, 1, 2, 3] {
        let mut forged = Forged::new(&[2, 3, 4], None);
        forged.managed.version.minor = minor;
        assert_eq!(forged.import().unwrap().layout().strides(), [12, 4, 1]);
    }
}

#[test]
fn the_producers_struct_is_not_written_11() {
    let mut forged = Forged::new(&[2, 1, 0], None);
    forged.managed.deleter = None;
    let before = (
        format!("{:?}", forged.managed),
        forged.shape.clone(),
        forged.strides.clone(),
    );
    drop(forged.import().unwrap());
    assert_eq!(
        (
            format!("{:?}", forged.managed),
            forged.shape.clone(),
            forged.strides.clone()
        ),
        before
    );
}

#[test]
fn byte_offset_and_handles_are_carried_through_unadded_12_13() {
    let mut forged = Forged::new(&[4], Some(&[1]));
    forged.managed.dl_tensor.device = DLDevice {
        device_type: 4,
        device_id: 2,
    };
    forged.managed.dl_tensor.data = std::ptr::without_provenance_mut(usize::MAX);
    forged.managed.dl_tensor.byte_offset = 64;
    let received = forged.import().unwrap();
    assert_eq!(
        (received.data().addr(), received.byte_offset()),
        (usize::MAX, 64)
    );
    assert_eq!(received.device(), DeviceType::OPENCL.device(2));
    let again = Produced::<DLManagedTensorVersioned>::new((), received.view()).unwrap();
    // SAFETY: `again` owns a live struct.
    let tensor = unsafe { (*again.as_ptr()).dl_tensor };
    assert_eq!((tensor.data.addr(), tensor.byte_offset), (usize::MAX, 64));
}

#[test]
fn impossible_headers_are_refused_and_released_once_16_36() {
    assert!(matches!(
        refused(|f| f.managed.dl_tensor.data = null_mut()),
        DlpackError::NullData { numel: 6 }
    ));
    assert!(matches!(
        refused(|f| f.managed.dl_tensor.ndim = -1),
        DlpackError::Rank { ndim: -1, .. }
    ));
    assert!(matches!(
        refused(|f| f.managed.dl_tensor.ndim = 65),
        DlpackError::Rank { ndim: 65, .. }
    ));
    assert!(matches!(
        refused(|f| f.managed.dl_tensor.shape = null_mut()),
        DlpackError::NullShape { ndim: 2 }
    ));
    assert!(matches!(
        refused(|f| f.shape[1] = -3),
        DlpackError::NegativeExtent {
            axis: 1,
            extent: -3
        }
    ));
    assert!(matches!(
        refused(|f| f.shape[0] = i64::MAX),
        DlpackError::SizeOverflow { .. }
    ));
    assert!(matches!(
        refused(|f| f.shape[1] = 1 << 60),
        DlpackError::SizeOverflow { .. }
    ));
    assert!(matches!(
        refused(|f| f.strides[0] = i64::MAX),
        DlpackError::SpanOverflow { .. }
    ));
    assert!(matches!(
        refused(|f| f.managed.dl_tensor.byte_offset = u64::MAX),
        DlpackError::Offset { .. }
    ));
    assert!(matches!(
        refused(|f| f.strides[0] = -1 << 40),
        DlpackError::AddressSpace { .. }
    ));
    assert!(matches!(
        refused(|f| f.managed.dl_tensor.device.device_type = 0),
        DlpackError::Device { .. }
    ));
    assert!(matches!(
        refused(|f| f.managed.dl_tensor.device.device_id = -1),
        DlpackError::Device { .. }
    ));
}

#[test]
fn types_that_mean_nothing_are_refused_24_26_27() {
    for (code, bits, lanes) in [
        (18, 8, 1),
        (255, 255, 1),
        (17, 8, 1),
        (15, 8, 1),
        (2, 33, 1),
        (2, 32, 0),
        (6, 1, 1),
    ] {
        let error = refused(|f| f.managed.dl_tensor.dtype = DLDataType { code, bits, lanes });
        assert!(matches!(error, DlpackError::Dtype { .. }), "{error}");
    }
    let mut forged = Forged::new(&[2], Some(&[1]));
    forged.managed.dl_tensor.dtype.lanes = 4;
    assert_eq!(forged.import().unwrap().layout().bytes(), 32);
}

#[test]
fn tensors_without_elements_need_no_data_15() {
    for shape in [
        [0, 3].as_slice(),
        &[3, 0, 2],
        &[1, 8, 0, 128],
        &[i64::MAX, i64::MAX, 0],
    ] {
        let mut forged = Forged::new(shape, None);
        forged.managed.dl_tensor.data = null_mut();
        assert_eq!(forged.import().unwrap().layout().numel(), 0);
        assert_eq!(forged.released(), 1);
    }
}

#[test]
fn a_scalar_needs_neither_shape_nor_strides_8() {
    let mut forged = Forged::new(&[], None);
    forged.managed.dl_tensor.shape = null_mut();
    assert_eq!(forged.import().unwrap().layout().numel(), 1);
}

#[test]
fn sixty_four_dimensions_are_accepted_19() {
    let mut forged = Forged::new(&[1; 64], None);
    assert_eq!(forged.import().unwrap().layout().rank(), 64);
}

#[test]
fn negative_zero_and_overlapping_strides_are_represented_17() {
    for (strides, span) in [
        ([-3, -1], (-20, 4)),
        ([0, 0], (0, 4)),
        ([1, 1], (0, 16)),
        ([3, -1], (-8, 16)),
    ] {
        let mut forged = Forged::new(&[2, 3], Some(&strides));
        let received = forged.import().unwrap();
        let found = received.layout().span();
        assert_eq!((found.min, found.max), span, "{strides:?}");
    }
}

#[test]
fn padded_and_packed_elements_are_told_apart_25() {
    for (flags, bytes) in [(0, 4), (4, 7)] {
        let mut forged = Forged::new(&[7], Some(&[1]));
        forged.managed.dl_tensor.dtype = DLDataType {
            code: 17,
            bits: 4,
            lanes: 1,
        };
        forged.managed.flags = flags;
        assert_eq!(forged.import().unwrap().layout().bytes(), bytes);
    }
}

#[test]
fn unaligned_shape_and_strides_are_read_as_they_are() {
    let mut bytes = [0_u8; 17];
    bytes[1..9].copy_from_slice(&5_i64.to_ne_bytes());
    bytes[9..].copy_from_slice(&1_i64.to_ne_bytes());
    let mut forged = Forged::new(&[5], None);
    forged.managed.dl_tensor.shape = bytes[1..].as_mut_ptr().cast::<c_void>().cast();
    forged.managed.dl_tensor.strides = bytes[9..].as_mut_ptr().cast::<c_void>().cast();
    assert_eq!(forged.import().unwrap().layout().shape(), [5]);
}

fn view(shape: &[i64], flags: Flags) -> TensorView {
    let layout = Layout::compact(Dtype::FLOAT32, shape).unwrap();
    TensorView::new(layout, DataWord::from_addr(0x2000), 8, Device::CPU, flags).unwrap()
}

#[test]
fn an_export_keeps_its_owner_until_it_is_released_on_any_thread_30_38_39() {
    let owner = Arc::new(5);
    let first = export(Arc::clone(&owner), &view(&[2, 3], Flags::READ_ONLY)).unwrap();
    let second = export_legacy(Arc::clone(&owner), &view(&[2, 3], Flags::NONE)).unwrap();
    assert_eq!(Arc::strong_count(&owner), 3);
    // SAFETY: a live export that nobody else owns.
    let first = unsafe { Received::from_versioned(first) }.unwrap();
    // SAFETY: as above.
    let second = unsafe { Received::from_legacy(second) }.unwrap();
    assert_eq!((first.byte_offset(), first.flags()), (8, Flags::READ_ONLY));
    assert!(second.is_legacy() && second.view().is_read_only());
    std::thread::spawn(move || drop(first)).join().unwrap();
    assert_eq!(Arc::strong_count(&owner), 2);
    drop(second);
    assert_eq!(Arc::strong_count(&owner), 1);
}

#[test]
fn an_export_carries_version_strides_and_null_data_when_empty_5_9_15_40() {
    let produced =
        Produced::<DLManagedTensorVersioned>::new((), &view(&[2, 3], Flags::NONE)).unwrap();
    // SAFETY: `produced` owns a live struct.
    let managed = unsafe { *produced.as_ptr() };
    assert_eq!(managed.version, DLPackVersion { major: 1, minor: 3 });
    // SAFETY: two extents.
    let shape = unsafe { std::slice::from_raw_parts(managed.dl_tensor.shape, 2) };
    assert_eq!(shape, [2, 3]);
    // SAFETY: two strides.
    let strides = unsafe { std::slice::from_raw_parts(managed.dl_tensor.strides, 2) };
    assert_eq!(strides, [3, 1]);
    let empty = Produced::<DLManagedTensorVersioned>::new((), &view(&[0, 3], Flags::NONE)).unwrap();
    // SAFETY: `empty` owns a live struct.
    assert!(unsafe { (*empty.as_ptr()).dl_tensor.data }.is_null());
}

#[test]
fn own_exports_are_recognised_and_give_back_their_owner() {
    let owner = Arc::new(String::from("allocation"));
    let own = export(Arc::clone(&owner), &view(&[3], Flags::NONE)).unwrap();
    // SAFETY: a live export that nobody else owns.
    let own = unsafe { Received::from_versioned(own) }.unwrap();
    assert!(own.is_own_export());
    assert!(Arc::ptr_eq(own.owner_of::<Arc<String>>().unwrap(), &owner));
    assert!(own.owner_of::<Arc<u8>>().is_none());
    let mut forged = Forged::new(&[3], None);
    let foreign = forged.import().unwrap();
    assert!(!foreign.is_own_export() && foreign.owner_of::<Arc<String>>().is_none());
}

#[test]
fn a_legacy_struct_refuses_what_it_cannot_say_and_drops_the_owner_37() {
    let owner = Arc::new(());
    for _ in 0..10_000 {
        let error = export_legacy(Arc::clone(&owner), &view(&[3], Flags::READ_ONLY)).unwrap_err();
        assert!(matches!(error, DlpackError::LegacyCannotSay { .. }));
    }
    assert_eq!(Arc::strong_count(&owner), 1);
}

#[test]
fn an_owner_that_panics_when_dropped_does_not_unwind_into_the_consumer() {
    struct Panics(#[expect(dead_code, reason = "only its count matters")] Arc<()>);
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("owner");
        }
    }
    let counter = Arc::new(());
    let produced =
        Produced::<DLManagedTensor>::new(Panics(Arc::clone(&counter)), &view(&[3], Flags::NONE))
            .unwrap();
    drop(produced);
    assert_eq!(Arc::strong_count(&counter), 1);
}

#[test]
fn owners_of_any_alignment_and_rank_fit_into_one_block() {
    #[repr(align(128))]
    struct Wide(#[expect(dead_code, reason = "only its alignment matters")] u8);
    for rank in [0, 1, 8, 9, 64] {
        let shape = vec![1; rank];
        let own = export(Wide(1), &view(&shape, Flags::NONE)).unwrap();
        // SAFETY: a live export that nobody else owns.
        let own = unsafe { Received::from_versioned(own) }.unwrap();
        assert!(std::ptr::from_ref(own.owner_of::<Wide>().unwrap()).is_aligned());
        assert_eq!(own.layout().shape(), shape);
    }
}
