//! Buffers over host memory of our own, on devices that work in host memory itself.
#![expect(
    unsafe_code,
    reason = "memory is lent to the driver until its last word about it"
)]

use std::{ffi::c_void, ptr::NonNull, sync::Arc};

use crossdock_sdk::{fence::fence, log};
use opencl3::{command_queue, memory as cl, types::CL_BLOCKING};

use crate::{
    device::Device,
    event,
    fault::{Fault, Kind},
    handle::{CommandEvent, Memory, TARGET},
    memory::create,
    pool::{Block, Pool},
    progress,
};

/// Whether a buffer over host memory is that memory, in both directions: what a command writes is
/// there for the host, and what the host writes is there for a command.
pub(crate) fn proves_alias(device: &Device) -> bool {
    let attempt = || -> Result<bool, Fault> {
        let (memory, host) = over_own_memory(device, PROBE_BYTES, 1)?;
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

fn wait(device: &Device, command_event: Result<*mut c_void, i32>) -> Result<(), Fault> {
    let command_event: CommandEvent =
        event::take(command_event, device.driver_state(), "clEnqueueWriteBuffer")?;
    progress::finish(&command_event)
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

/// A memory object over page-aligned memory that goes back to the pool with the object.
pub(crate) fn over_own_memory(
    device: &Device,
    bytes: usize,
    alignment: u64,
) -> Result<(Memory, NonNull<c_void>), Fault> {
    let alignment = usize::try_from(alignment)
        .ok()
        .filter(|alignment| alignment.is_power_of_two());
    let alignment = alignment.ok_or_else(|| Fault::invalid("allocate", "no such alignment"))?;
    let block = device.pool.take(bytes, alignment).ok_or_else(|| {
        Fault::new(
            Kind::OutOfDeviceMemory,
            "allocate",
            format!("no {bytes} bytes of memory"),
        )
    })?;
    let start = block.start.cast();
    let flags = cl::CL_MEM_READ_WRITE | cl::CL_MEM_USE_HOST_PTR;
    let backing = Box::new(Backing {
        block,
        pool: Arc::clone(&device.pool),
    });
    let memory = create(device, flags, bytes, start.as_ptr())?;
    let carried = Box::into_raw(backing);
    if let Err(fault) = cl_set_destructor(&memory, carried) {
        drop(memory);
        // SAFETY: `from_raw` needs a box nobody else has: the driver refused to take it.
        drop(unsafe { Box::from_raw(carried) });
        return Err(fault);
    }
    Ok((memory, start))
}

extern "C" fn free_backing(_memory: *mut c_void, carried: *mut c_void) {
    // SAFETY: `from_raw` needs a box nobody else has: the driver calls this once for an object,
    // with the box that `over_own_memory` gave it.
    let backing = unsafe { Box::from_raw(carried.cast::<Backing>()) };
    let _caught = fence(|| backing.pool.give(backing.block));
}

fn cl_set_destructor(memory: &Memory, carried: *mut Backing) -> Result<(), Fault> {
    // SAFETY: `set_mem_object_destructor_callback` needs a live object, and a function that fits
    // the data: `free_backing` takes the box that `carried` is.
    unsafe { cl::set_mem_object_destructor_callback(memory.raw(), free_backing, carried.cast()) }
        .map_err(|code| Fault::native("clSetMemObjectDestructorCallback", code))
}

/// Host memory under a memory object, given back by the driver's last word about that object.
struct Backing {
    block: Block,
    pool: Arc<Pool>,
}

const PROBE_BYTES: usize = 256;
static WRITTEN_BY_DEVICE: [u8; PROBE_BYTES] = [0xa5; PROBE_BYTES];
const WRITTEN_BY_HOST: [u8; PROBE_BYTES] = [0x5a; PROBE_BYTES];
