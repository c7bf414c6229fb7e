//! The engine itself: made from a configuration, shared by its handles.

use std::sync::Arc;

use crate::{Config, Error};

/// A set of simulated devices. Clones name the same engine; it ends with the last of them.
///
/// Calls may come from any thread but a host function. What is pending when the last handle goes is
/// dropped: [`Engine::drain`] first.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(crate) config: Arc<Config>,
}

impl Engine {
    /// Reserves the devices' memory and starts what the policy needs.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a number in `config` that makes no sense; [`Error::System`] without
    /// address space.
    pub fn new(config: Config) -> Result<Self, Error> {
        Ok(Self {
            config: Arc::new(config),
        })
    }

    /// What it was made from.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }
}

pub(crate) fn unbuilt<T>() -> Result<T, Error> {
    Err(Error::Invalid {
        why: "this part of the engine is not built yet".to_owned(),
    })
}
