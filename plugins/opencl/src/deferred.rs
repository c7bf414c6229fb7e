//! What is given back only when the work that may still use it is done.
//!
//! Commands of one queue end in their order, so a queue has a line, and only the first command of a line is asked about.
//! A line is looked at when the host asks about its stream or gives back an event of it, so that whoever waited for the
//! work finds everything given back. For streams that nobody asks about, a few lines are looked at by each call.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Debug,
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::handle::CommandEvent;

/// Things whose last user is a command.
#[derive(Debug)]
pub(crate) struct Deferred<M = CommandEvent> {
    lines: Mutex<Lines<M>>,
}

#[derive(Debug)]
struct Lines<M> {
    /// By the word of the queue. None is empty.
    by_queue: BTreeMap<u64, Line<M>>,
    /// The queue whose line was looked at last, of those that are looked at in turn.
    last: u64,
}

type Line<M> = VecDeque<Waiting<M>>;

/// The command, and what goes after it.
type Waiting<M> = (Arc<M>, Box<dyn Kept>);

/// Anything that only has to be dropped.
pub(crate) trait Kept: Debug + Send + Sync {}

impl<T: Debug + Send + Sync> Kept for T {}

impl<M> Default for Deferred<M> {
    fn default() -> Self {
        Self {
            lines: Mutex::new(Lines {
                by_queue: BTreeMap::new(),
                last: 0,
            }),
        }
    }
}

impl<M> Deferred<M> {
    /// Drops `what` some time after `command_event` of this queue is done.
    pub(crate) fn keep(
        &self,
        queue: u64,
        command_event: Arc<M>,
        what: impl Kept + 'static,
        is_over: impl Fn(&M) -> bool,
    ) {
        let waiting: Waiting<M> = (command_event, Box::new(what));
        self.lines()
            .by_queue
            .entry(queue)
            .or_default()
            .push_back(waiting);
        self.sweep_queue(queue, &is_over);
        self.sweep_few(is_over);
    }

    /// Drops what no command of the queue uses any more, also behind a failure. What the driver cannot
    /// tell of is kept.
    pub(crate) fn sweep_queue(&self, queue: u64, is_over: impl Fn(&M) -> bool) {
        while let Some(first) = self.first(queue)
            && is_over(&first)
        {
            // Asking the driver and giving back to it is done without the lock.
            drop(self.take_first(queue, &first));
        }
    }

    /// The same for a few queues, which take turns.
    pub(crate) fn sweep_few(&self, is_over: impl Fn(&M) -> bool) {
        for _ in 0..QUEUES_AT_ONCE {
            let Some(queue) = self.turn() else { return };
            self.sweep_queue(queue, &is_over);
        }
    }

    /// The same for all queues.
    pub(crate) fn sweep(&self, is_over: impl Fn(&M) -> bool) {
        let queues: Vec<u64> = self.lines().by_queue.keys().copied().collect();
        for queue in queues {
            self.sweep_queue(queue, &is_over);
        }
    }

    /// All that is still kept.
    pub(crate) fn take(&self) -> Vec<Waiting<M>> {
        let lines = std::mem::take(&mut self.lines().by_queue);
        lines.into_values().flatten().collect()
    }

    /// The first command of a line.
    fn first(&self, queue: u64) -> Option<Arc<M>> {
        let lines = self.lines();
        let (first, _) = lines.by_queue.get(&queue)?.front()?;
        Some(Arc::clone(first))
    }

    /// Takes out the first of a line, unless another thread did.
    fn take_first(&self, queue: u64, first: &Arc<M>) -> Option<Waiting<M>> {
        let mut lines = self.lines();
        let line = lines.by_queue.get_mut(&queue)?;
        let is_first = line
            .front()
            .is_some_and(|(command_event, _)| Arc::ptr_eq(command_event, first));
        let taken = is_first.then(|| line.pop_front()).flatten();
        if line.is_empty() {
            lines.by_queue.remove(&queue);
        }
        taken
    }

    /// The queue whose turn it is.
    fn turn(&self) -> Option<u64> {
        let mut lines = self.lines();
        let behind = (Bound::Excluded(lines.last), Bound::Unbounded);
        let mut later = lines.by_queue.range(behind);
        let next = later.next().or_else(|| lines.by_queue.first_key_value());
        let queue = *next?.0;
        lines.last = queue;
        Some(queue)
    }

    fn lines(&self) -> MutexGuard<'_, Lines<M>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// So many queues are looked at by each call that allocates or keeps.
const QUEUES_AT_ONCE: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        cell::Cell,
        sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    };

    /// Counts how many of these were dropped.
    #[derive(Debug)]
    struct Counts(Arc<AtomicUsize>);

    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_driver_is_asked_about_a_constant_number_of_commands_at_each_call() {
        const COUNT: u64 = 10_000;
        for queues in [1, 2, 100, COUNT] {
            let (deferred, gone) = (Deferred::<AtomicBool>::default(), Arc::default());
            let (asked, command_event) = (Cell::new(0), Arc::new(AtomicBool::new(false)));
            let is_over = |command_event: &AtomicBool| {
                asked.set(asked.get() + 1);
                command_event.load(Ordering::Relaxed)
            };
            for at in 0..COUNT {
                let what = Counts(Arc::clone(&gone));
                deferred.keep(at % queues, Arc::clone(&command_event), what, is_over);
            }
            assert!(asked.get() <= 5 * COUNT, "{queues} queues: {asked:?}");
            assert_eq!(gone.load(Ordering::Relaxed), 0);
            command_event.store(true, Ordering::Relaxed);
            for _ in 0..queues.div_ceil(4) {
                deferred.sweep_few(is_over);
            }
            assert_eq!(gone.load(Ordering::Relaxed) as u64, COUNT);
            assert!(deferred.take().is_empty());
        }
    }

    #[test]
    fn only_what_is_behind_a_command_that_is_not_over_is_kept() {
        let (deferred, gone) = (Deferred::<usize>::default(), Arc::default());
        for command_event in 0..10 {
            let what = Counts(Arc::clone(&gone));
            deferred.keep(1, Arc::new(command_event), what, |_| false);
            let what = Counts(Arc::clone(&gone));
            deferred.keep(2, Arc::new(command_event), what, |_| false);
        }
        deferred.sweep_queue(1, |command_event| *command_event < 3);
        assert_eq!(gone.load(Ordering::Relaxed), 3);
        deferred.sweep(|command_event| *command_event < 5);
        assert_eq!(gone.load(Ordering::Relaxed), 10);
        assert_eq!(deferred.take().len(), 10);
    }
}
