//! Work that may still be running on a memory: the last write, and the reads since.
//!
//! Each memory keeps a [`Work`] for each. [`order`](crate::copies::order) enters them, and makes later
//! work wait for those that matter to it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use crossdock_sdk::deadline::Deadline;

use crate::devices::device::Device;
use crate::error::Error;
use crate::process::process_state;
use crate::streams::completion::{self, End};
use crate::streams::event::Event;
use crate::streams::internal_stream::InternalStream;
use crate::streams::stream::Stream;
use crate::streams::wait::OnFailure;

/// What the next user of a memory has to wait for.
#[derive(Debug, Default)]
pub(crate) struct OutstandingWork {
    /// 0 while there is no work: most memories never see a stream, and pay one load. Else 1 more than
    /// the generation of forks that entered it: in a child of a fork a thread that the child
    /// does not have may hold the lock.
    busy: AtomicU64,
    works: Mutex<Vec<Work>>,
}

/// What a memory remembers of one piece of work: the event at its end, and what it does.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    /// The stream on which everything later comes after the work; none where there is no such. It is kept only while the
    /// work has no end.
    pub(crate) stream: Option<Stream>,
    /// Happens when the work is over. An error: why there is no such event. Without a stream to record it on
    /// nobody will ever tell.
    pub(crate) end: Result<Event, Arc<Unrecorded>>,
    pub(crate) access: Access,
    /// Whether memory of others has to outlive the work: not where the work is the producer's, who
    /// keeps the memory. What is this library's to give back outlives all work.
    pub(crate) holds_memory: bool,
    /// The internal stream that the work is on, where its end could not be recorded: it is kept for that.
    pub(crate) unrecorded_on: Option<Arc<InternalStream>>,
    /// The ends of other streams' work on the memory for which its own stream waits even where another
    /// plugin breaks down.
    pub(crate) after: Vec<Event>,
}

/// Why the end of some work could not be recorded. All memories that the work uses share it, and know the work again by
/// it.
#[derive(Debug)]
pub(crate) struct Unrecorded {
    why: Arc<Error>,
    /// Events that were recorded behind the work later: one for the memories that it writes, and one for those that it
    /// only reads. Locked over the call that records one: two threads must not submit to an internal stream at once.
    behind: Mutex<[Option<Event>; 2]>,
}

impl Unrecorded {
    pub(crate) fn new(why: &Error) -> Arc<Self> {
        Arc::new(Self {
            why: Arc::new(why.clone()),
            behind: Mutex::default(),
        })
    }

    /// The event behind the work, recorded now on the stream that it is on unless it was before; none where there is no
    /// such stream, or it cannot.
    fn behind(&self, work: &Work) -> Option<Event> {
        let mut behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
        let [reads, writes] = &mut *behind;
        let is_write = work.access.is_write();
        let behind = if is_write { writes } else { reads };
        if behind.is_none() {
            let event = work.record_later()?;
            // The stream told of a failure, perhaps of this work's: the event says only that the work is over, and not
            // how it ended. A read that failed left the content as it was.
            if is_write && work.may_have_told() {
                event.carry(&self.why);
            }
            event.poll_later();
            *behind = Some(event);
        }
        behind.clone()
    }
}

/// What the work does to the memory, or what the next work is going to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// Of all elements.
    Write,
    /// Of some elements, the others staying as they are.
    WritePart,
    /// What a consumer may do, of which nothing is known.
    Both,
}

/// The end of work that other work comes after.
#[derive(Debug, Clone)]
pub(crate) struct Earlier {
    pub(crate) event: Event,
    /// Whether that holds even where another plugin breaks down: a wait for it is given up then.
    pub(crate) is_certain: bool,
}

impl Access {
    pub(crate) const fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::WritePart)
    }
}

impl Work {
    /// Whether the work is over and ended well. The plugin is asked where that is not known yet.
    pub(crate) fn is_done(&self) -> bool {
        self.end
            .as_ref()
            .is_ok_and(|event| event.is_done().unwrap_or(false))
    }

