//! Who calls the driver: the code behind the entry point, and the line of Python that runs there, if any.
//!
//! Each call notes both as a few numbers, and finds the place that was made of the same numbers before. Python is
//! looked for among the symbols of the process. Its lock is never taken, and no code of its users runs.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `native` | the address behind the entry point |
//! | `python` | the functions of Python's library, and the line of a thread that holds its lock |
//! | `detached` | frames of a thread that let the lock go for the call, as NVIDIA's own package does, from memory |
//! | `frames` | the innermost one, and the innermost one outside of installed packages |
//! | `installed` | which code is of an installed package |
//! | `known` | the places so far |
//!
//! All of it is for Linux; elsewhere nothing is known of who calls.

#[cfg(target_os = "linux")]
mod detached;
#[cfg(target_os = "linux")]
mod frames;
#[cfg(target_os = "linux")]
mod installed;
#[cfg(target_os = "linux")]
mod known;
#[cfg(target_os = "linux")]
mod native;
#[cfg(target_os = "linux")]
mod python;

#[cfg(target_os = "linux")]
pub(crate) use known::here;

/// The place that calls.
#[cfg(not(target_os = "linux"))]
pub(crate) fn here() -> &'static crossdock_sim_engine::Place {
    static NOWHERE: crossdock_sim_engine::Place = crossdock_sim_engine::Place {
        returns_to: 0,
        line: None,
        program: None,
    };
    &NOWHERE
}
