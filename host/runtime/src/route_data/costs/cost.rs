//! A cost as the planner and people see it.

use std::fmt;
use std::time::Duration;

use super::class::Class;

/// What a route is expected to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// The time; `None` where it is not known.
    pub time: Option<Duration>,
    /// Where that is from.
    pub origin: CostOrigin,
    /// The copies that were timed, which are told with the time.
    pub(crate) class: Option<Class>,
}

/// Where a cost is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CostOrigin {
    /// From what the devices say of themselves.
    Properties,
    /// Measured by this process.
    Measured,
    /// Measured by a process before, and kept in the file.
    Kept,
}

impl Cost {
    /// Nothing is copied.
    pub(crate) const NOTHING: Self = Self {
        time: Some(Duration::ZERO),
        ..Self::UNKNOWN
    };

    /// Nothing was measured.
    pub(crate) const UNKNOWN: Self = Self {
        time: None,
        origin: CostOrigin::Properties,
        class: None,
    };
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.time {
            None => return f.write_str("unknown; chosen by the devices' properties"),
            Some(Duration::ZERO) => return f.write_str("nothing is copied"),
            Some(time) => write!(f, "about {time:.1?}, ")?,
        }
        f.write_str(match self.origin {
            CostOrigin::Properties => "by the devices' properties",
            CostOrigin::Measured => "measured",
            CostOrigin::Kept => "measured before",
        })?;
        match &self.class {
            Some(class) => write!(f, " for {class}"),
            None => Ok(()),
        }
    }
}
