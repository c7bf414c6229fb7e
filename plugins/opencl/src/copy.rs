//! Copies and fills between memory objects and host memory, on a stream or at once.
#![expect(
    unsafe_code,
    reason = "commands take raw handles and raw host addresses"
)]

use std::{ffi::c_void, sync::Arc};

use opencl3::{
    command_queue as cl,
    types::{CL_NON_BLOCKING, cl_event},
};

use crate::{
    device::Device,
    fault::{Fault, Kind},
    handle::CommandEvent,
    place::{End, Place, ends, pair, too_far},
    progress::{self, Progress},
    rect::{Pitches, Plan, Reach},
    stream::Stream,
};

/// Copies `bytes`; without a stream it is done on return.
///
/// # Safety
/// Host ends are valid for `bytes` until the copy is done.
pub(crate) unsafe fn contiguous(
    device: &Arc<Device>,
    stream: Option<&Stream>,
    dst: &Place,
    src: &Place,
    bytes: u64,
) -> Result<(), Fault> {
    let reach = Reach::run(bytes);
    let seen = pair(dst.seen_by(device, reach)?, src.seen_by(device, reach)?)?;
    let (to, from) = ends((&seen.0, reach), (&seen.1, reach))?;
    let length = usize::try_from(bytes).ok().ok_or_else(too_far)?;
    if let (End::Object { raw: a, offset: x }, End::Object { raw: b, offset: y }) = (to, from)
        && a == b
        && x.abs_diff(y) < length
    {
        return Err(Fault::invalid("copy", "source and destination overlap"));
    }
    let addresses = device.facts.any_svm || device.platform.usm.is_some();
    if let (End::Address(_), End::Address(_), false) = (to, from, addresses) {
        return Err(Fault::unsupported("copy", "both ends are host memory"));
    }
    finish("copy", device, stream, [dst, src], |stream, _| {
        // SAFETY: `linear` needs ends that hold `length` bytes until the command is done: objects
        // were checked above, and the caller promises host memory.
        stream.submit(to.operation(from), |queue| unsafe {
            linear(device, queue, to, from, length)
        })
    })
}

/// Copies a planned strided region; without a stream it is done on return.
///
/// # Safety
/// Host ends are valid for the plan's span until the copy is done.
pub(crate) unsafe fn strided(
    device: &Arc<Device>,
    stream: Option<&Stream>,
    dst: &Place,
    src: &Place,
    plan: &Plan,
) -> Result<(), Fault> {
    if let Some((bytes, (to, from))) = plan.run() {
        let (dst, src) = (dst.moved(to)?, src.moved(from)?);
        // SAFETY: `contiguous` needs host ends valid for `bytes`: a run is all that the plan names.
        return unsafe { contiguous(device, stream, &dst, &src, bytes) };
    }
    let (to, from) = pair(
        dst.seen_by(device, plan.dst_reach)?,
        src.seen_by(device, plan.src_reach)?,
    )?;
    match ends((&to, plan.dst_reach), (&from, plan.src_reach))? {
        (End::Address(_), End::Address(_)) => {
            return Err(Fault::unsupported(
                "copy_strided",
                "no command copies a rectangle between two addresses",
            ));
        }
        // Drivers judge overlap of rectangles inside one object differently.
        (End::Object { raw: a, .. }, End::Object { raw: b, .. }) if a == b => {
            return Err(Fault::unsupported(
                "copy_strided",
                "both ends are one memory object",
            ));
        }
        _ => {}
    }
    finish("copy", device, stream, [dst, src], |stream, last| {
        for (dst, src) in &plan.starts {
            let (to, from) = (to.moved(*dst)?.end()?, from.moved(*src)?.end()?);
            // SAFETY: `rectangle` needs ends that hold the rectangle until the command is done:
            // objects were checked for the whole reach, and the caller promises host memory.
            let queued = stream.submit(to.operation(from), |queue| unsafe {
                rectangle(queue, to, from, plan)
            });
            *last = Some(queued?);
        }
        last.clone()
            .ok_or_else(|| Fault::invalid("copy_strided", "there is nothing to copy"))
    })
}

/// Repeats `pattern` over `bytes`; without a stream it is done on return.
pub(crate) fn fill(
    device: &Arc<Device>,
    stream: Option<&Stream>,
    dst: &Place,
    bytes: u64,
    pattern: &[u8],
) -> Result<(), Fault> {
    let (seen, pattern) = (dst.seen_by(device, Reach::run(bytes))?, shortest(pattern));
    if let Place::Host(_) = seen {
        return Err(Fault::unsupported("fill", "the host fills its own memory"));
    }
    let to = seen.end()?;
    let start = match to {
        End::Object { offset, .. } => offset,
        End::Address(at) => at.addr(),
    };
    let length = usize::try_from(bytes).ok().ok_or_else(too_far)?;
    if start % pattern.len() != 0 || length % pattern.len() != 0 {
        return Err(Fault::unsupported(
            "fill",
            "the start is no multiple of the pattern",
        ));
    }
    finish("fill", device, stream, [dst, dst], |stream, _| match to {
        End::Object { raw, offset } => fill_object(stream, (raw, offset), pattern, length),
        End::Address(at) => fill_shared(device, stream, at, pattern, length),
    })
}

