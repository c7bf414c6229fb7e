//! Host views of memory objects, also while commands use the same memory.

use std::{ffi::c_void, ptr::NonNull};

use crate::{
    fault::{Fault, Kind},
    handle::{Mark, Queue},
    memory::{Allocation, Flavour},
    progress,
    view::{Range, Suspended, View, map, map_later, unmap},
};

impl Allocation {
    /// Gives the host an address of `size` bytes at `offset` until `unmap`.
    pub(crate) fn map(&self, offset: u64, size: u64) -> Result<NonNull<c_void>, Fault> {
        let (offset, size) = self.range(offset, size)?;
        match &self.memory {
            Some(memory) if self.flavour == Flavour::Device => {
                self.settle()?;
                let access = self.access;
                let range = Range {
                    offset,
                    size,
                    access,
                };
                let pointer = map(&self.device.queue, memory, range)?;
                self.views.add(View::new(pointer, range));
                Ok(pointer)
            }
            _ => Err(Fault::unsupported(
                "map",
                "the memory is the host's already",
            )),
        }
    }

    /// Ends a mapping that `map` gave.
    pub(crate) fn unmap(&self, pointer: NonNull<c_void>) -> Result<(), Fault> {
        let unknown = || {
            Fault::new(
                Kind::NotOwner,
                "unmap",
                "the address is no mapping of this memory",
            )
        };
        let memory = self.memory.as_ref().ok_or_else(unknown)?;
        let view = self.views.remove(pointer).ok_or_else(unknown)?;
        // Work since the mapping has mapped it anew, and that has to come first.
        let ended = self
            .settle()
            .and_then(|()| unmap(&self.device.queue, memory, pointer));
        match ended {
            Ok(mark) => progress::finish(&mark),
            Err(fault) => {
                self.views.add(view);
                Err(fault)
            }
        }
    }

    /// Takes what the host has mapped away from it, until the answer is dropped.
    ///
    /// Using mapped memory is undefined in OpenCL, but a host view that lives as long as its tensor
    /// must not keep others from that tensor.
    pub(crate) fn suspend_views(&self) -> Result<Suspended<'_>, Fault> {
        let suspended = self.views.suspend();
        if self.host.is_none() && !suspended.is_empty() {
            return Err(Fault::new(
                Kind::Conflict,
                "copy",
                "the memory is mapped for the host, and would be mapped elsewhere afterwards",
            ));
        }
        Ok(suspended)
    }

    /// Gives it to the device for the commands that follow on `queue`.
    pub(crate) fn unmap_views(
        &self,
        queue: &Queue,
        suspended: &Suspended<'_>,
    ) -> Result<(), Fault> {
        for view in suspended.iter() {
            if let Some(memory) = self.object() {
                drop(unmap(queue, memory, view.pointer())?);
            }
        }
        Ok(())
    }

    /// Gives it back to the host behind those commands; answers with the last command.
    pub(crate) fn map_views(
        &self,
        queue: &Queue,
        suspended: &Suspended<'_>,
    ) -> Result<Option<Mark>, Fault> {
        let mut last = None;
        for view in suspended.iter() {
            if let Some(memory) = self.object() {
                last = Some(map_later(queue, memory, view)?);
            }
        }
        Ok(last)
    }

    /// Makes everything the device wrote visible at the host address of adopted host memory.
    pub(crate) fn hand_back(&self) -> Result<(), Fault> {
        let (Some(memory), Some(_), true) = (&self.memory, self.host, self.adopted) else {
            return Ok(());
        };
        self.settle()?;
        let (offset, size) = self.range(0, self.size)?;
        let access = self.access;
        let mapped = map(
            &self.device.queue,
            memory,
            Range {
                offset,
                size,
                access,
            },
        )?;
        let mark = unmap(&self.device.queue, memory, mapped)?;
        progress::finish(&mark)
    }
}
