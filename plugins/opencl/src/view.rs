//! What the host sees of a memory object, and the commands that map and unmap it.
#![expect(unsafe_code, reason = "commands take raw handles and addresses")]

use std::{
    ffi::c_void,
    ptr::NonNull,
    sync::{Mutex, MutexGuard, PoisonError},
};

use opencl3::{
    command_queue,
    memory::{CL_MAP_READ, CL_MAP_WRITE},
    types::{CL_BLOCKING, cl_map_flags},
};

use crate::{
    event,
    fault::{Fault, Kind},
    handle::{CommandEvent, Memory, Queue},
};

/// What the host may do with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    ReadWrite,
}

impl Access {
    const fn of_mapping(self) -> cl_map_flags {
        match self {
            Self::Read => CL_MAP_READ,
            Self::ReadWrite => CL_MAP_READ | CL_MAP_WRITE,
        }
    }
}

/// The bytes that are mapped, and for what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) offset: usize,
    pub(crate) size: usize,
    pub(crate) access: Access,
}

/// The host's views of one object, and the mapping that they share where the driver had to make one.
#[derive(Debug, Default)]
pub(crate) struct Views(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    base: Option<Pointer>,
    views: Vec<Pointer>,
}

/// An address in host memory, as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pointer(NonNull<c_void>);

// SAFETY: an address is a number; the code that reads through it answers for the access.
unsafe impl Send for Pointer {}

impl Views {
    /// Where the driver has the object mapped, if it has.
    pub(crate) fn base(&self) -> Option<NonNull<c_void>> {
        self.lock().base.map(|base| base.0)
    }

    /// The same where nobody has a view any more, so that the mapping can end.
    pub(crate) fn base_without_views(&self) -> Option<NonNull<c_void>> {
        let state = self.lock();
        let base = state.base.filter(|_| state.views.is_empty());
        base.map(|base| base.0)
    }

    /// Remembers where the driver mapped it.
    pub(crate) fn set_base(&self, base: NonNull<c_void>) -> NonNull<c_void> {
        self.lock().base = Some(Pointer(base));
        base
    }

    /// Forgets the driver's mapping, which ended.
    pub(crate) fn clear_base(&self) {
        self.lock().base = None;
    }

    /// Adds a view, `offset` bytes behind `base`. Several may have one address.
    pub(crate) fn add(&self, base: NonNull<c_void>, offset: usize) -> NonNull<c_void> {
        let start = base.map_addr(|address| address.saturating_add(offset));
        self.lock().views.push(Pointer(start));
        start
    }

    /// Takes out one view at this address, if there is one.
    pub(crate) fn remove(&self, start: NonNull<c_void>) -> Option<()> {
        let mut state = self.lock();
        let place = state.views.iter().position(|view| view.0 == start)?;
        state.views.swap_remove(place);
        Some(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maps a range for the host, and waits until the host may use it.
pub(crate) fn map(queue: &Queue, memory: &Memory, range: Range) -> Result<NonNull<c_void>, Fault> {
    const MAP: &str = "clEnqueueMapBuffer";
    queue.driver_state().check(MAP)?;
    let mut address = std::ptr::null_mut();
    // SAFETY: `enqueue_map_buffer` needs a live queue and object of one context, and a range inside
    // the object, which it checks.
    let command_event = unsafe {
        command_queue::enqueue_map_buffer(
            queue.raw(),
            memory.raw(),
            CL_BLOCKING,
            range.access.of_mapping(),
            range.offset,
            range.size,
            &mut address,
            0,
            std::ptr::null(),
        )
    };
    drop(event::take(command_event, queue.driver_state(), MAP)?);
    let nothing = || Fault::new(Kind::Vendor, MAP, "the driver mapped nothing");
    NonNull::new(address).ok_or_else(nothing)
}

/// Gives a mapping back, behind what is queued.
pub(crate) fn unmap(
    queue: &Queue,
    memory: &Memory,
    pointer: NonNull<c_void>,
) -> Result<CommandEvent, Fault> {
    const OPERATION: &str = "clEnqueueUnmapMemObject";
    queue.driver_state().check(OPERATION)?;
    // SAFETY: `enqueue_unmap_mem_object` needs a live queue and object of one context; a pointer
    // that is no mapping of the object is refused by it.
    let command_event = unsafe {
        command_queue::enqueue_unmap_mem_object(
            queue.raw(),
            memory.raw(),
            pointer.as_ptr(),
            0,
            std::ptr::null(),
        )
    };
    event::take(command_event, queue.driver_state(), OPERATION)
}
