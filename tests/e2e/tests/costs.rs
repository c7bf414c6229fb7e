//! Measured costs between real plugins: every pair has one, and the choice delivers the same bytes.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by it, in what it shares too"
)]

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Instant;

use crossdock::{CostCache, CostOrigin, Device, RouteChoice, RouteKind, Runtime, Tensor, explain};
use crossdock_e2e::lending::{ALL, LIMIT, filled, held};
use crossdock_e2e::{asynchronous, ext_dev, plugin_file, report, with_environment};
use crossdock_plugin_asynchronous::{CONTROL, Controlled};
use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::{AxisSlice, Dtype, Layout};
use serde_json::Value;

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
    let queues = ("CROSSDOCK_ASYNCHRONOUS", "policy=threads;queues=1");
    if with_environment(name, &[queues]) {
        let builder = Runtime::builder().search(false).costs(CostCache::Memory);
        let runtime = builder.plugin(asynchronous()).open().unwrap();
        let [cpu, device] = ["cpu:0", "vpi:1"].map(|id| runtime.device(id.parse().unwrap()));
        let (source, device) = (filled(&cpu.unwrap(), 9), device.unwrap());
        let (stream, host_event) = held(&device);
        let (done, moved) = channel();
        let (there, from) = (device.clone(), source.clone());
        let mover = std::thread::spawn(move || {
            // The test may have failed already.
            let _sent = done.send(from.to_on(&there, RouteChoice::Copy, &stream));
        });
        let moved = moved.recv_timeout(LIMIT.unwrap_or_default());
        host_event.complete(Status::OK).unwrap();
        mover.join().unwrap();
        let (moved, route) = moved.unwrap().unwrap();
        assert_eq!(route.cost.origin, CostOrigin::Properties, "{route}");
        assert_eq!(moved.read().unwrap(), vec![9; ALL]);
        let (_, route) = source.to(&device, RouteChoice::Copy).unwrap();
        assert_eq!(route.cost.origin, CostOrigin::Measured, "{route}");
    }
}

/// 4096 rows of 64 bytes, each at the beginning of 4 KiB.
fn far_rows(device: &Device) -> Tensor {
    let layout = Layout::compact(Dtype::UINT8, &[4096, 4096]).unwrap();
    let bytes: Vec<u8> = (0..layout.bytes()).map(|at| (at % 251) as u8).collect();
    let whole = Tensor::from_bytes(device, &layout, &bytes).unwrap();
    let axis = |len| AxisSlice {
        start: 0,
        step: 1,
        len,
    };
    whole.slice(&[axis(4096), axis(64)]).unwrap()
}

/// A copy engine that takes a microsecond for each row, and the time that it took.
const LINK: &str = "link=1:10G,1000,1000";

fn cpu_and_link(costs: CostCache) -> (Runtime, Device, Device) {
    let builder = Runtime::builder().search(false).costs(costs);
    let runtime = builder.plugin(asynchronous()).open().unwrap();
    let [cpu, device] = ["cpu:0", "vpi:1"].map(|id| runtime.device(id.parse().unwrap()).unwrap());
    (runtime, cpu, device)
}

#[test]
fn rows_go_the_way_that_is_right_for_rows() {
    let name = "rows_go_the_way_that_is_right_for_rows";
    if with_environment(name, &[("CROSSDOCK_ASYNCHRONOUS", LINK)]) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("costs.json");
        let compact = Layout::compact(Dtype::UINT8, &[4096, 64]).unwrap();
        measure_both(&file, &compact);
        price(&file);
        let (_runtime, cpu, device) = cpu_and_link(CostCache::File(file));
        let rows = far_rows(&cpu);
        let by_compact = explain(&compact, &cpu, &device, RouteChoice::Copy);
        assert_eq!(
            by_compact.steps[0].to_string(),
            "`asynchronous` copies by itself"
        );
        let clock = clock(&device);
        let took = |copy: &dyn Fn() -> Tensor| {
            let before = clock.now();
            assert!(copy().read().unwrap() == rows.read().unwrap());
            clock.now() - before
        };
        // Without costs the order is that of compact bytes here.
        let (_other, other_cpu, other_device) = cpu_and_link(CostCache::Off);
        let other_rows = far_rows(&other_cpu);
        let wrong = took(&|| {
            let (moved, route) = other_rows.to(&other_device, RouteChoice::Copy).unwrap();
            assert_eq!(route.steps, by_compact.steps, "{route}");
            moved
        });
        let right = took(&|| {
            let (moved, route) = rows.to(&device, RouteChoice::Copy).unwrap();
            assert!(
                route.steps[0].to_string().contains("is packed, then"),
                "{route}"
            );
            assert!(route.to_string().contains("for pitched to compact memory"));
            moved
        });
        assert!(
            right * 5 <= wrong,
            "{right:?} of simulated time, and {wrong:?}"
        );
    }
}

