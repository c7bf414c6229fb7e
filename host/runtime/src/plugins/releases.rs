//! Giving back what work may still use: once, when the work is over, and never while nobody knows
//! whether it is.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::process::process_state;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// The number of the next release, of all plugins: all that are outstanding now have a smaller one.
pub(crate) fn next_number() -> u64 {
    NEXT.load(Ordering::SeqCst)
}

/// How often a release began inside of another one, whose number it has: it is a part of it.
static NESTED: AtomicU64 = AtomicU64::new(0);

/// How often that was so far: two answers differ where a release began inside of another one between them.
pub(crate) fn nested_so_far() -> u64 {
    NESTED.load(Ordering::SeqCst)
}

thread_local! {
    /// The number of the release that this thread makes.
    static WITHIN: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Something that is given back once no work uses it any more.
///
/// Dropped without [`Release::run`] it is leaked and counted: whatever loses it cannot free memory
/// that is in use.
pub(crate) struct Release {
    give_back: Option<Box<dyn FnOnce() + Send>>,
    outstanding: Arc<Outstanding>,
}

impl Release {
    pub(crate) fn new(releases: &Arc<Releases>, give_back: impl FnOnce() + Send + 'static) -> Self {
        Self {
            give_back: Some(Box::new(give_back)),
            outstanding: Outstanding::new(releases),
        }
    }

    /// The place of what a plugin gives back by itself: those who wait for releases wait for it, and
    /// nothing is leaked where it is dropped.
    pub(crate) fn by_plugin(releases: &Arc<Releases>) -> Self {
        Self {
            give_back: None,
            outstanding: Outstanding::new(releases),
        }
    }

    /// Its place, for something that those who wait for it are to wait for too.
    pub(crate) fn place(&self) -> Arc<Outstanding> {
        Arc::clone(&self.outstanding)
    }

    /// Gives it back; at exit it is leaked instead. The caller knows that all work on it is over.
    pub(crate) fn run(mut self) {
        let Some(_releasing) = process_state::begin_release() else {
            return;
        };
        if let Some(give_back) = self.give_back.take() {
            let _within = Within::new(self.outstanding.number);
            give_back();
        }
    }

    /// Leaks what it would give back, where another count of leaks has it already.
    pub(crate) fn leak_counted(mut self) {
        let _leaked = ManuallyDrop::new(self.give_back.take());
    }
}

/// Whether this thread makes a release: what it begins now is a part of that.
pub(crate) fn is_within() -> bool {
    WITHIN.get().is_some()
}

/// This thread makes a release, until this is dropped.
struct Within(Option<u64>);

impl Within {
    fn new(number: u64) -> Self {
        Self(WITHIN.replace(Some(number)))
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        WITHIN.set(self.0);
    }
}

/// A release that is run when this is dropped.
#[derive(Debug)]
pub(crate) struct RunAtDrop(Option<Release>);

impl RunAtDrop {
    pub(crate) const fn new(release: Release) -> Self {
        Self(Some(release))
    }
}

impl Drop for RunAtDrop {
    fn drop(&mut self) {
        if let Some(release) = self.0.take() {
            release.run();
        }
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        if let Some(kept) = self.give_back.take() {
            process_state::leak(kept);
        }
    }
}

impl fmt::Debug for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Release").finish_non_exhaustive()
    }
}

/// The releases of one plugin's memory that wait for work.
#[derive(Debug)]
pub(crate) struct Releases {
    state: Mutex<State>,
    ended: Condvar,
    /// In the child of a fork the lock may be held by a thread that the child does not have.
    generation: u32,
}

impl Default for Releases {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            ended: Condvar::new(),
            generation: process_state::generation(),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    /// How many there are of each number.
    open: BTreeMap<u64, usize>,
}

impl Releases {
    /// How many are outstanding now.
    pub(crate) fn count(&self) -> usize {
        self.state().open.values().sum()
    }

    /// Blocks until all with a smaller number than `later` were run or leaked; `false` when the limit
    /// passed first, or the process began to exit, which leaves them to the system.
    pub(crate) fn wait(&self, later: u64, limit: Option<Duration>) -> bool {
        let end = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut state = self.state();
        let is_open = |state: &State| state.open.range(..later).next().is_some();
        while is_open(&state) {
            if process_state::exiting() {
                return false;
            }
            let Some(end) = end else {
                state = self
                    .ended
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let Some(left) = end.checked_duration_since(Instant::now()) else {
                return false;
            };
            let waited = self.ended.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    /// Lets those who wait see that the process exits.
    pub(crate) fn wake(&self) {
        let _state = self.state();
        self.ended.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one insertion or removal.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one release, or of something else that is waited for with them, among those that are outstanding.
#[derive(Debug)]
pub(crate) struct Outstanding {
    number: u64,
    releases: Arc<Releases>,
}

impl Outstanding {
    pub(crate) fn new(releases: &Arc<Releases>) -> Arc<Self> {
        let within = WITHIN.get();
        let number = within.unwrap_or_else(|| NEXT.fetch_add(1, Ordering::SeqCst));
        *releases.state().open.entry(number).or_default() += 1;
        if within.is_some() {
            // After it was entered, and before the other one ends: a question for either sees one of them, or this.
            NESTED.fetch_add(1, Ordering::SeqCst);
        }
        let releases = Arc::clone(releases);
        Arc::new(Self { number, releases })
    }
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        if self.releases.generation != process_state::generation() {
            return;
        }
        let mut state = self.releases.state();
        if let Some(count) = state.open.get_mut(&self.number) {
            *count -= 1;
            if *count == 0 {
                state.open.remove(&self.number);
            }
        }
        drop(state);
        self.releases.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_a_fork_inherited_takes_no_lock() {
        let releases = Arc::new(Releases {
            generation: process_state::generation() + 1,
            ..Releases::default()
        });
        let place = Outstanding::new(&releases);
        // The lock is that of a thread which the child does not have.
        let _held = releases.state();
        drop(place);
    }
}
