//! Staged copies between two plugins that reach nothing of each other.
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use crossdock_sdk::dlpack::{Dtype, Layout};

use crate::devices::shared::Shared;
use crate::process::process_state::counted_leaks;
use crate::route_data::chunks::PER_COPY;
use crate::route_data::costs::CostCache;
use crate::route_data::kinds::{RouteChoice, RouteKind};
use crate::tensors::tensor::Tensor;
use crate::test_plugins::test_plugin_memory::{asked, device};

const STAGED: RouteChoice = RouteChoice::Only(RouteKind::Staged);
const CHUNK: i64 = 32 << 10;

/// A runtime's, with chunks of `CHUNK` bytes.
fn shared() -> Arc<Shared> {
    let bytes = CHUNK as u64 * PER_COPY as u64;
    Arc::new(Shared::new(Some(bytes), &CostCache::Off))
}

/// Bytes in which no part is like another.
fn pattern(length: i64) -> (Layout, Vec<u8>) {
    let layout = Layout::compact(Dtype::UINT8, &[length]).unwrap();
    let bytes = (0..length)
        .map(|at| ((at * 167) >> 3).to_le_bytes()[0])
        .collect();
    (layout, bytes)
}

#[test]
fn every_length_around_a_chunk_arrives_whole() {
    let shared = shared();
    let (from, to) = (device::<0>(&shared), device::<1>(&shared));
    let whole = [CHUNK, 2 * CHUNK, 40 * CHUNK].into_iter();
    for length in whole
        .flat_map(|whole| [whole - 1, whole, whole + 1])
        .chain([1])
    {
        let (layout, bytes) = pattern(length);
        let source = Tensor::from_bytes(&from, &layout, &bytes).unwrap();
        let (moved, _) = source.to(&to, STAGED).unwrap();
        assert!(moved.read().unwrap() == bytes, "{length} bytes");
    }
}

#[test]
fn a_long_copy_uses_a_chunk_of_host_memory_for_each_lane_and_locks_it_once() {
    let shared = shared();
    let (from, to) = (device::<2>(&shared), device::<3>(&shared));
    let (layout, _) = pattern(10 << 20);
    let source = Tensor::empty(&from, &layout).unwrap();
    for _ in 0..3 {
        source.to(&to, STAGED).unwrap();
    }
    for asked in [asked::<2>(), asked::<3>()] {
        let chunks = asked.host_pages.lock().unwrap().len();
        assert!((1..=PER_COPY).contains(&chunks), "{chunks} chunks");
        assert_eq!(asked.longest.load(SeqCst), CHUNK as u64);
        assert_eq!(asked.locked.load(SeqCst), chunks as u64);
    }
    shared.chunks().forget(from.plugin());
    assert_eq!(asked::<2>().locked.load(SeqCst), 0);
    assert_eq!(asked::<3>().locked.load(SeqCst), 0);
}

#[test]
fn a_chunk_in_use_while_its_plugin_retires_is_not_kept() {
    let shared = shared();
    let (from, to) = (device::<20>(&shared), device::<21>(&shared));
    let lease = shared
        .chunks()
        .lease([from.in_plugin(), to.in_plugin()])
        .unwrap();
    assert_eq!(asked::<20>().locked.load(SeqCst), 1);
    let plugin = Arc::downgrade(from.plugin());
    from.listed().end();
    shared.chunks().forget(from.plugin());
    drop(lease);
    assert_eq!(asked::<20>().locked.load(SeqCst), 0);
    assert_eq!(asked::<21>().locked.load(SeqCst), 0);
    // A copy that began with the device of before keeps nothing either.
    drop(
        shared
            .chunks()
            .lease([from.in_plugin(), to.in_plugin()])
            .unwrap(),
    );
    assert_eq!(asked::<20>().locked.load(SeqCst), 0);
    drop(from);
    assert!(plugin.upgrade().is_none(), "a chunk keeps the plugin");
    // Those of other plugins are kept.
    drop(
        shared
            .chunks()
            .lease([to.in_plugin(), to.in_plugin()])
            .unwrap(),
    );
    assert_eq!(asked::<21>().locked.load(SeqCst), 1);
}

