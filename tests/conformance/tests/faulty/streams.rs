//! The streams of the sound plugin, and tables with others.
#![expect(unsafe_code, reason = "reads a group of the sound plugin")]

use crossdock_sdk::abi::{PluginTable, StreamHooks};

use super::faulty::{group, sound};

/// A table's change to streams with other hooks.
pub(crate) fn with_streams(change: impl FnOnce(&mut StreamHooks)) -> impl FnOnce(&mut PluginTable) {
    move |table| {
        // SAFETY: the sound plugin's group is a constant.
        let mut streams = unsafe { table.streams.as_ptr().read() };
        change(&mut streams);
        table.streams = group(streams);
    }
}

/// The sound plugin's streams.
pub(crate) fn sound_streams() -> StreamHooks {
    // SAFETY: the sound plugin's group is a constant.
    unsafe { sound().streams.as_ptr().read() }
}
