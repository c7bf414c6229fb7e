//! What the allocator gives and keeps, and what a pointer query answers.

use crossdock_plugin_cpu::memory::{Cache, NoMemory};
use crossdock_plugin_cpu::pointers::{NotEntered, Origin, Pointers};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_block_is_as_large_and_as_aligned_as_asked(
        requests in prop::collection::vec((0_usize..9 << 20, 0_u32..22), 1..8)
    ) {
        let cache = Cache::new(16 << 20);
        for (bytes, shift) in requests {
            let alignment = 1 << shift;
            let block = cache.allocate(bytes, alignment).unwrap();
            prop_assert!(block.size() >= bytes);
            prop_assert_eq!(block.address().addr().get() % alignment.max(256), 0);
            cache.free(block);
            prop_assert!(cache.kept_bytes() <= 16 << 20);
        }
    }
}

#[test]
fn a_freed_block_is_given_again() {
    let cache = Cache::new(1 << 30);
    for bytes in [100, 5000, 64 << 20] {
        let block = cache.allocate(bytes, 256).unwrap();
        let address = block.address();
        cache.free(block);
        let again = cache.allocate(bytes, 256).unwrap();
        assert_eq!(again.address(), address);
        cache.free(again);
    }
    assert!(cache.trim(0) >= 64 << 20);
    assert_eq!(cache.kept_bytes(), 0);
}

#[test]
fn the_oldest_block_makes_room_for_a_new_one() {
    let cache = Cache::new(8 << 20);
    let blocks = [2, 4, 4].map(|mebibytes| cache.allocate(mebibytes << 20, 256).unwrap());
    blocks.into_iter().for_each(|block| cache.free(block));
    assert_eq!(cache.kept_bytes(), 8 << 20);
    cache.free(cache.allocate(16 << 20, 256).unwrap());
    assert_eq!(cache.kept_bytes(), 8 << 20);
}

#[test]
fn what_is_given_out_and_kept_is_counted_and_the_oldest_goes_first() {
    let cache = Cache::new(8 << 20);
    let count = || {
        let usage = cache.usage();
        [
            usage.used,
            usage.reserved,
            usage.peak_used,
            usage.peak_reserved,
        ]
        .map(|bytes| bytes >> 20)
    };
    let blocks = [2, 4].map(|mebibytes| cache.allocate(mebibytes << 20, 256).unwrap());
    assert_eq!(count(), [6, 6, 6, 6]);
    blocks.into_iter().for_each(|block| cache.free(block));
    assert_eq!(count(), [0, 6, 6, 6]);
    let again = cache.allocate(4 << 20, 256).unwrap();
    assert_eq!(count(), [4, 6, 6, 6]);
    // The limit is for what is kept.
    cache.free(cache.allocate(16 << 20, 256).unwrap());
    assert_eq!(count(), [4, 6, 20, 22]);
    cache.free(again);
    assert_eq!(cache.trim(4 << 20), 2 << 20);
    cache.reset_peaks();
    assert_eq!(count(), [0, 4, 0, 4]);
    assert_eq!(cache.trim(1), 4 << 20);
    assert_eq!(cache.usage().reserved, 0);
}

#[test]
fn more_than_the_machine_has_is_an_error() {
    let cache = Cache::for_machine();
    for bytes in [1 << 50, usize::MAX] {
        assert_eq!(
            cache.allocate(bytes, 256).err(),
            Some(NoMemory::Exhausted { bytes })
        );
    }
    let refused = |alignment| cache.allocate(1, alignment).err();
    assert_eq!(refused(3), Some(NoMemory::Alignment { alignment: 3 }));
    assert_eq!(
        refused(1 << 30),
        Some(NoMemory::Alignment { alignment: 1 << 30 })
    );
}

#[test]
fn an_address_is_answered_from_its_range_and_no_other() {
    let pointers = Pointers::default();
    let first = pointers.enter(0x1000, 0x100, Origin::Allocated, 1).unwrap();
    let second = pointers.enter(0x1100, 0x10, Origin::Registered, 2).unwrap();
    assert_eq!(pointers.query(0xfff), None);
    assert_eq!(pointers.query(0x10ff), Some(first));
    assert_eq!(pointers.query(0x1100), Some(second));
    assert_eq!(pointers.query(0x1110), None);
    let overlap = pointers.enter(0x10ff, 1, Origin::Adopted, 0);
    assert_eq!(overlap, Err(NotEntered::Overlaps(first)));
    let overlap = pointers.enter(0xf00, 0x1000, Origin::Adopted, 0);
    assert_eq!(overlap, Err(NotEntered::Overlaps(second)));
    assert_eq!(
        pointers.enter(usize::MAX, 2, Origin::Adopted, 0),
        Err(NotEntered::NoRange)
    );
    assert_eq!(pointers.forget(0x1000, Origin::Registered), None);
    assert_eq!(pointers.forget(0x1000, Origin::Allocated), Some(first));
    let again = pointers.enter(0x1000, 0x100, Origin::Allocated, 1).unwrap();
    assert_ne!(again.id, first.id);
}
