//! Why a Python is not taken.

use std::path::PathBuf;

use crossdock_sdk::{shown::shell_word, trust::Untrusted};
use thiserror::Error;

use crate::finding::search::OLDEST;

/// Why a candidate was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Reason {
    /// No file of this name is there.
    #[error("there is no such file")]
    Absent,
    /// The installation that an environment was made from is gone.
    #[error(
        "the Python that the environment was made from is gone (`{}`); recreate the venv: \
         python3 -m venv --clear {}", home.display(), shell_word(environment)
    )]
    HomeGone {
        /// Where it was.
        home: PathBuf,
        /// The environment's folder.
        environment: PathBuf,
    },
    /// Somebody else could have put it there.
    #[error("{0}; {hint}", hint = .0.hint())]
    Untrusted(Untrusted),
    /// The system does not start it: what it said.
    #[error("it cannot be started: {0}")]
    NotStarted(String),
    /// It gave no answer in this many seconds.
    #[error("it did not answer within {0} s")]
    Late(u64),
    /// It answered with something else than what was asked.
    #[error("it is no usable Python: it said \"{0}\"")]
    NoAnswer(String),
    /// It is another implementation of the language.
    #[error("it is {0}, and only CPython runs inside a program")]
    Implementation(String),
    /// Its version is not one.
    #[error("it says that its version is \"{0}\"")]
    Version(String),
    /// Its version is older than the oldest that works.
    #[error(
        "it is {0}, and {major}.{minor} is the oldest that works",
        major = OLDEST.0, minor = OLDEST.1
    )]
    Old(String),
    /// Its threads share no lock, and the package needs one.
    #[error("it is a free-threaded {0}, for which the package is not built")]
    FreeThreaded(String),
    /// It is a debug build.
    #[error("it is a debug build of {0}, for which the package is not built")]
    Debug(String),
    /// It uses another C library than this program: its tag.
    #[error("it uses another C library than this program ({0})")]
    OtherLibc(String),
    /// Its library is for another processor.
    #[error("its library `{}` is for another processor", .0.display())]
    OtherMachine(PathBuf),
    /// It was built without the shared library of this name.
    #[error(
        "it was built without a shared library (`{0}` was not found); install the one that has \
         it, mostly a package named libpython or a build with `--enable-shared`"
    )]
    NoLibrary(String),
    /// The library of another version is in this process.
    #[error("it is {is}, and the library of {}.{} is in this process", loaded.0, loaded.1)]
    OtherVersion {
        /// What it is.
        is: String,
        /// Major and minor version of the library.
        loaded: (u8, u8),
    },
}