fn fill_object(
    stream: &Stream,
    (raw, offset): (*mut c_void, usize),
    pattern: &[u8],
    length: usize,
) -> Result<Arc<CommandEvent>, Fault> {
    stream.submit("clEnqueueFillBuffer", |queue| {
        // SAFETY: `enqueue_fill_buffer` needs a live queue and object of one context, a range inside
        // the object, and a pattern that lives for the call: `fill` checked all.
        unsafe {
            cl::enqueue_fill_buffer(
                queue,
                raw,
                pattern.as_ptr().cast(),
                pattern.len(),
                offset,
                length,
                0,
                std::ptr::null(),
            )
        }
    })
}

fn fill_shared(
    device: &Device,
    stream: &Stream,
    at: *mut c_void,
    pattern: &[u8],
    length: usize,
) -> Result<Arc<CommandEvent>, Fault> {
    if let Some(usm) = device.platform.usm {
        return stream.submit("clEnqueueMemFillINTEL", |queue| {
            // SAFETY: `fill` needs a live queue of the memory's context, and a range inside of that on
            // the pattern's grid: all were checked by the caller.
            unsafe { usm.fill(queue, at, pattern, length) }
        });
    }
    stream.submit("clEnqueueSVMMemFill", |queue| {
        let (first, none) = (pattern.as_ptr().cast(), std::ptr::null());
        // SAFETY: `enqueue_svm_mem_fill` needs the same, and a pattern that lives for the call.
        unsafe { cl::enqueue_svm_mem_fill(queue, at, first, pattern.len(), length, 0, none) }
    })
}

/// Runs `work` on `stream`, or on the device's own with a wait for just that work.
///
/// `work` leaves its last command in the place it is given, so that nothing is still running when a
/// later one is refused.
fn finish(
    operation: &'static str,
    device: &Arc<Device>,
    stream: Option<&Stream>,
    places: [&Place; 2],
    work: impl FnOnce(&Stream, &mut Option<Arc<CommandEvent>>) -> Result<Arc<CommandEvent>, Fault>,
) -> Result<(), Fault> {
    let own;
    let line = match stream {
        Some(stream) => stream,
        None => {
            own = Stream::of_device(device);
            &own
        }
    };
    for place in places {
        if let Place::Object { allocation, .. } = place {
            allocation.check_unmapped(operation)?;
        }
    }
    let mut begun = None;
    let done = work(line, &mut begun);
    let (command_event, refused) = match (done, begun) {
        (Ok(command_event), _) => (command_event, None),
        (Err(fault), Some(begun)) => (begun, Some(fault)),
        (Err(fault), None) => return Err(fault),
    };
    if stream.is_some() && refused.is_none() {
        use_places(places, &command_event);
        return Ok(());
    }
    let ended = wait(places, &command_event);
    // What became of the earlier commands matters less than why the next one was refused.
    match refused {
        Some(fault) => Err(after_start(fault)),
        None => ended,
    }
}

/// Waits for work that is to be over on return. Where that cannot be told, its memory stays in use.
fn wait(places: [&Place; 2], command_event: &Arc<CommandEvent>) -> Result<(), Fault> {
    match progress::wait_out(command_event) {
        Ok(Progress::Failed(fault)) => Err(fault),
        Ok(Progress::Done | Progress::Running) => Ok(()),
        Err(fault) => {
            use_places(places, command_event);
            Err(fault)
        }
    }
}

fn use_places(places: [&Place; 2], command_event: &Arc<CommandEvent>) {
    for place in places {
        if let Place::Object { allocation, .. } = place {
            allocation.used_by(command_event);
        }
    }
}

/// # Safety
/// Both ends hold `length` bytes until the command is done.
unsafe fn linear(
    device: &Device,
    queue: *mut c_void,
    dst: End,
    src: End,
    length: usize,
) -> Result<cl_event, i32> {
    let none = std::ptr::null();
    match (dst, src) {
        (
            End::Object { raw: to, offset: x },
            End::Object {
                raw: from,
                offset: y,
            },
        ) => {
            // SAFETY: live queue and objects of one context, ranges inside: see above.
            unsafe { cl::enqueue_copy_buffer(queue, from, to, y, x, length, 0, none) }
        }
        (End::Object { raw, offset }, End::Address(host)) => {
            // SAFETY: live queue and object, `length` readable bytes at `host`: see above.
            unsafe {
                cl::enqueue_write_buffer(queue, raw, CL_NON_BLOCKING, offset, length, host, 0, none)
            }
        }
        (End::Address(host), End::Object { raw, offset }) => {
            // SAFETY: live queue and object, `length` writable bytes at `host`: see above.
            unsafe {
                cl::enqueue_read_buffer(queue, raw, CL_NON_BLOCKING, offset, length, host, 0, none)
            }
        }
        (End::Address(to), End::Address(from)) => match device.platform.usm {
            Some(usm) => {
                // SAFETY: live queue, `length` usable bytes at both addresses: see above.
                unsafe { usm.copy(queue, to, from, length) }
            }
            None => {
                // SAFETY: live queue, `length` usable bytes at both addresses: see above.
                unsafe {
                    cl::enqueue_svm_mem_cpy(queue, CL_NON_BLOCKING, to, from, length, 0, none)
                }
            }
        },
    }
}

