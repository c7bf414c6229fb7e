//! What the host has mapped of a memory object, and the commands that map and unmap it.
#![expect(unsafe_code, reason = "commands take raw handles and addresses")]

use std::{
    ffi::c_void,
    ptr::NonNull,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

use opencl3::{
    command_queue,
    memory::{CL_MAP_READ, CL_MAP_WRITE},
    types::{CL_BLOCKING, CL_NON_BLOCKING, cl_bool, cl_map_flags},
};

use crate::{
    event,
    fault::{Fault, Kind},
    handle::{Mark, Memory, Queue},
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

/// One mapping.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View {
    pointer: NonNull<c_void>,
    range: Range,
}

/// The bytes that are mapped, and for what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) offset: usize,
    pub(crate) size: usize,
    pub(crate) access: Access,
}

// SAFETY: an address is a number; whoever reads through it answers for the access.
unsafe impl Send for View {}

impl View {
    pub(crate) const fn new(pointer: NonNull<c_void>, range: Range) -> Self {
        Self { pointer, range }
    }

    pub(crate) const fn pointer(&self) -> NonNull<c_void> {
        self.pointer
    }
}

/// The mappings of one object.
#[derive(Debug, Default)]
pub(crate) struct Views {
    state: Mutex<State>,
    resumed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    views: Vec<View>,
    suspended: bool,
}

impl Views {
    pub(crate) fn add(&self, view: View) {
        self.lock().views.push(view);
    }

    /// Takes out a mapping, if there is such one.
    pub(crate) fn remove(&self, pointer: NonNull<c_void>) -> Option<View> {
        let mut state = self.settled();
        let place = state.views.iter().position(|view| view.pointer == pointer);
        place.map(|place| state.views.swap_remove(place))
    }

    /// Takes all mappings out until the answer is dropped; of two threads one waits.
    pub(crate) fn suspend(&self) -> Suspended<'_> {
        let mut state = self.settled();
        let views = std::mem::take(&mut state.views);
        state.suspended = !views.is_empty();
        Suspended { of: self, views }
    }

    fn settled(&self) -> MutexGuard<'_, State> {
        let state = self.lock();
        self.resumed
            .wait_while(state, |state| state.suspended)
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Mappings that the host does not have while commands are queued.
#[derive(Debug)]
pub(crate) struct Suspended<'a> {
    of: &'a Views,
    views: Vec<View>,
}

impl Suspended<'_> {
    pub(crate) const fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &View> {
        self.views.iter()
    }
}

impl Drop for Suspended<'_> {
    fn drop(&mut self) {
        if self.views.is_empty() {
            return;
        }
        let mut state = self.of.lock();
        state.views.append(&mut self.views);
        state.suspended = false;
        self.of.resumed.notify_all();
    }
}

/// Maps a range for the host, and waits until the host may use it.
pub(crate) fn map(queue: &Queue, memory: &Memory, range: Range) -> Result<NonNull<c_void>, Fault> {
    enqueue_map(queue, memory, range, CL_BLOCKING).map(|(pointer, _)| pointer)
}

/// Maps a range again, behind what is queued; the driver has to choose the same address.
pub(crate) fn map_later(queue: &Queue, memory: &Memory, view: &View) -> Result<Mark, Fault> {
    let (pointer, mark) = enqueue_map(queue, memory, view.range, CL_NON_BLOCKING)?;
    if pointer != view.pointer {
        return Err(Fault::new(
            Kind::Vendor,
            MAP,
            "memory over host memory was mapped at two addresses",
        ));
    }
    Ok(mark)
}

fn enqueue_map(
    queue: &Queue,
    memory: &Memory,
    range: Range,
    blocking: cl_bool,
) -> Result<(NonNull<c_void>, Mark), Fault> {
    queue.gate().check(MAP)?;
    let mut address = std::ptr::null_mut();
    // SAFETY: `enqueue_map_buffer` needs a live queue and object of one context, and a range inside
    // the object, which it checks.
    let mark = unsafe {
        command_queue::enqueue_map_buffer(
            queue.raw(),
            memory.raw(),
            blocking,
            range.access.of_mapping(),
            range.offset,
            range.size,
            &mut address,
            0,
            std::ptr::null(),
        )
    };
    let mark = event::take(mark, queue.gate(), MAP)?;
    let nothing = || Fault::new(Kind::Vendor, MAP, "the driver mapped nothing");
    Ok((NonNull::new(address).ok_or_else(nothing)?, mark))
}

/// Gives a mapping back, behind what is queued.
pub(crate) fn unmap(
    queue: &Queue,
    memory: &Memory,
    pointer: NonNull<c_void>,
) -> Result<Mark, Fault> {
    const OPERATION: &str = "clEnqueueUnmapMemObject";
    queue.gate().check(OPERATION)?;
    // SAFETY: `enqueue_unmap_mem_object` needs a live queue and object of one context; a pointer
    // that is no mapping of the object is refused by it.
    let mark = unsafe {
        command_queue::enqueue_unmap_mem_object(
            queue.raw(),
            memory.raw(),
            pointer.as_ptr(),
            0,
            std::ptr::null(),
        )
    };
    event::take(mark, queue.gate(), OPERATION)
}

const MAP: &str = "clEnqueueMapBuffer";
