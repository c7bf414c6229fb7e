//! What is live, in words.

use std::fmt;

/// What a plugin's caller has not given back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveObjects {
    /// Memory from `allocate` and `allocate_async`.
    pub allocations: usize,
    /// Memory from `adopt`.
    pub adoptions: usize,
    /// Mappings from `map`.
    pub mappings: usize,
    /// Host memory from `register_host`.
    pub registrations: usize,
    /// Streams that the caller has to destroy.
    pub streams: usize,
    /// Events.
    pub events: usize,
    /// The first few of them, one line each.
    pub examples: Vec<String>,
}

impl LiveObjects {
    /// How many there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.allocations
            + self.adoptions
            + self.mappings
            + self.registrations
            + self.streams
            + self.events
    }
}

impl fmt::Display for LiveObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.allocations, "allocations"),
            (self.adoptions, "adoptions"),
            (self.mappings, "mappings"),
            (self.registrations, "registrations"),
            (self.streams, "streams"),
            (self.events, "events"),
        ];
        let told: Vec<_> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, name)| format!("{count} {name}"))
            .collect();
        if told.is_empty() {
            return f.write_str("nothing is live");
        }
        write!(f, "live: {}", told.join(", "))?;
        for example in &self.examples {
            write!(f, "\n  {example}")?;
        }
        Ok(())
    }
}
