//! Work that a thread of the host submits to a plugin's devices part by part, as a staged copy on a stream does.
//! A wait for a device waits for all of it, also for the parts that were not submitted to any stream yet.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossdock_sdk::deadline::Deadline;

use crate::plugins::plugin::Plugin;
use crate::plugins::plugin_device::PluginDevice;
use crate::process::process_state;

/// One piece of such work on one device. It is over when this is dropped.
#[derive(Debug)]
pub(crate) struct LaterWork {
    plugin: Arc<Plugin>,
    number: u64,
}

/// All such work of a plugin.
#[derive(Debug, Default)]
pub(crate) struct LaterWorks {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The device of each piece, by the number of the piece.
    devices: BTreeMap<u64, u32>,
    next: u64,
}

/// A wait wakes this often to see whether the process exits: then the threads are gone, and nobody ends their work.
const SLICE: Duration = Duration::from_millis(250);

impl LaterWork {
    pub(crate) fn on(device: &PluginDevice) -> Self {
        let mut state = device.plugin.later_works().state();
        let number = state.next;
        state.next += 1;
        state.devices.insert(number, device.index);
        drop(state);
        Self {
            plugin: Arc::clone(&device.plugin),
            number,
        }
    }
}

impl Drop for LaterWork {
    fn drop(&mut self) {
        // In the child of a fork the lock may be that of a thread which the child does not have.
        if self.plugin.hooks().is_forked() {
            return;
        }
        let works = self.plugin.later_works();
        works.state().devices.remove(&self.number);
        works.ended.notify_all();
    }
}

impl LaterWorks {
    /// Blocks until all work that a device has now is over. `false` where the limit passed first, or the process
    /// exits. Work that begins meanwhile is not waited for.
    pub(crate) fn wait(&self, device: u32, deadline: Deadline) -> bool {
        let mut state = self.state();
        let later = state.next;
        let is_any = |state: &mut State| state.devices.range(..later).any(|(_, of)| *of == device);
        while is_any(&mut state) {
            if deadline.is_over() || process_state::exiting() {
                return false;
            }
            let slice = deadline.at_most(SLICE);
            state = slice.wait_while(&self.ended, state, is_any);
        }
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one insertion or removal.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
