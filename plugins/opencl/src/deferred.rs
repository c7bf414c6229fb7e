//! What is given back only when the work that may still use it is done.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{handle::CommandEvent, progress::is_over};

/// Things whose last user is a command.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    waiting: Mutex<Vec<Waiting>>,
}

/// The command, and what goes after it.
type Waiting = (Arc<CommandEvent>, Box<dyn Kept>);

/// Anything that only has to be dropped.
pub(crate) trait Kept: Debug + Send + Sync {}

impl<T: Debug + Send + Sync> Kept for T {}

impl Deferred {
    /// Drops `what` some time after `command_event` is done.
    pub(crate) fn keep(&self, command_event: Arc<CommandEvent>, what: impl Kept + 'static) {
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((command_event, Box::new(what)));
        self.sweep();
    }

    /// Drops what no command uses any more, also behind a failure. What the driver cannot tell of
    /// is kept.
    pub(crate) fn sweep(&self) {
        let older = self.take();
        // Asking the driver and giving back to it is done without the lock.
        let (mut waiting, done): (Vec<_>, Vec<_>) = older
            .into_iter()
            .partition(|(command_event, _)| !is_over(command_event));
        drop(done);
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .append(&mut waiting);
    }

    /// All that is still kept.
    pub(crate) fn take(&self) -> Vec<Waiting> {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
