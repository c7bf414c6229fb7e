//! Streams of other libraries that nobody here holds any more while their work runs: the objects
//! that keep them alive are held until it is done.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crossdock_api::{Status, XdEvent, XdStream};
use pyo3::prelude::*;

use crate::interpreter::attached::detached;
use crate::link::error::check;
use crate::link::handle::{Handle, made, written};
use crate::link::table::api;
use crate::link::waiting::{self, left};

/// A stream and the object that keeps it alive.
struct Busy {
    handle: Handle<XdStream>,
    _native: Py<PyAny>,
}

static BUSY: Mutex<Vec<Arc<Busy>>> = Mutex::new(Vec::new());

fn busy() -> MutexGuard<'static, Vec<Arc<Busy>>> {
    BUSY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Busy {
    /// Whether its work is done. A stream that cannot tell may still have some.
    fn is_done(&self) -> bool {
        let idle = written(|out| (api().stream_is_idle)(self.handle.lend(), out));
        idle.is_ok_and(|idle| idle != 0)
    }
}

/// Gives the object of a stream back once the stream's work is done. Whether it is, is looked at now,
/// when the next stream comes, and by [`wait`]: each time all streams that are done go back.
pub(crate) fn give_back_when_done(handle: Handle<XdStream>, native: Py<PyAny>) {
    let last = Arc::new(Busy {
        handle,
        _native: native,
    });
    busy().push(last);
    give_back_those_done();
}

/// Waits until the work of all streams is done, at most until `limit` nanoseconds after `begin`. Gives
/// back those that are done by then, also after a timeout.
pub(crate) fn wait(py: Python<'_>, limit: u64, begin: Instant) -> PyResult<()> {
    let streams = busy().clone();
    let mut streams = streams.iter();
    let waited = streams.try_for_each(|one| wait_for(py, &one.handle, left(limit, begin)));
    give_back_those_done();
    waited
}

/// Waits for the work on a stream. How that ended is told to those who use what it wrote.
fn wait_for(py: Python<'_>, stream: &Handle<XdStream>, limit: u64) -> PyResult<()> {
    let record = || made(|out| (api().stream_record)(stream.lend(), out));
    let end: Handle<XdEvent> = match detached(py, record) {
        Ok(end) => end,
        Err(_failed) => return Ok(()),
    };
    waiting::wait(py, limit, |limit| {
        match check((api().event_synchronize)(end.lend(), limit)) {
            Err(failed) if failed.status() != Status::TIMEOUT => Ok(()),
            waited => waited,
        }
    })
}

fn give_back_those_done() {
    // Neither hooks nor Python run under the lock. All stay in the list while they are asked: a thread that waits
    // meanwhile waits for them too.
    let mut done = busy().clone();
    done.retain(|one| one.is_done());
    busy().retain(|one| !done.iter().any(|done| Arc::ptr_eq(one, done)));
    drop(done);
}
