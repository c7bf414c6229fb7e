//! Threads that the host, its plugins and simulated drivers start block all signals: those of the process are the
//! program's.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crossdock::{CostCache, Device, Event, RouteChoice, RouteKind, Runtime, Stream, Tensor};
use crossdock_e2e::lending::{LIMIT, filled, held, lent};
use crossdock_e2e::{asynchronous, plugin_file, with_environment};
use crossdock_over_simulator::{is_over_simulator, run_over};
use crossdock_sdk::dlpack::{Dtype, Layout};

/// A thread of this process, and the signals that it does not block, the lowest bit being signal 1.
#[derive(Debug)]
struct Task {
    id: i32,
    name: String,
    open: u64,
}

fn tasks() -> Vec<Task> {
    let folders = fs::read_dir("/proc/self/task").unwrap();
    let ids = folders.map(|folder| folder.unwrap().file_name().into_string().unwrap());
    ids.filter_map(|id| {
        // A thread may end meanwhile.
        let status = fs::read_to_string(format!("/proc/self/task/{id}/status")).ok()?;
        let value = |key| status.lines().find_map(|line| line.strip_prefix(key));
        Some(Task {
            id: id.parse().unwrap(),
            name: value("Name:")?.trim().to_owned(),
            open: !u64::from_str_radix(value("SigBlk:")?.trim(), 16).unwrap(),
        })
    })
    .collect()
}

/// What no thread of ours blocks: faults, and what the system lets nobody block. The C library keeps 32 and 33.
fn may_be_open() -> u64 {
    let faults = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];
    let others = [
        libc::SIGTRAP,
        libc::SIGSYS,
        libc::SIGKILL,
        libc::SIGSTOP,
        32,
        33,
    ];
    let all = faults.into_iter().chain(others);
    all.map(|signal| 1 << (signal - 1)).sum()
}

fn runtime(is_simulated: bool) -> Runtime {
    let mut builder = Runtime::builder()
        .search(false)
        .costs(CostCache::Off)
        .staging_bytes(1 << 15)
        .plugin(asynchronous());
    let vendors: &[&str] = if is_simulated { &["cuda", "rocm"] } else { &[] };
    for file in vendors.iter().filter_map(|name| plugin_file(name)) {
        builder = builder.plugin(file);
    }
    builder.open().unwrap()
}

/// What keeps the threads of a runtime busy.
struct Busy {
    gates: Vec<Event>,
    streams: Vec<Stream>,
    tensors: Vec<Tensor>,
}

impl Busy {
    fn hold(&mut self, device: &Device) -> &Stream {
        let (stream, gate) = held(device);
        self.gates.push(gate);
        self.streams.push(stream);
        self.streams.last().unwrap()
    }

    fn end(self) {
        for gate in &self.gates {
            gate.complete(crossdock_sdk::abi::Status::OK).unwrap();
        }
        for stream in &self.streams {
            stream.synchronize(LIMIT).unwrap();
        }
        drop(self.tensors);
    }
}

/// Uses each feature that starts threads, and leaves work that keeps them.
fn use_all(runtime: &Runtime) -> Busy {
    let mut busy = Busy {
        gates: Vec::new(),
        streams: Vec::new(),
        tensors: Vec::new(),
    };
    let devices = runtime.devices();
    let device = |name: &str| runtime.device(name.parse().unwrap()).unwrap();
    let [cpu, one, other] = ["cpu:0", "vpi:0", "vpi:1"].map(device);
    // The threads for large copies.
    let large = Layout::compact(Dtype::UINT8, &[1 << 24]).unwrap();
    let bytes = vec![3; 1 << 24];
    let tensor = Tensor::from_bytes(&cpu, &large, &bytes).unwrap();
    busy.tensors.push(tensor);
    // Streams that wait for the work of other plugins.
    for device in &devices {
        let end = busy.hold(device).record().unwrap();
        for waiting in &devices {
            let stream = Stream::new(waiting).unwrap();
            stream.wait(&end).unwrap();
            busy.streams.push(stream);
        }
    }
    // Memory that is released after work.
    let (received, _is_back) = lent(runtime, None);
    let direct = RouteChoice::Only(RouteKind::Direct);
    let (copied, _route) = received.to_on(&cpu, direct, busy.hold(&cpu)).unwrap();
    busy.tensors.push(copied);
    drop(received);
    // A copy through host memory that follows a stream.
    let (source, staged) = (filled(&one, 1), RouteChoice::Only(RouteKind::Staged));
    let (copied, _route) = source.to_on(&other, staged, busy.hold(&one)).unwrap();
    busy.tensors.push(copied);
    busy
}

/// Compares all threads that were started since `before`, and says their names.
fn assert_blocked(before: &BTreeSet<i32>) -> BTreeSet<String> {
    let mut tasks = tasks();
    tasks.retain(|task| !before.contains(&task.id));
    for task in &tasks {
        assert_eq!(task.open & !may_be_open(), 0, "{task:x?}");
    }
    tasks.into_iter().map(|task| task.name).collect()
}

fn check(is_simulated: bool) {
    let before = tasks().iter().map(|task| task.id).collect();
    let runtime = runtime(is_simulated);
    let busy = use_all(&runtime);
    let names = assert_blocked(&before);
    let mut wanted = vec![
        "xd-cpu-stream",
        "xd-cpu-copy-1",
        "sim-engine",
        "crossdock-compl",
    ];
    wanted.extend(["crossdock-relea", "crossdock-poll"]);
    let missing: Vec<_> = wanted
        .into_iter()
        .filter(|name| !names.contains(*name))
        .collect();
    assert!(missing.is_empty(), "{missing:?} of {names:?}");
    busy.end();
    assert_blocked(&before);
}

/// Waits of one plugin that cannot call the host need a thread.
const NO_HOST_CALLS: &str = "cpu.stream_host_call:*=UNSUPPORTED";
const VARIABLES: [(&str, &str); 2] = [
    ("CROSSDOCK_CPU_THREADS", "4"),
    ("CROSSDOCK_FAULT", NO_HOST_CALLS),
];

#[test]
fn threads_of_the_host_and_its_plugins_block_all_signals() {
    if with_environment(
        "threads_of_the_host_and_its_plugins_block_all_signals",
        &VARIABLES,
    ) {
        check(false);
    }
}

#[test]
fn threads_of_simulated_drivers_block_all_signals() {
    let name = "threads_of_simulated_drivers_block_all_signals";
    if is_over_simulator(name) {
        return check(true);
    }
    let options = ["--cuda", "1", "--rocm", "1", "--policy", "threads"];
    if let Some((code, told)) = run_over(name, &options, &VARIABLES) {
        assert_eq!(code, Some(0), "{told}");
        assert!(told.contains("1 passed"), "{told}");
    }
}

#[test]
fn a_service_that_used_a_stream_waits_for_sigterm() {
    let service = Command::new(env!("CARGO_BIN_EXE_serving"))
        .status()
        .unwrap();
    assert!(service.success(), "{service}");
}
