//! Streams whose work is captured instead of done: which there are, and what they forbid.
//!
//! The rules are those of `cuStreamBeginCapture` and `cuThreadExchangeStreamCaptureMode`; which calls a capture
//! forbids is nowhere listed, so [`UNSAFE`] has those that do not go on a stream, or that ask whether work is done.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};

use super::codes::Code;
use super::entry::Answer;

/// `CU_STREAM_CAPTURE_STATUS_*`.
pub(crate) const NONE: c_int = 0;
const ACTIVE: c_int = 1;
const INVALIDATED: c_int = 2;

/// `CU_STREAM_CAPTURE_MODE_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Global,
    ThreadLocal,
    Relaxed,
}

impl Mode {
    pub(crate) const fn of(number: c_int) -> Answer<Self> {
        match number {
            0 => Ok(Self::Global),
            1 => Ok(Self::ThreadLocal),
            2 => Ok(Self::Relaxed),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    pub(crate) const fn number(self) -> c_int {
        match self {
            Self::Global => 0,
            Self::ThreadLocal => 1,
            Self::Relaxed => 2,
        }
    }
}

/// How much of each stream of a capture is known to be before something.
type Clock = BTreeMap<u64, u64>;

/// A capture that has begun and not ended.
#[derive(Debug)]
struct Capture {
    /// The stream that it ends on.
    origin: u64,
    thread: ThreadId,
    mode: Mode,
    is_invalidated: bool,
    nodes: usize,
    /// Its streams, and what is before the end of each: of itself, what it has.
    streams: BTreeMap<u64, Clock>,
}

/// An event that was last recorded in a capture.
#[derive(Debug)]
struct Recorded {
    capture: u64,
    before: Clock,
}

/// All captures, and what came of them.
#[derive(Debug)]
pub(crate) struct Captures {
    /// By their ids.
    open: BTreeMap<u64, Capture>,
    events: BTreeMap<u64, Recorded>,
    begun: u64,
}

/// Functions that capture forbids, without their endings for other versions and twins.
const UNSAFE: [&str; 31] = [
    "cuCtxSynchronize",
    "cuEventQuery",
    "cuEventSynchronize",
    "cuMemAlloc",
    "cuMemAllocHost",
    "cuMemAllocManaged",
    "cuMemAllocPitch",
    "cuMemFree",
    "cuMemFreeHost",
    "cuMemHostAlloc",
    "cuMemHostRegister",
    "cuMemHostUnregister",
    "cuMemPoolGetAttribute",
    "cuMemPoolSetAttribute",
    "cuMemPoolTrimTo",
    "cuMemcpy",
    "cuMemcpy2D",
    "cuMemcpy2DUnaligned",
    "cuMemcpy3D",
    "cuMemcpyDtoD",
    "cuMemcpyDtoH",
    "cuMemcpyHtoD",
    "cuMemcpyPeer",
    "cuMemsetD16",
    "cuMemsetD2D16",
    "cuMemsetD2D32",
    "cuMemsetD2D8",
    "cuMemsetD32",
    "cuMemsetD8",
    "cuStreamQuery",
    "cuStreamSynchronize",
];

/// The same of HIP, without `_spt`.
const UNSAFE_OF_HIP: [&str; 25] = [
    "hipDeviceSynchronize",
    "hipEventQuery",
    "hipEventSynchronize",
    "hipFree",
    "hipFreeHost",
    "hipHostAlloc",
    "hipHostFree",
    "hipHostMalloc",
    "hipHostRegister",
    "hipHostUnregister",
    "hipMalloc",
    "hipMallocManaged",
    "hipMemPoolGetAttribute",
    "hipMemPoolSetAttribute",
    "hipMemPoolTrimTo",
    "hipMemcpy",
    "hipMemcpy2D",
    "hipMemcpy3D",
    "hipMemcpyDtoD",
    "hipMemcpyDtoH",
    "hipMemcpyHtoD",
    "hipMemcpyPeer",
    "hipMemset",
    "hipStreamQuery",
    "hipStreamSynchronize",
];

/// Whether a capture forbids a function. The answer holds for all of its forms.
pub(crate) fn is_unsafe(function: &str) -> bool {
    if function.starts_with("hip") {
        let base = function.trim_end_matches("_spt");
        return UNSAFE_OF_HIP.binary_search(&base).is_ok();
    }
    let base = function.trim_end_matches("_ptds").trim_end_matches("_ptsz");
    let base = base.strip_suffix("_v2").unwrap_or(base);
    UNSAFE.binary_search(&base).is_ok()
}

/// How many captures are open: most programs never have one.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// Whether a capture is open anywhere.
pub(crate) fn is_any_open() -> bool {
    OPEN.load(Ordering::Acquire) != 0
}

thread_local! {
    /// How this thread minds captures.
    static MODE: Cell<Mode> = const { Cell::new(Mode::Global) };
}

/// Sets how this thread minds captures, and says how it did.
pub(crate) fn exchange_mode(mode: Mode) -> Mode {
    MODE.replace(mode)
}

impl Captures {
    pub(crate) const fn new() -> Self {
        Self {
            open: BTreeMap::new(),
            events: BTreeMap::new(),
            begun: 0,
        }
    }

    /// Lets a stream capture.
    pub(crate) fn begin(&mut self, stream: u64, mode: Mode) -> Answer {
        if self.of(stream).is_some() {
            return Err(Code::ILLEGAL_STATE);
        }
        self.begun += 1;
        let capture = Capture {
            origin: stream,
            thread: thread::current().id(),
            mode,
            is_invalidated: false,
            nodes: 0,
            streams: BTreeMap::from([(stream, Clock::new())]),
        };
        self.open.insert(self.begun, capture);
        OPEN.store(self.open.len(), Ordering::Release);
        Ok(())
    }

    /// Ends the capture of a stream: how many nodes it has.
    pub(crate) fn end(&mut self, stream: u64) -> Answer<usize> {
        let Some(id) = self.of(stream) else {
            return Err(Code::ILLEGAL_STATE);
        };
        let capture = self.open.get(&id).ok_or(Code::ILLEGAL_STATE)?;
        if capture.origin != stream {
            return Err(Code::CAPTURE_UNMATCHED);
        }
        if capture.mode != Mode::Relaxed && capture.thread != thread::current().id() {
            return Err(Code::CAPTURE_WRONG_THREAD);
        }
        let capture = self.close(id).ok_or(Code::ILLEGAL_STATE)?;
        if capture.is_invalidated {
            return Err(Code::CAPTURE_INVALIDATED);
        }
        let joined = capture.streams.get(&stream);
        let is_joined = |other: &u64, had: &Clock| {
            let known = joined.and_then(|joined| joined.get(other));
            *other == stream || known >= had.get(other)
        };
        let all = capture.streams.iter();
        if all.into_iter().any(|(other, had)| !is_joined(other, had)) {
            return Err(Code::CAPTURE_UNJOINED);
        }
        Ok(capture.nodes)
    }

    fn close(&mut self, id: u64) -> Option<Capture> {
        let capture = self.open.remove(&id);
        OPEN.store(self.open.len(), Ordering::Release);
        capture
    }

    /// The capture that a stream is in.
    fn of(&self, stream: u64) -> Option<u64> {
        let is_in = |(_, capture): &(&u64, &Capture)| capture.streams.contains_key(&stream);
        self.open.iter().find(is_in).map(|(id, _)| *id)
    }

    /// The status of a stream, and the id of its capture.
    pub(crate) fn status(&self, stream: u64) -> (c_int, u64) {
        let capture = self
            .of(stream)
            .and_then(|id| Some((id, self.open.get(&id)?)));
        match capture {
            None => (NONE, 0),
            Some((id, capture)) if capture.is_invalidated => (INVALIDATED, id),
            Some((id, _)) => (ACTIVE, id),
        }
    }

    /// Takes work that was meant for a stream: whether the stream captures, and the work is not to be done.
    pub(crate) fn take(&mut self, stream: u64) -> Answer<bool> {
        let Some(capture) = self.of(stream).and_then(|id| self.open.get_mut(&id)) else {
            return Ok(false);
        };
        if capture.is_invalidated {
            return Err(Code::CAPTURE_INVALIDATED);
        }
        capture.nodes += 1;
        capture.advance(stream);
        Ok(true)
    }

    /// Records an event on a stream: whether that was captured.
    pub(crate) fn record(&mut self, event: u64, stream: u64) -> Answer<bool> {
        let found = self
            .of(stream)
            .and_then(|id| Some((id, self.open.get(&id)?)));
        let Some((id, capture)) = found else {
            self.events.remove(&event);
            return Ok(false);
        };
        if capture.is_invalidated {
            return Err(Code::CAPTURE_INVALIDATED);
        }
        let before = capture.streams.get(&stream).cloned().unwrap_or_default();
        let recorded = Recorded {
            capture: id,
            before,
        };
        self.events.insert(event, recorded);
        Ok(true)
    }

    /// Lets a stream wait for an event: whether that was captured. A stream that waits for an event of a capture
    /// is in it from then on.
    pub(crate) fn wait(&mut self, stream: u64, event: u64, is_recorded: bool) -> Answer<bool> {
        let (own, theirs) = (self.of(stream), self.events.get(&event));
        match (own, theirs) {
            (None, None) => Ok(false),
            // Nothing is waited for.
            (Some(_), None) if !is_recorded => Ok(true),
            (Some(own), None) => Err(self.invalidate(own, Code::CAPTURE_ISOLATION)),
            (Some(own), Some(theirs)) if own != theirs.capture => {
                let (theirs, is_open) = (theirs.capture, self.open.contains_key(&theirs.capture));
                if !is_open {
                    return Err(self.invalidate(own, Code::CAPTURE_ISOLATION));
                }
                self.invalidate(theirs, Code::CAPTURE_MERGE);
                Err(self.invalidate(own, Code::CAPTURE_MERGE))
            }
            (_, Some(theirs)) => {
                let capture = self.open.get_mut(&theirs.capture);
                let capture = capture.ok_or(Code::CAPTURED_EVENT)?;
                if capture.is_invalidated {
                    return Err(Code::CAPTURE_INVALIDATED);
                }
                let joins = own.is_none();
                let clock = capture.streams.entry(stream).or_default();
                for (other, point) in &theirs.before {
                    let known = clock.entry(*other).or_default();
                    *known = (*known).max(*point);
                }
                // A stream that came in has to be joined, whether work follows on it or not.
                if joins {
                    capture.advance(stream);
                }
                Ok(true)
            }
        }
    }

    /// Refuses to tell whether captured work is done.
    pub(crate) fn refuse_event(&self, event: u64) -> Answer {
        if self.events.contains_key(&event) {
            return Err(Code::CAPTURED_EVENT);
        }
        Ok(())
    }

    /// Refuses what cannot be done to a stream that captures, which ends its capture.
    pub(crate) fn refuse_stream(&mut self, stream: u64) -> Answer {
        match self.of(stream) {
            None => Ok(()),
            Some(id) => Err(self.invalidate(id, Code::CAPTURE_UNSUPPORTED)),
        }
    }

    /// Refuses a call that no capture sees, where this thread may not make it.
    pub(crate) fn refuse_unsafe(&mut self) -> Answer {
        let (mode, here) = (MODE.get(), thread::current().id());
        let forbids = |capture: &Capture| match (capture.mode, mode) {
            (Mode::Relaxed, _) | (_, Mode::Relaxed) => false,
            (Mode::Global, Mode::Global) => true,
            _ => capture.thread == here,
        };
        let mut refused = Ok(());
        for capture in self.open.values_mut().filter(|capture| forbids(capture)) {
            capture.is_invalidated = true;
            refused = Err(Code::CAPTURE_UNSUPPORTED);
        }
        refused
    }

    /// Refuses work on a legacy default stream, which would wait for these streams.
    pub(crate) fn refuse_implicit(&mut self, streams: &[u64]) -> Answer {
        let mut refused = Ok(());
        for stream in streams {
            if let Some(id) = self.of(*stream) {
                refused = Err(self.invalidate(id, Code::CAPTURE_IMPLICIT));
            }
        }
        refused
    }

    /// Whether one of these streams captures.
    pub(crate) fn is_one_in(&self, streams: &[u64]) -> bool {
        streams.iter().any(|stream| self.of(*stream).is_some())
    }

    /// Forgets a stream that is destroyed. A capture does not outlive the stream that it began on.
    pub(crate) fn forget_stream(&mut self, stream: u64) {
        let Some(id) = self.of(stream) else { return };
        let is_origin = |capture: &Capture| capture.origin == stream;
        if self.open.get(&id).is_some_and(is_origin) {
            self.close(id);
        } else if let Some(capture) = self.open.get_mut(&id) {
            capture.is_invalidated = true;
            capture.streams.remove(&stream);
        }
    }

    pub(crate) fn forget_event(&mut self, event: u64) {
        self.events.remove(&event);
    }

    fn invalidate(&mut self, id: u64, code: Code) -> Code {
        if let Some(capture) = self.open.get_mut(&id) {
            capture.is_invalidated = true;
        }
        code
    }
}

impl Capture {
    /// Counts one more thing on a stream.
    fn advance(&mut self, stream: u64) {
        let clock = self.streams.entry(stream).or_default();
        *clock.entry(stream).or_default() += 1;
    }
}
