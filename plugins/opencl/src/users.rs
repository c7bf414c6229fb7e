//! The commands that may still use an allocation.
//!
//! A command stays here while the driver is asked about it, so that another thread that waits for the
//! memory meanwhile waits for that command too.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{fault::Fault, handle::CommandEvent};

/// Commands of ours that may still use some memory.
#[derive(Debug)]
pub(crate) struct Users<M = CommandEvent> {
    pending: Mutex<Vec<Arc<M>>>,
}

impl<M> Default for Users<M> {
    fn default() -> Self {
        Self {
            pending: Mutex::default(),
        }
    }
}

impl<M> Users<M> {
    /// Remembers a command. Now and then those that `is_over` knows to be over are forgotten.
    pub(crate) fn add(&self, command_event: &Arc<M>, is_over: impl Fn(&M) -> bool) {
        let many = {
            let mut pending = self.pending();
            pending.push(Arc::clone(command_event));
            let count = pending.len();
            // At powers of two, so that a long queue is not asked about at each command.
            let is_full = count >= MOST_PENDING && count.is_power_of_two();
            is_full.then(|| pending.clone())
        };
        // Asking and releasing events calls the driver, so the lock is gone by now.
        if let Some(mut over) = many {
            over.retain(|command_event| is_over(command_event));
            self.forget(&over);
        }
    }

    /// Waits for each command by `ended`, which fails where it cannot tell that the command is over.
    ///
    /// # Errors
    /// The first such failure: what was not waited for is still remembered.
    pub(crate) fn settle(
        &self,
        mut ended: impl FnMut(&M) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut over = self.pending().clone();
        let mut count = 0;
        let settled = over.iter().try_for_each(|command_event| {
            ended(command_event)?;
            count += 1;
            Ok(())
        });
        over.truncate(count);
        self.forget(&over);
        settled
    }

    /// Forgets the commands `over`. The caller holds each, so that none is released here, under the lock.
    fn forget(&self, over: &[Arc<M>]) {
        let is_over =
            |command_event: &Arc<M>| over.iter().any(|over| Arc::ptr_eq(over, command_event));
        self.pending()
            .retain(|command_event| !is_over(command_event));
    }

    fn pending(&self) -> MutexGuard<'_, Vec<Arc<M>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// From so many remembered commands on, the driver is asked now and then which of them are over.
const MOST_PENDING: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Kind;
    use std::sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    };

    #[test]
    fn a_command_stays_remembered_while_another_thread_asks_about_it() {
        let users = Users::<usize>::default();
        let (asks, asked) = (Barrier::new(2), AtomicBool::new(false));
        let asks_once = |_: &usize| {
            if !asked.swap(true, Ordering::Relaxed) {
                asks.wait();
                asks.wait();
            }
            false
        };
        let seen = std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..40).for_each(|command_event| users.add(&Arc::new(command_event), asks_once))
            });
            asks.wait();
            let mut seen = Vec::new();
            let settled = users.settle(|command_event| {
                seen.push(*command_event);
                Ok(())
            });
            asks.wait();
            settled.unwrap();
            seen
        });
        assert!(seen.len() >= MOST_PENDING, "{seen:?}");
        assert_eq!(seen, (0..seen.len()).collect::<Vec<_>>());
    }

    #[test]
    fn a_command_is_forgotten_only_when_it_is_known_to_be_over() {
        let users = Users::<usize>::default();
        for command_event in 0..100 {
            users.add(&Arc::new(command_event), |command_event| {
                command_event % 2 == 1
            });
        }
        let mut asked = Vec::new();
        let unknown = Fault::new(Kind::OutOfHostMemory, "test", "nobody knows");
        let refused = users.settle(|command_event| {
            asked.push(*command_event);
            if *command_event == 50 {
                return Err(unknown.clone());
            }
            Ok(())
        });
        assert_eq!(refused, Err(unknown));
        let mut left = Vec::new();
        users
            .settle(|command_event| {
                left.push(*command_event);
                Ok(())
            })
            .unwrap();
        assert_eq!(left.first(), Some(&50));
        let even: Vec<_> = left
            .iter()
            .filter(|command_event| *command_event % 2 == 0)
            .copied()
            .collect();
        assert_eq!(even, (50..100).step_by(2).collect::<Vec<_>>());
        assert!(left.len() < 50, "those that were over are forgotten");
    }
}
