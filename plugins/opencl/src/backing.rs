//! Buffers over host memory of our own, on devices that work in host memory itself.
#![expect(
    unsafe_code,
    reason = "memory is allocated here and freed by the driver's last word about it"
)]

use std::{
    alloc::{Layout, alloc, dealloc},
    ffi::c_void,
    ptr::NonNull,
};

use crossdock_sdk::fence::fence;
use opencl3::{command_queue, memory as cl, types::CL_BLOCKING};

use crate::{
    device::Device,
    event,
    fault::{Fault, Kind},
    handle::{Mark, Memory, TARGET},
    memory::create,
};

/// Whether a buffer over host memory is that memory, in both directions: what a command writes is
/// there for the host, and what the host writes is there for a command.
pub(crate) fn proves_alias(device: &Device) -> bool {
    let attempt = || -> Result<bool, Fault> {
        let (memory, host) = over_own_memory(device, PROBE_BYTES, 0)?;
        let host = host.cast::<[u8; PROBE_BYTES]>();
        // SAFETY: `write` needs `PROBE_BYTES` writable bytes: `over_own_memory` made as many.
        unsafe { host.write([0; PROBE_BYTES]) };
        wait(device, write(device, &memory, &WRITTEN_BY_DEVICE))?;
        // SAFETY: `read` needs initialised bytes that no command touches: they were written, and
        // the command is done.
        let by_device = unsafe { host.read() };
        // SAFETY: as for the first write; no command is in flight.
        unsafe { host.write(WRITTEN_BY_HOST) };
        let mut by_host = [0; PROBE_BYTES];
        wait(device, read(device, &memory, &mut by_host))?;
        Ok(by_device == WRITTEN_BY_DEVICE && by_host == WRITTEN_BY_HOST)
    };
    attempt().unwrap_or_else(|fault| {
        log::debug!(target: TARGET, "no aliasing of host memory: {fault}");
        false
    })
}

fn wait(device: &Device, mark: Result<*mut c_void, i32>) -> Result<(), Fault> {
    let mark: Mark = event::take(mark, device.gate(), "clEnqueueWriteBuffer")?;
    event::synchronize(&mark, None)
}

fn write(
    device: &Device,
    memory: &Memory,
    bytes: &'static [u8; PROBE_BYTES],
) -> Result<*mut c_void, i32> {
    // SAFETY: `enqueue_write_buffer` needs a live queue and object of one context, and readable
    // bytes until it is done: `bytes` lives for ever.
    unsafe {
        command_queue::enqueue_write_buffer(
            device.queue.raw(),
            memory.raw(),
            CL_BLOCKING,
            0,
            PROBE_BYTES,
            bytes.as_ptr().cast(),
            0,
            std::ptr::null(),
        )
    }
}

fn read(
    device: &Device,
    memory: &Memory,
    bytes: &mut [u8; PROBE_BYTES],
) -> Result<*mut c_void, i32> {
    // SAFETY: `enqueue_read_buffer` needs a live queue and object of one context, and writable
    // bytes until it is done: it blocks, and `bytes` is borrowed until then.
    unsafe {
        command_queue::enqueue_read_buffer(
            device.queue.raw(),
            memory.raw(),
            CL_BLOCKING,
            0,
            PROBE_BYTES,
            bytes.as_mut_ptr().cast(),
            0,
            std::ptr::null(),
        )
    }
}

/// A memory object over page-aligned memory that is freed with the object.
pub(crate) fn over_own_memory(
    device: &Device,
    bytes: usize,
    alignment: u64,
) -> Result<(Memory, NonNull<c_void>), Fault> {
    let short = || {
        Fault::new(
            Kind::OutOfDeviceMemory,
            "allocate",
            format!("no {bytes} bytes of memory"),
        )
    };
    let align = usize::try_from(alignment.max(4096)).unwrap_or(PAGE);
    // Drivers share memory in whole cache lines only.
    let padded = bytes.checked_next_multiple_of(64).ok_or_else(short)?;
    let layout = Layout::from_size_align(padded, align)
        .map_err(|error| Fault::invalid("allocate", error.to_string()))?;
    // SAFETY: `alloc` needs a size above 0: sizes of 0 never reach a plugin, and `bytes` was padded.
    let start = NonNull::new(unsafe { alloc(layout) }).ok_or_else(short)?;
    let backing = Backing { start, layout };
    let flags = cl::CL_MEM_READ_WRITE | cl::CL_MEM_USE_HOST_PTR;
    let memory = match create(device, flags, bytes, start.as_ptr().cast()) {
        Ok(memory) => memory,
        Err(fault) => {
            backing.free();
            return Err(fault);
        }
    };
    let carried = Box::into_raw(Box::new(backing));
    let status = cl_set_destructor(&memory, carried);
    if let Err(fault) = status {
        // The object dies first, then the memory under it.
        drop(memory);
        // SAFETY: `from_raw` needs a box nobody else has: the driver refused to take it.
        let backing = unsafe { Box::from_raw(carried) };
        backing.free();
        return Err(fault);
    }
    Ok((memory, start.cast()))
}

impl Backing {
    fn free(&self) {
        // SAFETY: `dealloc` needs memory of `alloc` with this layout, unused from here on: each
        // caller is the memory's last user.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

extern "C" fn free_backing(_memory: *mut c_void, carried: *mut c_void) {
    // SAFETY: `from_raw` needs a box nobody else has: the driver calls this once for an object,
    // with the box that `over_own_memory` gave it.
    let backing = unsafe { Box::from_raw(carried.cast::<Backing>()) };
    let _caught = fence(|| backing.free());
}

fn cl_set_destructor(memory: &Memory, carried: *mut Backing) -> Result<(), Fault> {
    // SAFETY: `set_mem_object_destructor_callback` needs a live object, and a function that fits
    // the data: `free_backing` takes the box that `carried` is.
    unsafe { cl::set_mem_object_destructor_callback(memory.raw(), free_backing, carried.cast()) }
        .map_err(|code| Fault::native("clSetMemObjectDestructorCallback", code))
}

/// Host memory under a memory object, freed by the driver's last word about that object.
struct Backing {
    start: NonNull<u8>,
    layout: Layout,
}

const PAGE: usize = 4096;
const PROBE_BYTES: usize = 256;
static WRITTEN_BY_DEVICE: [u8; PROBE_BYTES] = [0xa5; PROBE_BYTES];
const WRITTEN_BY_HOST: [u8; PROBE_BYTES] = [0x5a; PROBE_BYTES];
