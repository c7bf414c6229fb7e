//! Contexts: those that programs make, the stack of each thread, and access between devices.
#![expect(unsafe_code, reason = "the driver's functions are exported by name")]

use std::ffi::{c_int, c_void};

use super::codes::Code;
use super::entry::{Answer, Call, In, Out, entries};
use super::objects::{current, objects, stack};
use super::pools::release;

entries! {
    fn cuCtxCreate_v2(out: Out<u64>, flags: u32, ordinal: c_int) |call| {
        create(call, out, flags, ordinal)
    }

    // Its parameters limit a context to a part of the device, which has no parts here.
    fn cuCtxCreate_v3(out: Out<u64>, _affinity: In<c_void>, count: c_int, flags: u32, ordinal: c_int) |call| {
        if count != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        create(call, out, flags, ordinal)
    }

    fn cuCtxCreate_v4(out: Out<u64>, parameters: In<u8>, flags: u32, ordinal: c_int) |call| {
        if !parameters.raw().is_null() {
            return Err(Code::NOT_SUPPORTED);
        }
        create(call, out, flags, ordinal)
    }

    fn cuCtxDestroy_v2(context: u64) |call| {
        destroy(call, context)
    }

    fn cuCtxDetach(context: u64) |call| {
        destroy(call, context)
    }

    fn cuCtxPushCurrent_v2(context: u64) |_call| {
        objects().context(context)?;
        stack(|stack| stack.push(context));
        Ok(())
    }

    fn cuCtxPopCurrent_v2(out: Out<u64>) |_call| {
        let context = stack(Vec::pop).filter(|context| *context != 0);
        let context = context.ok_or(Code::INVALID_CONTEXT)?;
        out.offer(context);
        Ok(())
    }

    fn cuCtxSetCurrent(context: u64) |_call| {
        if context == 0 {
            stack(Vec::pop);
            return Ok(());
        }
        objects().context(context)?;
        stack(|stack| {
            stack.pop();
            stack.push(context);
        });
        Ok(())
    }

    fn cuCtxGetCurrent(out: Out<u64>) |_call| {
        out.set(current().unwrap_or(0))
    }

    fn cuCtxGetDevice(out: Out<c_int>) |call| {
        out.set(call.ordinal(objects().current(call)?.1))
    }

    fn cuCtxGetDevice_v2(out: Out<c_int>, context: u64) |call| {
        let mut objects = objects();
        let context = meant(context)?;
        out.set(call.ordinal(objects.context(context)?.device))
    }

    fn cuCtxGetFlags(out: Out<u32>) |call| {
        let mut objects = objects();
        let (context, _) = objects.current(call)?;
        out.set(objects.context(context)?.flags)
    }

    fn cuCtxGetId(context: u64, out: Out<u64>) |_call| {
        let mut objects = objects();
        let context = meant(context)?;
        out.set(objects.context(context)?.id)
    }

    fn cuCtxGetApiVersion(context: u64, out: Out<u32>) |_call| {
        objects().context(meant(context)?)?;
        out.set(3020)
    }

    fn cuCtxSynchronize() |call| {
        let (_, device) = objects().current(call)?;
        wait_for_device(call, device)
    }

    fn cuCtxSynchronize_v2(context: u64) |call| {
        let device = objects().context(meant(context)?)?.device;
        wait_for_device(call, device)
    }

    // No profiler listens, as where a program runs without one.
    fn cuProfilerStart() |call| {
        objects().current(call).map(drop)
    }

    fn cuProfilerStop() |call| {
        objects().current(call).map(drop)
    }

    fn cuCtxGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) |call| {
        objects().current(call)?;
        least.offer(0);
        greatest.offer(-5);
        Ok(())
    }

    // A limit is about kernels, which there are none of.
    fn cuCtxGetLimit(out: Out<usize>, limit: c_int) |call| {
        objects().current(call)?;
        match limit {
            0..=6 => out.set(0),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuCtxSetLimit(limit: c_int, _value: usize) |call| {
        objects().current(call)?;
        match limit {
            0..=6 => Ok(()),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuCtxEnablePeerAccess(peer: u64, flags: u32) |call| {
        let mut objects = objects();
        let (context, own) = objects.current(call)?;
        let other = objects.context(peer)?.device;
        if flags != 0 || other == own {
            return Err(if flags == 0 { Code::INVALID_DEVICE } else { Code::INVALID_VALUE });
        }
        if !call.process.has_peers {
            return Err(Code::PEER_ACCESS_UNSUPPORTED);
        }
        let peers = &mut objects.context(context)?.peers;
        if peers.contains(&peer) {
            return Err(Code::PEER_ACCESS_ALREADY_ENABLED);
        }
        peers.push(peer);
        Ok(())
    }

    fn cuCtxDisablePeerAccess(peer: u64) |call| {
        let mut objects = objects();
        let (context, _) = objects.current(call)?;
        objects.context(peer)?;
        let peers = &mut objects.context(context)?.peers;
        let at = peers.iter().position(|one| *one == peer);
        peers.swap_remove(at.ok_or(Code::PEER_ACCESS_NOT_ENABLED)?);
        Ok(())
    }
}

/// The context that a handle means: 0 is the current one.
fn meant(context: u64) -> Answer<u64> {
    match context {
        0 => current().ok_or(Code::INVALID_CONTEXT),
        context => Ok(context),
    }
}

fn create(call: &Call, out: Out<u64>, flags: u32, ordinal: c_int) -> Answer {
    let device = call.device(ordinal)?;
    let context = objects().make_context(device, false, flags);
    out.set(context)?;
    stack(|stack| stack.push(context));
    Ok(())
}

fn destroy(call: &Call, handle: u64) -> Answer {
    let device = {
        let mut objects = objects();
        let context = objects.context(handle)?;
        if context.is_primary {
            return Err(Code::INVALID_CONTEXT);
        }
        context.device
    };
    let waited = wait_for_device(call, device);
    // On a lost device too.
    let ended = objects().end_context(call, handle);
    stack(|stack| {
        stack.pop_if(|context| *context == handle);
    });
    waited.and(ended)
}

/// Waits for all work of a device, which is remembered.
pub(crate) fn wait_for_device(call: &Call, device: u32) -> Answer {
    call.process.waits_for_device(call.site);
    call.process
        .engine
        .synchronize_device(call.site, device, None)?;
    release(call, device)
}
