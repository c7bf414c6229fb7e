//! Host memory in the child of a fork: what was inherited is memory of others there, on the child's own
//! `cpu:0`. Nothing of it is ever given back, so nobody who lent it is asked.
#![expect(unsafe_code, reason = "keeps a memory in an atomic pointer")]

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::devices::host_device;
use crate::plugins::open_plugins;
use crate::process::process_state;
use crate::tensors::memory::Memory;

/// The memory as this process has it, where it is host memory on which no work was running at the fork;
/// else the inherited one, which answers `FORKED`.
#[cold]
pub(crate) fn here(inherited: &Memory) -> &Memory {
    let mut memory = inherited;
    // What a child has in the place of its parent's memory, its own child inherits.
    while memory.is_inherited() {
        let _deciding = (memory.here().get().is_none()).then(Deciding::begin);
        let Some(own) = memory.here().get_or_make(|| memory_of(memory)) else {
            return inherited;
        };
        memory = own;
    }
    memory
}

/// This thread decides what a child has in the place of its parent's memory, until this is dropped. One at a time: the
/// look at a memory's work takes the lock of that, and another thread would take it for one that the fork left behind.
struct Deciding;

/// 0, or one more than the generation of the process in which a thread decides. One of an earlier process was left behind
/// by the fork.
static DECIDING: AtomicU64 = AtomicU64::new(0);

impl Deciding {
    fn begin() -> Self {
        let here = u64::from(process_state::generation()) + 1;
        let claim = |decided_in: u64| (decided_in != here).then_some(here);
        while DECIDING
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, claim)
            .is_err()
        {
            std::thread::yield_now();
        }
        Self
    }
}

impl Drop for Deciding {
    fn drop(&mut self) {
        DECIDING.store(0, Ordering::Release);
    }
}

/// What a child has in the place of an inherited memory. No lock, which a fork could leave behind.
#[derive(Debug, Default)]
pub(crate) struct Here(AtomicPtr<Memory>);

impl Here {
    pub(crate) fn get(&self) -> Option<&Memory> {
        // SAFETY: NULL, or entered once as a box, and it stays until `self` is dropped.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    fn get_or_make(&self, make: impl FnOnce() -> Option<Memory>) -> Option<&Memory> {
        if self.get().is_none() {
            let made = Box::into_raw(Box::new(make()?));
            let (place, order) = (&self.0, Ordering::AcqRel);
            let entered = place.compare_exchange(ptr::null_mut(), made, order, Ordering::Acquire);
            if entered.is_err() {
                // SAFETY: made just now, and seen by nobody else: another thread was faster.
                drop(unsafe { Box::from_raw(made) });
            }
        }
        self.get()
    }
}

impl Drop for Here {
    #[inline]
    fn drop(&mut self) {
        let own = *self.0.get_mut();
        if !own.is_null() {
            // SAFETY: entered as a box, and `self` has no other user.
            drop(unsafe { Box::from_raw(own) });
        }
    }
}

/// The memory as the child's `cpu:0` has it; `None` where a driver has a share in it, or was not asked whether
/// it has one, the host does not reach it, or work on it may have been running at the fork.
fn memory_of(inherited: &Memory) -> Option<Memory> {
    let has_driver = |view: &Memory| view.device.plugin().driver().is_some();
    let is_at_rest = |view: &Memory| !view.is_inherited() || view.was_at_rest();
    let newest = open_plugins::newest_inherited_querying_plugin();
    let is_checked = |view: &Memory| view.claim().is_none_or(|claim| claim.is_checked_by(newest));
    if !inherited
        .views()
        .all(|view| !has_driver(view) && is_at_rest(view) && is_checked(view))
    {
        return None;
    }
    let address = inherited.host_address(0)?;
    Some(Memory::inherited(host_device::get()?, address, inherited))
}
