//! The trace file: what is in it, and that it can be read at any time.
#![expect(
    unsafe_code,
    reason = "looks at the child of a fork before it becomes a program"
)]
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail by panicking")]

use std::collections::HashSet;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossdock::{Device, RouteChoice, RouteKind, Runtime, Tensor, trace};
use crossdock_e2e::everything;
use crossdock_sdk::dlpack::{self, Dtype, Layout};
use serde_json::Value;

/// There is one trace a process.
fn alone() -> MutexGuard<'static, ()> {
    static TRACE: Mutex<()> = Mutex::new(());
    TRACE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn events(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn named<'e>(events: &'e [Value], category: &str, name: &str) -> Vec<&'e Value> {
    let is = |event: &&Value| event["cat"] == category && event["name"] == name;
    events.iter().filter(is).collect()
}

/// Begin and end of an event, in microseconds.
fn times(event: &Value) -> (f64, f64) {
    assert_eq!(event["ph"], "X");
    let begin = event["ts"].as_f64().unwrap();
    let length = event["dur"].as_f64().unwrap();
    assert!(begin >= 0.0 && length >= 0.0, "{event}");
    (begin, begin + length)
}

fn some_tensor(device: &Device) -> Tensor {
    let layout = Layout::compact(Dtype::UINT8, &[1000]).unwrap();
    Tensor::from_bytes(device, &layout, &[5; 1000]).unwrap()
}

#[test]
fn hooks_copies_and_routes_stand_in_the_file_with_their_times() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.json");
    // Open before the trace begins: it is traced all the same.
    let runtime = everything(folder.path());
    let cpu = runtime.device(dlpack::Device::CPU).unwrap();
    trace::start(&file).unwrap();
    for device in runtime.devices() {
        let tensor = some_tensor(&device);
        let (moved, _) = tensor
            .to(&cpu, RouteChoice::Only(RouteKind::Direct))
            .unwrap();
        drop((moved, tensor));
        assert!(device.plugin().hooks().device_info(999).is_err());
    }
    trace::stop().unwrap();
    let events = events(&file);
    for device in runtime.devices() {
        let plugin = device.plugin().name();
        for hook in ["allocate", "copy", "free"] {
            let calls = named(&events, "hook", hook);
            let own = calls.iter().find(|event| event["args"]["plugin"] == plugin);
            times(own.unwrap_or_else(|| panic!("no `{hook}` of `{plugin}`")));
        }
    }
    let allocation = named(&events, "hook", "allocate")[0];
    assert_eq!(allocation["args"]["bytes"], 1000);
    assert_eq!(allocation["args"]["status"], "OK");
    assert!(allocation["args"]["address"].is_string(), "{allocation}");
    let failed = named(&events, "hook", "device_info")[0];
    assert_eq!(failed["args"]["status"], "INVALID");
    let routes = named(&events, "route", "move");
    assert_eq!(routes.len(), runtime.devices().len());
    for route in routes {
        assert_eq!(
            (&route["args"]["to"], &route["args"]["bytes"]),
            (&"cpu:0".into(), &1000.into())
        );
        assert_eq!(route["args"]["route"], "direct");
        let (begin, end) = times(route);
        let inside = |event: &&&Value| times(event).0 >= begin && times(event).1 <= end;
        let copies = named(&events, "copy", "copy").into_iter();
        let copies: Vec<_> = copies.filter(|copy| inside(&copy)).collect();
        assert_eq!(copies.len(), 1);
        assert_eq!(copies[0]["args"]["ordered"], false);
        assert_eq!(
            named(&events, "hook", "copy").iter().filter(inside).count(),
            1
        );
    }
}

