//! Streams, host functions on them, waits for words in memory, and captures.
#![expect(unsafe_code, reason = "the runtime's functions are exported by name")]

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use super::entry::{Answer, Call, Out, entries, run};
use super::memory::is_signal;
use crate::cuda::graphs;
use crate::cuda::streams::{self, Callback, HostFunction, word, write_value};
use crate::face::captures::Mode;
use crate::face::codes::Code;
use crate::face::objects::objects;

entries! {
    fn hipStreamCreate(out: Out<u64>) |call| {
        streams::create(call, out, 0, 0)
    }

    fn hipStreamCreateWithFlags(out: Out<u64>, flags: u32) |call| {
        streams::create(call, out, flags, 0)
    }

    fn hipStreamCreateWithPriority(out: Out<u64>, flags: u32, priority: c_int) |call| {
        streams::create(call, out, flags, priority.clamp(-1, 1))
    }

    fn hipStreamDestroy(stream: u64) |call| {
        // Default streams are nobody's to destroy.
        if stream <= 2 {
            return Err(Code::INVALID_HANDLE);
        }
        streams::destroy_stream(call, stream)
    }

    fn hipStreamSynchronize(stream: u64) = hipStreamSynchronize_spt |call| {
        streams::synchronize(call, stream)
    }

    fn hipStreamQuery(stream: u64) = hipStreamQuery_spt |call| {
        streams::query(call, stream)
    }

    fn hipStreamWaitEvent(stream: u64, event: u64, flags: u32) = hipStreamWaitEvent_spt |call| {
        streams::wait_event(call, stream, event, flags)
    }

    fn hipStreamGetFlags(stream: u64, out: Out<u32>) = hipStreamGetFlags_spt |call| {
        streams::flags_of(call, stream, out)
    }

    fn hipStreamGetPriority(stream: u64, out: Out<c_int>) = hipStreamGetPriority_spt |call| {
        streams::priority_of(call, stream, out)
    }

    fn hipStreamGetDevice(stream: u64, out: Out<c_int>) |call| {
        out.set(device_of(call, stream)?)
    }

    fn hipLaunchHostFunc(stream: u64, function: HostFunction, data: *mut c_void) = hipLaunchHostFunc_spt |call| {
        streams::host_call(call, stream, function, data)
    }

    fn hipStreamAddCallback(
        stream: u64,
        callback: Callback,
        data: *mut c_void,
        flags: u32,
    ) = hipStreamAddCallback_spt |call| {
        streams::callback(call, stream, callback, data, flags)
    }

    fn hipStreamWaitValue32(stream: u64, address: u64, value: u32, flags: u32, mask: u32) |call| {
        refuse_wait(address, mask == u32::MAX)?;
        streams::wait_value(call, stream, word(address, 32, value.into()), flags)
    }

    fn hipStreamWaitValue64(stream: u64, address: u64, value: u64, flags: u32, mask: u64) |call| {
        refuse_wait(address, mask == u64::MAX)?;
        streams::wait_value(call, stream, word(address, 64, value), flags)
    }

    fn hipStreamWriteValue32(stream: u64, address: u64, value: u32, _flags: u32) |call| {
        write_value(call, stream, word(address, 32, value.into()), 0)
    }

    fn hipStreamWriteValue64(stream: u64, address: u64, value: u64, _flags: u32) |call| {
        write_value(call, stream, word(address, 64, value), 0)
    }

    fn hipStreamBeginCapture(stream: u64, mode: c_int) = hipStreamBeginCapture_spt |call| {
        graphs::begin(call, stream, Mode::of(mode)?)
    }

    fn hipStreamEndCapture(stream: u64, out: Out<u64>) = hipStreamEndCapture_spt |call| {
        graphs::end(call, stream, out)
    }

    fn hipStreamIsCapturing(stream: u64, status: Out<c_int>) = hipStreamIsCapturing_spt |call| {
        graphs::is_capturing(call, stream, status)
    }

    fn hipStreamGetCaptureInfo(stream: u64, status: Out<c_int>, id: Out<u64>) = hipStreamGetCaptureInfo_spt |call| {
        graphs::tell(call, stream, status, id)
    }

    fn hipThreadExchangeStreamCaptureMode(mode: Out<c_int>) |call| {
        graphs::exchange(call, mode)
    }

    fn hipGraphGetNodes(graph: u64, nodes: Out<u64>, count: Out<usize>) |call| {
        graphs::nodes(call, graph, nodes, count)
    }

    fn hipGraphDestroy(graph: u64) |call| {
        graphs::destroy(call, graph)
    }
}

/// The device of a stream, which is the answer and no result; -1 where it is no stream.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn hipGetStreamDeviceId(stream: u64) -> c_int {
    let found = Cell::new(-1);
    run(super::FACE, "hipGetStreamDeviceId", false, true, |call| {
        found.set(device_of(call, stream)?);
        Ok(())
    });
    found.get()
}

fn device_of(call: &Call, stream: u64) -> Answer<c_int> {
    let mut objects = objects();
    let (_, context) = objects.stream(call, stream)?;
    let device = objects.context(context)?.device;
    Ok(call.ordinal(device))
}

/// Refuses a wait that is not simulated, or that is for no signal memory where the processor of commands is to wait.
fn refuse_wait(address: u64, is_whole: bool) -> Answer {
    if !is_whole {
        return Err(Code::NOT_SUPPORTED);
    }
    let waits_itself = std::env::var("GPU_STREAMOPS_CP_WAIT").is_ok_and(|value| value == "1");
    if waits_itself && !is_signal(address) {
        return Err(Code::INVALID_VALUE);
    }
    Ok(())
}
