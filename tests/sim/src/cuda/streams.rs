//! Streams, host functions on them, and waits for words in memory.
#![expect(
    unsafe_code,
    reason = "calls functions of clients with what these gave"
)]

use std::ffi::{c_int, c_void};

use crossdock_sim_engine::{Condition, Word};

use super::codes::Code;
use super::entry::{Answer, Call, Out, entries};
use super::objects::{NON_BLOCKING, objects};
use super::pools::release;

/// `CUhostFn` and `CUstreamCallback`.
pub(crate) type HostFunction = Option<unsafe extern "C" fn(*mut c_void)>;
pub(crate) type Callback = Option<unsafe extern "C" fn(u64, c_int, *mut c_void)>;

/// What a client wants to get back, on whatever thread.
struct UserData(*mut c_void);

// SAFETY: it is only handed on, and the client knows that it is on another thread.
unsafe impl Send for UserData {}

impl UserData {
    const fn get(&self) -> *mut c_void {
        self.0
    }
}

entries! {
    fn cuStreamCreate(out: Out<u64>, flags: u32) |call| {
        create(call, out, flags, 0)
    }

    fn cuStreamCreateWithPriority(out: Out<u64>, flags: u32, priority: c_int) |call| {
        create(call, out, flags, priority.clamp(-5, 0))
    }

    fn cuStreamDestroy_v2(stream: u64) as destroy_stream |call| {
        let mut objects = objects();
        let context = objects.streams.get(&stream).map(|found| found.context);
        let is_own = context.is_some_and(|context| objects.is_own(call, context));
        let gone = is_own.then(|| objects.streams.remove(&stream)).flatten();
        let gone = gone.ok_or_else(|| objects.no_handle(call, stream, "a stream"))?;
        objects.gone.add(stream, call.site);
        objects.end_stream(&call.process.engine, call.site, stream, &gone)
    }

    fn cuStreamSynchronize(stream: u64) = cuStreamSynchronize_ptsz as synchronize |call| {
        // The legacy default stream is over when those are that it waits for.
        let mut objects = objects();
        let key = objects.resolve(call, stream)?;
        objects.captures.refuse_stream(key)?;
        let (stream, context) = objects.come_to(call, key)?;
        let device = objects.context(context)?.device;
        drop(objects);
        call.process.engine.synchronize_stream(call.site, stream, None)?;
        release(call, device)
    }

    fn cuStreamQuery(stream: u64) = cuStreamQuery_ptsz as query |call| {
        let mut objects = objects();
        let key = objects.resolve(call, stream)?;
        objects.captures.refuse_stream(key)?;
        let (stream, _) = objects.stream(call, key)?;
        drop(objects);
        match call.process.engine.query_stream(call.site, stream)? {
            true => Ok(()),
            false => Err(Code::NOT_READY),
        }
    }

    fn cuStreamWaitEvent(stream: u64, event: u64, flags: u32) = cuStreamWaitEvent_ptsz as wait_event |call| {
        if flags > 1 {
            return Err(Code::INVALID_VALUE);
        }
        let mut objects = objects();
        let found = objects.event(call, event)?;
        let key = objects.resolve(call, stream)?;
        objects.stream(call, key)?;
        if objects.captures.wait(key, event, found.is_recorded)? {
            return Ok(());
        }
        let (stream, _) = objects.come_to(call, key)?;
        Ok(call.process.engine.wait(call.site, stream, found.engine)?)
    }

    fn cuStreamGetFlags(stream: u64, out: Out<u32>) = cuStreamGetFlags_ptsz as flags_of |call| {
        let mut objects = objects();
        let key = objects.resolve(call, stream)?;
        out.set(objects.streams.get(&key).ok_or(Code::INVALID_HANDLE)?.flags)
    }

    fn cuStreamGetPriority(stream: u64, out: Out<c_int>) = cuStreamGetPriority_ptsz as priority_of |call| {
        let mut objects = objects();
        let key = objects.resolve(call, stream)?;
        out.set(objects.streams.get(&key).ok_or(Code::INVALID_HANDLE)?.priority)
    }

    fn cuStreamGetId(stream: u64, out: Out<u64>) = cuStreamGetId_ptsz as id_of |call| {
        let mut objects = objects();
        let key = objects.resolve(call, stream)?;
        out.set(objects.streams.get(&key).ok_or(Code::INVALID_HANDLE)?.id)
    }

    fn cuStreamGetCtx(stream: u64, out: Out<u64>) = cuStreamGetCtx_ptsz |call| {
        out.set(objects().stream(call, stream)?.1)
    }

    fn cuStreamGetCtx_v2(stream: u64, out: Out<u64>, green: Out<u64>) = cuStreamGetCtx_v2_ptsz |call| {
        green.offer(0);
        out.set(objects().stream(call, stream)?.1)
    }

    fn cuStreamGetDevice(stream: u64, out: Out<c_int>) = cuStreamGetDevice_ptsz |call| {
        let mut objects = objects();
        let (_, context) = objects.stream(call, stream)?;
        out.set(call.ordinal(objects.context(context)?.device))
    }

    fn cuLaunchHostFunc(stream: u64, function: HostFunction, data: *mut c_void) = cuLaunchHostFunc_ptsz as host_call |call| {
        let (function, data) = (function.ok_or(Code::INVALID_VALUE)?, UserData(data));
        objects().check_current(call, stream)?;
        let Some((stream, _)) = objects().submit_to(call, stream)? else {
            return Ok(());
        };
        // "the function will not be called in the event of an error in the CUDA context"
        let run = move |status: Option<i32>| {
            if status.is_none() {
                // SAFETY: the client gave the function and what it takes.
                unsafe { function(data.get()) };
            }
        };
        Ok(call.process.engine.host_call_with(call.site, stream, Box::new(run))?)
    }

    fn cuStreamAddCallback(
        stream: u64,
        callback: Callback,
        data: *mut c_void,
        flags: u32,
    ) = cuStreamAddCallback_ptsz as callback |call| {
        let (callback, data) = (callback.ok_or(Code::INVALID_VALUE)?, UserData(data));
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let Some((engine, _)) = objects().submit_to(call, stream)? else {
            return Ok(());
        };
        let run = move |status: Option<i32>| {
            // SAFETY: the client gave the function and what it takes.
            unsafe { callback(stream, status.unwrap_or(0), data.get()) };
        };
        Ok(call.process.engine.host_call_with(call.site, engine, Box::new(run))?)
    }

    fn cuStreamWaitValue32_v2(stream: u64, address: u64, value: u32, flags: u32) = cuStreamWaitValue32_v2_ptsz |call| {
        wait_value(call, stream, word(address, 32, value.into()), flags)
    }

    fn cuStreamWaitValue64_v2(stream: u64, address: u64, value: u64, flags: u32) = cuStreamWaitValue64_v2_ptsz |call| {
        wait_value(call, stream, word(address, 64, value), flags)
    }

    fn cuStreamWriteValue32_v2(stream: u64, address: u64, value: u32, flags: u32) = cuStreamWriteValue32_v2_ptsz |call| {
        write_value(call, stream, word(address, 32, value.into()), flags)
    }

    fn cuStreamWriteValue64_v2(stream: u64, address: u64, value: u64, flags: u32) = cuStreamWriteValue64_v2_ptsz |call| {
        write_value(call, stream, word(address, 64, value), flags)
    }
}

