//! Copies of any layout against a slow model that moves one bit at a time.
#![expect(unsafe_code, reason = "the copies under test take addresses")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may fail that way"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossdock_plugin_cpu::copy::{Elements, Plan, Pool, Refusal};
use crossdock_plugin_cpu::fill::fill;
use crossdock_sdk::fence::fence;
use proptest::prelude::*;

/// A copy between two byte vectors.
#[derive(Clone, Debug)]
struct Case {
    bits: u32,
    shape: Vec<i64>,
    dst_strides: Vec<i64>,
    src_strides: Vec<i64>,
    dst_slack: i64,
    src_slack: i64,
}

/// The lowest and the highest offset, in elements.
fn reach(shape: &[i64], strides: &[i64]) -> (i64, i64) {
    let spans = shape
        .iter()
        .zip(strides)
        .map(|(extent, stride)| (extent - 1).max(0) * stride);
    spans.fold((0, 0), |(low, high), span| {
        (low + span.min(0), high + span.max(0))
    })
}

fn bit(bytes: &[u8], at: i64) -> bool {
    let at = usize::try_from(at).unwrap();
    bytes[at / 8] >> (at % 8) & 1 == 1
}

fn put_bit(bytes: &mut [u8], at: i64, value: bool) {
    let at = usize::try_from(at).unwrap();
    bytes[at / 8] = bytes[at / 8] & !(1 << (at % 8)) | u8::from(value) << (at % 8);
}

/// The model: every element, every bit.
fn model(case: &Case, dst: &mut [u8], src: &[u8], dst_first: i64, src_first: i64) {
    let bits = i64::from(case.bits);
    let count: i64 = case.shape.iter().product();
    for element in 0..count {
        let (mut rest, mut to, mut from) = (element, dst_first, src_first);
        for axis in (0..case.shape.len()).rev() {
            let at = rest % case.shape[axis];
            rest /= case.shape[axis];
            to += at * case.dst_strides[axis] * bits;
            from += at * case.src_strides[axis] * bits;
        }
        for k in 0..bits {
            put_bit(dst, to + k, bit(src, from + k));
        }
    }
}

fn noise(bytes: i64, seed: u32) -> Vec<u8> {
    let mut state = seed | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[1]
    };
    (0..bytes).map(next).collect()
}

fn check(case: &Case, pool: &Pool) -> Result<(), Refusal> {
    let bits = i64::from(case.bits);
    let (dst_low, dst_high) = reach(&case.shape, &case.dst_strides);
    let (src_low, src_high) = reach(&case.shape, &case.src_strides);
    let dst_first = (case.dst_slack - dst_low) * bits;
    let src_first = (case.src_slack - src_low) * bits;
    let bytes = |first: i64, high: i64| (first + (high + 1) * bits + 7) / 8;
    let src = noise(bytes(src_first, src_high), 7);
    let mut dst = noise(bytes(dst_first, dst_high), 99);
    let mut expected = dst.clone();
    let plan = Plan::new(&Elements {
        bits: case.bits,
        shape: &case.shape,
        dst_strides: &case.dst_strides,
        src_strides: &case.src_strides,
        dst_offset_bits: u64::try_from(dst_first).unwrap(),
        src_offset_bits: u64::try_from(src_first).unwrap(),
    })?;
    model(case, &mut expected, &src, dst_first, src_first);
    // SAFETY: both vectors were sized by the reach of their strides.
    unsafe { plan.run(pool, dst.as_mut_ptr(), src.as_ptr()) };
    assert!(dst == expected, "{case:?} as {plan:?}");
    Ok(())
}

/// Strides of a dense tensor whose axes lie in the order `order`, each padded by `gaps`.
fn padded(shape: &[i64], order: &[usize], gaps: &[i64], signs: &[bool]) -> Vec<i64> {
    let mut strides = vec![0; shape.len()];
    let mut step = 1;
    for &axis in order {
        strides[axis] = if signs[axis] { -step } else { step };
        step = step * shape[axis].max(1) + gaps[axis];
    }
    strides
}