#[test]
fn a_trim_gives_back_idle_chunks_of_its_device_and_of_nobody_and_no_others() {
    let shared = shared();
    let (from, to) = (device::<27>(&shared), device::<28>(&shared));
    let other = device::<29>(&shared);
    let in_use = shared
        .chunks()
        .lease([from.in_plugin(), to.in_plugin()])
        .unwrap();
    let idle = shared
        .chunks()
        .lease([from.in_plugin(), to.in_plugin()])
        .unwrap();
    drop(
        shared
            .chunks()
            .lease([other.in_plugin(), other.in_plugin()])
            .unwrap(),
    );
    drop(idle);
    from.trim(u64::MAX).unwrap();
    assert_eq!(asked::<27>().locked.load(SeqCst), 1);
    assert_eq!(asked::<28>().locked.load(SeqCst), 1);
    assert_eq!(asked::<29>().locked.load(SeqCst), 1);
    drop(in_use);
    to.trim(u64::MAX).unwrap();
    to.trim(u64::MAX).unwrap();
    assert_eq!(asked::<27>().locked.load(SeqCst), 0);
    assert_eq!(asked::<29>().locked.load(SeqCst), 1);
}

#[test]
fn a_leg_that_fails_ends_the_copy_and_leaves_nothing_behind() {
    for step in 1..=8 {
        for is_reader in [true, false] {
            let shared = shared();
            let (from, to) = (device::<4>(&shared), device::<5>(&shared));
            let (layout, bytes) = pattern(20 * CHUNK);
            let source = Tensor::from_bytes(&from, &layout, &bytes).unwrap();
            let fails = if is_reader {
                asked::<4>()
            } else {
                asked::<5>()
            };
            fails
                .failing
                .store(fails.copies.load(SeqCst) + step, SeqCst);
            let error = source.to(&to, STAGED).unwrap_err();
            assert!(
                error.why().contains("this one was to fail"),
                "{}",
                error.why()
            );
            fails.failing.store(0, SeqCst);
            let (moved, _) = source.to(&to, STAGED).unwrap();
            assert!(moved.read().unwrap() == bytes, "step {step}");
            drop((source, moved, from, to, shared));
            for asked in [asked::<4>(), asked::<5>()] {
                assert_eq!((asked.live.load(SeqCst), asked.locked.load(SeqCst)), (0, 0));
            }
        }
    }
}

#[test]
fn a_chunk_that_a_lost_device_may_use_is_neither_used_again_nor_given_back() {
    for is_reader in [true, false] {
        let shared = shared();
        let (from, to) = (device::<30>(&shared), device::<31>(&shared));
        let [reader, writer] = [asked::<30>(), asked::<31>()];
        let (layout, bytes) = pattern(20 * CHUNK);
        let source = Tensor::from_bytes(&from, &layout, &bytes).unwrap();
        let fails = if is_reader { reader } else { writer };
        let (locked, leaks) = (reader.locked.load(SeqCst), counted_leaks());
        fails.loses.store(true, SeqCst);
        fails.failing.store(fails.copies.load(SeqCst) + 3, SeqCst);
        let error = source.to(&to, STAGED).unwrap_err();
        assert!(error.why().contains("this one was to fail"), "{error}");
        fails.loses.store(false, SeqCst);
        assert!(counted_leaks() > leaks);
        // All that are idle are given back; that one is not among them.
        shared.chunks().forget(from.plugin());
        for asked in [reader, writer] {
            assert_eq!(asked.locked.load(SeqCst), locked + 1);
        }
    }
}

#[test]
fn copies_at_the_same_time_keep_no_more_than_one_of_them_needs() {
    let shared = shared();
    let (from, to) = (device::<6>(&shared), device::<7>(&shared));
    let (layout, bytes) = pattern(30 * CHUNK + 5);
    let source = Tensor::from_bytes(&from, &layout, &bytes).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (moved, _) = source.to(&to, STAGED).unwrap();
                assert!(moved.read().unwrap() == bytes);
            });
        }
    });
    assert!(asked::<6>().locked.load(SeqCst) <= PER_COPY as u64);
    assert_eq!(
        asked::<6>().locked.load(SeqCst),
        asked::<7>().locked.load(SeqCst)
    );
}
