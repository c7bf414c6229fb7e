//! Calls to and from Python: whether this thread may make one, and how one is made.

pub(crate) mod arguments;
pub(crate) mod attached;
pub(crate) mod calls;
pub(crate) mod ended_threads;
pub(crate) mod gate;
pub(crate) mod integers;
pub(crate) mod recursion_guard;
pub(crate) mod refusals;
pub(crate) mod vectorcall;
