//! Operations: what was submitted to a stream, with all that is needed to run and to judge it.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::clock::Clock;
use crate::shadow::Role;
use crate::strided::Walk;
use crate::{Condition, Failure, Site, Word};

/// What a point in a stream, or a completion by the host, came to.
#[derive(Clone, Debug)]
pub(crate) struct Completion {
    pub(crate) failure: Option<Failure>,
    pub(crate) clock: Clock,
    pub(crate) time_ns: u64,
}

/// One record of an event, or the one completion of a host event.
#[derive(Debug)]
pub(crate) struct Point {
    /// The call that made it.
    pub(crate) site: Site,
    /// The hardware queue that its record stands in; `None` for what the host completes.
    pub(crate) queue: Option<usize>,
    /// The host's own time, which passes while others wait for it.
    pub(crate) made: Instant,
    pub(crate) done: OnceLock<Completion>,
}

impl Point {
    pub(crate) fn new(site: Site, queue: Option<usize>) -> Arc<Self> {
        Arc::new(Self {
            site,
            queue,
            made: Instant::now(),
            done: OnceLock::new(),
        })
    }

    /// Ends the wait for it. What it came to first stands.
    pub(crate) fn complete(&self, done: Completion) {
        drop(self.done.set(done));
    }
}

/// Bytes that an operation uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) writes: bool,
    /// First address and number of the allocation they are in.
    pub(crate) allocation: Option<(u64, u64)>,
}

/// Rows of bytes with gaps between them, where there are several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) count: u64,
    /// Of each row.
    pub(crate) bytes: u64,
    /// From the beginning of a row to that of the next.
    pub(crate) pitch: u64,
}

/// What is to be done.
pub(crate) enum Body {
    Copy {
        target: u64,
        source: u64,
        bytes: u64,
    },
    Strided(Walk),
    Fill {
        target: u64,
        rows: Rows,
        pattern: Box<[u8]>,
    },
    /// Called with the status that the device is lost with, if it is.
    Host(Box<dyn FnOnce(Option<i32>) + Send>),
    Record(Arc<Point>),
    Wait(Arc<Point>),
    /// With the host's own time of a wait that was not over at once, which passes while it goes on.
    WaitWord(Word, Condition, Option<Instant>),
    WriteWord(Word),
    /// First address of the allocation.
    Allocate(u64),
    Free(u64),
}

impl Body {
    pub(crate) const fn moves_bytes(&self) -> bool {
        matches!(
            self,
            Self::Copy { .. } | Self::Strided(_) | Self::Fill { .. }
        )
    }

    /// How it uses bytes.
    pub(crate) const fn role(&self) -> Role {
        match self {
            Self::Free(_) => Role::Free,
            Self::Allocate(_) => Role::Allocate,
            Self::WriteWord(_) => Role::Word,
            Self::WaitWord(..) => Role::Poll,
            _ => Role::Work,
        }
    }

    /// Whether it takes no time of its own.
    pub(crate) const fn is_wait(&self) -> bool {
        matches!(self, Self::Wait(_) | Self::WaitWord(..) | Self::Record(_))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Copy { .. } | Self::Strided(_) => "copy",
            Self::Fill { .. } => "fill",
            Self::Host(_) => "host function",
            Self::Record(_) => "record",
            Self::Wait(_) => "wait",
            Self::WaitWord(..) => "memory wait",
            Self::WriteWord(_) => "memory write",
            Self::Allocate(_) => "allocation",
            Self::Free(_) => "free",
        })
    }
}

/// One operation.
#[derive(Debug)]
pub(crate) struct Op {
    /// Counts submissions.
    pub(crate) id: u64,
    pub(crate) site: Site,
    pub(crate) stream: u64,
    pub(crate) body: Body,
    pub(crate) uses: Vec<Use>,
    /// What the host knew as it submitted.
    pub(crate) host: Clock,
    /// Simulated time of the submission.
    pub(crate) host_ns: u64,
}
