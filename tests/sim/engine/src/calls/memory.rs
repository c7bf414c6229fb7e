//! Calls about memory.

use std::ptr::NonNull;

use crate::engine::unbuilt;
use crate::{Access, Engine, Error, MemoryKind, Owner, Site, Stream};

impl Engine {
    /// Allocates `bytes` on a device, at once. Fresh bytes are `0xCD` and count as not written.
    /// `alignment` is a power of two; smaller ones than 512 become 512. The same address is handed
    /// out again as late as possible.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for no such device, 0 bytes or a wrong alignment; [`Error::OutOfMemory`].
    pub fn allocate(
        &self,
        site: Site,
        device: u32,
        bytes: u64,
        alignment: u64,
        kind: MemoryKind,
    ) -> Result<u64, Error> {
        let _ = (site, device, bytes, alignment, kind);
        unbuilt()
    }

    /// Frees an allocation at once. It waits for nothing: an operation that may still use the memory
    /// makes a report. The null address is ignored.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] where no allocation begins, which is also reported.
    pub fn free(&self, site: Site, address: u64) -> Result<(), Error> {
        let _ = (site, address);
        unbuilt()
    }

    /// Allocates device memory in a stream's order: the address is known now, and may be used by
    /// operations that are ordered behind this one.
    ///
    /// # Errors
    ///
    /// As [`Engine::allocate`], and [`Error::Stale`].
    pub fn allocate_on(&self, site: Site, stream: Stream, bytes: u64) -> Result<u64, Error> {
        let _ = (site, stream, bytes);
        unbuilt()
    }

    /// Frees an allocation in a stream's order.
    ///
    /// # Errors
    ///
    /// As [`Engine::free`], and [`Error::Stale`].
    pub fn free_on(&self, site: Site, stream: Stream, address: u64) -> Result<(), Error> {
        let _ = (site, stream, address);
        unbuilt()
    }

    /// Whose memory an address is in; `None` for memory that the engine does not know.
    #[must_use]
    pub fn owner_of(&self, address: u64) -> Option<Owner> {
        let _ = address;
        None
    }

    /// Bytes of a device that are free, and all of them.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for no such device.
    pub fn memory_info(&self, device: u32) -> Result<(u64, u64), Error> {
        let _ = device;
        unbuilt()
    }

    /// Registers host memory: its owner is then `device`, as pinned memory.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a range that overlaps a registered one, which is also reported.
    pub fn register_host(
        &self,
        site: Site,
        device: u32,
        address: u64,
        bytes: u64,
    ) -> Result<(), Error> {
        let _ = (site, device, address, bytes);
        unbuilt()
    }

    /// Forgets a registered range. Like a free, it is reported where an operation may still use it.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] where no registered range begins, which is also reported.
    pub fn unregister_host(&self, site: Site, address: u64) -> Result<(), Error> {
        let _ = (site, address);
        unbuilt()
    }

    /// Where host code reaches the bytes of an address in an allocation of any kind, up to its end.
    /// Whoever uses it tells the checker by [`Engine::touch`].
    #[must_use]
    pub fn host_view(&self, address: u64) -> Option<NonNull<u8>> {
        let _ = address;
        None
    }

    /// Tells the checker that host code reads or writes `bytes` at `address`: host memory, pinned
    /// memory, or device memory by its host view.
    pub fn touch(&self, site: Site, address: u64, bytes: u64, access: Access) {
        let _ = (site, address, bytes, access);
    }
}
