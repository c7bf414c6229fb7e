//! Who may still be using memory that the host shares: the streams that touched it.

use std::collections::HashMap;
use std::sync::Mutex;

use crossdock_sim_engine::{self as sim, Engine, Event, Site, Stream};

use crate::plugin::{OWN, lock};

/// The last users of memory, by its base.
#[derive(Debug, Default)]
pub(crate) struct Uses(Mutex<HashMap<u64, Vec<Use>>>);

/// Work that may be going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Somewhere on this stream.
    On(Stream),
    /// Up to this event, on a stream that is gone.
    Before(Event),
}

impl Uses {
    /// Remembers that work on a stream touches the memory.
    pub(crate) fn note(&self, base: u64, stream: Stream) {
        let mut uses = lock(&self.0);
        let uses = uses.entry(base).or_default();
        if !uses.contains(&Use::On(stream)) {
            uses.push(Use::On(stream));
        }
    }

    /// Waits until work on the memory is over, failed or not; work on the same streams that came
    /// later is waited for too.
    pub(crate) fn settle(&self, engine: &Engine, base: u64) -> Result<(), sim::Error> {
        let uses = lock(&self.0).get(&base).cloned().unwrap_or_default();
        for one in &uses {
            let waited = match *one {
                Use::On(stream) => wait_for_end(engine, stream),
                Use::Before(event) => engine.synchronize_event(Site::new(OWN), event, None),
            };
            match waited {
                // Another call destroyed the stream meanwhile and waits here no more than we do.
                Ok(()) | Err(sim::Error::Failed(_)) => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(kept) = lock(&self.0).get_mut(&base) {
            kept.retain(|one| !uses.contains(one));
        }
        Ok(())
    }

    /// Forgets memory that is gone.
    pub(crate) fn forget(&self, engine: &Engine, base: u64) {
        let gone = lock(&self.0).remove(&base).unwrap_or_default();
        for one in gone {
            if let Use::Before(event) = one {
                drop(engine.destroy_event(Site::new(OWN), event));
            }
        }
    }

    /// Keeps the end of a stream that is about to be destroyed, where it touched such memory.
    pub(crate) fn end_stream(&self, engine: &Engine, stream: Stream) -> Result<(), sim::Error> {
        let mut uses = lock(&self.0);
        for uses in uses.values_mut() {
            let Some(one) = uses.iter_mut().find(|one| **one == Use::On(stream)) else {
                continue;
            };
            *one = Use::Before(end_of(engine, stream)?);
        }
        Ok(())
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
