//! What another library over a simulated driver does, as data.

use serde::{Deserialize, Serialize};

use crate::program::{Element, Offset};

/// One call of a client. It is left out where that client does not exist, or captures in a mode that forbids it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "the interpreter names each")]
#[expect(missing_docs, reason = "places, as those of the calls of Crossdock")]
pub enum ClientCall {
    /// It comes, with a stream in the device's primary context or in one of its `own`, which no thread has.
    /// `blocking`: the stream waits for the legacy default one. `known`: Crossdock may be told of the stream.
    Come {
        device: usize,
        own: bool,
        blocking: bool,
        known: bool,
    },
    /// Crossdock takes its stream.
    Wrap {
        s: usize,
    },
    /// It lends device memory which work on its stream writes: of a pool, or of its context.
    Lend {
        t: usize,
        element: Element,
        shape: Vec<i64>,
        seed: u8,
        pool: bool,
        #[serde(default)]
        offset: Offset,
    },
    /// It reads a tensor by work on its stream, and lends what it has read. It gives the export back at once and says
    /// on which stream it reads, or where it `waits` once the work is over.
    Take {
        t: usize,
        of: usize,
        pool: bool,
        waits: bool,
        #[serde(default)]
        offset: Offset,
    },
    /// Its context, or HIP's device, becomes the thread's current one, until it leaves.
    Enter,
    Leave,
    /// Its stream captures: globally, for the thread, or relaxed.
    Capture {
        mode: u8,
    },
    EndCapture,
    /// Its device's stream of a place, which Crossdock made and shows, is captured the same way.
    CaptureShown {
        s: usize,
        mode: u8,
    },
    /// A call fails by its arguments, and is HIP's last error of the thread; the other one forgets that.
    SetLastError,
    ClearLastError,
    /// It goes, and its own context with it: left out while anybody has memory of its, or knows its stream.
    Go,
    /// Planted: a call that its capture forbids.
    BreakCapture,
    /// Planted: work of somebody else's on its stream, which is captured with its own.
    JoinCapture,
    /// Planted: what it lent is spoilt while others may still use it.
    FreeEarly {
        t: usize,
    },
    /// Planted: its context becomes current, and it says nothing of that.
    EnterSilently,
}

impl ClientCall {
    /// Whether the thread's current context is another one after it.
    pub(crate) const fn moves_context(&self) -> bool {
        matches!(self, Self::Enter | Self::Leave)
    }
}
