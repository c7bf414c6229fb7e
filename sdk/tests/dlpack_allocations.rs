//! An export is one allocation and an import none: counted by an allocator of this file's own.
#![expect(unsafe_code, reason = "a counting allocator")]

use std::alloc::{GlobalAlloc, Layout as MemoryLayout, System};
use std::cell::Cell;
use std::sync::Arc;

use crossdock_sdk::dlpack::{DataWord, Device, Dtype, Flags, Layout, Received, TensorView, export};

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: MemoryLayout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: MemoryLayout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(pointer, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn counted<R>(f: impl FnOnce() -> R) -> (R, usize) {
    let before = COUNT.get();
    let result = f();
    (result, COUNT.get() - before)
}

#[test]
fn an_export_is_one_allocation_and_an_import_up_to_eight_dimensions_none() {
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
        assert_eq!((exported, imported, released), (1, 0, 0), "rank {rank}");
    }
}
