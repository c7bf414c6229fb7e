//! Where a call was made: what reports name.

use std::fmt;
use std::panic::Location;

use crate::Place;

/// One call of the engine: the function of the simulated API, its number and, if known, where it was made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Site {
    name: &'static str,
    number: u64,
    location: Option<&'static Location<'static>>,
    place: Option<&'static Place>,
}

impl Site {
    /// A call of the function `name`. The engine numbers it when the call comes in.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            number: 0,
            location: None,
            place: None,
        }
    }

    /// A call of the function `name` by the line that calls this.
    #[must_use]
    #[track_caller]
    pub const fn here(name: &'static str) -> Self {
        Self {
            name,
            number: 0,
            location: Some(Location::caller()),
            place: None,
        }
    }

    /// The same call by code that this was noted of.
    #[must_use]
    pub const fn by(mut self, place: &'static Place) -> Self {
        self.place = Some(place);
        self
    }

    /// The same call with a number that the caller counts; the engine numbers only those without.
    #[must_use]
    pub const fn numbered(mut self, number: u64) -> Self {
        self.number = number;
        self
    }

    /// The function that was called.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Which call it was, counted from 1; 0 before the engine saw it.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The code that made the call.
    #[must_use]
    pub const fn place(&self) -> Option<&'static Place> {
        self.place
    }

    /// The line that made the call.
    #[must_use]
    pub const fn location(&self) -> Option<&'static Location<'static>> {
        self.location
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` (call {}", self.name, self.number)?;
        if let Some(location) = self.location {
            write!(f, ", {}:{}", location.file(), location.line())?;
        }
        if let Some(place) = self.place {
            write!(f, ", {place}")?;
        }
        f.write_str(")")
    }
}