pub(crate) fn create(call: &Call, out: Out<u64>, flags: u32, priority: i32) -> Answer {
    if flags & !NON_BLOCKING != 0 || out.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let mut objects = objects();
    let (context, _) = objects.current(call)?;
    out.set(objects.make_stream(call, context, flags, priority)?)
}

pub(crate) const fn word(address: u64, bits: u32, value: u64) -> Word {
    Word {
        address,
        bits,
        value,
    }
}

pub(crate) fn wait_value(call: &Call, stream: u64, word: Word, flags: u32) -> Answer {
    // The flush of remote writes is more than is asked for here.
    let condition = match flags & !(1 << 30) {
        0 => Condition::AtLeast,
        1 => Condition::Equal,
        2 => Condition::And,
        3 => Condition::Nor,
        _ => return Err(Code::INVALID_VALUE),
    };
    refuse_unknown_word(call, word)?;
    let Some((stream, _)) = objects().submit_to(call, stream)? else {
        return Ok(());
    };
    // SAFETY: it is memory that the engine knows.
    Ok(unsafe {
        call.process
            .engine
            .wait_word(call.site, stream, word, condition)
    }?)
}

pub(crate) fn write_value(call: &Call, stream: u64, word: Word, flags: u32) -> Answer {
    match flags {
        0 => {}
        // Without a barrier: what was written before may be seen later. `cuda.h`: "not supported in the v2 API".
        1 => return Err(Code::NOT_SUPPORTED),
        _ => return Err(Code::INVALID_VALUE),
    }
    refuse_unknown_word(call, word)?;
    let Some((stream, _)) = objects().submit_to(call, stream)? else {
        return Ok(());
    };
    // SAFETY: it is memory that the engine knows.
    Ok(unsafe { call.process.engine.write_word(call.site, stream, word) }?)
}

fn refuse_unknown_word(call: &Call, word: Word) -> Answer {
    let is_known = call.is_known(word.address);
    is_known.then_some(()).ok_or(Code::INVALID_VALUE)
}
