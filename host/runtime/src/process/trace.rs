//! The trace of this process, for <https://ui.perfetto.dev>: the calls of hooks of all plugins, also of
//! those that are open already, copies and routes.
//!
//! `CROSSDOCK_TRACE=FILE` or [`start`] begin it; `%p` in a name stands for the process id. The file is an
//! array of Chrome trace events, and is whole after every write: it can be read while it grows, and
//! after a crash.

use std::path::Path;

use crossdock_layers::trace_file;

use crate::error::Error;
use crate::process::process_state;

pub use crossdock_layers::trace_file::is_on;
pub(crate) use crossdock_layers::trace_file::{Span, span};

/// Starts a trace into `path`, a regular file that is created, or emptied where it exists.
///
/// # Errors
/// [`Error::Misuse`] when there is a trace already, another process writes this file, it cannot be
/// written, or the process is a fork.
pub fn start(path: impl AsRef<Path>) -> Result<(), Error> {
    process_state::watch();
    if process_state::generation() != 0 {
        let why = "this process is a fork: trace it from its start";
        return Err(Error::misuse("trace", why.to_owned()));
    }
    Ok(trace_file::start(path)?)
}

/// Ends the trace and closes its file.
///
/// # Errors
/// [`Error::Misuse`] when there is none, in a fork, or the first failure to write it.
pub fn stop() -> Result<(), Error> {
    if process_state::generation() != 0 {
        let why = "this process is a fork of the one that is traced: stop the trace there";
        return Err(Error::misuse("trace", why.to_owned()));
    }
    Ok(trace_file::stop()?)
}

/// Begins the trace that `CROSSDOCK_TRACE` asks for, unless one is running.
pub(crate) fn begin_requested(privileged: bool) {
    if let Some(file) = crossdock_layers::requested_trace(privileged)
        && !is_on()
        && let Err(error) = start(&file)
    {
        log::warn!(target: "crossdock::load", "{error}: {}", error.why());
    }
}
