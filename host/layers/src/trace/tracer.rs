//! The layer that writes every call of a hook into the trace file.

use crossdock_sdk::abi::Status;
use crossdock_sdk::plugin::Error;
use serde_json::{Map, Value, json};

use crate::calls::call::Call;
use crate::calls::layer_hooks::{Answer, CallState, LayerHooks};
use crate::trace::trace_file as trace;

/// Traces the calls of one plugin.
#[derive(Debug)]
pub(crate) struct Tracer {
    plugin: String,
}

impl Tracer {
    pub(crate) fn new(plugin: &str) -> Self {
        Self {
            plugin: plugin.to_owned(),
        }
    }

    /// The arguments, and the answers of a call that succeeded.
    fn arguments(&self, call: &Call<'_>, status: Status) -> Map<String, Value> {
        let mut map = Map::new();
        map.insert("plugin".to_owned(), json!(self.plugin));
        map.insert("status".to_owned(), json!(status.to_string()));
        call.each(|name, argument| match argument.json() {
            // The fields of an argument struct stand beside the other arguments.
            Value::Object(fields) if name == "args" => map.extend(fields),
            Value::Null => {}
            value => {
                map.insert(name.to_owned(), value);
            }
        });
        map
    }
}

impl LayerHooks for Tracer {
    fn before(&self, _call: &Call<'_>) -> Result<CallState, Error> {
        Ok(CallState::Began(trace::now()))
    }

    fn after(&self, call: &Call<'_>, state: CallState, answer: Answer) -> Result<(), Error> {
        if let CallState::Began(began) = state {
            let arguments = self.arguments(call, answer.status);
            trace::record("hook", call.hook(), began, arguments);
        }
        Ok(())
    }
}
