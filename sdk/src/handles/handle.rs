//! Which words a table can give out.

use crate::abi::{EventHandle, StreamHandle};

/// A sort of word that a table gives out.
pub trait Handle: Copy {
    /// What it names, as in "there is no such stream".
    const NOUN: &'static str;

    /// The handle of a word.
    fn of(word: u64) -> Self;

    /// The word, which may be any.
    fn word(self) -> u64;
}

impl Handle for StreamHandle {
    const NOUN: &'static str = "stream";

    fn of(word: u64) -> Self {
        Self::from_raw(word)
    }

    fn word(self) -> u64 {
        self.raw()
    }
}

impl Handle for EventHandle {
    const NOUN: &'static str = "event";

    fn of(word: u64) -> Self {
        Self::from_raw(word)
    }

    fn word(self) -> u64 {
        self.raw()
    }
}

/// For a table of a plugin's own, whose words it keeps beside something else: an address, for instance.
impl Handle for u64 {
    const NOUN: &'static str = "object";

    fn of(word: u64) -> Self {
        word
    }

    fn word(self) -> u64 {
        self
    }
}