/// # Safety
/// Both ends hold the rectangle of `plan` until the command is done.
unsafe fn rectangle(queue: *mut c_void, dst: End, src: End, plan: &Plan) -> Result<cl_event, i32> {
    match (dst, src) {
        (End::Object { raw: a, offset: x }, End::Object { raw: b, offset: y }) => {
            // SAFETY: rectangles inside both objects: the caller promises them.
            unsafe { copy_rectangle(queue, (a, x), (b, y), plan) }
        }
        (End::Object { raw, offset }, End::Address(host)) => {
            // SAFETY: rectangles inside the object and at `host`: the caller promises them.
            unsafe { write_rectangle(queue, (raw, offset), host, plan) }
        }
        (End::Address(host), End::Object { raw, offset }) => {
            // SAFETY: rectangles inside the object and at `host`: the caller promises them.
            unsafe { read_rectangle(queue, host, (raw, offset), plan) }
        }
        (End::Address(_), End::Address(_)) => Err(crate::convert::FUNCTION_MISSING),
    }
}

/// # Safety
/// Live queue and objects of one context, which hold the rectangle at their offsets.
unsafe fn copy_rectangle(
    queue: *mut c_void,
    dst: (*mut c_void, usize),
    src: (*mut c_void, usize),
    plan: &Plan,
) -> Result<cl_event, i32> {
    let (to, from) = (origin(dst.1, plan.dst), origin(src.1, plan.src));
    // SAFETY: `enqueue_copy_buffer_rect` needs three numbers behind each array pointer, and what the
    // caller promises.
    unsafe {
        cl::enqueue_copy_buffer_rect(
            queue,
            src.0,
            dst.0,
            from.as_ptr(),
            to.as_ptr(),
            plan.region.as_ptr(),
            plan.src.row,
            plan.src.slice,
            plan.dst.row,
            plan.dst.slice,
            0,
            std::ptr::null(),
        )
    }
}

/// # Safety
/// Live queue and object of one context, which holds the rectangle at its offset, as `host` does.
unsafe fn write_rectangle(
    queue: *mut c_void,
    dst: (*mut c_void, usize),
    host: *const c_void,
    plan: &Plan,
) -> Result<cl_event, i32> {
    let to = origin(dst.1, plan.dst);
    // SAFETY: `enqueue_write_buffer_rect` needs three numbers behind each array pointer, and what
    // the caller promises.
    unsafe {
        cl::enqueue_write_buffer_rect(
            queue,
            dst.0,
            CL_NON_BLOCKING,
            to.as_ptr(),
            [0; 3].as_ptr(),
            plan.region.as_ptr(),
            plan.dst.row,
            plan.dst.slice,
            plan.src.row,
            plan.src.slice,
            host,
            0,
            std::ptr::null(),
        )
    }
}

/// # Safety
/// Live queue and object of one context, which holds the rectangle at its offset, as `host` does.
unsafe fn read_rectangle(
    queue: *mut c_void,
    host: *mut c_void,
    src: (*mut c_void, usize),
    plan: &Plan,
) -> Result<cl_event, i32> {
    let from = origin(src.1, plan.src);
    // SAFETY: `enqueue_read_buffer_rect` needs three numbers behind each array pointer, and what
    // the caller promises.
    unsafe {
        cl::enqueue_read_buffer_rect(
            queue,
            src.0,
            CL_NON_BLOCKING,
            from.as_ptr(),
            [0; 3].as_ptr(),
            plan.region.as_ptr(),
            plan.src.row,
            plan.src.slice,
            plan.dst.row,
            plan.dst.slice,
            host,
            0,
            std::ptr::null(),
        )
    }
}

/// A byte offset as the byte, row and slice that OpenCL wants it in.
const fn origin(offset: usize, pitches: Pitches) -> [usize; 3] {
    let (slice, rest) = match offset.checked_div(pitches.slice) {
        Some(slices) => (slices, offset % pitches.slice),
        None => (0, offset),
    };
    match rest.checked_div(pitches.row) {
        Some(rows) => [rest % pitches.row, rows, slice],
        None => [rest, 0, slice],
    }
}

/// The shortest pattern that repeats to the same bytes, so that fewer starts are misaligned.
fn shortest(pattern: &[u8]) -> &[u8] {
    let (first, second) = pattern.split_at(pattern.len() / 2);
    if first.is_empty() || first != second {
        return pattern;
    }
    shortest(first)
}

/// A copy that has begun is not "nothing was changed".
fn after_start(fault: Fault) -> Fault {
    match fault.kind {
        Kind::Unsupported => Fault {
            kind: Kind::Vendor,
            ..fault
        },
        _ => fault,
    }
}
