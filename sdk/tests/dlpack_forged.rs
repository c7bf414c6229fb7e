//! The fuzz target's check on some thousands of seeded inputs, for every run of the tests.

#[path = "../../tests/fuzz/src/forged.rs"]
#[expect(
    clippy::expect_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a panic is how the check fails, and any number will do"
)]
mod forged;

/// Bytes from a fixed seed (splitmix64).
fn bytes(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    (0..24).flat_map(|_| next().to_le_bytes()).collect()
}

#[test]
fn any_bytes_are_refused_with_a_reason_or_are_what_they_say_and_released_once() {
    let accepted = (0..20_000)
        .filter(|&seed| forged::exchange(&bytes(seed)))
        .count();
    // Both answers have to be common, or nothing is tested.
    assert!((1000..19_000).contains(&accepted), "{accepted} accepted");
}

#[test]
fn no_bytes_at_all_are_a_tensor_too() {
    forged::exchange(&[]);
}
