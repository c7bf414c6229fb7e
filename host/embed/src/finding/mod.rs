//! Which Python is taken, and why the others are not.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `search`, `candidate` | the search, and the places where it looks, in their order |
//! | `probe`, `probe_cache` | one question to an executable, and answers of earlier processes |
//! | `shared_library` | where the library of a Python lies, and whether it can be opened here |
//! | `question` | a question to a Python, as a program that it runs |
//! | `startup_check` | whether Python starts at all: a failure would end the process |
//! | `choice`, `reason`, `report` | what was chosen, why another was not, and both for people |
//! | `requirements` | what a script says that it needs |
//!
//! Candidates come in a fixed order (`candidate.rs`), each asked once what it is (`probe.rs`, one
//! `python -I -c`), and refused with a reason. What the executable says decides, never a folder's
//! look: so shims are seen through, and library and environment belong together.

pub(crate) mod candidate;
pub(crate) mod choice;
pub(crate) mod probe;
pub(crate) mod probe_cache;
pub(crate) mod question;
pub(crate) mod reason;
pub(crate) mod report;
pub(crate) mod requirements;
pub(crate) mod search;
pub(crate) mod shared_library;
pub(crate) mod startup_check;
