//! Work that may still be running on a memory: the last write, and the reads since.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossdock_sdk::abi::Status;

use crate::error::Error;
use crate::event::Event;
use crate::stream::Stream;

/// What the next user of a memory has to wait for.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Whether there is any mark at all: most memories never see a stream, and pay one load.
    busy: AtomicBool,
    marks: Mutex<Vec<Mark>>,
}

/// The end of some work on a stream.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    pub(crate) stream: Stream,
    pub(crate) event: Event,
    pub(crate) access: Access,
}

/// What the work does to the memory, or what the next work is going to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    /// What a consumer may do, of which nothing is known.
    Both,
}

impl Pending {
    /// What work with this access has to come after: a read after the last write, anything else
    /// after everything.
    pub(crate) fn before(&self, access: Access) -> Vec<Mark> {
        if !self.is_busy() {
            return Vec::new();
        }
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let matters = |mark: &&Mark| access != Access::Read || mark.access == Access::Write;
        marks.iter().filter(matters).cloned().collect()
    }

    /// Whether some work may be running.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// Enters work that came after `earlier`. A write replaces exactly these marks, and any work
    /// replaces older work of the same kind on its stream: a mark that another thread entered in the
    /// meantime stays, because the memory must outlive that work too.
    pub(crate) fn enter(&self, mark: Mark, earlier: &[Mark]) {
        let write = mark.access == Access::Write;
        let replaced = |old: &Mark| {
            let waited_for = earlier.iter().any(|one| one.event == old.event);
            let same_line = (old.access, &old.stream) == (mark.access, &mark.stream);
            same_line || (write && waited_for)
        };
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        // Dropping an event calls a hook, which no lock may be held over.
        let gone: Vec<Mark> = marks.extract_if(.., |old| replaced(old)).collect();
        marks.push(mark);
        self.busy.store(true, Ordering::Release);
        drop(marks);
        drop(gone);
    }

    /// Makes the CPU wait for what work with this access has to come after.
    ///
    /// # Errors
    /// `TIMEOUT`. Before a read the failure of the last write, each time: the content is undefined
    /// until somebody writes it again, so a write asks only that the earlier work has ended.
    pub(crate) fn synchronize(&self, access: Access, limit: Option<Duration>) -> Result<(), Error> {
        let end = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut failure = None;
        for mark in self.before(access) {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            match mark.event.synchronize(left) {
                Err(error) if error.status() == Some(Status::TIMEOUT) => return Err(error),
                Err(error) if access != Access::Write && mark.access == Access::Write => {
                    failure = failure.or(Some(error));
                }
                Ok(()) | Err(_) => self.forget(&mark.event),
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// The event of the last write, where that may be pending.
    pub(crate) fn last_write(&self) -> Option<Event> {
        let mut writes = self.before(Access::Read);
        writes.retain(|mark| !mark.event.is_known_done());
        writes.pop().map(|mark| mark.event)
    }

    fn forget(&self, event: &Event) {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<Mark> = marks.extract_if(.., |mark| mark.event == *event).collect();
        self.busy.store(!marks.is_empty(), Ordering::Release);
        drop(marks);
        drop(gone);
    }
}
