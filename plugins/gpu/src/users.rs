//! Users of registered host memory: calls, work on streams, and the devices that it is registered for.

use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLockReadGuard, RwLockWriteGuard};

use crossdock_sdk::abi::Status;
use crossdock_sdk::deadline::Deadline;

use crate::device::{Device, locked};
use crate::fault::Fault;
use crate::memory::Allocation;
use crate::native::NativeEvent;
use crate::progress::Progress;
use crate::vendor::Vendor;

/// Memory that a call uses. A registration does not end before this is dropped.
#[derive(Debug)]
pub(crate) struct InUse<V: Vendor>(Arc<Allocation<V>>);

impl<V: Vendor> InUse<V> {
    /// Begins a use of memory that the table had. `None` if the registration has ended since.
    pub(crate) fn begin(found: Arc<Allocation<V>>) -> Option<Self> {
        if found.is_registered() {
            let holders = found.holders();
            if holders.is_empty() {
                return None;
            }
            found.calls.fetch_add(1, Ordering::AcqRel);
        }
        Some(Self(found))
    }
}

impl<V: Vendor> Deref for InUse<V> {
    type Target = Allocation<V>;

    fn deref(&self) -> &Allocation<V> {
        &self.0
    }
}

impl<V: Vendor> Drop for InUse<V> {
    fn drop(&mut self) {
        if self.is_registered() {
            self.calls.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl<V: Vendor> Allocation<V> {
    pub(crate) fn holders(&self) -> RwLockReadGuard<'_, Vec<Arc<Device<V>>>> {
        self.holders.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The devices that host memory is registered for, to change them. No call begins to use the memory meanwhile.
    pub(crate) fn change_holders(&self) -> RwLockWriteGuard<'_, Vec<Arc<Device<V>>>> {
        self.holders.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers the end of work that uses registered memory, and forgets ends that are passed.
    pub(crate) fn used_until(&self, point: &Arc<NativeEvent<V>>) {
        let users = {
            let mut users = locked(&self.users);
            users.push(Arc::clone(point));
            users.clone()
        };
        // The driver is asked without the lock. A failure may be the question's, and the work may still run.
        let is_over = |user: &Arc<NativeEvent<V>>| user.progress() == Ok(Progress::Done);
        let over: Vec<_> = users.into_iter().filter(is_over).collect();
        self.forget_users(&over);
    }

    fn forget_users(&self, over: &[Arc<NativeEvent<V>>]) {
        let is_left = |user: &Arc<NativeEvent<V>>| !over.iter().any(|one| Arc::ptr_eq(one, user));
        locked(&self.users).retain(is_left);
    }

    /// Remembers that nobody can tell whether work is over that uses registered memory: its device was lost.
    pub(crate) fn abandon(&self, loss: &Fault) {
        self.abandoned.get_or_init(|| loss.clone());
    }

    /// Waits for all work that uses registered memory; `NOT_READY` where it goes on after the deadline, and while a call
    /// uses the memory. Whether work of a lost device is over is unknown: then this fails, each time.
    pub(crate) fn wait_for_users(&self, deadline: Deadline) -> Result<(), Fault> {
        if let Some(failure) = self.abandoned.get() {
            return Err(failure.clone());
        }
        let not_ready = |why| Fault::new(Status::NOT_READY, "unregister_host", why);
        // Before the ends of work, which a call adds before it is over.
        if self.calls.load(Ordering::Acquire) > 0 {
            return Err(not_ready("a call uses the memory"));
        }
        let users = locked(&self.users).clone();
        for user in &users {
            match user.wait(deadline)? {
                Progress::Failed(fault) if fault.status == Status::DEVICE_LOST => {
                    return Err(fault);
                }
                Progress::Running => return Err(not_ready("work still uses the memory")),
                Progress::Failed(_) | Progress::Done => {}
            }
        }
        self.forget_users(&users);
        Ok(())
    }
}
