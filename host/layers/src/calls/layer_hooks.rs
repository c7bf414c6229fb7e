//! What a layer does around each call of a hook.

use std::fmt::Debug;

use crossdock_sdk::abi::Status;
use crossdock_sdk::plugin::Error;

use crate::calls::call::Call;
use crate::calls::live_objects::LiveObjects;

/// What a layer does around each call of a hook.
pub(crate) trait LayerHooks: Debug + Send + Sync {
    /// Looks at a call before the plugin does; a refusal is answered in the plugin's place.
    fn before(&self, call: &Call<'_>) -> Result<CallState, Error>;

    /// Looks at the plugin's answer; a refusal replaces it, and nothing reaches the caller.
    fn after(&self, call: &Call<'_>, state: CallState, answer: Answer) -> Result<(), Error>;

    /// What the plugin's caller has not given back, where this layer keeps a registry.
    fn live_objects(&self) -> Option<LiveObjects> {
        None
    }
}

/// What a layer keeps of a call from before to after it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CallState {
    /// Nothing.
    Nothing,
    /// When it began, in nanoseconds.
    Began(u64),
    /// The status that replaces the answer.
    Fail(Status),
    /// What is known of the work that an event stands for.
    Verdict {
        /// The record of the event.
        serial: u64,
        /// The failure that it told of before.
        failure: Option<Status>,
    },
    /// The live object that the call is about.
    Object {
        /// Its entry in the registry.
        serial: u64,
        /// The plugin's id of the allocation, or 0.
        id: u64,
    },
}

/// What the plugin answered, its answer structs apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    /// The status.
    pub(crate) status: Status,
    /// Whether it made an error object.
    pub(crate) has_error: bool,
}
