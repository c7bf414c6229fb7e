//! A look at a tensor of others that spares most of them their import: what is a compact array in
//! memory of the host that no plugin knows can be taken as it is, and imported when it is needed.
#![expect(unsafe_code, reason = "managed tensors arrive as raw pointers")]

use std::ptr::NonNull;

use crossdock_sdk::dlpack::{
    self, Compact, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, Flags, VERSION,
};

use crate::runtime::Runtime;

/// A compact array in memory of the host, as its producer describes it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct HostArray {
    /// Address, shape and dtype.
    pub array: Compact,
    /// Whether writing is refused.
    pub read_only: bool,
}

impl HostArray {
    /// The array that a tensor of DLPack 1.x is, if it is one, and no export of a tensor of ours.
    /// Nothing is taken, and nothing is allocated. `None` says nothing: the import finds out.
    ///
    /// # Safety
    /// - `managed` is alive, and as [`Received::from_versioned`](dlpack::Received::from_versioned)
    ///   needs it.
    #[must_use]
    #[inline]
    pub unsafe fn of(managed: NonNull<DLManagedTensorVersioned>) -> Option<Self> {
        // SAFETY: every version begins with its version.
        let version = unsafe { managed.cast::<DLPackVersion>().read_unaligned() };
        if version.major != VERSION.major || !managed.is_aligned() {
            return None;
        }
        // SAFETY: alive and of this major version.
        if unsafe { dlpack::is_own_export(managed) } {
            return None;
        }
        // SAFETY: alive and aligned, of this major version, and nobody writes to it any more.
        let tensor = unsafe { managed.as_ref() };
        // SAFETY: the caller promises what its numbers need.
        let array = unsafe { dlpack::glance(&tensor.dl_tensor) }?;
        let read_only = Flags::from_raw(tensor.flags).contains(Flags::READ_ONLY);
        (array.device == dlpack::Device::CPU).then_some(Self { array, read_only })
    }

    /// The same for a tensor of DLPack 0.x, which counts as read-only.
    ///
    /// # Safety
    /// - `managed` is alive, and as [`Received::from_legacy`](dlpack::Received::from_legacy) needs
    ///   it.
    #[must_use]
    pub unsafe fn of_legacy(managed: NonNull<DLManagedTensor>) -> Option<Self> {
        // SAFETY: alive.
        if !managed.is_aligned() || unsafe { dlpack::is_own_export(managed) } {
            return None;
        }
        // SAFETY: alive and aligned, and nobody writes to it any more.
        let tensor = unsafe { managed.as_ref() };
        // SAFETY: the caller promises what its numbers need.
        let array = unsafe { dlpack::glance(&tensor.dl_tensor) }?;
        (array.device == dlpack::Device::CPU).then_some(Self {
            array,
            read_only: true,
        })
    }

    /// Whether an import would take it now, as memory of others: the host's device is there, and no
    /// plugin knows the address. Every plugin is asked.
    #[must_use]
    #[inline]
    pub fn is_unknown_to(&self, runtime: &Runtime) -> bool {
        let address = self.array.data.addr() as u64;
        let owner = || runtime.owner_of(address, runtime.builtin());
        runtime.has(self.array.device) && matches!(owner(), Ok(None))
    }
}