    fn is_known_done(&self) -> bool {
        self.end.as_ref().is_ok_and(Event::is_known_done)
    }

    /// An event after the work, recorded now on the stream that it is on; none where there is no such, or it
    /// cannot.
    fn record_later(&self) -> Option<Event> {
        let internal = self.unrecorded_on.as_ref();
        let recorded = match &self.stream {
            Some(stream) => stream.record_own(),
            None => internal?.record(),
        };
        recorded.ok()
    }

    /// Whether the stream that it is on may have told of a failure.
    fn may_have_told(&self) -> bool {
        let (stream, internal) = (self.stream.as_ref(), self.unrecorded_on.as_ref());
        stream.is_some_and(Stream::may_have_told)
            || internal.is_some_and(|internal| internal.may_have_told())
    }

    /// Gives work its end, for which its stream is no longer kept.
    fn set_end(&mut self, end: &Event) {
        self.end = Ok(end.clone());
        self.stream = self.stream.as_ref().map(Stream::to_remember);
        self.unrecorded_on = None;
    }

    /// Whether the event is at the end of the work.
    pub(crate) fn is_of(&self, other: &Event) -> bool {
        self.end.as_ref().is_ok_and(|event| event == other)
    }

    /// Whether this work makes `old`, which it comes after, superfluous: a write replaces
    /// everything, other work only what has the same access on the same stream.
    fn replaces(&self, old: &Self) -> bool {
        let is_same_stream = self.stream.is_some() && self.stream == old.stream;
        self.access.is_write() || (is_same_stream && self.access == old.access)
    }

    /// Whether the plugin of the stream itself keeps what comes later behind the work. Else streams
    /// of two plugins wait for each other, and go on with a failure where one plugin breaks down.
    pub(crate) fn is_of_one_plugin(&self) -> bool {
        let (Some(stream), Ok(event)) = (&self.stream, &self.end) else {
            return self.stream.is_some();
        };
        stream.device().is_of(event.device().plugin())
    }

    /// A stream of one of the works on which what comes next is behind all of them, also where another
    /// plugin breaks down.
    pub(crate) fn stream_behind(works: &[Self]) -> Option<&Stream> {
        // What another plugin does between two events of a stream is on it only while that plugin works:
        // the stream goes on without the end of the work where it breaks down. No earlier work waits for
        // the last.
        let last = works.last()?;
        let is_there = |work: &&Self| work.stream == last.stream && work.is_of_one_plugin();
        let is_waited_for = |work: &Self| {
            let mut there = works.iter().filter(is_there);
            there.any(|one| one.after.iter().any(|event| work.is_of(event)))
        };
        let is_before = |work: &Self| is_there(&work) || is_waited_for(work);
        last.stream.as_ref().filter(|_| works.iter().all(is_before))
    }

    /// The event at the end of the work.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn event(self) -> Result<Event, Error> {
        self.end.map_err(|unrecorded| Error::clone(&unrecorded.why))
    }
}

impl OutstandingWork {
    /// What work with this access has to come after: a read after the last write, anything else
    /// after everything.
    pub(crate) fn before(&self, access: Access) -> Vec<Work> {
        if !self.is_busy() {
            return Vec::new();
        }
        if self.is_inherited() {
            return vec![Work {
                stream: None,
                end: Err(Unrecorded::new(&Error::Forked {
                    operation: "use a tensor that had work when the process was forked",
                })),
                access: Access::Write,
                holds_memory: true,
                unrecorded_on: None,
                after: Vec::new(),
            }];
        }
        let matters = |work: &&Work| access != Access::Read || work.access.is_write();
        let works: Vec<Work> = self.works().iter().filter(matters).cloned().collect();
        // After the lock: this may call hooks.
        works.into_iter().map(|work| self.recorded(work)).collect()
    }

