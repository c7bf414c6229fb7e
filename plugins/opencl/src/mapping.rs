//! Host views of memory objects.

use std::{ffi::c_void, ptr::NonNull};

use crate::{
    fault::{Fault, Kind},
    handle::Memory,
    memory::Allocation,
    progress,
    turns::Turn,
    view::{Range, map, unmap},
};

impl Allocation {
    /// Gives the host an address of `size` bytes at `offset` until `unmap`.
    pub(crate) fn map(&self, offset: u64, size: u64) -> Result<NonNull<c_void>, Fault> {
        let (offset, _) = self.range(offset, size)?;
        let Some(memory) = self.object() else {
            let why = "the memory is the host's already";
            return Err(Fault::unsupported("map", why));
        };
        self.settle()?;
        if let Some(base) = self.seen_in_place() {
            // A mapping would keep commands from the memory meanwhile.
            return Ok(self.views.add(base, offset));
        }
        let _turn = self.turn(memory);
        let base = match self.views.base() {
            Some(base) => base,
            None => self.views.set_base(self.map_whole(memory)?),
        };
        Ok(self.views.add(base, offset))
    }

    /// Ends a view that `map` gave; with the last one the driver's mapping ends.
    pub(crate) fn unmap(&self, pointer: NonNull<c_void>) -> Result<(), Fault> {
        const OPERATION: &str = "unmap";
        let unknown = || {
            let why = "the address is no mapping of this memory";
            Fault::new(Kind::NotOwner, OPERATION, why)
        };
        let memory = self.object().ok_or_else(unknown)?;
        if self.seen_in_place().is_some() {
            return self.views.remove(pointer).ok_or_else(unknown);
        }
        let _turn = self.turn(memory);
        self.views.remove(pointer).ok_or_else(unknown)?;
        let Some(base) = self.views.base_without_views() else {
            return Ok(());
        };
        match unmap(&self.device.queue, memory, base) {
            Ok(command_event) => {
                let ended = progress::finish(&command_event);
                self.views.clear_base();
                ended
            }
            Err(fault) => {
                self.views.add(pointer, 0);
                Err(fault)
            }
        }
    }

    /// Refuses commands while the driver has the memory mapped for the host: they are undefined then. The
    /// memory cannot be unmapped for a command either, because a new mapping could lie elsewhere.
    pub(crate) fn check_unmapped(&self, operation: &'static str) -> Result<(), Fault> {
        if self.views.base().is_some() {
            let why = "the memory is mapped for the host, until its last host view ends";
            return Err(Fault::new(Kind::Conflict, operation, why));
        }
        Ok(())
    }

    /// Makes everything the device wrote visible at the host address of adopted host memory.
    pub(crate) fn hand_back(&self) -> Result<(), Fault> {
        let (Some(memory), Some(_), true) = (&self.memory, self.host, self.adopted) else {
            return Ok(());
        };
        self.settle()?;
        // What it wrote is there; a mapping would come behind all else on the device's own queue.
        if self.seen_in_place().is_some() {
            return Ok(());
        }
        let _turn = self.turn(memory);
        let mapped = self.map_whole(memory)?;
        let command_event = unmap(&self.device.queue, memory, mapped)?;
        progress::finish(&command_event)
    }

    /// Maps all of it: mapping parts that overlap is undefined.
    fn map_whole(&self, memory: &Memory) -> Result<NonNull<c_void>, Fault> {
        let (offset, size) = self.range(0, self.size)?;
        let access = self.access;
        let range = Range {
            offset,
            size,
            access,
        };
        map(&self.device.queue, memory, range)
    }

    /// The turn to map and unmap the memory. An object and its parts share one, since they share
    /// addresses.
    fn turn(&self, memory: &Memory) -> Turn<'_> {
        let object = self.whole_word().unwrap_or_else(|| memory.word());
        self.device.platform.turns.take(object)
    }
}
