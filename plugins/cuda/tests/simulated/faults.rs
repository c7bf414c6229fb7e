//! Calls of the driver that fail: the error names them, nothing is left, and the next exchange works.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use crossdock_plugin_cuda::Plugin as Cuda;
use crossdock_sdk::abi::{AllocateArgs, FillArgs, HostFunction, MemoryKind, Status, StreamHandle};
use crossdock_sdk::plugin::{
    Error, Fill as _, HostCalls as _, HostEvents as _, Plugin as _, Streams as _,
};

use crate::driver::Driver;
use crate::hooks::{BYTES, LIMIT_NS, allocate, device, download, free, open, round_trip};
use crate::{POLICIES, over};

static RUN: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn count(_word: *mut c_void) {
    RUN.fetch_add(1, Ordering::SeqCst);
}

/// One of each: memory, copies at once and on a stream, a fill, a function of the host, events.
fn exchange(cuda: &Cuda) -> Result<(), Error> {
    let memory = allocate(cuda, MemoryKind::DEVICE, 0)?;
    let side = device(memory.word, 0);
    let done = round_trip(cuda, side, StreamHandle::NONE).and_then(|()| on_a_stream(cuda, side));
    let freed = free(cuda, memory, MemoryKind::DEVICE);
    let pinned = allocate(cuda, MemoryKind::PINNED, 0);
    let pinned = pinned.and_then(|pinned| free(cuda, pinned, MemoryKind::PINNED));
    done.and(freed).and(pinned)
}

fn on_a_stream(cuda: &Cuda, side: crossdock_sdk::abi::Side) -> Result<(), Error> {
    let stream = cuda.stream_create(0)?;
    let event = cuda.event_create(0)?;
    let fill = FillArgs {
        dst: side,
        bytes: BYTES as u64,
        pattern: [3; 16],
        pattern_bytes: 8,
        reserved: 0,
    };
    // SAFETY: the memory lives until the stream is over.
    let filled = unsafe { cuda.fill(fill, stream) };
    // SAFETY: the function takes any word.
    let called = || unsafe {
        cuda.stream_host_call(stream, HostFunction(Some(count)), std::ptr::null_mut())
    };
    let done = filled
        .and_then(|()| called())
        .and_then(|()| cuda.event_record(event, stream))
        .and_then(|()| cuda.stream_wait_event(stream, event))
        .and_then(|()| hold(cuda, stream))
        .and_then(|()| cuda.event_synchronize(event, LIMIT_NS))
        .and_then(|()| round_trip(cuda, side, stream));
    // Whatever was put there is over before the memory goes.
    let mut ended = cuda.stream_synchronize(stream, LIMIT_NS);
    while let Err(error) = &ended
        && !error.status().is_failure_of_work()
        && ended.is_err()
    {
        let again = cuda.stream_synchronize(stream, LIMIT_NS);
        if again.is_ok() {
            break;
        }
        ended = again;
    }
    cuda.event_destroy(event)?;
    cuda.stream_destroy(stream)?;
    done.and(ended)
}

fn hold(cuda: &Cuda, stream: StreamHandle) -> Result<(), Error> {
    let host = cuda.event_create_host(0)?;
    let held = cuda.stream_wait_event(stream, host);
    cuda.event_complete(host, Status::OK)?;
    cuda.event_destroy(host)?;
    held
}

/// What an exchange calls, with how it is called first.
const CALLED: [&str; 17] = [
    "cuDevicePrimaryCtxRetain",
    "cuStreamCreate",
    "cuMemPoolCreate",
    "cuMemAllocFromPoolAsync",
    "exec:cuMemAllocFromPoolAsync",
    "cuMemHostAlloc",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemsetD8Async",
    "cuLaunchHostFunc",
    "cuEventCreate",
    "cuEventRecord",
    "cuStreamWaitEvent",
    "cuStreamWaitValue32_v2",
    "cuStreamSynchronize",
    "cuStreamQuery",
    "cuMemFreeAsync",
];

#[test]
fn a_call_that_fails_is_named_and_the_next_exchange_works() {
    let faults: Vec<String> = CALLED
        .iter()
        .flat_map(|call| {
            // Work that fails fatally loses the device.
            let codes = if call.starts_with("exec:") {
                &[1, 2][..]
            } else {
                &[1, 2, 719]
            };
            codes
                .iter()
                .map(move |code| format!("fault={call}@1={code}"))
        })
        .collect();
    let runs: Vec<_> = faults
        .iter()
        .map(|fault| ["--policy", "lazy", "--set", fault.as_str()])
        .collect();
    let runs: Vec<&[&str]> = runs.iter().map(<[&str; 4]>::as_slice).collect();
    if !over(
        "faults::a_call_that_fails_is_named_and_the_next_exchange_works",
        &runs,
    ) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let words = std::env::var("CROSSDOCK_SIM").unwrap();
    let call = words.split("fault=").nth(1).unwrap();
    let call = call.split('@').next().unwrap();
    let failures = (0..8).filter_map(|_| exchange(&cuda).err());
    let failures: Vec<_> = failures.collect();
    assert!(failures.len() < 2, "{failures:?}");
    for error in failures {
        // Of work that failed tells who looks.
        let is_late = call.starts_with("exec:");
        assert!(is_late || error.operation() == call, "{error}");
        assert!(error.native_code() != 0 && !error.native_name().is_empty());
        assert!(error.message().contains(error.operation()), "{error}");
        assert_ne!(error.status(), Status::DEVICE_LOST, "{error}");
    }
    drop(cuda);
    assert_eq!(driver.leaks(), 0);
}

