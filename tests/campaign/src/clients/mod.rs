//! Clients: other libraries in the process, over a simulated driver. They have contexts and streams of their own,
//! lend device memory, read what Crossdock hands out, and capture their streams.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `calls` | what they do, as data |
//! | `vendor` | the functions of a driver that they call |
//! | `memory` | memory that they lend: spoilt and given back in stream order, on whatever thread |
//!
//! A client minds its manners: all that it does is ordered by what Crossdock and the vendors document, and its calls
//! let the captures of others go on.

pub(crate) mod calls;
pub(crate) mod memory;
mod vendor;

use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};

pub(crate) use self::memory::{Block, Owner, Session};
pub(crate) use self::vendor::Answer;
use self::vendor::{Vendor, retried};

/// Of a capture's mode: any thread may end it.
const RELAXED: u8 = 2;
/// The first of the codes that are about captures (`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`).
const FIRST_OF_CAPTURES: c_int = 900;

/// Another library in the process, over a simulated driver.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) session: Arc<Session>,
    pub(crate) stream: u64,
    /// Index of its device in the case.
    pub(crate) device: usize,
    /// Whether Crossdock may know its stream.
    pub(crate) is_known: bool,
    pub(crate) is_own: bool,
    /// The thread that began a capture, the mode, and the stream: its own, or one that it was shown.
    capture: Option<(ThreadId, u8, u64)>,
    /// What it wrote device memory from.
    pinned: Vec<u64>,
    /// The memory that captured work is about.
    scratch: u64,
}

/// On which device a client works, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientKind {
    pub(crate) device: usize,
    pub(crate) is_own: bool,
    pub(crate) is_blocking: bool,
    pub(crate) is_known: bool,
}

impl Client {
    /// One that comes to a device of a plugin; `None` where the plugin is of no simulated driver.
    pub(crate) fn new(kind: ClientKind, plugin: &str, ordinal: u32) -> Option<Answer<Self>> {
        Vendor::of(plugin).map(|vendor| Self::come(kind, vendor, ordinal as c_int))
    }

    fn come(kind: ClientKind, vendor: Vendor, device: c_int) -> Answer<Self> {
        let is_own = kind.is_own;
        let context = match (vendor.has_contexts(), is_own) {
            (false, _) => 0,
            (true, true) => vendor.create_context(device)?,
            (true, false) => vendor.retain_primary(device)?,
        };
        let mut session = Session {
            vendor,
            device,
            context,
            returns: 0,
            kept: Mutex::default(),
            refused: Mutex::default(),
        };
        let made = session.within(|vendor| {
            let returns = vendor.create_stream(false)?;
            let stream = vendor.create_stream(kind.is_blocking);
            let scratch = vendor.allocate(64, None);
            Ok((returns, stream, scratch))
        });
        let (returns, stream, scratch) = made.unwrap_or((0, Err(0), Err(0)));
        session.returns = returns;
        let client = Self {
            session: Arc::new(session),
            stream: stream.unwrap_or(0),
            device: kind.device,
            is_known: kind.is_known,
            is_own,
            capture: None,
            pinned: Vec::new(),
            scratch: scratch.unwrap_or(0),
        };
        match made.and(stream).and(scratch) {
            Ok(_) => Ok(client),
            Err(code) => {
                let _ended = client.end();
                Err(code)
            }
        }
    }

    pub(crate) const fn is_capturing(&self) -> bool {
        self.capture.is_some()
    }

    /// Memory of its own that work on its stream writes.
    pub(crate) fn write(&mut self, bytes: &[u8], pool: bool, before: usize) -> Answer<Arc<Block>> {
        let pinned = self.session.within(|vendor| vendor.pin(bytes))?;
        self.pinned.push(pinned);
        let block = self.block((before, bytes.len()), pool)?;
        self.copied(block, pinned, bytes.len())
    }

    /// Memory of its own with what is at an address once its stream comes to that.
    pub(crate) fn copy_of(
        &self,
        (from, bytes): (u64, usize),
        pool: bool,
        before: usize,
    ) -> Answer<Arc<Block>> {
        let block = self.block((before, bytes), pool)?;
        self.copied(block, from, bytes)
    }

    fn block(&self, bytes: (usize, usize), pool: bool) -> Answer<Arc<Block>> {
        let block = Block::new(&self.session, bytes, pool.then_some(self.stream))?;
        // The memory is there once the stream comes to it.
        self.end_of(block)
    }

