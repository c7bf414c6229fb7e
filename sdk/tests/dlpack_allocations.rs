//! An export is at most one allocation and an import none: counted by an allocator of the test's own.
#![expect(unsafe_code, reason = "a managed tensor by its pointer")]

#[path = "counting/allocator.rs"]
mod counting;

use std::sync::Arc;

use crossdock_sdk::dlpack::{DataWord, Device, Dtype, Flags, Layout, Received, TensorView, export};

use counting::counted;

#[test]
fn an_export_is_at_most_one_allocation_and_an_import_up_to_eight_dimensions_none() {
    let owner = Arc::new(1_u64);
    for rank in 0..=8 {
        let layout = Layout::compact(Dtype::FLOAT32, &vec![2; rank]).unwrap();
        let view = TensorView::new(
            layout,
            DataWord::from_addr(0x1000),
            0,
            Device::CPU,
            Flags::NONE,
        )
        .unwrap();
        let (managed, exported) = counted(|| export(Arc::clone(&owner), &view).unwrap());
        // SAFETY: a live export that nobody else owns.
        let (received, imported) =
            counted(|| unsafe { Received::from_versioned(managed) }.unwrap());
        let ((), released) = counted(|| drop(received));
        assert!(exported <= 1, "rank {rank}: {exported}");
        assert_eq!((imported, released), (0, 0), "rank {rank}");
    }
}
