//! Measured costs between real plugins: every pair has one, and the choice delivers the same bytes.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by it, in what it shares too"
)]

use crossdock::{CostCache, CostOrigin, Device, RouteChoice, RouteKind, Runtime, Tensor, explain};
use crossdock_e2e::{ext_dev, plugin_file, report};
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