    fn copied(&self, block: Arc<Block>, from: u64, bytes: usize) -> Answer<Arc<Block>> {
        let copy = |vendor: &Vendor| vendor.copy(block.start(), from, bytes, self.stream);
        let copied = if bytes == 0 {
            Ok(())
        } else {
            self.session.within(copy)
        };
        let block = self.end_of(block)?;
        if copied.is_err() {
            block.give_back();
        }
        copied.map(|()| block)
    }

    /// The block with all that is on the stream before its return.
    fn end_of(&self, block: Arc<Block>) -> Answer<Arc<Block>> {
        let noted = block.after(self.stream);
        if noted.is_err() {
            let _waited = self.synchronize();
            block.give_back();
        }
        noted.map(|()| block)
    }

    pub(crate) fn synchronize(&self) -> Answer {
        self.session
            .within(|vendor| retried(|| vendor.synchronize(self.stream)))
    }

    /// Makes its context the thread's current one; the device before it.
    pub(crate) fn enter(&self) -> Answer<c_int> {
        self.session
            .vendor
            .push(self.session.context, self.session.device)
    }

    /// Undoes that; whether it was still the thread's current one.
    pub(crate) fn leave(&self, before: c_int) -> Answer<bool> {
        let session = &self.session;
        let own = match session.vendor.has_contexts() {
            true => session.context,
            false => session.device as u64,
        };
        session.vendor.pop(before).map(|popped| popped == own)
    }

    /// Begins a capture, and puts something of its own into it.
    pub(crate) fn capture(&mut self, mode: u8, stream: u64) -> Answer {
        let begin = |vendor: &Vendor| vendor.begin_capture(stream, c_int::from(mode));
        self.session.within(begin)?;
        self.capture = Some((thread::current().id(), mode, stream));
        let filled = self
            .session
            .within(|vendor| vendor.fill(self.scratch, 64, stream));
        if filled.is_err() {
            let _ended = self.end_capture();
        }
        filled
    }

    /// Ends its capture; how much was captured. `None` where there is none that this thread may end.
    pub(crate) fn end_capture(&mut self) -> Option<Answer<usize>> {
        let here = thread::current().id();
        let may_end = |capture: &mut (ThreadId, u8, u64)| capture.1 == RELAXED || capture.0 == here;
        let (_, _, stream) = self.capture.take_if(may_end)?;
        Some(self.session.within(|vendor| vendor.end_capture(stream)))
    }

    /// A call that a capture forbids to those who do not let it go on.
    pub(crate) fn break_capture(&self) -> Answer {
        match self.session.vendor.query(self.stream) {
            Err(code) if code < FIRST_OF_CAPTURES => Err(code),
            _ => Ok(()),
        }
    }

    /// Work on its stream, whatever becomes of it.
    pub(crate) fn join_capture(&self) -> Answer {
        self.session
            .within(|vendor| vendor.fill(self.scratch, 64, self.stream))
    }

    /// It goes, and gives back what it has.
    pub(crate) fn end(mut self) -> Result<(), String> {
        let session = Arc::clone(&self.session);
        let _ended = self.end_capture();
        let streams = [self.stream, session.returns];
        for stream in streams.into_iter().filter(|stream| *stream != 0) {
            let waited = session.within(|vendor| retried(|| vendor.synchronize(stream)));
            session.complain("wait", waited);
        }
        let kept =
            std::mem::take(&mut *session.kept.lock().unwrap_or_else(PoisonError::into_inner));
        for address in kept
            .into_iter()
            .chain([self.scratch].into_iter().filter(|it| *it != 0))
        {
            session.complain("free", session.within(|vendor| vendor.free(address, None)));
        }
        for address in std::mem::take(&mut self.pinned) {
            session.complain(
                "free of pinned memory",
                session.within(|vendor| vendor.unpin(address)),
            );
        }
        for stream in streams.into_iter().filter(|stream| *stream != 0) {
            session.complain(
                "end of a stream",
                session.within(|vendor| vendor.destroy_stream(stream)),
            );
        }
        if session.vendor.has_contexts() {
            let ended = match self.is_own {
                true => session.vendor.destroy_context(session.context),
                false => session.vendor.release_primary(session.device),
            };
            session.complain("end of a context", ended);
        }
        let refused = session
            .refused
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        refused.first().map_or(Ok(()), |first| Err(first.clone()))
    }
}