    /// The work with an end where it has none yet, because the stream could not record one. What is
    /// recorded later on the stream comes later than the work.
    fn recorded(&self, mut work: Work) -> Work {
        if let Err(unrecorded) = &work.end
            && let Some(event) = unrecorded.behind(&work)
        {
            // Once and for all: the next event would come after what is on the stream by then.
            let is_it =
                |old: &&mut Work| matches!(&old.end, Err(its) if Arc::ptr_eq(its, unrecorded));
            // Dropped after the lock: a stream that was kept for this may end with it.
            let mut kept = Vec::new();
            for old in self.works().iter_mut().filter(is_it) {
                kept.push(old.clone());
                old.set_end(&event);
            }
            work.set_end(&event);
        }
        work
    }

    /// Whether some work may be running.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire) != 0
    }

    /// Whether there is work of the process that this one was forked off.
    fn is_inherited(&self) -> bool {
        ![0, Self::of_process()].contains(&self.busy.load(Ordering::Acquire))
    }

    /// In the child of a fork: whether all work of the parent's is known to have ended well. A thread
    /// that held the lock at the fork was about to enter some.
    pub(crate) fn was_at_rest(&self) -> bool {
        let is_over = |works: &Vec<Work>| works.iter().all(Work::is_known_done);
        match self.works.try_lock() {
            Ok(works) => is_over(&works),
            Err(TryLockError::Poisoned(works)) => is_over(&works.into_inner()),
            Err(TryLockError::WouldBlock) => false,
        }
    }

    fn of_process() -> u64 {
        u64::from(process_state::generation()) + 1
    }

    /// The ends of work with this access on a stream: what is put on the stream from now on comes after.
    pub(crate) fn ends_on(&self, stream: &Stream, access: Access) -> Vec<Earlier> {
        if !self.is_busy() || self.is_inherited() {
            return Vec::new();
        }
        let is_there = |work: &&Work| {
            let is_like = work.access == access && work.stream.as_ref() == Some(stream);
            is_like && work.is_of_one_plugin()
        };
        let works = self.works();
        let ends = works.iter().filter(is_there).map(|work| work.end.clone());
        let certain = |event| Earlier {
            event,
            is_certain: true,
        };
        ends.flatten().map(certain).collect()
    }

    /// Enters work. It replaces works that are known to be done, and those of `earlier`, which it comes
    /// after, that [`Work::replaces`] names. A work that another thread entered in the meantime stays,
    /// even on the same stream: nobody knows which of the two ends first, and the memory must outlive
    /// both. After a write of all elements, readers are told of no failure of what it comes after.
    pub(crate) fn enter(&self, mut work: Work, earlier: &[Earlier]) {
        let is_in = |old: &Work, is_certain: bool| {
            let mut alike = earlier.iter().filter(|one| one.is_certain == is_certain);
            alike.any(|one| old.is_of(&one.event))
        };
        let is_earlier = |old: &Work| is_in(old, true);
        let is_continued = |old: &Work| is_earlier(old) && work.replaces(old);
        let is_replaced = |old: &Work| is_continued(old) || old.is_known_done();
        let mut works = self.works();
        // Dropping an event calls a hook, which no lock may be held over.
        let gone: Vec<Work> = works.extract_if(.., |old| is_replaced(old)).collect();
        let continued = gone.iter().any(|old| is_continued(old) && old.holds_memory);
        work.holds_memory |= continued;
        if work.access == Access::Write {
            let overwritten = works.iter_mut().filter(|old| is_in(old, false));
            overwritten.for_each(|old| old.access = Access::Read);
        }
        // For a stream that is to free the memory behind all work.
        if work.stream.is_some() {
            let others = works.iter().filter(|old| old.stream != work.stream);
            let others = others.filter(|old| is_earlier(old));
            work.after
                .extend(others.filter_map(|old| old.end.clone().ok()));
        }
        // Now and then it is asked which of many are done, so that they do not pile up.
        let many = works.len() >= MANY && works.len() == works.capacity();
        let asked = if many { works.clone() } else { Vec::new() };
        works.push(work);
        self.busy.store(Self::of_process(), Ordering::Release);
        drop(works);
        drop(gone);
        // Events that happened remember it, so that the next work takes the place of theirs.
        let _done = asked.iter().filter(|work| work.is_done()).count();
    }

    /// Makes the calling thread wait for what work with this access has to come after. Before a write, gives the
    /// ends of the writes that failed: readers are told of them until the caller has written all
    /// elements and [replaced](Self::replace) them.
    ///
    /// # Errors
    /// `TIMEOUT`, or that nobody can say whether the work is over. Before a read the failure of the
    /// last write, each time: the content is undefined until somebody writes it again, so a write
    /// asks only that the earlier work has ended.
    pub(crate) fn synchronize(
        &self,
        access: Access,
        limit: Option<Duration>,
    ) -> Result<Vec<Event>, Error> {
        let deadline = Deadline::after(limit);
        let (mut failure, mut failed) = (None, Vec::new());
        for work in self.before(access) {
            let earlier = work.access;
            let event = work.event()?;
            if access == Access::Read {
                // A reader need not know that the work is over where it failed.
                match completion::ask_until_over(&event, deadline.left()) {
                    Ok(()) => self.forget(&event, earlier),
                    Err(error) if error.is_failure_of_work() => failure = failure.or(Some(error)),
                    Err(error) => return Err(error),
                }
                continue;
            }
            match completion::block_until_over(&event, deadline.left())? {
                End::Failed(error) if earlier.is_write() => {
                    failure = failure.or(Some(error));
                    failed.push(event);
                }
                End::Done | End::Failed(_) => self.forget(&event, earlier),
            }
        }
        match failure {
            Some(failure) if !access.is_write() => Err(failure),
            _ => Ok(failed),
        }
    }

    /// Looks which work is over by now, so that nobody needs to ask once more: the child of a fork
    /// cannot.
    pub(crate) fn look(&self) {
        let works = self.works().clone();
        let _done = works.iter().filter(|work| work.is_done()).count();
    }

    /// Takes out writes that failed, because all elements were written since.
    pub(crate) fn replace(&self, failed: &[Event]) {
        for event in failed {
            self.forget(event, Access::Write);
        }
    }

    /// The failure of one of the writes that a read comes after, where one is known by now.
    pub(crate) fn failed_write(&self) -> Option<Error> {
        let mut writes = self.before(Access::Read).into_iter();
        writes.find_map(|work| work.event().ok()?.is_done().err())
    }

    /// An event that happens when all writes that may be pending are over.
    ///
    /// # Errors
    /// Why there is no event at the end of one of them, or none behind all.
    pub(crate) fn last_write(&self) -> Result<Option<Event>, Error> {
        let mut writes = self.before(Access::Read);
        writes.retain(|work| !work.is_known_done());
        let ends = writes.into_iter().map(Work::event);
        let mut ends = ends.collect::<Result<Vec<Event>, Error>>()?;
        if ends.len() > 1 {
            ends.retain(|event| !event.is_done().unwrap_or(false));
        }
        match ends.as_slice() {
            [] => Ok(None),
            [only] => Ok(only.clone().for_user()),
            [.., last] => all_of(&ends, last.device()).map(Event::for_user),
        }
    }

    /// Takes out the read, or the write, of the work before `event`. A copy inside one memory is both.
    fn forget(&self, event: &Event, access: Access) {
        let is_it =
            |work: &mut Work| work.is_of(event) && work.access.is_write() == access.is_write();
        let mut works = self.works();
        let gone: Vec<Work> = works.extract_if(.., is_it).collect();
        if works.is_empty() {
            self.busy.store(0, Ordering::Release);
        }
        drop(works);
        drop(gone);
    }

    fn works(&self) -> MutexGuard<'_, Vec<Work>> {
        self.works.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An event of the device after all of these.
fn all_of(events: &[Event], device: &Device) -> Result<Event, Error> {
    let stream = InternalStream::take(device)?;
    for event in events {
        stream.wait(event, OnFailure::Inherit)?;
    }
    stream.record()
}

/// From so many works of one memory on, its plugins are asked which work is done.
const MANY: usize = 16;
