//! The numbers by which callers name streams and events.

use std::fmt;

macro_rules! handle {
    ($name:ident, $what:literal) => {
        #[doc = concat!("Names ", $what, " of one engine; numbers are never used again.")]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(transparent)]
        pub struct $name(u64);

        impl $name {
            /// Reads a handle that crossed a boundary as a number. A wrong one is refused at its use.
            #[must_use]
            pub const fn from_raw(raw: u64) -> Self {
                Self(raw)
            }

            /// The number, never 0.
            #[must_use]
            pub const fn raw(self) -> u64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($what, " {}"), self.0)
            }
        }
    };
}

handle!(Stream, "stream");
handle!(Event, "event");
