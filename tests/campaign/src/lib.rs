//! Campaigns: random programs over any set of plugins, held against a sequential model.
//!
//! A [`program::Case`] is data. [`trial::run`] runs one in this process, [`child::Trials`] in a
//! process of its own, [`shrink::smallest`] makes one that fails small, and [`campaign::Campaign`]
//! does all that for a [`kinds::Kind`].
//!
//! | file | what it holds |
//! | --- | --- |
//! | `program`, `offset` | a case as data: calls, devices, faults, how it ends, and where lent memory begins. Calls name tensors, streams and events by number: the *places* in which they are kept |
//! | `kinds`, `generate` | the cases of each kind of campaign, random programs, and calls in them that follow one another |
//! | `run`, `caller` | makes the calls of a program, one at a time, on its threads, in a language |
//! | `slots`; `in_c`, `in_c_taking`, `handles`; `in_python` | each call in Rust; through the function table; in Python (`calls.py`) |
//! | `model`, `judge` | what memory should hold, and each answer against it |
//! | `world`, `driver`, `foreign` | the runtimes and plugins of a case; a simulated driver's faults, reports and leaks; host memory of others |
//! | `clients` | other libraries over a simulated driver: contexts, captures, device memory that they lend and read |
//! | `trial`, `child` | one case in this process, and in a process of its own with a limit |
//! | `turns` | when all threads sleep, and what happens then |
//! | `shrink`, `campaign`, `plan` | makes a failing case small; all cases of a kind, and replay files |
//! | `time_slices` | campaigns that share a time take turns |
//! | `habits` | scripts of Python's users, a campaign of `tests/python/habits` |
//! | `coverage` | whether each function with a stream is called by some case |
//! | `verdict`, `table`, `main` | what was found, how it is printed, and the command line |
//!
//! A new call is a variant of [`program::Call`]: `slots`, `in_c` and `calls.py` make it, `judge` says
//! what it must answer, `generate` draws it, and `shrink` makes it simpler.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "a tool of tests over small numbers: its own panic is seen like any other finding"
)]

mod caller;
pub mod campaign;
pub mod child;
mod clients;
pub mod coverage;
mod driver;
mod foreign;
pub mod generate;
pub mod habits;
mod handles;
mod in_c;
mod in_c_taking;
mod in_python;
mod judge;
pub mod kinds;
pub mod model;
mod offset;
pub mod plan;
pub mod program;
mod run;
pub mod shrink;
mod slots;
pub mod table;
pub mod time_slices;
pub mod trial;
mod turns;
pub mod verdict;
pub mod world;
