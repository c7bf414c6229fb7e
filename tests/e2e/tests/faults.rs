//! Calls that fail one after the other, and what is left behind: nothing.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of tests fail by panicking"
)]

use std::path::Path;
use std::process::Command;

use crossdock::{Error, FaultPlan, Layer, RouteChoice, RouteKind, Runtime, Tensor, trace};
use crossdock_e2e::ext_dev;
use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::{Device, DeviceType, Dtype, Layout};

fn open(layers: &[Layer]) -> Runtime {
    Runtime::builder()
        .search(false)
        .layers(layers)
        .open()
        .unwrap()
}

fn plan(text: &str) -> Layer {
    Layer::Fault(text.parse::<FaultPlan>().unwrap())
}

/// What is registered, by name.
fn registry(runtime: &Runtime) -> Vec<String> {
    let plugins = runtime.plugins();
    let plugins = plugins.iter().map(|plugin| plugin.name().to_owned());
    let devices = runtime.devices();
    plugins
        .chain(devices.iter().map(ToString::to_string))
        .collect()
}

/// Load, allocate, copy, route and drop.
fn a_life(runtime: &Runtime, file: &Path) -> Result<(), Error> {
    let plugin = runtime.load(file)?;
    let device = runtime
        .devices()
        .into_iter()
        .find(|device| std::sync::Arc::ptr_eq(device.plugin(), &plugin));
    let device = device.unwrap();
    let cpu = runtime.device(Device::CPU)?;
    let layout = Layout::compact(Dtype::INT16, &[2, 3, 4]).unwrap();
    let tensor = Tensor::from_bytes(&device, &layout, &[3; 48])?;
    for kind in [RouteKind::Direct, RouteKind::Staged] {
        let (there, _) = tensor.to(&cpu, RouteChoice::Only(kind))?;
        let (back, _) = there.to(&device, RouteChoice::Best)?;
        assert_eq!(back.read()?, [3; 48]);
    }
    Ok(())
}

/// How many calls of the plugin a life takes.
fn calls_of_a_life(file: &Path, folder: &Path) -> usize {
    let path = folder.join("trace.json");
    trace::start(&path).unwrap();
    let runtime = open(&[]);
    a_life(&runtime, file).unwrap();
    drop(runtime);
    trace::stop().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let events: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let own = |event: &&serde_json::Value| event["args"]["plugin"] == "ext_dev";
    events.iter().filter(own).count()
}

fn nothing_is_live(runtime: &Runtime, nth: usize) {
    let mut plugins = runtime.plugins().into_iter();
    let plugin = plugins.find(|plugin| plugin.name() == "ext_dev").unwrap();
    let live = plugin.hooks().live_objects().unwrap();
    assert_eq!(live.count(), 0, "call {nth}: {live}");
}

#[test]
fn any_call_may_fail_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let file = ext_dev(folder.path());
    let calls = calls_of_a_life(&file, folder.path());
    assert!(calls > 15, "{calls} calls");
    let mut failures = 0;
    for nth in 1..=calls {
        let fault = plan(&format!("ext_dev.*:{nth}=VENDOR"));
        // Validation inside sees what the plugin really did.
        let runtime = open(&[fault, Layer::Validate]);
        let before = registry(&runtime);
        let Err(error) = a_life(&runtime, &file) else {
            // It was a call whose failure is logged, or one that comes after this life.
            nothing_is_live(&runtime, nth);
            continue;
        };
        failures += 1;
        assert_eq!(error.status(), Some(Status::VENDOR), "{error}");
        assert!(error.why().contains("made to fail"), "{}", error.why());
        if registry(&runtime) != before {
            nothing_is_live(&runtime, nth);
            a_life(&runtime, &file).unwrap();
            nothing_is_live(&runtime, nth);
        } else {
            // Loading failed: as if it had not been tried, and then it can be.
            drop(runtime);
            a_life(&open(&[]), &file).unwrap();
        }
    }
    assert!(failures > 5, "{failures} of {calls} calls failed the life");
}

/// Where its plugin copies only bytes, the built-in CPU does the rest, and is opened again for that.
#[test]
fn work_on_a_tensor_that_outlives_its_runtime_has_the_layers_of_the_environment() {
    const CHILD: &str = "CROSSDOCK_TEST_CHILD";
    if std::env::var_os(CHILD).is_none() {
        let name = "work_on_a_tensor_that_outlives_its_runtime_has_the_layers_of_the_environment";
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env(CHILD, "1")
            .env("CROSSDOCK_FAULT", "cpu.copy_strided:1=VENDOR")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let runtime = open(&[]);
    let _plugin = runtime.load(&ext_dev(folder.path())).unwrap();
    let device = runtime.device(DeviceType::EXT_DEV.device(0)).unwrap();
    let layout = Layout::compact(Dtype::UINT8, &[2, 2]).unwrap();
    let tensor = Tensor::from_bytes(&device, &layout, &[1, 2, 3, 4]).unwrap();
    let turned = tensor.permute(&[1, 0]).unwrap();
    drop(runtime);
    let error = turned.read().unwrap_err();
    assert_eq!(error.status(), Some(Status::VENDOR), "{error}");
}

#[test]
fn a_rule_hits_the_calls_that_it_names() {
    let folder = tempfile::tempdir().unwrap();
    let file = ext_dev(folder.path());
    let statuses = |rules: &str| {
        let runtime = open(&[plan(rules)]);
        let plugin = runtime.load(&file).unwrap();
        let ask = |_| match plugin.hooks().memory_info(0) {
            Ok(_) => Status::OK,
            Err(error) => error.status().unwrap(),
        };
        (0..6).map(ask).collect::<Vec<_>>()
    };
    let (ok, vendor, lost) = (Status::OK, Status::VENDOR, Status::DEVICE_LOST);
    let nth = "memory_info:2=VENDOR,memory_info:/3=DEVICE_LOST,opencl.memory_info:*=VENDOR";
    assert_eq!(statuses(nth), [ok, vendor, lost, ok, ok, lost]);
    assert_eq!(statuses("ext_dev.memory_info:*=VENDOR"), [vendor; 6]);
    assert_eq!(statuses("memory_info:p0=VENDOR"), [ok; 6]);
    assert_eq!(statuses("memory_info:p1@3=VENDOR"), [vendor; 6]);
    let half = "memory_info:p0.5@11=VENDOR";
    assert_eq!(statuses(half), statuses(half), "a seed says it all");
}