#[test]
fn the_file_is_whole_while_it_grows() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.json");
    let runtime = Runtime::builder().search(false).open().unwrap();
    let cpu = runtime.device(dlpack::Device::CPU).unwrap();
    trace::start(&file).unwrap();
    let mut seen = 0;
    // Until some batches were written.
    while std::fs::metadata(&file).unwrap().len() < 300_000 {
        (0..100).for_each(|_| drop(some_tensor(&cpu)));
        let found = events(&file).len();
        assert!(found >= seen, "{found} events, and {seen} before");
        seen = found;
    }
    trace::stop().unwrap();
    assert!(events(&file).len() > seen);
}

#[test]
fn many_threads_write_and_each_has_its_name() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace-%p.json");
    let runtime = Runtime::builder().search(false).open().unwrap();
    let cpu = runtime.device(dlpack::Device::CPU).unwrap();
    trace::start(&file).unwrap();
    std::thread::scope(|scope| {
        for number in 0..4 {
            let cpu = &cpu;
            let work = move || (0..200).for_each(|_| drop(some_tensor(cpu)));
            let builder = std::thread::Builder::new().name(format!("worker {number}"));
            builder.spawn_scoped(scope, work).unwrap();
        }
    });
    trace::stop().unwrap();
    let file = folder
        .path()
        .join(format!("trace-{}.json", std::process::id()));
    let events = events(&file);
    let calls = named(&events, "hook", "allocate");
    assert_eq!(calls.len(), 800);
    let threads: HashSet<_> = calls.iter().map(|event| event["tid"].as_i64()).collect();
    assert_eq!(threads.len(), 4);
    let names = events.iter().filter(|event| event["name"] == "thread_name");
    assert_eq!(names.count(), 4);
}

#[test]
fn a_trace_that_cannot_be_started_or_stopped_says_why() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.json");
    let error = trace::start(folder.path()).unwrap_err();
    assert!(
        error.why().contains("not a regular file"),
        "{}",
        error.why()
    );
    assert!(trace::stop().unwrap_err().why().contains("no trace"));
    trace::start(&file).unwrap();
    let error = trace::start(folder.path().join("other.json")).unwrap_err();
    assert!(error.why().contains("trace.json"), "{}", error.why());
    trace::stop().unwrap();
    assert_eq!(events(&file).len(), 1, "the process's name");
}

#[test]
fn the_child_of_a_fork_writes_nothing() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.json");
    let runtime = Runtime::builder().search(false).open().unwrap();
    let cpu = runtime.device(dlpack::Device::CPU).unwrap();
    trace::start(&file).unwrap();
    drop(some_tensor(&cpu));
    let hooks = std::sync::Arc::clone(cpu.plugin());
    let mut command = Command::new("true");
    let in_child = move || {
        // More than a batch: a child that wrote would write over the parent's events.
        (0..1000).for_each(|_| assert!(hooks.hooks().memory_info(0).is_err()));
        assert!(trace::stop().is_err());
        Ok(())
    };
    // SAFETY: the closure takes no lock: the child's hooks and trace are refused before any.
    unsafe { command.pre_exec(in_child) };
    assert!(command.status().unwrap().success());
    trace::stop().unwrap();
    let events = events(&file);
    assert!(named(&events, "hook", "memory_info").is_empty());
    assert_eq!(named(&events, "hook", "allocate").len(), 1);
}

#[test]
fn the_environment_starts_a_trace_that_is_written_when_the_process_ends() {
    const CHILD: &str = "CROSSDOCK_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let runtime = Runtime::builder().search(false).open().unwrap();
        let cpu = runtime.device(dlpack::Device::CPU).unwrap();
        drop(some_tensor(&cpu));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.json");
    let name = "the_environment_starts_a_trace_that_is_written_when_the_process_ends";
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env(CHILD, "1")
        .env("CROSSDOCK_LAYERS", "validate,trace")
        .env("CROSSDOCK_TRACE", &file)
        .status()
        .unwrap();
    assert!(status.success());
    let events = events(&file);
    for hook in ["probe", "open", "allocate", "copy", "free", "close"] {
        assert_eq!(named(&events, "hook", hook).len(), 1, "{hook}");
    }
}
