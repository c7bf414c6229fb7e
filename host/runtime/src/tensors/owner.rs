//! What keeps a memory's bytes, and how they are given back.
#![expect(unsafe_code, reason = "gives memory back through hooks")]

use std::ffi::c_void;

use crossdock_sdk::abi::{Address, MemoryKind};

use crate::devices::device::Device;
use crate::error::Error;
use crate::process::process_state;
use crate::tensors::claim::HostClaim;
use crate::tensors::foreign::{LentBytes, MemoryOwner};
use crate::tensors::tensor::Tensor;
use crate::tensors::unlocking;

/// Host bytes that somebody else owns: a mapped file, a vector.
pub type HostOwner = Box<dyn AsRef<[u8]> + Send + Sync>;

/// What is given back when the memory is dropped.
pub(crate) enum Owner {
    /// Nothing: no byte.
    Empty,
    /// Allocated from the device's plugin.
    Allocated,
    /// A tensor of others; dropping it runs its deleter.
    Received {
        _tensor: MemoryOwner,
        claim: HostClaim,
    },
    /// A native object of others that the plugin adopted; they keep it until the tensor is dropped. It
    /// may be a part of the object of another tensor.
    Native {
        _tensor: MemoryOwner,
        of: Option<Tensor>,
    },
    /// Host bytes of others.
    Host { _owner: LentBytes },
    /// An alias that the plugin made of other memory.
    Adopted { of: Tensor },
    /// A host view of device memory.
    Mapped { of: Tensor, pointer: Pointer },
    /// A lock on host memory for the device; `of` keeps the memory.
    Registered { of: Tensor, pointer: Pointer },
    /// The same memory under the object's name that others gave, with what they keep for it.
    Named { of: Tensor, _tensor: MemoryOwner },
    /// Nothing: it is the parent's, and never given back. `of` is another inherited view of it.
    Inherited { of: Option<Tensor> },
}

/// An address that is only ever given back to the plugin it came from.
pub(crate) struct Pointer(pub(crate) *mut c_void);

// SAFETY: never dereferenced here; hooks may be called from any thread.
unsafe impl Send for Pointer {}
// SAFETY: as above.
unsafe impl Sync for Pointer {}

/// Gives memory back to where it came from; all work on it is over. What a plugin may still use,
/// because it did not let go, is leaked.
pub(crate) fn give_back(device: &Device, address: Address, kind: MemoryKind, owner: Owner) {
    if let Owner::Registered { of, pointer } = owner {
        return unlocking::unlock(device, of, pointer);
    }
    let given = match &owner {
        Owner::Empty
        | Owner::Received { .. }
        | Owner::Host { .. }
        | Owner::Inherited { .. }
        | Owner::Registered { .. }
        | Owner::Named { .. } => Ok(()),
        // SAFETY: all work on the memory is over, as this function says, and its owner was taken out of
        // it, so nobody else has the address or gives it back.
        Owner::Allocated => unsafe { device.hooks().free(address, kind) },
        Owner::Adopted { .. } | Owner::Native { .. } => {
            device.hooks().release_adopted(device.index(), address)
        }
        Owner::Mapped { of, pointer } => {
            let of = of.memory();
            let (hooks, index) = (of.device.hooks(), of.device.index());
            // SAFETY: `map` gave this pointer for this address, and its owner was taken out of the memory
            // that was the host's view, so nobody uses the pointer any more.
            unsafe { hooks.unmap(index, of.address, pointer.0) }
        }
    };
    let Err(error) = given else {
        return;
    };
    log_failure(&error);
    // Counted with the hook that did not take it.
    let _leaked = std::mem::ManuallyDrop::new(owner);
}

/// Says why something was not given back, unless the process exits or is a fork.
pub(crate) fn log_failure(error: &Error) {
    if !process_state::is_exit_or_fork(error) {
        log::error!(target: "crossdock::memory", "{error}: {}", error.why());
    }
}
