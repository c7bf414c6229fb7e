//! A Rust plugin of a workspace of its own, as somebody else writes one: it knows nothing but the sdk.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use crossdock::{
    CostCache, Device, Event, Layer, RouteChoice, Runtime, RuntimeBuilder, Stream, Tensor,
};
use crossdock_conformance::{Level, Outcome, Subject};
use crossdock_e2e::{asynchronous, root};
use crossdock_sdk::abi::{MemoryKind, Status};
use crossdock_sdk::dlpack::{Dtype, Layout};

/// The example, built in a folder of its own from nothing but its files and the sdk's path.
fn plugin() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build)
}

fn build() -> PathBuf {
    let example = root().join("examples/plugin-rust");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("outside");
    let sdk = root().join("sdk").canonicalize().unwrap();
    let manifest = fs::read_to_string(example.join("Cargo.toml")).unwrap();
    let moved = manifest.replace("\"../../sdk\"", &format!("{sdk:?}"));
    assert_ne!(manifest, moved, "the manifest names the sdk by its path");
    let (_, dependencies) = moved.split_once("[dependencies]\n").unwrap();
    let named = dependencies.lines().take_while(|line| !line.is_empty());
    assert_eq!(named.count(), 1, "it depends on the sdk alone");
    // As this workspace has it, so that what both depend on is not built again.
    let profile = "\n[profile.dev]\ndebug = \"line-tables-only\"\n";
    write(&folder.join("Cargo.toml"), &(moved + profile));
    // The versions that are here, for a build without a network.
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    if !folder.join("Cargo.lock").exists() {
        write(&folder.join("Cargo.lock"), &lock);
    }
    for file in fs::read_dir(example.join("src")).unwrap() {
        let file = file.unwrap();
        let text = fs::read_to_string(file.path()).unwrap();
        write(&folder.join("src").join(file.file_name()), &text);
    }
    let test = std::env::current_exe().unwrap();
    let target = test.ancestors().nth(3).unwrap();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--offline", "--quiet", "--target-dir"])
        .arg(target)
        .current_dir(&folder)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    target.join("debug/libexample_plugin.so")
}

/// Leaves a file that is as it should be, so that nothing is built again. Each test is a process that may
/// be here at the same time, so that a file is there as a whole or not at all.
fn write(path: &Path, text: &str) {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return;
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let whole = path.with_extension(std::process::id().to_string());
    fs::write(&whole, text).unwrap();
    fs::rename(&whole, path).unwrap();
}

fn builder() -> RuntimeBuilder {
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    builder.plugin(plugin())
}

/// A device by its name.
fn device(runtime: &Runtime, name: &str) -> Device {
    let mut devices = runtime.devices().into_iter();
    devices.find(|device| device.to_string() == name).unwrap()
}

fn numbers() -> (Layout, Vec<u8>) {
    let layout = Layout::compact(Dtype::UINT8, &[100_003]).unwrap();
    let bytes = (0..100_003_u32).map(|at| at.to_le_bytes()[0] ^ at.to_le_bytes()[1]);
    (layout, bytes.collect())
}

/// Cases of what the example has beyond the mandatory hooks, none of which may be skipped.
const TRIED: &[&str] = &[
    "pinned_memory_holds_bytes",
    "copies_on_a_stream_run_in_order",
    "an_event_orders_two_streams",
    "a_destroyed_stream_is_stale",
    "a_destroyed_event_is_stale",
    "a_wait_that_runs_out_of_time_tells_of_no_failure",
    "a_failure_travels_with_an_event_to_another_stream",
    "a_host_function_runs_also_after_a_failure",
    "a_host_function_after_a_failure_runs_where_its_stream_is_only_asked",
    "a_plugin_gives_up_work_that_does_not_end_before_the_deadline",
    "a_closed_plugin_fails_the_host_events_that_are_pending",
    "a_closed_plugin_has_no_work_left",
];

#[test]
fn it_passes_the_suite_with_streams_events_and_pinned_memory() {
    for layers in [&[][..], &[Layer::Validate]] {
        let runtime = builder().layers(layers).open().unwrap();
        let device = device(&runtime, "ext_dev:0");
        let subject = Subject::new(device.plugin().hooks(), 0).unwrap();
        let report = crossdock_conformance::run(&subject, Level::Full, None);
        assert!(report.passed(), "{report}");
        for name in TRIED {
            let case = report.cases.iter().find(|case| case.name == *name);
            assert_eq!(case.unwrap().outcome, Outcome::Passed, "{name}");
        }
    }
}

#[test]
fn tensors_travel_to_it_and_from_it_on_streams_and_without() {
    let runtime = builder().plugin(asynchronous()).open().unwrap();
    let device = device(&runtime, "ext_dev:0");
    let (layout, bytes) = numbers();
    for other in runtime.devices() {
        let from = Tensor::from_bytes(&other, &layout, &bytes).unwrap();
        let (there, _) = from.to(&device, RouteChoice::Best).unwrap();
        let (back, _) = there.to(&other, RouteChoice::Best).unwrap();
        assert_eq!(back.read().unwrap(), bytes, "{other}");
        let there = Tensor::empty(&device, &layout).unwrap();
        let back = Tensor::empty(&other, &layout).unwrap();
        let stream = Stream::new(&device).unwrap();
        there.copy_from(&from, Some(&stream)).unwrap();
        back.copy_from(&there, Some(&stream)).unwrap();
        assert_eq!(back.read().unwrap(), bytes, "{other}");
    }
}

#[test]
fn its_work_waits_for_the_host_and_for_other_plugins_and_tells_of_their_failures() {
    let runtime = builder().plugin(asynchronous()).open().unwrap();
    let [device, other] = ["ext_dev:0", "vpi:0"].map(|name| device(&runtime, name));
    let (layout, bytes) = numbers();
    for (waits_for_host, behind) in [(&device, &other), (&other, &device)] {
        let pinned = Tensor::empty_of(&device, &layout, MemoryKind::PINNED).unwrap();
        assert_eq!(pinned.memory_kind(), MemoryKind::PINNED);
        pinned.write(&bytes).unwrap();
        let host_event = Event::host(waits_for_host).unwrap();
        let (first, second) = (
            Stream::new(waits_for_host).unwrap(),
            Stream::new(behind).unwrap(),
        );
        let end = behind_host_event(&host_event, &first, &second);
        let copy = Tensor::empty(behind, &layout).unwrap();
        copy.copy_from(&pinned, Some(&second)).unwrap();
        let waited = end.synchronize(Some(Duration::from_millis(30)));
        assert_eq!(waited.unwrap_err().status(), Some(Status::TIMEOUT));
        host_event.complete(Status::OK).unwrap();
        assert_eq!(copy.read().unwrap(), bytes);
        let host_event = Event::host(waits_for_host).unwrap();
        let end = behind_host_event(&host_event, &first, &second);
        host_event.complete(Status::DEVICE_LOST).unwrap();
        let told = second.synchronize(LIMIT).unwrap_err();
        assert_eq!(told.status(), Some(Status::DEVICE_LOST));
        assert_eq!(
            end.synchronize(LIMIT).unwrap_err().status(),
            Some(Status::DEVICE_LOST)
        );
    }
}

/// Holds a stream by the host event and another one by the first; the event is the end of the second.
fn behind_host_event(host_event: &Event, first: &Stream, second: &Stream) -> Event {
    first.wait(host_event).unwrap();
    second.wait(&first.record().unwrap()).unwrap();
    second.record().unwrap()
}

const LIMIT: Option<Duration> = Some(Duration::from_secs(20));
