//! Calls of the runtime that fail, devices that are lost, and waits for whole devices.

use crossdock::{CostCache, Runtime, Tensor};
use crossdock_plugin_rocm::Plugin as Rocm;
use crossdock_sdk::abi::{EventHandle, FillArgs, MemoryKind, Status, StreamHandle};
use crossdock_sdk::dlpack::{Dtype, Layout};
use crossdock_sdk::plugin::{
    AsyncMemory as _, Error, Fill as _, HostEvents as _, Pool as _, Streams as _,
};

use crate::hooks::{BYTES, LIMIT_NS, allocate, call, free, open, round_trip, runtime, side};
use crate::{POLICIES, built, over};

/// One of each: memory, copies at once and on a stream, a fill with gaps, events of both kinds.
fn exchange(rocm: &Rocm) -> Result<(), Error> {
    let memory = allocate(rocm, MemoryKind::DEVICE, 0)?;
    let done = round_trip(rocm, memory.word, 0, StreamHandle::NONE);
    let done = done.and_then(|()| on_a_stream(rocm, memory.word));
    let freed = free(rocm, memory, MemoryKind::DEVICE);
    let pinned = allocate(rocm, MemoryKind::PINNED, 0);
    let pinned = pinned.and_then(|pinned| free(rocm, pinned, MemoryKind::PINNED));
    done.and(freed).and(pinned)
}

fn on_a_stream(rocm: &Rocm, memory: u64) -> Result<(), Error> {
    let stream = rocm.stream_create(0)?;
    let fill = FillArgs {
        dst: side(memory, MemoryKind::DEVICE, 0),
        bytes: 64,
        pattern: std::array::from_fn(|at| at.to_le_bytes()[0]),
        pattern_bytes: 8,
        reserved: 0,
    };
    // SAFETY: the memory lives until the stream is over.
    let filled = unsafe { rocm.fill(fill, stream) };
    let done = filled
        .and_then(|()| events(rocm, stream))
        .and_then(|()| round_trip(rocm, memory, 0, stream));
    // Whatever was put there is over before the memory goes, also where the question fails.
    let ended = rocm.stream_synchronize(stream, LIMIT_NS);
    let ended = match ended {
        Err(error) if !error.status().is_failure_of_work() => {
            rocm.stream_synchronize(stream, LIMIT_NS).and(Err(error))
        }
        ended => ended,
    };
    rocm.stream_destroy(stream)?;
    done.and(ended)
}

/// The stream waits for a point of its own, and for the host.
fn events(rocm: &Rocm, stream: StreamHandle) -> Result<(), Error> {
    let event = rocm.event_create(0)?;
    let recorded = rocm.event_record(event, stream);
    let done = recorded.and_then(|()| rocm.stream_wait_event(stream, event));
    rocm.event_destroy(event)?;
    done?;
    let host: EventHandle = rocm.event_create_host(0)?;
    let held = rocm.stream_wait_event(stream, host);
    rocm.event_complete(host, Status::OK)?;
    rocm.event_destroy(host)?;
    held
}

const CALLED: [&str; 14] = [
    "hipGetDevice",
    "hipStreamCreateWithFlags",
    "hipMemPoolCreate",
    "hipMallocFromPoolAsync",
    "hipHostMalloc",
    "hipMemcpyAsync",
    "hipMemset2DAsync",
    "hipLaunchHostFunc",
    "hipEventCreateWithFlags",
    "hipEventRecord",
    "hipStreamWaitEvent",
    "hipStreamWaitValue32",
    "hipStreamSynchronize",
    "hipFreeAsync",
];

#[test]
fn a_call_that_fails_is_named_and_the_next_exchange_works() {
    let faults: Vec<String> = CALLED
        .iter()
        .flat_map(|call| [1, 719].map(|code| format!("fault={call}@1={code}")))
        .collect();
    let runs: Vec<_> = faults
        .iter()
        .map(|fault| ["--rocm", "1", "--policy", "lazy", "--set", fault.as_str()])
        .collect();
    let runs: Vec<&[&str]> = runs.iter().map(<[&str; 6]>::as_slice).collect();
    let name = "faults::a_call_that_fails_is_named_and_the_next_exchange_works";
    if !over(name, &runs) {
        return;
    }
    let (rocm, hip) = (open(), runtime());
    let words = std::env::var("CROSSDOCK_SIM").unwrap();
    let failing = words.split("fault=").nth(1).unwrap();
    let failing = failing.split('@').next().unwrap();
    let failures: Vec<_> = (0..6).filter_map(|_| exchange(&rocm).err()).collect();
    assert!(failures.len() < 2, "{failures:?}");
    for error in failures {
        assert_eq!(error.operation(), failing, "{error}");
        assert!(error.native_name().starts_with("hipError"), "{error}");
        assert!(error.message().contains(failing), "{error}");
        assert_ne!(error.status(), Status::DEVICE_LOST, "{error}");
    }
    assert_eq!(call!(hip.hipPeekAtLastError() -> i32), 0);
    drop(rocm);
    assert_eq!(call!(hip.crossdock_sim_leaks() -> i64), 0);
}

