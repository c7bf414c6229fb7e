//! Which work may still be using memory that the host shares: the ends of the work that touched it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use crossdock_sim_engine::{self as sim, Engine, Event, Site, Stream};

use crate::plugin::{OWN, lock};

/// The last work on memory, by its base.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    book: Mutex<Book>,
    /// Held while work is submitted and memory is adopted, so that neither comes between the wait for
    /// the work on some memory and the end of that memory. Never held while somebody waits.
    kept: RwLock<()>,
}

/// What is taken out is dropped after the lock around it: the last holder of an end calls the engine.
#[derive(Debug, Default)]
struct Book {
    uses: BTreeMap<u64, Vec<Use>>,
    submitted: u64,
}

/// The last work on memory by one stream.
#[derive(Debug, Clone)]
pub(crate) struct Use {
    stream: Stream,
    number: u64,
    /// `None` where a fault refused to record it: a wait is for the whole stream then.
    end: Option<Arc<End>>,
}

impl Uses {
    /// Submits work on a stream that touches the memories with these bases.
    pub(crate) fn submit<R>(
        &self,
        engine: &Engine,
        bases: impl IntoIterator<Item = u64>,
        stream: Stream,
        submit: impl FnOnce() -> R,
    ) -> R {
        let _shared = self.keep();
        let submitted = submit();
        // From here on a wait for the memory waits for this work.
        for base in bases {
            let end = End::of(engine, stream).ok().map(Arc::new);
            let before = lock(&self.book).note(base, stream, end);
            drop(before);
        }
        submitted
    }

    /// Waits until the work on the memory is over, failed or not, and for no other work.
    pub(crate) fn settle(&self, engine: &Engine, base: u64) -> Result<(), sim::Error> {
        let uses = lock(&self.book).of(base);
        for one in &uses {
            let waited = match &one.end {
                Some(end) => end.wait(),
                None => End::of(engine, one.stream).and_then(|end| end.wait()),
            };
            match waited {
                // The work is over. Where a fault refused the wait itself, nothing is known of it.
                Err(sim::Error::Failed(failure)) if failure.site.name() != OWN => {}
                waited => waited?,
            }
        }
        // Held here, so that no end is dropped under the lock.
        if let Some(kept) = lock(&self.book).uses.get_mut(&base) {
            kept.retain(|one| uses.iter().all(|over| over.number != one.number));
        }
        Ok(())
    }

    /// Lets no memory end until the answer is dropped.
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
    pub(crate) fn forget(&self, base: u64) {
        drop(self.take(base));
    }

    /// Takes the uses of memory that may be gone next.
    pub(crate) fn take(&self, base: u64) -> Option<Vec<Use>> {
        lock(&self.book).uses.remove(&base)
    }

    /// Puts them back: the memory stayed.
    pub(crate) fn restore(&self, base: u64, uses: Option<Vec<Use>>) {
        let uses = uses.into_iter().flatten();
        lock(&self.book).uses.entry(base).or_default().extend(uses);
    }

    /// Forgets a stream whose work is over.
    pub(crate) fn forget_stream(&self, stream: Stream) {
        let mut over = Vec::new();
        for uses in lock(&self.book).uses.values_mut() {
            over.extend(uses.extract_if(.., |one| one.stream == stream));
        }
    }
}

impl Book {
    fn of(&self, base: u64) -> Vec<Use> {
        self.uses.get(&base).cloned().unwrap_or_default()
    }

    /// Enters the end of work; gives what the stream did before, which is over when this is.
    fn note(&mut self, base: u64, stream: Stream, end: Option<Arc<End>>) -> Vec<Use> {
        self.submitted += 1;
        let number = self.submitted;
        let uses = self.uses.entry(base).or_default();
        let before = uses.extract_if(.., |one| one.stream == stream).collect();
        uses.push(Use {
            stream,
            number,
            end,
        });
        before
    }
}

/// A point in a stream. It outlives the stream, and lasts as long as somebody waits for it.
#[derive(Debug)]
struct End {
    engine: Engine,
    event: Event,
}

impl End {
    /// The present end of a stream.
    fn of(engine: &Engine, stream: Stream) -> Result<Self, sim::Error> {
        let device = engine.device_of(Site::new(OWN), stream)?;
        let end = Self {
            engine: engine.clone(),
            event: engine.create_event(Site::new(OWN), device)?,
        };
        engine.record(Site::new(OWN), end.event, stream)?;
        Ok(end)
    }

    /// Waits by the event: a failure of the stream's work stays for the next synchronize of the stream.
    fn wait(&self) -> Result<(), sim::Error> {
        self.engine
            .synchronize_event(Site::new(OWN), self.event, None)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        drop(self.engine.destroy_event(Site::new(OWN), self.event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossdock_sim_engine::Config;

    #[test]
    fn work_on_memory_is_waited_for_without_what_follows_and_also_when_its_stream_is_gone() {
        let engine = Engine::new(Config::default()).unwrap();
        let site = Site::new("test");
        let [held, gone] = [(); 2].map(|()| engine.create_stream(site, 0).unwrap());
        let uses = Uses::default();
        for stream in [held, gone] {
            uses.submit(&engine, [4096], stream, || ());
        }
        let host_event = engine.create_host_event(site, 0).unwrap();
        engine.wait(site, held, host_event).unwrap();
        engine.destroy_stream(site, gone).unwrap();
        assert_eq!(uses.end(&engine, 4096, || ()), Ok(()));
        engine.complete(site, host_event, Ok(())).unwrap();
        engine.destroy_event(site, host_event).unwrap();
        engine.synchronize_stream(site, held, None).unwrap();
        engine.destroy_stream(site, held).unwrap();
        assert_eq!(engine.leaks(), []);
    }
}
