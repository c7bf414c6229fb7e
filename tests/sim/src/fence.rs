//! What keeps a panic inside of this library, and what it says aside.
#![expect(
    clippy::disallowed_methods,
    reason = "a driver knows nothing of plugins, and so not the fence of their sdk"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs what must not unwind into a program; `None` where it panicked.
pub(crate) fn fence<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// Writes a line to stderr, where the reports go.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let line = format!($($text)*);
        // Nobody is left to be told where stderr is closed.
        let _told = writeln!(std::io::stderr(), "{line}");
    }};
}

pub(crate) use say;
