//! What others lent: given back through their gate, where a deleter needs what only that can promise, such as an
//! interpreter that still lives, and not at all once the process exits.
#![expect(unsafe_code, reason = "hands deleters to a function of the caller's")]

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::OnceLock;

use crossdock_sdk::dlpack::{Deleter, Ownership};

use crate::process::process_state;
use crate::tensors::owner::HostOwner;

/// Calls `deleter(tensor)` once before it returns, or never: then the tensor is leaked.
pub type ReleaseGate = unsafe extern "C" fn(deleter: Deleter, tensor: *mut c_void);

static GATE: OnceLock<ReleaseGate> = OnceLock::new();

/// Gives back every tensor of others through `gate`, from now on and in the whole process. `false`
/// where another gate was set before, which stays.
///
/// # Safety
/// - `gate` may be called on any thread until the process ends, and is as [`ReleaseGate`] says.
#[must_use]
pub unsafe fn release_through(gate: ReleaseGate) -> bool {
    std::ptr::fn_addr_eq(*GATE.get_or_init(|| gate), gate)
}

/// Gives back what others lent, by code of theirs: an exit that begins meanwhile waits for it. Once the process
/// exits their code may be gone, and it is leaked and counted.
#[inline]
pub fn release_lent(release: impl FnOnce()) {
    match process_state::begin_release() {
        Some(_releasing) => release(),
        None => process_state::leak(release),
    }
}

/// A tensor of others, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Foreign(ManuallyDrop<Ownership>);

impl Foreign {
    #[inline]
    pub(crate) const fn new(tensor: Ownership) -> Self {
        Self(ManuallyDrop::new(tensor))
    }
}

impl Drop for Foreign {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: taken here and nowhere else.
        let tensor = unsafe { ManuallyDrop::take(&mut self.0) };
        release_lent(|| {
            let Some(gate) = GATE.get() else {
                return drop(tensor);
            };
            if let (Some(deleter), tensor) = tensor.into_deleter() {
                // SAFETY: the setter of the gate promised that it may be called with a tensor that is owned.
                unsafe { gate(deleter, tensor) };
            }
        });
    }
}

/// Host bytes of others, given back when they are dropped.
pub(crate) struct LentBytes(ManuallyDrop<HostOwner>);

impl LentBytes {
    pub(crate) const fn new(owner: HostOwner) -> Self {
        Self(ManuallyDrop::new(owner))
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        (**self.0).as_ref()
    }
}

impl Drop for LentBytes {
    fn drop(&mut self) {
        // SAFETY: taken here and nowhere else.
        let owner = unsafe { ManuallyDrop::take(&mut self.0) };
        release_lent(|| drop(owner));
    }
}
