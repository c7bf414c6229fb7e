//! Words of pinned memory that streams wait for and the host writes.
#![expect(unsafe_code, reason = "a word is shared with the device")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::device::{Device, locked};
use crate::fault::Fault;
use crate::memory::pinned;
use crate::vendor::Vendor;

/// The words of a device. Each use of a word waits for a higher value than the one before, and values never go down:
/// so a stream that comes late to an earlier wait goes on at once.
#[derive(Debug, Default)]
pub(crate) struct Words {
    free: Mutex<Vec<Word>>,
}

/// A word, and the value that its waiters wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) address: u64,
    pub(crate) value: u32,
}

impl Words {
    /// A word that nobody waits for yet.
    pub(crate) fn take<V: Vendor>(&self, device: &Device<V>) -> Result<Word, Fault> {
        let free = locked(&self.free).pop();
        if let Some(word) = free {
            return Ok(word);
        }
        let page = pinned(device, PAGE)?;
        let words = (0..PAGE / LINE).map(|line| Word {
            address: page + line * LINE,
            value: 1,
        });
        let words: Vec<_> = words.collect();
        words.iter().for_each(|word| word.store(0));
        let mut free = locked(&self.free);
        free.extend(words);
        let first = free.pop();
        first.ok_or_else(|| Fault::invalid("event_create_host", "a page has no words"))
    }

    /// Lets the waiters of the word go on, and keeps the word for the next event.
    pub(crate) fn complete(&self, word: Word) {
        word.store(word.value);
        // Some drivers compare by the sign of the difference, so that half of all values count as lower: a word is
        // used no more before it gets there.
        if word.value < LAST {
            let value = word.value + 1;
            locked(&self.free).push(Word { value, ..word });
        }
    }
}

impl Word {
    fn store(self, value: u32) {
        let address = usize::try_from(self.address).unwrap_or(0);
        let at = std::ptr::with_exposed_provenance_mut(address);
        // SAFETY: 4 aligned bytes (`allocate_pinned` gives whole pages) of a pinned block, at the same address for the
        // host. The device keeps the block until it is dropped, and the event that has this word keeps the device. The
        // host writes it here alone, and devices only read it.
        let word = unsafe { AtomicU32::from_ptr(at) };
        word.store(value, Ordering::SeqCst);
    }
}

const PAGE: u64 = 4096;
const LINE: u64 = 64;
const LAST: u32 = 1 << 30;