#[test]
fn a_lost_device_stays_lost_and_the_other_goes_on() {
    let fault = "fault=exec:hipMemcpyAsync@2=719!";
    let runs = POLICIES.map(|policy| [policy, &["--set", fault]].concat());
    let runs = runs.each_ref().map(Vec::as_slice);
    let name = "faults::a_lost_device_stays_lost_and_the_other_goes_on";
    if !over(name, &runs) {
        return;
    }
    let rocm = open();
    let memory = [0, 1].map(|device| allocate(&rocm, MemoryKind::DEVICE, device).unwrap());
    let stream = rocm.stream_create(0).unwrap();
    let _first = round_trip(&rocm, memory[0].word, 0, stream);
    for _ in 0..2 {
        let answers = [
            rocm.stream_query(stream),
            rocm.stream_create(0).map(drop),
            allocate(&rocm, MemoryKind::DEVICE, 0).map(drop),
            round_trip(&rocm, memory[0].word, 0, StreamHandle::NONE),
        ];
        for answer in answers {
            let error = answer.unwrap_err();
            assert_eq!(error.status(), Status::DEVICE_LOST, "{error}");
            assert_eq!(error.native_name(), "hipErrorLaunchFailure");
        }
    }
    round_trip(&rocm, memory[1].word, 1, StreamHandle::NONE).unwrap();
    rocm.stream_destroy(stream).unwrap();
    for memory in memory {
        free(&rocm, memory, MemoryKind::DEVICE).unwrap();
    }
}

#[test]
fn one_vendor_goes_on_where_a_device_of_the_other_is_lost() {
    if built("libcrossdock_plugin_cuda.so").is_none() {
        println!("skipped: the CUDA plugin is not built");
        return;
    }
    let fault = "fault=exec:hipMemcpyAsync@1=719!";
    let options: &[&str] = &["--cuda", "1", "--rocm", "1", "--set", fault];
    let name = "faults::one_vendor_goes_on_where_a_device_of_the_other_is_lost";
    if !over(name, &[options]) {
        return;
    }
    let mut builder = Runtime::builder().search(false).costs(CostCache::Off);
    for plugin in ["cuda", "rocm"] {
        builder = builder.plugin(built(&format!("libcrossdock_plugin_{plugin}.so")).unwrap());
    }
    let runtime = builder.open().unwrap();
    let devices = runtime.devices();
    let [_, cuda, rocm] = devices.as_slice() else {
        panic!("{devices:?}");
    };
    let layout = Layout::compact(Dtype::UINT8, &[i64::try_from(BYTES).unwrap()]).unwrap();
    let bytes = [5_u8; BYTES];
    let error = Tensor::from_bytes(rocm, &layout, &bytes).and_then(|lost| lost.read());
    assert!(error.is_err());
    let tensor = Tensor::from_bytes(cuda, &layout, &bytes).unwrap();
    assert!(tensor.to(rocm, crossdock::RouteChoice::Best).is_err());
    assert_eq!(tensor.read().unwrap(), bytes);
}

#[test]
fn nothing_waits_for_a_whole_device() {
    let one_queue: &[&str] = &["--rocm", "2", "--queues", "1"];
    let without: &[&str] = &["--rocm", "2", "--set", "fault=hipMemPoolCreate@1+=801"];
    let runs = [POLICIES[0], POLICIES[1], POLICIES[2], one_queue, without];
    if !over("faults::nothing_waits_for_a_whole_device", &runs) {
        return;
    }
    let (rocm, hip) = (open(), runtime());
    let held = rocm.stream_create(0).unwrap();
    let kinds = [MemoryKind::DEVICE, MemoryKind::PINNED, MemoryKind::MANAGED];
    for kind in kinds {
        let memory = allocate(&rocm, kind, 0).unwrap();
        round_trip(&rocm, memory.word, 0, held).unwrap();
        free(&rocm, memory, kind).unwrap();
    }
    let host: EventHandle = rocm.event_create_host(0).unwrap();
    rocm.stream_wait_event(held, host).unwrap();
    // None of these is kept up by the stream that waits for the host.
    for kind in kinds {
        let memory = allocate(&rocm, kind, 0).unwrap();
        free(&rocm, memory, kind).unwrap();
    }
    let ordered = rocm.allocate_async(held, BYTES as u64).unwrap();
    // SAFETY: nobody uses it behind this.
    unsafe { rocm.free_async(held, ordered) }.unwrap();
    rocm.memory_trim(0, 0).unwrap();
    let pending = rocm.stream_query(held).unwrap_err();
    assert_eq!(pending.status(), Status::NOT_READY);
    rocm.event_complete(host, Status::OK).unwrap();
    rocm.stream_synchronize(held, LIMIT_NS).unwrap();
    rocm.event_destroy(host).unwrap();
    rocm.stream_destroy(held).unwrap();
    assert_eq!(call!(hip.crossdock_sim_device_waits() -> i64), 0);
    drop(rocm);
    assert_eq!(call!(hip.crossdock_sim_leaks() -> i64), 0);
}

/// A pool that cannot be used is given back, and memory comes without it.
#[test]
fn without_one_function_of_pools_memory_comes_without_them() {
    let lacking = [
        "fault=hipMemPoolSetAttribute@1=801",
        "missing=hipMemPoolSetAttribute",
        "missing=hipMemPoolDestroy",
        "missing=hipMallocFromPoolAsync",
        "missing=hipFreeAsync",
    ];
    let runs = lacking.map(|words| ["--rocm", "1", "--set", words, "--set", "leaks=1"]);
    let runs: Vec<&[&str]> = runs.iter().map(<[&str; 6]>::as_slice).collect();
    if !over(
        "faults::without_one_function_of_pools_memory_comes_without_them",
        &runs,
    ) {
        return;
    }
    let rocm = open();
    exchange(&rocm).unwrap();
}
