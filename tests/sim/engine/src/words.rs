//! Words in memory that streams write and wait for, and what a wait that is over knows by its word.
//!
//! Host code writes words without a call. So the engine looks at a word that is waited for when the wait is submitted,
//! whenever the host is about to learn something, and when a stream is about to write a word. What a look finds was
//! written before it, by somebody who knew no more than is known then: a wait that can pass learns that, and nothing
//! that comes later, however late it runs.
#![expect(unsafe_code, reason = "reads and writes words that others write too")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::clock::Clock;
use crate::state::State;
use crate::{Condition, Word};

/// All words that are written by calls or waited for.
#[derive(Debug, Default)]
pub(crate) struct Words {
    /// By address.
    written: BTreeMap<u64, Written>,
    /// Waits that are submitted and did not start, by the number of the operation.
    waits: BTreeMap<u64, Wait>,
}

/// The last write of a word by a call, host code's included.
#[derive(Debug)]
struct Written {
    word: Word,
    /// What its writer knew.
    clock: Clock,
    /// Whether the word was seen with another value since: host code wrote it.
    is_replaced: bool,
}

/// A wait for a word.
#[derive(Debug)]
struct Wait {
    word: Word,
    condition: Condition,
    /// The write that lets it pass, if it can pass.
    met: Option<Met>,
}

/// The write that ends a wait.
#[derive(Debug)]
pub(crate) struct Met {
    /// What the writer knew.
    pub(crate) clock: Clock,
    /// Whether a call wrote the word, and not host code by itself.
    pub(crate) is_by_call: bool,
}

impl Words {
    /// Enters a write by somebody who knows this much.
    pub(crate) fn write(&mut self, word: Word, clock: Clock) {
        let written = Written {
            word,
            clock,
            is_replaced: false,
        };
        self.written.insert(word.address, written);
    }

    /// Forgets who wrote the words in a range: the memory is not what it was.
    pub(crate) fn forget(&mut self, start: u64, end: u64) {
        while let Some((&at, _)) = self.written.range(start..end).next() {
            self.written.remove(&at);
        }
    }

    /// Drops the writes that the host knows. Right only while nothing is pending: whoever waits then knows them too.
    pub(crate) fn prune(&mut self, host: &Clock) {
        self.written
            .retain(|_, written| !written.clock.is_within(host));
    }
}

impl Wait {
    /// Looks at the word.
    fn look(&mut self, state: &State, written: &mut BTreeMap<u64, Written>) {
        if !state.is_there(self.word.address) {
            return;
        }
        let seen = state.read(self.word);
        let writer = written.get_mut(&self.word.address);
        let writer = writer.map(|writer| {
            writer.is_replaced |= !is_same(seen, self.word, writer.word);
            &*writer
        });
        if !holds(seen, self.word, self.condition) {
            self.met = None;
        } else if self.met.is_none() {
            let is_by_call = writer.is_some_and(|writer| !writer.is_replaced);
            let mut clock = writer.map_or_else(Clock::default, |writer| writer.clock.clone());
            if !is_by_call {
                // Who writes over a word knows of the write before: it has read the word, or waited.
                clock.join(&state.host);
            }
            self.met = Some(Met { clock, is_by_call });
        }
    }
}

impl State {
    /// Enters a wait that was submitted.
    pub(crate) fn await_word(&mut self, op: u64, word: Word, condition: Condition) {
        let met = None;
        let mut wait = Wait {
            word,
            condition,
            met,
        };
        let mut words = std::mem::take(&mut self.words);
        wait.look(self, &mut words.written);
        words.waits.insert(op, wait);
        self.words = words;
    }

    /// Ends a wait that starts: the write that it passes by.
    pub(crate) fn end_wait(&mut self, op: u64) -> Option<Met> {
        let mut wait = self.words.waits.remove(&op)?;
        let mut words = std::mem::take(&mut self.words);
        wait.look(self, &mut words.written);
        self.words = words;
        // Host code may have changed it again since it let the wait pass, a moment ago.
        Some(wait.met.unwrap_or_else(|| Met {
            clock: self.host.clone(),
            is_by_call: false,
        }))
    }

    /// Looks at all words that are waited for, before the host learns something or a stream writes one.
    pub(crate) fn look_at_words(&mut self) {
        if self.words.waits.is_empty() {
            return;
        }
        let mut words = std::mem::take(&mut self.words);
        for wait in words.waits.values_mut() {
            wait.look(self, &mut words.written);
        }
        self.words = words;
    }

    /// The host knows from here on what this clock does.
    pub(crate) fn host_learns(&mut self, clock: &Clock) {
        self.look_at_words();
        self.host.join(clock);
    }

    /// Writes a word as one.
    pub(crate) fn store(&self, word: Word) {
        let at = self.arena.view(word.address);
        if word.bits == 32 {
            // SAFETY: the submitter of the word vouched for it, its alignment was checked, and
            // others change it atomically.
            let cell = unsafe { AtomicU32::from_ptr(at.cast()) };
            cell.store(
                u32::try_from(word.value & 0xFFFF_FFFF).unwrap_or(0),
                Ordering::SeqCst,
            );
        } else {
            // SAFETY: as above.
            let cell = unsafe { AtomicU64::from_ptr(at.cast()) };
            cell.store(word.value, Ordering::SeqCst);
        }
    }

    pub(crate) fn satisfied(&self, word: Word, condition: Condition) -> bool {
        holds(self.read(word), word, condition)
    }

    /// What is in the place of a word.
    fn read(&self, word: Word) -> u64 {
        let at = self.arena.view(word.address);
        if word.bits == 32 {
            // SAFETY: as in `store`.
            u64::from(unsafe { AtomicU32::from_ptr(at.cast()) }.load(Ordering::SeqCst))
        } else {
            // SAFETY: as in `store`.
            unsafe { AtomicU64::from_ptr(at.cast()) }.load(Ordering::SeqCst)
        }
    }
}

/// Whether what was seen in the place of a word is what a call wrote there, as far as both reach.
fn is_same(seen: u64, word: Word, written: Word) -> bool {
    let unused = 64 - word.bits.min(written.bits);
    seen << unused == written.value << unused
}

fn holds(seen: u64, word: Word, condition: Condition) -> bool {
    // 32 bits are moved up, so that wrapping and signs are theirs.
    let unused = 64 - word.bits;
    let (value, seen, ones) = (word.value << unused, seen << unused, u64::MAX << unused);
    match condition {
        Condition::Equal => seen == value,
        Condition::AtLeast => seen.wrapping_sub(value).leading_zeros() > 0,
        Condition::And => seen & value != 0,
        Condition::Nor => !(seen | value) & ones != 0,
    }
}
