//! Measured costs between real plugins: every pair has one, and the choice delivers the same bytes.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by it, in what it shares too"
)]

use std::sync::mpsc::channel;

use crossdock::{CostCache, CostOrigin, Device, RouteChoice, RouteKind, Runtime, Tensor, explain};
use crossdock_e2e::lending::{ALL, LIMIT, filled, held};
use crossdock_e2e::{asynchronous, ext_dev, plugin_file, report, with_environment};
use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::{Dtype, Layout};

#[test]
fn every_copy_between_plugins_has_a_measured_cost_and_delivers_the_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let mut builder = Runtime::builder()
        .search(false)
        .costs(CostCache::Memory)
        .plugin(ext_dev(folder.path()));
    match plugin_file("opencl") {
        Some(file) => builder = builder.plugin(file),
        None => report("skipped: the OpenCL plugin was not built in this run"),
    }
    let devices = builder.open().unwrap().devices();
    for from in &devices {
        for to in devices.iter().filter(|to| *to != from) {
            one_pair(from, to);
        }
    }
}

fn one_pair(from: &Device, to: &Device) {
    let layout = Layout::compact(Dtype::UINT8, &[3 << 20]).unwrap();
    let bytes: Vec<u8> = (0..layout.bytes()).map(|at| at.to_le_bytes()[0]).collect();
    let route = explain(&layout, from, to, RouteChoice::Best);
    let expected = match route.kind {
        RouteKind::Alias => CostOrigin::Properties,
        _ => CostOrigin::Measured,
    };
    assert_eq!(route.cost.origin, expected, "{route}");
    assert!(route.cost.time.is_some(), "{route}");
    let source = Tensor::from_bytes(from, &layout, &bytes).unwrap();
    let (moved, taken) = source.to(to, RouteChoice::Best).unwrap();
    assert_eq!(taken.kind, route.kind);
    assert!(moved.read().unwrap() == bytes, "{taken}");
}

#[test]
fn the_first_move_on_a_held_stream_measures_nothing() {
    let name = "the_first_move_on_a_held_stream_measures_nothing";
    // All streams share one hardware queue, also that of a copy without a stream.
    let queues = ("CROSSDOCK_SIM", "policy=threads;queues=1");
    if with_environment(name, &[queues]) {
        let builder = Runtime::builder().search(false).costs(CostCache::Memory);
        let runtime = builder.plugin(asynchronous()).open().unwrap();
        let [cpu, device] = ["cpu:0", "vpi:1"].map(|id| runtime.device(id.parse().unwrap()));
        let (source, device) = (filled(&cpu.unwrap(), 9), device.unwrap());
        let (stream, gate) = held(&device);
        let (done, moved) = channel();
        let (there, from) = (device.clone(), source.clone());
        let mover = std::thread::spawn(move || {
            // The test may have failed already.
            let _sent = done.send(from.to_on(&there, RouteChoice::Copy, &stream));
        });
        let moved = moved.recv_timeout(LIMIT.unwrap_or_default());
        gate.complete(Status::OK).unwrap();
        mover.join().unwrap();
        let (moved, route) = moved.unwrap().unwrap();
        assert_eq!(route.cost.origin, CostOrigin::Properties, "{route}");
        assert_eq!(moved.read().unwrap(), vec![9; ALL]);
        let (_, route) = source.to(&device, RouteChoice::Copy).unwrap();
        assert_eq!(route.cost.origin, CostOrigin::Measured, "{route}");
    }
}