fn cases() -> impl Strategy<Value = Case> {
    let bits = prop::sample::select(vec![1_u32, 2, 4, 6, 8, 16, 24, 32, 64, 96, 128, 256]);
    (bits, 0_usize..5).prop_flat_map(|(bits, rank)| {
        let extent = prop_oneof![4 => 1_i64..7, 2 => 7_i64..40, 1 => 40_i64..140, 1 => Just(0_i64)];
        let order = Just((0..rank).collect::<Vec<_>>()).prop_shuffle();
        let orders = (order.clone(), order);
        let gap = prop_oneof![3 => Just(0_i64), 1 => 0_i64..5];
        let gaps = (
            prop::collection::vec(gap.clone(), rank),
            prop::collection::vec(gap, rank),
        );
        let sign = prop::bool::weighted(0.2);
        let signs = (
            prop::collection::vec(sign, rank),
            prop::collection::vec(sign, rank),
        );
        let zero = prop::collection::vec(prop::bool::weighted(0.1), rank);
        let shape = prop::collection::vec(extent, rank);
        (
            Just(bits),
            shape,
            orders,
            gaps,
            signs,
            zero,
            (0_i64..9, 0_i64..9),
        )
            .prop_map(|(bits, mut shape, orders, gaps, signs, zero, slack)| {
                while shape.iter().product::<i64>() > 60_000 {
                    let longest = shape.iter_mut().max().unwrap();
                    *longest = *longest / 2 + 1;
                }
                let dst_strides = padded(&shape, &orders.0, &gaps.0, &signs.0);
                let mut src_strides = padded(&shape, &orders.1, &gaps.1, &signs.1);
                for (stride, _) in src_strides.iter_mut().zip(zero).filter(|(_, zero)| *zero) {
                    *stride = 0;
                }
                let (dst_slack, src_slack) = slack;
                Case {
                    bits,
                    shape,
                    dst_strides,
                    src_strides,
                    dst_slack,
                    src_slack,
                }
            })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_copy_of_any_layout_equals_the_model(case in cases()) {
        let planned = check(&case, &Pool::new(1));
        prop_assert_eq!(planned, Ok(()));
    }

    #[test]
    fn any_destination_strides_are_copied_right_or_refused(
        shape in prop::collection::vec(0_i64..6, 0..4),
        seed in prop::collection::vec((-9_i64..20, -9_i64..20), 4),
        bits in prop::sample::select(vec![4_u32, 8, 32]),
    ) {
        let (dst_strides, src_strides): (Vec<_>, Vec<_>) =
            seed.into_iter().take(shape.len()).unzip();
        let case = Case { bits, shape, dst_strides, src_strides, dst_slack: 1, src_slack: 2 };
        if let Err(refusal) = check(&case, &Pool::new(1)) {
            prop_assert_eq!(refusal, Refusal::OverlappingDestination);
        }
    }

    #[test]
    fn a_fill_repeats_its_pattern_and_stays_inside(
        length in prop::sample::select(vec![1_usize, 2, 4, 8, 16]),
        bytes in 0_usize..20_000,
    ) {
        let pattern = noise(16, 5)[..length].to_vec();
        let mut memory = vec![0x5a_u8; bytes + 1];
        // SAFETY: the vector has one byte more than is filled.
        let filled = unsafe { fill(&Pool::for_machine(), memory.as_mut_ptr(), bytes, &pattern) };
        prop_assert!(filled.is_ok());
        prop_assert!(memory[..bytes].iter().zip(pattern.iter().cycle()).all(|(a, b)| a == b));
        prop_assert_eq!(memory[bytes], 0x5a);
    }
}

/// Two axes swapped.
fn swap(bits: u32, rows: i64, columns: i64) -> Case {
    Case {
        bits,
        shape: vec![rows, columns],
        dst_strides: vec![1, rows],
        src_strides: vec![columns, 1],
        dst_slack: 0,
        src_slack: 0,
    }
}

#[test]
fn large_copies_are_right_with_several_threads_and_past_the_cache() {
    let pool = Pool::new(3);
    let mut every_second = swap(32, 1500, 1600);
    every_second.dst_strides = vec![1600, 1];
    every_second.src_strides = vec![3300 * 2, 2];
    let mut rows = swap(32, 2200, 1100);
    rows.dst_strides = vec![1100, 1];
    rows.src_strides = vec![2048, 1];
    let mut scattered = swap(16, 900, 1400);
    scattered.dst_strides = vec![2, 1900];
    let cases = [
        swap(8, 3000, 2900),
        swap(16, 2048, 1500),
        swap(32, 1601, 1603),
        swap(32, 1600, 1600),
        swap(64, 1040, 1100),
        swap(128, 800, 777),
        every_second,
        rows,
        scattered,
        swap(4, 700, 500),
    ];
    for case in cases {
        assert_eq!(check(&case, &pool), Ok(()));
    }
}

#[test]
fn a_large_contiguous_copy_is_right_at_any_alignment() {
    let pool = Pool::new(2);
    for (to, from) in [(0, 0), (1, 0), (0, 3), (63, 17)] {
        let src = noise(20 << 20, 3);
        let mut dst = vec![0_u8; src.len()];
        let bytes = src.len() - 64;
        let (start, source) = (dst[to..].as_mut_ptr(), src[from..].as_ptr());
        // SAFETY: both offsets are below the 64 bytes left out.
        unsafe { Plan::of_bytes(bytes).run(&pool, start, source) };
        assert!(dst[to..to + bytes] == src[from..from + bytes]);
        assert!(
            dst[..to]
                .iter()
                .chain(&dst[to + bytes..])
                .all(|&byte| byte == 0)
        );
    }
}

#[test]
fn a_pattern_of_three_bytes_is_refused() {
    let mut memory = [1_u8; 6];
    // SAFETY: the array has six bytes.
    let refused = unsafe { fill(&Pool::for_machine(), memory.as_mut_ptr(), 6, &[1, 2, 3]) };
    assert_eq!(
        (refused.map_err(|length| length.0), memory),
        (Err(3), [1; 6])
    );
}

#[test]
fn numbers_that_fit_no_address_are_refused() {
    let plan = |shape: &[i64], strides: &[i64]| {
        Plan::new(&Elements {
            bits: 64,
            shape,
            dst_strides: strides,
            src_strides: strides,
            dst_offset_bits: 0,
            src_offset_bits: 0,
        })
        .map(|plan| plan.bytes())
    };
    assert_eq!(plan(&[i64::MAX, 2], &[2, 1]), Err(Refusal::TooLarge));
    assert_eq!(plan(&[2, 2], &[i64::MIN, 1]), Err(Refusal::TooLarge));
    assert_eq!(plan(&[-1], &[1]), Err(Refusal::NegativeExtent));
    assert_eq!(plan(&[1], &[]), Err(Refusal::RankMismatch));
    assert_eq!(plan(&[i64::MAX, 0], &[1, 1]), Ok(0));
}

#[test]
fn the_parts_of_a_copy_run_on_several_threads_at_once() {
    let pool = Pool::new(2);
    for _ in 0..3 {
        let (met, meeting) = std::sync::mpsc::channel();
        let inside = Arc::new((std::sync::Mutex::new(0), std::sync::Condvar::new()));
        pool.run(2, move |_| {
            let (count, changed) = &*inside;
            let mut count = count.lock().unwrap();
            *count += 1;
            changed.notify_all();
            let limit = std::time::Duration::from_secs(20);
            let (count, _) = changed
                .wait_timeout_while(count, limit, |count| *count < 2)
                .unwrap();
            met.send(*count).unwrap();
        });
        assert_eq!(meeting.iter().take(2).collect::<Vec<_>>(), [2, 2]);
    }
}

#[test]
fn a_panic_in_a_part_reaches_the_caller_after_every_other_part_ran() {
    let pool = Pool::new(2);
    for bad in [1, 8] {
        let ran = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&ran);
        // Each thread meets parts that panic, and has to go on with the others.
        let ended = fence(|| {
            pool.run(16, move |part| {
                if part < bad {
                    std::panic::panic_any(part);
                }
                counted.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert!(ended.is_none(), "{bad} of 16 parts did not run");
        assert_eq!(ran.load(Ordering::Relaxed), 16 - bad);
    }
}

/// A program may start its threads with as little stack as the system allows.
#[test]
fn a_small_stack_is_enough_for_each_way_to_copy() {
    let (rows, row) = (300_i64, 200_i64);
    // Dense, turned round, every second element, runs apart; in each width.
    let layouts = [
        ([row, 1], [row, 1]),
        ([row, 1], [1, rows]),
        ([row, 1], [2 * row, 2]),
        ([2 * row, 2], [row, 1]),
        ([row, 1], [2 * row, 1]),
    ];
    let copies = move || {
        let pool = Pool::new(1);
        for (bits, (dst_strides, src_strides)) in [4_u32, 8, 16, 32, 64, 128]
            .into_iter()
            .flat_map(|bits| layouts.map(|layout| (bits, layout)))
        {
            let plan = Plan::new(&Elements {
                bits,
                shape: &[rows, row],
                dst_strides: &dst_strides,
                src_strides: &src_strides,
                dst_offset_bits: 0,
                src_offset_bits: 0,
            });
            let bytes = usize::try_from(rows * row * 2 * 16).unwrap();
            let (mut dst, src) = (vec![0_u8; bytes], vec![7_u8; bytes]);
            // SAFETY: the strides reach no further than the bytes of the widest elements.
            unsafe { plan.unwrap().run(&pool, dst.as_mut_ptr(), src.as_ptr()) };
            assert_eq!(dst[0] & 7, 7);
        }
    };
    let small = std::thread::Builder::new().stack_size(32 << 10);
    small.spawn(copies).unwrap().join().unwrap();
}
