//! Who runs operations, and when.

pub(crate) mod idle;
pub(crate) mod lazy;
pub(crate) mod seeded;
pub(crate) mod threads;
