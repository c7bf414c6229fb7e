//! Streams and events that a program destroyed: using one is reported with both calls.

use std::collections::BTreeMap;

use crossdock_sim_engine::Site;

use super::codes::Code;
use super::entry::{Answer, Call};
use super::objects::{EventOf, Objects};
use super::whose::Face;

/// The call that destroyed each object, by the object's handle. Handles are never used again.
#[derive(Debug)]
pub(crate) struct Gone(BTreeMap<u64, Site>);

/// So many are remembered: the latest ones.
const REMEMBERED: usize = 4096;

impl Gone {
    pub(crate) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Remembers what a call destroyed.
    pub(crate) fn add(&mut self, handle: u64, by: Site) {
        self.0.insert(handle, by);
        if self.0.len() > REMEMBERED {
            self.0.pop_first();
        }
    }
}

impl Objects {
    /// The answer to a handle of no object. Using one that was destroyed is reported.
    pub(crate) fn no_handle(&self, call: &Call, handle: u64, what: &str) -> Code {
        if let Some(by) = self.gone.0.get(&handle) {
            call.process.engine.report_stale(*by, call.site, what);
        }
        // HIP calls a stream that is none a context that was destroyed.
        match (call.face, what) {
            (Face::Hip, "a stream") => Code::CONTEXT_IS_DESTROYED,
            _ => Code::INVALID_HANDLE,
        }
    }

    /// The event with this handle.
    pub(crate) fn event(&self, call: &Call, handle: u64) -> Answer<EventOf> {
        let found = self.events.get(&handle).copied();
        let found = found.filter(|event| self.is_own(call, event.context));
        found.ok_or_else(|| self.no_handle(call, handle, "an event"))
    }
}
