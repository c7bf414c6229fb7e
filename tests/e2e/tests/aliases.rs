//! A tensor that goes to and fro between devices that share its memory.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use std::sync::Barrier;

use crossdock::{CostCache, Device, RouteChoice, RouteKind, Runtime, Tensor};
use crossdock_e2e::{asynchronous, plugin_file, report};
use crossdock_sdk::dlpack::{Dtype, Layout};

/// The CPU and OpenCL's first device; `None` where this run did not build the plugin.
fn cpu_and_opencl() -> Option<(Runtime, [Device; 2])> {
    let Some(file) = plugin_file("opencl") else {
        report("skipped: the OpenCL plugin was not built in this run");
        return None;
    };
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    let runtime = builder.plugin(file).open().unwrap();
    let devices = ["cpu:0", "opencl:0"].map(|id| runtime.device(id.parse().unwrap()).unwrap());
    Some((runtime, devices))
}

#[test]
fn a_tensor_that_goes_to_and_fro_can_be_dropped() {
    let Some((_runtime, [cpu, opencl])) = cpu_and_opencl() else {
        return;
    };
    let layout = Layout::compact(Dtype::UINT8, &[4096]).unwrap();
    let mut tensor = Tensor::from_bytes(&cpu, &layout, &[7; 4096]).unwrap();
    // Far less than a long program does, on the small stack of a test's thread.
    for _ in 0..4_000 {
        for device in [&opencl, &cpu] {
            let choice = RouteChoice::Only(RouteKind::Alias);
            (tensor, _) = tensor.to(device, choice).unwrap();
        }
    }
    assert_eq!(tensor.read().unwrap(), [7; 4096]);
    drop(tensor);
}

#[test]
fn an_alias_of_an_alias_is_on_the_device_that_was_asked_for() {
    let Some(file) = plugin_file("cpu") else {
        return report("skipped: the CPU plugin was not built as a file in this run");
    };
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    let runtime = builder.plugin(file).plugin(asynchronous()).open().unwrap();
    let [first, second, third] =
        ["cpu:0", "cpu:1", "vpi:0"].map(|id| runtime.device(id.parse().unwrap()).unwrap());
    let layout = Layout::compact(Dtype::UINT8, &[4096]).unwrap();
    let source = Tensor::from_bytes(&first, &layout, &[7; 4096]).unwrap();
    let mut tensor = source.clone();
    for device in [&second, &third, &first] {
        let choice = RouteChoice::Only(RouteKind::Alias);
        (tensor, _) = tensor.to(device, choice).unwrap();
        assert_eq!(tensor.device(), device);
    }
    assert_eq!(tensor.address(), source.address());
}

#[test]
fn threads_that_map_one_tensor_of_opencl_at_once_read_its_bytes() {
    let Some((_runtime, [cpu, opencl])) = cpu_and_opencl() else {
        return;
    };
    let layout = Layout::compact(Dtype::UINT8, &[8192]).unwrap();
    let tensor = Tensor::from_bytes(&opencl, &layout, &[7; 8192]).unwrap();
    let begin = Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                begin.wait();
                for round in 0..500 {
                    let choice = RouteChoice::Only(RouteKind::Alias);
                    let (alias, _) = tensor.to(&cpu, choice).unwrap();
                    assert!(alias.read().unwrap() == [7; 8192], "round {round}");
                }
            });
        }
    });
}
