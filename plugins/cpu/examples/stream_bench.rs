//! Prints what work on streams costs: the median of many rounds, in microseconds.
//!
//! It calls the plugin's hooks alone, so two builds can be run in turns.
#![expect(unsafe_code, reason = "hooks that touch memory are unsafe to call")]
#![expect(clippy::print_stdout, reason = "its output is the result")]

use std::ffi::c_void;
use std::time::Instant;

use crossdock_plugin_cpu::Cpu;
use crossdock_sdk::abi::{Address, CopyArgs, HostFunction, MemoryKind, Side, Status, StreamHandle};
use crossdock_sdk::plugin::{Error, Host, HostCalls, HostEvents, Plugin, Streams};

fn main() -> Result<(), Error> {
    // SAFETY: a null pointer is a host without services.
    let cpu = Cpu::open(unsafe { Host::from_raw(std::ptr::null()) })?;
    let cpu = &cpu;
    let (stream, other) = (cpu.stream_create(0)?, cpu.stream_create(0)?);
    let event = cpu.event_create(0)?;
    let (from, mut to) = (vec![1_u8; 4096], vec![0_u8; 4096]);
    let copy = CopyArgs {
        dst: side(to.as_mut_ptr()),
        src: side(from.as_ptr().cast_mut()),
        bytes: 4096,
    };
    let none = |_: &Cpu| Ok(StreamHandle::NONE);
    measure(cpu, "copy of 4 KiB, idle stream", none, |_| {
        // SAFETY: both vectors live until the end, and nobody else uses them.
        unsafe { cpu.copy(copy, stream) }
    })?;
    measure(cpu, "record, idle stream", none, |_| {
        cpu.event_record(event, stream)
    })?;
    measure(cpu, "synchronize, idle stream", none, |_| {
        cpu.stream_synchronize(stream, u64::MAX)
    })?;
    measure(cpu, "host function and synchronize", none, |_| {
        call(cpu, stream)?;
        cpu.stream_synchronize(stream, u64::MAX)
    })?;
    measure(
        cpu,
        "host functions on two streams, by an event",
        none,
        |_| {
            call(cpu, stream)?;
            cpu.event_record(event, stream)?;
            cpu.stream_wait_event(other, event)?;
            call(cpu, other)?;
            cpu.stream_synchronize(other, u64::MAX)
        },
    )?;
    measure(cpu, "a new stream, a host function, its end", none, |_| {
        let stream = cpu.stream_create(0)?;
        call(cpu, stream)?;
        cpu.stream_synchronize(stream, u64::MAX)?;
        cpu.stream_destroy(stream)
    })?;
    held(cpu, 1)?;
    held(cpu, 100)
}

/// Times how streams that wait for one event go on.
fn held(cpu: &Cpu, count: usize) -> Result<(), Error> {
    let streams: Result<Vec<_>, _> = (0..count).map(|_| cpu.stream_create(0)).collect();
    let streams = streams?;
    let hold = |cpu: &Cpu| {
        let host_event = cpu.event_create_host(0)?;
        for &stream in &streams {
            cpu.stream_wait_event(stream, host_event)?;
            call(cpu, stream)?;
        }
        Ok(host_event)
    };
    let name = format!("{count} held, from the event to the last end");
    measure(cpu, &name, hold, |host_event| {
        cpu.event_complete(host_event, Status::OK)?;
        for &stream in &streams {
            cpu.stream_synchronize(stream, u64::MAX)?;
        }
        cpu.event_destroy(host_event)
    })
}

/// Times `round`, each behind a `before` that is not timed.
fn measure<T>(
    cpu: &Cpu,
    name: &str,
    before: impl Fn(&Cpu) -> Result<T, Error>,
    round: impl Fn(T) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut taken = Vec::new();
    for _ in 0..ROUNDS {
        let ready = before(cpu)?;
        let start = Instant::now();
        round(ready)?;
        taken.push(start.elapsed());
    }
    taken.sort_unstable();
    let median = taken.get(ROUNDS / 2).copied().unwrap_or_default();
    println!("{name:<44} {:>9.2}", median.as_secs_f64() * 1e6);
    Ok(())
}

/// Puts a function that does nothing on a stream.
fn call(cpu: &Cpu, stream: StreamHandle) -> Result<(), Error> {
    unsafe extern "C" fn nothing(_: *mut c_void) {}
    // SAFETY: the function takes any word, on any thread.
    unsafe { cpu.stream_host_call(stream, HostFunction(Some(nothing)), std::ptr::null_mut()) }
}

fn side(pointer: *mut u8) -> Side {
    let word = u64::try_from(pointer.expose_provenance()).unwrap_or_default();
    Side {
        address: Address::pointer(word),
        kind: MemoryKind::HOST,
        device: 0,
    }
}

const ROUNDS: usize = 2001;
