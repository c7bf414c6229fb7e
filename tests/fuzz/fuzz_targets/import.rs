//! Any bytes as a managed tensor: it is refused with a reason or is what it says, and released once.
#![no_main]

#[path = "../src/forged.rs"]
mod forged;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _accepted = forged::exchange(bytes);
});
