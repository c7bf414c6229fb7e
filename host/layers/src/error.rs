//! Why a layer or a trace cannot be had as it was asked for.

/// A layer or a trace cannot be had as it was asked for. Misuse: fix the call or the variable.
///
/// `Display` says what; [`LayersError::why`] says why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation}")]
pub struct LayersError {
    operation: &'static str,
    why: String,
}

impl LayersError {
    pub(crate) const fn new(operation: &'static str, why: String) -> Self {
        Self { operation, why }
    }

    /// What was asked.
    #[must_use]
    pub const fn operation(&self) -> &'static str {
        self.operation
    }

    /// Why it cannot be.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.why
    }
}
