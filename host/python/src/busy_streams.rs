//! Streams of other libraries that nobody here holds any more while their work runs: the objects
//! that keep them alive are held until it is done.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crossdock_api::XdStream;
use pyo3::prelude::*;

use crate::handle::{Handle, written};
use crate::table::api;

/// A stream and the object that keeps it alive.
struct Busy {
    handle: Handle<XdStream>,
    _native: Py<PyAny>,
}

static BUSY: Mutex<Vec<Busy>> = Mutex::new(Vec::new());

fn busy() -> MutexGuard<'static, Vec<Busy>> {
    BUSY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Busy {
    /// Whether its work is done. One that cannot tell may still work.
    fn is_done(&self) -> bool {
        let idle = written(|out| (api().stream_is_idle)(self.handle.lend(), out));
        idle.is_ok_and(|idle| idle != 0)
    }
}

/// Gives the object of a stream back once the stream's work is done. That is looked at now, and when
/// the next one comes, which gives back all that are done by then.
pub(crate) fn give_back_when_done(handle: Handle<XdStream>, native: Py<PyAny>) {
    let last = Busy {
        handle,
        _native: native,
    };
    // Neither hooks nor Python run under the lock.
    let earlier = std::mem::take(&mut *busy());
    let all = earlier.into_iter().chain([last]);
    let (done, working) = all.partition::<Vec<_>, _>(Busy::is_done);
    busy().extend(working);
    drop(done);
}
