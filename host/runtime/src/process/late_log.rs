//! What plugins log once the process exits: kept in a fixed place, since the log itself may be gone.
//! A program that looks for what was lost at its end reads it by [`late_log`].
//!
//! It stays, as small as it is, because loaders of vendors do log then (Level Zero's has used its logger after
//! that was freed): the line must neither reach a log that is gone nor be lost.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

const SIZE: usize = 4096;

static BYTES: [AtomicU8; SIZE] = [const { AtomicU8::new(0) }; SIZE];
static USED: AtomicUsize = AtomicUsize::new(0);

/// The lines that plugins logged after exit began; those that find no place are left out.
#[must_use]
pub fn late_log() -> String {
    let used = USED.load(Ordering::Acquire).min(SIZE);
    let bytes: Vec<u8> = BYTES
        .iter()
        .take(used)
        .map(|byte| byte.load(Ordering::Relaxed))
        .filter(|byte| *byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Keeps a line. Takes no lock and allocates nothing.
pub(crate) fn keep(target: &str, message: &str) {
    let length = target.len() + message.len() + ": \n".len();
    let from = USED
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
            used.checked_add(length).filter(|end| *end <= SIZE)
        })
        .unwrap_or(SIZE);
    let line = target
        .bytes()
        .chain(*b": ")
        .chain(message.bytes())
        .chain(*b"\n");
    for (place, byte) in BYTES.iter().skip(from).zip(line) {
        place.store(byte, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_kept_in_order_until_the_place_is_full() {
        keep("one", "first");
        keep("two", &"x".repeat(SIZE));
        keep("three", "last");
        assert_eq!(late_log(), "one: first\nthree: last\n");
    }
}
