//! Events. One belongs to a context: a stream of another one cannot record it, and can wait for it.
#![expect(unsafe_code, reason = "the driver's functions are exported by name")]

use std::time::Duration;

use super::codes::Code;
use super::entry::{Answer, Call, Out, entries};
use super::objects::{EventOf, objects};
use super::pools::release;

/// `CU_EVENT_*`: no time is taken; events for other processes are not simulated.
const DISABLE_TIMING: u32 = 2;
const INTERPROCESS: u32 = 4;

entries! {
    fn cuEventCreate(out: Out<u64>, flags: u32) as create |call| {
        if flags & INTERPROCESS != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        if flags > 3 || out.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let mut objects = objects();
        let (context, device) = objects.current(call)?;
        let engine = call.process.engine.create_event(call.site, device)?;
        let handle = objects.handle();
        let event = EventOf { engine, context, flags, is_recorded: false };
        objects.events.insert(handle, event);
        out.set(handle)
    }

    fn cuEventDestroy_v2(event: u64) as destroy |call| {
        let mut objects = objects();
        let gone = objects.event(call, event)?;
        objects.events.remove(&event);
        objects.gone.add(event, call.site);
        objects.captures.forget_event(event);
        Ok(call.process.engine.destroy_event(call.site, gone.engine)?)
    }

    fn cuEventRecord(event: u64, stream: u64) = cuEventRecord_ptsz |call| {
        record(call, event, stream)
    }

    fn cuEventRecordWithFlags(event: u64, stream: u64, flags: u32) = cuEventRecordWithFlags_ptsz |call| {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        record(call, event, stream)
    }

    fn cuEventQuery(event: u64) as query |call| {
        let event = find(call, event)?;
        match call.process.engine.query_event(call.site, event.engine)? {
            true => Ok(()),
            false => Err(Code::NOT_READY),
        }
    }

    fn cuEventSynchronize(event: u64) as synchronize |call| {
        let event = find(call, event)?;
        call.process.engine.synchronize_event(call.site, event.engine, None)?;
        release(call, device_of(event.context)?)
    }

    fn cuEventElapsedTime(out: Out<f32>, start: u64, end: u64) |call| {
        elapsed(call, out, start, end)
    }

    fn cuEventElapsedTime_v2(out: Out<f32>, start: u64, end: u64) |call| {
        elapsed(call, out, start, end)
    }
}

/// An event, whose work is no captured one and whose device is there.
fn find(call: &Call, event: u64) -> Answer<EventOf> {
    let mut objects = objects();
    let found = objects.event(call, event)?;
    objects.captures.refuse_event(event)?;
    let device = objects.context(found.context)?.device;
    drop(objects);
    call.refuse_lost(device)?;
    Ok(found)
}

pub(crate) fn record(call: &Call, handle: u64, stream: u64) -> Answer {
    let mut objects = objects();
    let event = objects.event(call, handle)?;
    let (_, context) = objects.stream(call, stream)?;
    if context != event.context {
        return Err(Code::INVALID_HANDLE);
    }
    let key = objects.resolve(call, stream)?;
    if objects.captures.record(handle, key)? {
        return Ok(());
    }
    let (stream, _) = objects.come_to(call, key)?;
    call.process
        .engine
        .record(call.site, event.engine, stream)?;
    if let Some(event) = objects.events.get_mut(&handle) {
        event.is_recorded = true;
    }
    Ok(())
}

fn device_of(context: u64) -> Answer<u32> {
    Ok(objects().context(context)?.device)
}

/// Milliseconds of simulated time between two events that take time and have happened.
pub(crate) fn elapsed(call: &Call, out: Out<f32>, start: u64, end: u64) -> Answer {
    let (start, end) = (find(call, start)?, find(call, end)?);
    let takes_time = |event: EventOf| event.flags & DISABLE_TIMING == 0 && event.is_recorded;
    if !takes_time(start) || !takes_time(end) {
        return Err(Code::INVALID_HANDLE);
    }
    let engine = &call.process.engine;
    for event in [start, end] {
        if !engine.query_event(call.site, event.engine)? {
            return Err(Code::NOT_READY);
        }
    }
    let nanoseconds = engine.elapsed_ns(call.site, start.engine, end.engine)?;
    out.set(Duration::from_nanos(nanoseconds).as_secs_f32() * 1e3)
}
