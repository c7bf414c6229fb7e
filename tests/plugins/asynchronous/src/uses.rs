//! Who may still be using memory that the host shares: the streams that touched it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use crossdock_sim_engine::{self as sim, Engine, Event, Site, Stream};

use crate::plugin::{OWN, lock};

/// The last users of memory, by its base.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    book: Mutex<Book>,
    /// Held while work is submitted and memory is adopted, so that neither comes between the wait for
    /// the work on some memory and its end. Never held while somebody waits.
    kept: RwLock<()>,
}

#[derive(Debug, Default)]
struct Book {
    uses: HashMap<u64, Vec<Use>>,
    submitted: u64,
}

/// Work that may be going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Somewhere on this stream; the number of what came last.
    On(Stream, u64),
    /// Up to this event, on a stream that is gone.
    Before(Event),
}

impl Use {
    fn is_on(&self, stream: Stream) -> bool {
        matches!(self, Self::On(on, _) if *on == stream)
    }
}

impl Uses {
    /// Submits work on a stream that touches the memories with these bases.
    pub(crate) fn submit<R>(
        &self,
        bases: impl IntoIterator<Item = u64>,
        stream: Stream,
        submit: impl FnOnce() -> R,
    ) -> R {
        let _shared = self.keep();
        let submitted = submit();
        // From here on who waits for the stream waits for this.
        for base in bases {
            lock(&self.book).note(base, stream);
        }
        submitted
    }

    /// Waits until work on the memory is over, failed or not; work on the same streams that came
    /// later is waited for too.
    pub(crate) fn settle(&self, engine: &Engine, base: u64) -> Result<(), sim::Error> {
        loop {
            let uses = lock(&self.book).of(base);
            let mut has_changed = false;
            for one in &uses {
                let waited = match *one {
                    Use::On(stream, _) => wait_for_end(engine, stream),
                    Use::Before(event) => engine.synchronize_event(Site::new(OWN), event, None),
                };
                match waited {
                    // Another call ended it meanwhile, and the book says what became of it.
                    Err(sim::Error::Stale { .. }) => has_changed = true,
                    // What a fault refused is no answer.
                    Err(sim::Error::Failed(failure)) if failure.site.name() != OWN => {}
                    waited => waited?,
                }
            }
            if let Some(kept) = lock(&self.book).uses.get_mut(&base) {
                kept.retain(|one| !uses.contains(one));
            }
            if !has_changed {
                return Ok(());
            }
        }
    }

    /// Lets no memory end until it is dropped.
    pub(crate) fn keep(&self) -> RwLockReadGuard<'_, ()> {
        self.kept.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends memory by `end` once the work on it is over.
    pub(crate) fn end<R>(
        &self,
        engine: &Engine,
        base: u64,
        end: impl FnOnce() -> R,
    ) -> Result<R, sim::Error> {
        loop {
            self.settle(engine, base)?;
            let _ending = self.kept.write().unwrap_or_else(PoisonError::into_inner);
            if lock(&self.book).of(base).is_empty() {
                return Ok(end());
            }
        }
    }

    /// Forgets memory that is gone.
    pub(crate) fn forget(&self, engine: &Engine, base: u64) {
        let gone = lock(&self.book).uses.remove(&base).unwrap_or_default();
        for one in gone {
            if let Use::Before(event) = one {
                drop(engine.destroy_event(Site::new(OWN), event));
            }
        }
    }

    /// Forgets a stream whose work is over.
    pub(crate) fn forget_stream(&self, stream: Stream) {
        for uses in lock(&self.book).uses.values_mut() {
            uses.retain(|one| !one.is_on(stream));
        }
    }

    /// Keeps the end of a stream that is about to be destroyed, where it touched such memory.
    pub(crate) fn end_stream(&self, engine: &Engine, stream: Stream) -> Result<(), sim::Error> {
        let mut book = lock(&self.book);
        for uses in book.uses.values_mut() {
            let Some(one) = uses.iter_mut().find(|one| one.is_on(stream)) else {
                continue;
            };
            *one = Use::Before(end_of(engine, stream)?);
        }
        Ok(())
    }
}

impl Book {
    fn of(&self, base: u64) -> Vec<Use> {
        self.uses.get(&base).cloned().unwrap_or_default()
    }

    fn note(&mut self, base: u64, stream: Stream) {
        self.submitted += 1;
        let uses = self.uses.entry(base).or_default();
        uses.retain(|one| !one.is_on(stream));
        uses.push(Use::On(stream, self.submitted));
    }
}

fn end_of(engine: &Engine, stream: Stream) -> Result<Event, sim::Error> {
    let device = engine.device_of(Site::new(OWN), stream)?;
    let event = engine.create_event(Site::new(OWN), device)?;
    engine.record(Site::new(OWN), event, stream)?;
    Ok(event)
}

/// Waits by an event: a failure of the stream's work stays for whoever synchronizes the stream.
fn wait_for_end(engine: &Engine, stream: Stream) -> Result<(), sim::Error> {
    let event = end_of(engine, stream)?;
    let waited = engine.synchronize_event(Site::new(OWN), event, None);
    engine.destroy_event(Site::new(OWN), event)?;
    waited
}