#[test]
fn a_lost_device_stays_lost_and_the_other_goes_on() {
    let fault = "fault=exec:cuMemcpyHtoDAsync_v2@2=719!";
    let runs: Vec<_> = POLICIES
        .iter()
        .map(|policy| [*policy, &["--set", fault]].concat())
        .collect();
    let runs: Vec<&[&str]> = runs.iter().map(Vec::as_slice).collect();
    if !over(
        "faults::a_lost_device_stays_lost_and_the_other_goes_on",
        &runs,
    ) {
        return;
    }
    let cuda = open();
    let (here, there) = (
        allocate(&cuda, MemoryKind::DEVICE, 0).unwrap(),
        allocate(&cuda, MemoryKind::DEVICE, 1).unwrap(),
    );
    let stream = cuda.stream_create(0).unwrap();
    round_trip(&cuda, device(here.word, 0), StreamHandle::NONE).unwrap();
    // A function of the host that the driver may keep for ever.
    let (held, host) = (
        cuda.stream_create(0).unwrap(),
        cuda.event_create_host(0).unwrap(),
    );
    cuda.stream_wait_event(held, host).unwrap();
    let (function, word) = (HostFunction(Some(count)), std::ptr::null_mut());
    // SAFETY: the function takes any word.
    unsafe { cuda.stream_host_call(held, function, word) }.unwrap();
    let lost = round_trip(&cuda, device(here.word, 0), stream).unwrap_err();
    assert_eq!(RUN.load(Ordering::SeqCst), 1);
    cuda.event_complete(host, Status::OK).unwrap();
    assert_eq!(lost.status(), Status::DEVICE_LOST, "{lost}");
    assert_eq!(
        (lost.native_code(), lost.native_name()),
        (719, "CUDA_ERROR_LAUNCH_FAILED")
    );
    for _ in 0..2 {
        let answers = [
            cuda.stream_query(stream),
            cuda.stream_synchronize(stream, LIMIT_NS),
            cuda.stream_create(0).map(drop),
            cuda.memory_info(0).map(drop),
            allocate(&cuda, MemoryKind::DEVICE, 0).map(drop),
            round_trip(&cuda, device(here.word, 0), StreamHandle::NONE),
        ];
        for answer in answers {
            let error = answer.unwrap_err();
            assert_eq!(error.status(), Status::DEVICE_LOST, "{error}");
            assert!(error.message().contains("719"), "{error}");
        }
    }
    // What is given back, and what the plugin knows by itself, needs no device.
    free(&cuda, here, MemoryKind::DEVICE).unwrap();
    cuda.stream_destroy(stream).unwrap();
    cuda.stream_destroy(held).unwrap();
    cuda.event_destroy(host).unwrap();
    assert_eq!(cuda.device_info(0).unwrap().dl_id, 0);
    round_trip(&cuda, device(there.word, 1), StreamHandle::NONE).unwrap();
    free(&cuda, there, MemoryKind::DEVICE).unwrap();
    drop(cuda);
    assert_eq!(RUN.load(Ordering::SeqCst), 1);
}

/// Work that other streams do a part of, and the caller's waits for them.
#[derive(Debug, Clone, Copy)]
enum Work {
    /// A fill of memory of another device than the stream's.
    Fill,
    /// A copy of pageable memory that is longer than a block.
    Download,
}

/// Puts work on a stream while a call fails, and frees the memory once the stream is over. Returns how often it failed.
fn free_behind(cuda: &Cuda, driver: &Driver, work: Work, fault: &str) -> i64 {
    let args = AllocateArgs {
        size: LONG as u64,
        alignment: 256,
        kind: MemoryKind::DEVICE,
        device: 0,
    };
    let memory = cuda.allocate(args).unwrap();
    let side = device(memory.word, 0);
    let stream = cuda.stream_create(u32::from(matches!(work, Work::Fill)));
    let (stream, mut to) = (stream.unwrap(), vec![0; LONG]);
    let fill = FillArgs {
        dst: side,
        bytes: LONG as u64,
        pattern: [3; 16],
        pattern_bytes: 1,
        reserved: 0,
    };
    driver.arm(fault);
    let done = match work {
        // SAFETY: the memory lives until the stream is over.
        Work::Fill => unsafe { cuda.fill(fill, stream) },
        Work::Download => download(cuda, &mut to, side, stream),
    };
    let struck = driver.disarm();
    assert_eq!(done.is_err(), struck > 0, "{work:?}, {fault}: {done:?}");
    cuda.stream_synchronize(stream, LIMIT_NS).unwrap();
    free(cuda, memory, MemoryKind::DEVICE).unwrap();
    cuda.stream_destroy(stream).unwrap();
    struck
}

#[test]
fn memory_is_used_no_more_once_the_stream_of_refused_work_is_over() {
    let name = "faults::memory_is_used_no_more_once_the_stream_of_refused_work_is_over";
    if !over(name, &POLICIES) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    for work in [Work::Fill, Work::Download] {
        assert_eq!(free_behind(&cuda, &driver, work, "cuMemAlloc_v2@1=999"), 0);
        for call in ["cuStreamWaitEvent", "cuEventRecord"] {
            let failing = |nth| free_behind(&cuda, &driver, work, &format!("{call}@{nth}+=999"));
            let refused = (1..).take_while(|nth| failing(*nth) > 0).count();
            assert!(refused > 1, "{work:?}: {refused}");
        }
    }
}

/// Several blocks of a copy of pageable memory.
const LONG: usize = 3 << 20;
