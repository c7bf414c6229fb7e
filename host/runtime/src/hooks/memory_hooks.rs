//! The hooks on memory, called safely; a missing group answers `UNSUPPORTED`.
#![expect(unsafe_code, reason = "calls the C functions of a plugin's table")]

use std::ffi::c_void;

use crossdock_layers::ErrorOut;
use crossdock_sdk::abi::{
    Address, AdoptFlags, AllocateArgs, CopyArgs, FillArgs, MemoryInfo, MemoryKind, MemoryUsage,
    PointerInfo, StreamHandle, StridedArgs,
};

use crate::error::Error;
use crate::hooks::plugin_hooks::{Hooks, group_hook, hook};

impl Hooks {
    /// Says how much memory a device has now.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn memory_info(&self, device: u32) -> Result<MemoryInfo, Error> {
        let mut out = MemoryInfo::default();
        hook!(self, memory_info, (device, &raw mut out)).map(|()| out)
    }

    /// Allocates memory.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn allocate(&self, args: AllocateArgs) -> Result<Address, Error> {
        let mut out = Address::default();
        hook!(self, allocate, (&raw const args, &raw mut out)).map(|()| out)
    }

    /// Frees memory.
    ///
    /// # Errors
    /// What the hook answered.
    ///
    /// # Safety
    /// - No work on the memory is in flight, and nobody uses it afterwards.
    pub unsafe fn free(&self, address: Address, kind: MemoryKind) -> Result<(), Error> {
        hook!(self, free, (&raw const address, kind))
    }

    /// Copies bytes.
    ///
    /// # Errors
    /// What the hook answered.
    ///
    /// # Safety
    /// - Both sides are valid for `bytes` bytes until the copy is done.
    pub unsafe fn copy(&self, args: CopyArgs, stream: StreamHandle) -> Result<(), Error> {
        hook!(self, copy, (&raw const args, stream))
    }

    /// Copies a strided region.
    ///
    /// # Errors
    /// What the hook answered.
    ///
    /// # Safety
    /// - The arrays hold `rank` numbers, and every element of both sides is valid until done.
    pub unsafe fn copy_strided(
        &self,
        args: StridedArgs,
        stream: StreamHandle,
    ) -> Result<(), Error> {
        group_hook!(self, strided.copy_strided, (&raw const args, stream))
    }

    /// Fills a range.
    ///
    /// # Errors
    /// What the hook answered.
    ///
    /// # Safety
    /// - The range is valid for writes until the fill is done.
    pub unsafe fn fill(&self, args: FillArgs, stream: StreamHandle) -> Result<(), Error> {
        group_hook!(self, fill.fill, (&raw const args, stream))
    }

    /// Asks who owns an address.
    ///
    /// # Errors
    /// What the hook answered.
    #[inline]
    pub fn pointer_query(&self, address: Address) -> Result<PointerInfo, Error> {
        let mut answer = PointerInfo::default();
        self.pointer_query_into(address, &mut answer)?;
        Ok(by_field(&answer))
    }

    /// As [`Hooks::pointer_query`], for a caller that reads the answer where the plugin wrote it: a copy in
    /// other pieces than those that were written holds up the next query.
    #[inline]
    pub(crate) fn pointer_query_into(
        &self,
        address: Address,
        answer: &mut PointerInfo,
    ) -> Result<(), Error> {
        hook!(self, pointer_query, (&raw const address, &raw mut *answer))
    }

    /// Adopts foreign memory.
    ///
    /// # Errors
    /// What the hook answered.
    ///
    /// # Safety
    /// - The foreign memory is valid until the adoption ends.
    pub unsafe fn adopt(
        &self,
        device: u32,
        foreign: Address,
        kind: MemoryKind,
        size: u64,
        flags: AdoptFlags,
    ) -> Result<Address, Error> {
        let mut out = Address::default();
        group_hook!(
            self,
            adopt.adopt,
            (device, &raw const foreign, kind, size, flags, &raw mut out)
        )
        .map(|()| out)
    }

    /// Ends an adoption.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn release_adopted(&self, device: u32, adopted: Address) -> Result<(), Error> {
        group_hook!(self, adopt.release_adopted, (device, &raw const adopted))
    }

    /// Maps device memory for the host.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn map(&self, device: u32, address: Address, size: u64) -> Result<*mut c_void, Error> {
        let mut out = std::ptr::null_mut();
        group_hook!(
            self,
            map.map,
            (device, &raw const address, size, &raw mut out)
        )
        .map(|()| out)
    }

    /// Ends a mapping.
    ///
    /// # Errors
    /// What the hook answered.
    ///
    /// # Safety
    /// - `pointer` is what [`Self::map`] gave for this address, and nobody uses it afterwards.
    pub unsafe fn unmap(
        &self,
        device: u32,
        address: Address,
        pointer: *mut c_void,
    ) -> Result<(), Error> {
        group_hook!(self, map.unmap, (device, &raw const address, pointer))
    }

    /// Locks host memory for a device.
    ///
    /// # Errors
    /// What the hook answered.
    ///
    /// # Safety
    /// - `pointer` is valid for `size` bytes until it is unregistered.
    pub unsafe fn register_host(
        &self,
        device: u32,
        pointer: *mut c_void,
        size: u64,
    ) -> Result<(), Error> {
        group_hook!(self, register.register_host, (device, pointer, size))
    }

    /// Undoes a registration.
    ///
    /// # Errors
    /// What the hook answered.
    ///
    /// # Safety
    /// - [`Self::register_host`] took `pointer`, and nobody has undone that.
    pub unsafe fn unregister_host(&self, device: u32, pointer: *mut c_void) -> Result<(), Error> {
        group_hook!(self, register.unregister_host, (device, pointer))
    }

    /// Allocates device memory that is usable in the order of a stream.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn allocate_async(&self, stream: StreamHandle, size: u64) -> Result<Address, Error> {
        let mut out = Address::default();
        group_hook!(
            self,
            async_memory.allocate_async,
            (stream, size, &raw mut out)
        )
        .map(|()| out)
    }

    /// Frees device memory once a stream reaches this point.
    ///
    /// # Errors
    /// What the hook answered.
    ///
    /// # Safety
    /// - Only work that is on the stream already uses the memory.
    pub unsafe fn free_async(&self, stream: StreamHandle, address: Address) -> Result<(), Error> {
        group_hook!(self, async_memory.free_async, (stream, &raw const address))
    }

    /// Answers a numeric attribute of a device.
    ///
    /// # Errors
    /// What the hook answered; `UNSUPPORTED` for an unknown key.
    pub fn device_attribute(&self, device: u32, key: u32) -> Result<u64, Error> {
        let mut out = 0;
        group_hook!(
            self,
            attributes.device_attribute,
            (device, key, &raw mut out)
        )
        .map(|()| out)
    }

    /// Gives cached memory of a device back, until at most `keep_bytes` of it are left.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn memory_trim(&self, device: u32, keep_bytes: u64) -> Result<(), Error> {
        group_hook!(self, pool.memory_trim, (device, keep_bytes))
    }

    /// Counts what the plugin has of a device's memory.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn memory_usage(&self, device: u32) -> Result<MemoryUsage, Error> {
        let mut out = MemoryUsage::UNKNOWN;
        group_hook!(self, pool.memory_usage, (device, &raw mut out)).map(|()| out)
    }

    /// Begins the peaks of a device's memory anew.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn memory_reset_peaks(&self, device: u32) -> Result<(), Error> {
        group_hook!(self, pool.memory_reset_peaks, (device))
    }
}

/// Copies an answer field by field, so that a caller into which this is inlined reads those that it
/// looks at, in the pieces that a plugin writes. A processor hands a load what a store before it
/// wrote only if that one store wrote all of it; else it waits, and later queries wait with it.
#[inline]
const fn by_field(out: &PointerInfo) -> PointerInfo {
    PointerInfo {
        kind: out.kind,
        device: out.device,
        base: Address {
            word: out.base.word,
            offset: out.base.offset,
            form: out.base.form,
            reserved: out.base.reserved,
        },
        size: out.size,
        allocation_id: out.allocation_id,
        host_pointer: out.host_pointer,
        device_pointer: out.device_pointer,
        context: out.context,
        flags: out.flags,
        reserved: out.reserved,
    }
}
