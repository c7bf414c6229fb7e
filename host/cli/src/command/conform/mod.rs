//! `crossdock conform`: a plugin against the suite, each case in a process of its own.

pub(crate) mod child;
pub(crate) mod command;
pub(crate) mod ending;
pub(crate) mod known_failures;
pub(crate) mod process;
pub(crate) mod shown;
