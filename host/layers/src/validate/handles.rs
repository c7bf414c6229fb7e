//! Streams and events by handle: which are live, and which were lately.

use std::collections::{HashMap, VecDeque};

use super::ranges::REMEMBERED;

/// A live stream or event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handle {
    pub(crate) device: u32,
    /// The hook that gave it.
    pub(crate) from: &'static str,
    /// The plugin keeps it: it is not the caller's to destroy.
    pub(crate) is_kept: bool,
    /// How often the plugin gave it: a wrapped stream may be given twice.
    uses: u32,
}

/// Whether a handle may be used.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Found {
    Live(Handle),
    Gone,
    Unknown,
}

/// The handles of one sort.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    live: HashMap<u64, Handle>,
    gone: VecDeque<(u64, Handle)>,
}

impl Handles {
    pub(crate) fn find(&self, word: u64) -> Found {
        match self.live.get(&word) {
            Some(handle) => Found::Live(*handle),
            None if self.gone.iter().any(|(gone, _)| *gone == word) => Found::Gone,
            None => Found::Unknown,
        }
    }

    /// Takes note of a new handle; gives the live one with the same word, where it is not shared.
    pub(crate) fn add(
        &mut self,
        word: u64,
        device: u32,
        from: &'static str,
        is_shared: bool,
    ) -> Result<(), Handle> {
        self.gone.retain(|(gone, _)| *gone != word);
        let is_kept = from == DEFAULT;
        let fresh = Handle {
            device,
            from,
            is_kept,
            uses: 0,
        };
        let handle = self.live.entry(word).or_insert(fresh);
        if handle.uses > 0 && !is_shared {
            return Err(*handle);
        }
        handle.uses += 1;
        Ok(())
    }

    /// Takes a handle out before the plugin destroys it, so that a new one may have its word.
    pub(crate) fn begin_end(&mut self, word: u64) {
        let Some(handle) = self.live.get_mut(&word) else {
            return;
        };
        handle.uses = handle.uses.saturating_sub(1);
        if handle.uses > 0 {
            return;
        }
        if let Some(handle) = self.live.remove(&word) {
            if self.gone.len() == REMEMBERED {
                self.gone.pop_front();
            }
            self.gone.push_back((word, handle));
        }
    }

    /// The plugin did not destroy it after all.
    pub(crate) fn take_back(&mut self, word: u64) {
        let place = self.gone.iter().rposition(|(gone, _)| *gone == word);
        let gone = place.and_then(|place| self.gone.remove(place));
        let (device, from) = match (gone, self.live.get(&word)) {
            (Some((_, handle)), _) => (handle.device, handle.from),
            (None, Some(handle)) => (handle.device, handle.from),
            (None, None) => return,
        };
        // A word that is live already is used once more.
        let _added = self.add(word, device, from, true);
    }

    /// The handles that the caller has to destroy.
    pub(crate) fn owned(&self) -> impl Iterator<Item = (u64, &Handle)> {
        let own = self.live.iter().filter(|(_, handle)| !handle.is_kept);
        own.map(|(word, handle)| (*word, handle))
    }
}

/// The hook that gives a stream which the plugin keeps.
const DEFAULT: &str = "stream_default";
