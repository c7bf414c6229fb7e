//! A host function that counts its runs, for a plugin that may call it too often or too late.
#![expect(unsafe_code, reason = "a host function is a C function")]

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossdock::{Error, Hooks};
use crossdock_sdk::abi::{HostFunction, StreamHandle};
use crossdock_sdk::fence::fence;

use crate::event::LIMIT_NS;

/// A host function's runs. Its word is a number, so that a late call finds nothing and does no harm.
#[derive(Debug)]
pub(crate) struct HostCall {
    number: usize,
    runs: Arc<Runs>,
}

#[derive(Debug, Default)]
struct Runs {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    count: u32,
    /// Whether a run lasts.
    lasts: bool,
    /// How long a run takes before it counts.
    takes: Duration,
}

impl HostCall {
    pub(crate) fn new() -> Self {
        Self::of(State::default())
    }

    /// One whose run lasts until [`HostCall::end`], or for the suite's limit.
    pub(crate) fn that_lasts() -> Self {
        Self::of(State {
            lasts: true,
            ..State::default()
        })
    }

    /// One whose run takes a while, and counts at its end.
    pub(crate) fn that_takes_long() -> Self {
        Self::of(State {
            takes: TAKES,
            ..State::default()
        })
    }

    fn of(state: State) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let runs = Arc::new(Runs {
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        lock(&CALLS).insert(number, Arc::clone(&runs));
        Self { number, runs }
    }

    /// Puts the function on a stream.
    pub(crate) fn put_on(&self, hooks: &Hooks, stream: StreamHandle) -> Result<(), Error> {
        let word = ptr::without_provenance_mut(self.number);
        // SAFETY: `stream_host_call` needs
        // - a function for any thread and any number of calls: `count_run` takes the word for a
        //   number, which it looks up under a lock;
        // - one that calls no hook: it counts, and lasts where a case looks at what others may do meanwhile.
        unsafe { hooks.stream_host_call(stream, HostFunction(Some(count_run)), word) }
    }

    /// How often the function ran by now.
    pub(crate) fn count(&self) -> u32 {
        lock(&self.runs.state).count
    }

    /// Lets a run end that lasts.
    pub(crate) fn end(&self) {
        lock(&self.runs.state).lasts = false;
        self.runs.changed.notify_all();
    }

    /// Waits for the first run; whether it came within the suite's limit.
    pub(crate) fn has_run(&self) -> bool {
        self.runs.wait_while(|state| state.count == 0).count > 0
    }
}

impl Runs {
    /// Waits for no longer than the suite's limit.
    fn wait_while(&self, condition: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        self.wait_for(Duration::from_nanos(LIMIT_NS), condition)
    }

    fn wait_for(
        &self,
        limit: Duration,
        condition: impl Fn(&State) -> bool,
    ) -> MutexGuard<'_, State> {
        let state = lock(&self.state);
        let waited = self
            .changed
            .wait_timeout_while(state, limit, |state| condition(state));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Drop for HostCall {
    fn drop(&mut self) {
        self.end();
        lock(&CALLS).remove(&self.number);
    }
}

extern "C" fn count_run(word: *mut c_void) {
    let _caught = fence(|| {
        let runs = lock(&CALLS).get(&word.addr()).map(Arc::clone);
        if let Some(runs) = runs {
            let takes = lock(&runs.state).takes;
            runs.wait_for(takes, |state| !state.takes.is_zero()).count += 1;
            runs.changed.notify_all();
            drop(runs.wait_while(|state| state.lasts));
        }
    });
}

/// Longer than a `close` that does not wait.
const TAKES: Duration = Duration::from_millis(100);

static CALLS: LazyLock<Mutex<HashMap<usize, Arc<Runs>>>> = LazyLock::new(Mutex::default);

/// A count is changed by one assignment, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
