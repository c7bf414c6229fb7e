//! Device memory that a client lends.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::clients::vendor::{Answer, Vendor, retried};
use crate::foreign;

/// What gives memory of a client back, on whatever thread.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) vendor: Vendor,
    pub(crate) device: c_int,
    pub(crate) context: u64,
    /// The stream on which memory is given back: never captured, and never Crossdock's.
    pub(crate) returns: u64,
    /// Memory that is freed once the client goes, for the driver's free waits for the whole device.
    pub(crate) kept: Mutex<Vec<u64>>,
    /// What the driver refused while memory was given back.
    pub(crate) refused: Mutex<Vec<String>>,
}

impl Session {
    /// Makes calls in the client's context; the thread is as before then.
    pub(crate) fn within<T>(&self, calls: impl FnOnce(&Vendor) -> Answer<T>) -> Answer<T> {
        let before = self.vendor.enter(self.context, self.device)?;
        let answer = calls(&self.vendor);
        self.vendor.leave(&before)?;
        answer
    }

    pub(crate) fn complain(&self, what: &str, answer: Answer) {
        if let Err(code) = answer {
            let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
            refused.push(format!("a client's {what} was answered {code}"));
        }
    }
}

/// One block of it.
#[derive(Debug)]
pub(crate) struct Block {
    address: u64,
    bytes: usize,
    /// Bytes before what is lent of it.
    before: usize,
    is_pooled: bool,
    /// It has been spoilt already.
    is_gone: AtomicBool,
    session: Arc<Session>,
    /// The end of the client's own work on it.
    ready: Mutex<Option<u64>>,
}

impl Block {
    /// Device memory, of the context or in the order of the client's stream: so many bytes before what is lent, and
    /// those.
    pub(crate) fn new(
        session: &Arc<Session>,
        (before, bytes): (usize, usize),
        pool: Option<u64>,
    ) -> Answer<Arc<Self>> {
        let bytes = (before + bytes).max(1);
        let address = session.within(|vendor| vendor.allocate(bytes, pool))?;
        Ok(Arc::new(Self {
            address,
            bytes,
            before,
            is_pooled: pool.is_some(),
            is_gone: AtomicBool::new(false),
            session: Arc::clone(session),
            ready: Mutex::new(None),
        }))
    }

    /// Whether it is memory of this session.
    pub(crate) fn is_of(&self, session: &Arc<Session>) -> bool {
        Arc::ptr_eq(&self.session, session)
    }

    /// Where what is lent begins.
    pub(crate) const fn start(&self) -> u64 {
        self.address + self.before as u64
    }

    /// All that is on the client's stream now is before it is given back.
    pub(crate) fn after(&self, stream: u64) -> Answer {
        let event = self.session.within(|vendor| vendor.record(stream))?;
        let before = self
            .ready
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replace(event);
        before.map_or(Ok(()), |before| {
            self.session.within(|vendor| vendor.destroy_event(before))
        })
    }

    /// Spoils it in the order of the client's work alone, and frees it where it is a pool's.
    pub(crate) fn give_back(&self) {
        if self.is_gone.swap(true, Ordering::SeqCst) {
            return;
        }
        let session = &self.session;
        let ready = *self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let spoilt = session.within(|vendor| {
            if let Some(ready) = ready {
                retried(|| vendor.wait(session.returns, ready))?;
                vendor.destroy_event(ready)?;
            }
            retried(|| vendor.fill(self.address, self.bytes, session.returns))?;
            match self.is_pooled {
                true => retried(|| vendor.free(self.address, Some(session.returns))),
                false => Ok(()),
            }
        });
        if !self.is_pooled {
            let mut kept = session.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push(self.address);
        }
        session.complain("return of memory", spoilt);
    }
}

/// Who has a block until its tensor is released.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) block: Arc<Block>,
    pub(crate) releases: Arc<AtomicU32>,
    process: u32,
}

impl Owner {
    pub(crate) fn new(block: Arc<Block>) -> Self {
        Self {
            block,
            releases: Arc::default(),
            process: std::process::id(),
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        foreign::released(self.process);
        self.block.give_back();
        self.releases.fetch_add(1, Ordering::SeqCst);
    }
}
