//! Who may still be using memory that the host shares: the ends of the work that touched it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crossdock_sim_engine::{self as sim, Engine, Event, Site, Stream};

use crate::plugin::{OWN, lock};

/// The last work on memory, by its base.
#[derive(Debug, Default)]
pub(crate) struct Uses(Mutex<HashMap<u64, Vec<Use>>>);

/// The last work on memory by one stream.
#[derive(Debug, Clone)]
pub(crate) struct Use {
    stream: Stream,
    /// `None` where a fault refused to record it: whoever waits does so for the whole stream.
    end: Option<Arc<End>>,
}

impl Uses {
    /// Remembers that work which was submitted to a stream just now touches the memory.
    pub(crate) fn note(&self, engine: &Engine, base: u64, stream: Stream) {
        let end = End::of(engine, stream).ok().map(Arc::new);
        let mut uses = lock(&self.0);
        let uses = uses.entry(base).or_default();
        // What the stream did before is over when this is.
        uses.retain(|one| one.stream != stream);
        uses.push(Use { stream, end });
    }

    /// Waits until the work on the memory is over, failed or not, and for no other work.
    pub(crate) fn settle(&self, engine: &Engine, base: u64) -> Result<(), sim::Error> {
        let uses = lock(&self.0).get(&base).cloned().unwrap_or_default();
        for one in uses {
            let waited = match &one.end {
                Some(end) => end.wait(),
                None => End::of(engine, one.stream).and_then(|end| end.wait()),
            };
            match waited {
                Ok(()) | Err(sim::Error::Failed(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Forgets memory that is gone.
    pub(crate) fn forget(&self, base: u64) {
        drop(self.take(base));
    }

    /// Takes the uses of memory that may be gone next.
    pub(crate) fn take(&self, base: u64) -> Option<Vec<Use>> {
        lock(&self.0).remove(&base)
    }

    /// Puts them back: the memory stayed.
    pub(crate) fn restore(&self, base: u64, uses: Option<Vec<Use>>) {
        lock(&self.0)
            .entry(base)
            .or_default()
            .extend(uses.into_iter().flatten());
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
        uses.note(&engine, 4096, held);
        uses.note(&engine, 4096, gone);
        let gate = engine.create_host_event(site, 0).unwrap();
        engine.wait(site, held, gate).unwrap();
        engine.destroy_stream(site, gone).unwrap();
        assert_eq!(uses.settle(&engine, 4096), Ok(()));
        uses.forget(4096);
        engine.complete(site, gate, Ok(())).unwrap();
        engine.destroy_event(site, gate).unwrap();
        engine.synchronize_stream(site, held, None).unwrap();
        engine.destroy_stream(site, held).unwrap();
        assert_eq!(engine.leaks(), []);
    }
}
