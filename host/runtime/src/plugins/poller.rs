//! A plugin's polling thread, for completions that the plugin does not notify the host of.
//!
//! Its queries never block, so one thread serves thousands of them. A pool of blocking threads could deadlock: every
//! thread could block behind a held stream, waiting for work that the next queued item completes.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossdock_sdk::fence::fence;
use crossdock_sdk::threads::Thread;

use crate::process::process_state;

/// Queries something, acts once it is over, and says whether it is. It never blocks.
type Poll = Box<dyn FnMut() -> bool + Send>;

/// A polling thread. It starts with the first thing to poll, and ends with its plugin.
#[derive(Debug, Default)]
pub(crate) struct Poller(Mutex<Option<Sender<Poll>>>);

impl Poller {
    /// Calls `poll` on the polling thread until it returns true, then drops it there. The pause between rounds grows
    /// with the time since a poll was last added or ended. Polls that remain at process exit are counted leaks.
    ///
    /// # Errors
    /// The system cannot start the thread. `poll` was dropped.
    pub(crate) fn poll_until_over(
        &self,
        poll: impl FnMut() -> bool + Send + 'static,
    ) -> io::Result<()> {
        let mut sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = match &mut *sender {
            Some(sender) => sender,
            none => {
                let (to, polls) = channel();
                Thread::named("crossdock-poll").spawn(move || serve(&polls))?;
                none.insert(to)
            }
        };
        let sent = sender.send(Box::new(poll));
        sent.map_err(|_gone| io::Error::other("the polling thread ended"))
    }
}

fn serve(polls: &Receiver<Poll>) {
    let mut list: Vec<Poll> = Vec::new();
    let mut changed = Instant::now();
    let mut pause = SHORTEST_PAUSE;
    loop {
        let next = match list.is_empty() {
            true => polls.recv().map_err(|_gone| RecvTimeoutError::Disconnected),
            false => polls.recv_timeout(pause),
        };
        let before = list.len();
        match next {
            Ok(poll) => list.push(poll),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        list.extend(polls.try_iter());
        let mut has_changed = list.len() > before;
        let begun = Instant::now();
        // An exit waits for the calls of the plugin.
        let Some(_waits) = process_state::begin_release() else {
            return process_state::leak(list);
        };
        list.retain_mut(|poll| {
            // What is polled calls hooks and foreign code, which may panic: then it is over.
            let is_over = fence(poll).unwrap_or(true);
            has_changed |= is_over;
            !is_over
        });
        if has_changed {
            changed = begun;
        }
        let idle = changed.elapsed() / IDLE_SHARE;
        // Many things take a while to poll: the thread sleeps for most of the time all the same.
        pause = idle.clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        pause = pause.max(begun.elapsed() * BUSY_SHARE);
    }
}

/// An end is noticed late by at most this share of the time since the last change.
const IDLE_SHARE: u32 = 32;
/// The pause after a round is so many times as long as the round.
const BUSY_SHARE: u32 = 4;
const SHORTEST_PAUSE: Duration = Duration::from_micros(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread::{ThreadId, current};

    #[test]
    fn one_thread_polls_all_until_each_is_over() {
        const ALL: usize = 1000;
        let (poller, (ended, ends)) = (Poller::default(), channel::<(usize, ThreadId)>());
        let open = Arc::new(AtomicUsize::new(0));
        for number in 0..ALL {
            let (open, ended) = (Arc::clone(&open), ended.clone());
            let poll = move || {
                // The later ones end first.
                let is_over = open.load(Ordering::SeqCst) >= ALL - number;
                if is_over {
                    ended.send((number, current().id())).unwrap();
                }
                is_over
            };
            poller.poll_until_over(poll).unwrap();
        }
        let mut threads = Vec::new();
        for expected in (0..ALL).rev() {
            open.fetch_add(1, Ordering::SeqCst);
            let (number, thread) = ends.recv_timeout(Duration::from_secs(60)).unwrap();
            assert_eq!(number, expected);
            threads.push(thread);
        }
        threads.dedup();
        assert_eq!(threads.len(), 1);
        assert!(ends.try_recv().is_err(), "none is polled after its end");
    }

    #[test]
    fn a_poll_that_panics_is_over_and_the_others_go_on() {
        let (poller, (ended, ends)) = (Poller::default(), channel());
        poller.poll_until_over(|| panic!("a mistake")).unwrap();
        let poll = move || ended.send(()).is_ok();
        poller.poll_until_over(poll).unwrap();
        ends.recv_timeout(Duration::from_secs(60)).unwrap();
    }
}
