//! Why a script did not run, or how it ended.

use std::fmt;

/// What went wrong, as a caller tells cases apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// No usable Python: each place that was tried is in the message.
    NoPython,
    /// The library and the environment do not belong together.
    Mismatch,
    /// The script raised an exception.
    Exception,
    /// The script asked to end: `SystemExit`, with its code.
    Exit(i32),
    /// The script was interrupted.
    Interrupted,
    /// The script took longer than it may, and was stopped.
    Timeout,
    /// The script took longer than it may, and native code of it still runs.
    Stuck,
    /// The session runs something else.
    Busy,
    /// The session or the interpreter was closed.
    Closed,
    /// A forked child has no interpreter of its own.
    Forked,
    /// The caller's arguments cannot be used.
    Invalid,
    /// The system has no more memory or no more threads.
    Exhausted,
}

/// The reason of a failure, and what helps.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Advice {
    /// Why, in a line.
    pub why: String,
    /// What to do about it, in a line.
    pub hint: String,
}

/// One failure: what, why and what to do in a message, and what Python says of it.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Which case it is.
    pub kind: Kind,
    /// What it was, in a line.
    pub message: String,
    /// Why, and what to do about it, where the message does not say it all.
    pub advice: Option<Box<Advice>>,
    /// The exception's qualified name, such as `numpy.linalg.LinAlgError`.
    pub exception: Option<String>,
    /// The traceback as Python prints it, causes included.
    pub traceback: Option<String>,
}

impl Failure {
    /// A failure that no exception of Python is behind.
    #[must_use]
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            advice: None,
            exception: None,
            traceback: None,
        }
    }

    /// The same with its reason and what to do.
    #[must_use]
    pub fn because(self, why: impl Into<String>, hint: impl Into<String>) -> Self {
        let (why, hint) = (why.into(), hint.into());
        Self {
            advice: Some(Box::new(Advice { why, hint })),
            ..self
        }
    }

    /// The reason; empty where the message says it all.
    #[must_use]
    pub fn why(&self) -> &str {
        self.advice.as_ref().map_or("", |advice| &advice.why)
    }

    /// What to do about it; empty where nothing general can be said.
    #[must_use]
    pub fn hint(&self) -> &str {
        self.advice.as_ref().map_or("", |advice| &advice.hint)
    }
}

/// What, why and what to do, each on a line of its own.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        for (title, text) in [("why", self.why()), ("try", self.hint())] {
            if !text.is_empty() {
                write!(f, "\n  {title}: {text}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}