#[test]
fn rows_that_there_is_no_room_to_pack_are_copied_as_they_are() {
    let name = "rows_that_there_is_no_room_to_pack_are_copied_as_they_are";
    let link = format!("{LINK};memory=64M");
    if with_environment(name, &[("CROSSDOCK_ASYNCHRONOUS", &link)]) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("costs.json");
        measure_rows(&file);
        price(&file);
        let (_runtime, cpu, device) = cpu_and_link(CostCache::File(file));
        let rows = far_rows(&device);
        let explained = rows.explain(&cpu, RouteChoice::Copy);
        assert!(
            explained.steps[0].to_string().contains("is packed"),
            "{explained}"
        );
        let mut taken = Vec::new();
        for bytes in [1 << 20, 4096] {
            let layout = Layout::compact(Dtype::UINT8, &[bytes]).unwrap();
            while let Ok(tensor) = Tensor::empty(&device, &layout) {
                taken.push(tensor);
            }
        }
        let (moved, route) = rows.to(&cpu, RouteChoice::Copy).unwrap();
        let told: Vec<_> = route.steps.iter().map(ToString::to_string).collect();
        assert_eq!(told, ["`asynchronous` copies by itself"], "{route}");
        assert!(
            route.refused[0].to_string().contains("OOM_DEVICE"),
            "{route}"
        );
        drop(taken);
        assert!(moved.read().unwrap() == rows.read().unwrap());
    }
}

/// The simulated clock of a device.
#[expect(unsafe_code, reason = "reads the control table of the plugin")]
fn clock(device: &Device) -> Controlled {
    let word = device.plugin().hooks().device_attribute(1, CONTROL);
    // SAFETY: the plugin answered, and is open as long as the test's runtime is.
    unsafe { Controlled::new(word.unwrap()) }.unwrap()
}

/// Has the costs of both classes measured and kept, whatever the numbers on this machine. A busy one may measure too
/// little to keep, so a new runtime tries again.
fn measure_both(file: &Path, compact: &Layout) {
    let is_kept = (0..50).any(|_| {
        let (_runtime, cpu, device) = cpu_and_link(CostCache::File(file.to_owned()));
        for route in [
            explain(compact, &cpu, &device, RouteChoice::Copy),
            far_rows(&cpu).explain(&device, RouteChoice::Copy),
        ] {
            assert_ne!(route.cost.origin, CostOrigin::Properties, "{route}");
        }
        let kept = std::fs::read(file).unwrap_or_default();
        let kept: Option<Value> = serde_json::from_slice(&kept).ok();
        let records = kept
            .as_ref()
            .and_then(|kept| kept.get("records")?.as_array());
        records.is_some_and(|records| records.len() == 2)
    });
    assert!(is_kept, "no costs are kept in `{}`", file.display());
}

/// Has the costs of rows measured and kept. A busy machine may measure too little to keep, so a new runtime
/// tries again.
fn measure_rows(file: &Path) {
    let measured = (0..50).any(|_| {
        let (_runtime, cpu, device) = cpu_and_link(CostCache::File(file.to_owned()));
        let _route = far_rows(&device).explain(&cpu, RouteChoice::Copy);
        file.exists()
    });
    assert!(measured, "no costs are kept in `{}`", file.display());
}

/// Prices each way of each class as the link would: without a machine's own pace.
fn price(file: &Path) {
    let mut content: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let curve = |small: f64, large: f64| {
        serde_json::json!([{ "bytes": 4096, "seconds": small },
                                      { "bytes": 8 << 20, "seconds": large }])
    };
    let records = content.get_mut("records").unwrap();
    for record in records.as_array_mut().unwrap() {
        let is_rows = *record.pointer("/class/source/arrangement").unwrap() == "pitched";
        let once = if is_rows {
            curve(65e-6, 0.132)
        } else {
            curve(1.5e-6, 0.9e-3)
        };
        let costs = record.get_mut("costs").unwrap();
        let costs = costs.as_object_mut().unwrap();
        for (way, known) in costs.iter_mut().filter(|(_, known)| !known.is_null()) {
            *known = match way.as_str() {
                "by_source" | "by_destination" => once.clone(),
                "packed_by_source" | "packed_by_destination" => curve(3e-6, 3e-3),
                _ => curve(9e-6, 5e-3),
            };
        }
    }
    std::fs::write(file, serde_json::to_vec(&content).unwrap()).unwrap();
}

#[test]
#[ignore = "prints times; the link is one that takes its time in truth"]
fn how_much_rows_gain_by_their_own_costs() {
    let name = "how_much_rows_gain_by_their_own_costs";
    let link = format!("{LINK};paced=on;policy=threads");
    if !with_environment(name, &[("CROSSDOCK_ASYNCHRONOUS", &link)]) {
        return;
    }
    let (_runtime, cpu, device) = cpu_and_link(CostCache::Memory);
    let (_other, other_cpu, other_device) = cpu_and_link(CostCache::Off);
    let (rows, other_rows) = (far_rows(&cpu), far_rows(&other_cpu));
    let compact = Layout::compact(Dtype::UINT8, &[4096, 64]).unwrap();
    report(&explain(&compact, &cpu, &device, RouteChoice::Copy).to_string());
    report(&rows.explain(&device, RouteChoice::Copy).to_string());
    let best = |rows: &Tensor, device: &Device| {
        let once = || {
            let begun = Instant::now();
            let _moved = rows.to(device, RouteChoice::Copy).unwrap();
            begun.elapsed()
        };
        (0..9).map(|_| once()).min().unwrap()
    };
    let (right, wrong) = (best(&rows, &device), best(&other_rows, &other_device));
    let ratio = wrong.as_secs_f64() / right.as_secs_f64();
    report(&format!(
        "4096 rows of 64 bytes: {right:.1?} by their own costs, {wrong:.1?} by those of compact bytes, \
         {ratio:.1} times"
    ));
}
