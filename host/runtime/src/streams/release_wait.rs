//! Waits for outstanding releases.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crossdock_sdk::abi::Status;
use crossdock_sdk::deadline::Deadline;

use crate::devices::runtime::Runtime;
use crate::error::Error;
use crate::plugins::open_plugins;
use crate::plugins::plugin::Plugin;
use crate::plugins::releases;
use crate::process::process_state;

impl Runtime {
    /// Blocks until all memory that was dropped before this call, while work on it was still running,
    /// is given back, or is leaked because nobody can say whether the work is over; `None` is no
    /// limit. Waits for the plugins that this runtime lists, and for those that were retired here. It also waits for
    /// work that a stream of another plugin was made to wait for before this call, and for the work of a stream of others
    /// for which a thread is in [`Device::synchronize`](crate::Device::synchronize). So once it has returned, nothing here
    /// still asks the driver about that work, and the stream's owner may destroy the vendor's context.
    ///
    /// # Errors
    /// [`Error::Hook`]: `TIMEOUT`, or `EXITING` once the process exits, which leaves the rest to the
    /// system; [`Error::Misuse`] when called by a deleter, which is such a release itself, or by a plugin
    /// that is being loaded; [`Error::Forked`] in the child of a fork.
    pub fn wait_for_releases(&self, limit: Option<Duration>) -> Result<(), Error> {
        const OPERATION: &str = "wait for releases";
        self.check_process(OPERATION)?;
        open_plugins::check_reentry(OPERATION)?;
        if process_state::is_releasing() {
            let why = "a deleter calls it, and would wait for itself: call it outside of deleters";
            return Err(Error::misuse(OPERATION, why));
        }
        let deadline = Deadline::after(limit);
        let mut plugins = self.plugins();
        plugins.extend(self.retired().iter().filter_map(Weak::upgrade));
        wait_for_all(OPERATION, &plugins, deadline)
    }
}

/// Blocks until all releases of these plugins' memory that are outstanding now are over.
///
/// # Errors
/// `TIMEOUT`, with the plugins that have some and how many; `EXITING`.
pub(crate) fn wait_for_all(
    operation: &str,
    plugins: &[Arc<Plugin>],
    deadline: Deadline,
) -> Result<(), Error> {
    let later = releases::next_number();
    let each = || plugins.iter();
    // What is given back may have kept memory of another plugin, which is asked once more then: none is left
    // when all were asked and no release began inside of another one meanwhile.
    let late = loop {
        let nested = releases::nested_so_far();
        let late = each().find(|plugin| !plugin.wait_for_releases(later, deadline));
        if late.is_some() || releases::nested_so_far() == nested {
            break late;
        }
    };
    let Some(late) = late else {
        return Ok(());
    };
    if process_state::exiting() {
        let why = "the process is exiting: what work still uses is left to the system";
        return Err(late.hooks().failure(operation, Status::EXITING, why));
    }
    let counts = each().map(|plugin| (plugin.releases().count(), plugin.name()));
    let left: Vec<_> = counts
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} of plugin `{name}`"))
        .collect();
    if left.is_empty() {
        // The last ended after the limit, and none came since.
        return Ok(());
    }
    let why = format!(
        "work still uses dropped memory, or is waited for, {}: synchronize the streams of that work, \
         or wait longer",
        left.join(", ")
    );
    Err(late.hooks().failure(operation, Status::TIMEOUT, &why))
}
