//! Tensors between the host and devices of two vendors in one process, by every route, bit for bit.

use crossdock::{CostCache, Device, Error, RouteChoice, RouteKind, Runtime, Stream, Tensor};
use crossdock_sdk::dlpack::{AxisSlice, Dtype, Layout};

use crate::{built, over};

const DTYPES: [Dtype; 3] = [Dtype::UINT8, Dtype::BFLOAT16, Dtype::COMPLEX128];
const ROUTES: [RouteChoice; 3] = [
    RouteChoice::Best,
    RouteChoice::Only(RouteKind::Direct),
    RouteChoice::Only(RouteKind::Staged),
];

/// Parts of a tensor: all of it, rows with gaps between them, and elements with gaps.
fn parts() -> [[AxisSlice; 3]; 3] {
    let axis = |start, step, len| AxisSlice { start, step, len };
    let [all, rows, columns] = [5, 12, 40].map(|extent| axis(0, 1, extent));
    [
        [all, rows, columns],
        [all, axis(2, 2, 4), axis(3, 1, 20)],
        [axis(0, 2, 2), axis(1, 3, 3), axis(1, 3, 9)],
    ]
}

fn delivers_everywhere(plugins: &[&str], names: &[&str]) {
    let mut builder = Runtime::builder().search(false).costs(CostCache::Off);
    for plugin in plugins {
        builder = builder.plugin(built(&format!("libcrossdock_plugin_{plugin}.so")).unwrap());
    }
    let runtime = builder.open().unwrap();
    let devices = runtime.devices();
    let found: Vec<_> = devices
        .iter()
        .map(|device| device.id().to_string())
        .collect();
    assert_eq!(found, names);
    for dtype in DTYPES {
        for from in &devices {
            for to in &devices {
                delivers(dtype, from, to);
            }
        }
    }
}

/// Every part goes from one device to the other by every route that there is, at once and on a stream of either.
fn delivers(dtype: Dtype, from: &Device, to: &Device) {
    let layout = Layout::compact(dtype, &[5, 12, 40]).unwrap();
    let length = usize::try_from(layout.bytes()).unwrap();
    let byte = |at: usize| ((at * 167) >> 3).to_le_bytes()[0] | 1;
    let bytes: Vec<u8> = (0..length).map(byte).collect();
    let whole = Tensor::from_bytes(from, &layout, &bytes).unwrap();
    let streams = [Stream::new(from).unwrap(), Stream::new(to).unwrap()];
    for part in parts() {
        let part = whole.slice(&part).unwrap();
        let wanted = part.read().unwrap();
        for choice in ROUTES {
            let moved = part.to(to, choice);
            // There is no direct way from one vendor to another.
            if choice != RouteChoice::Best && matches!(moved, Err(Error::Refused { .. })) {
                continue;
            }
            let (moved, route) = moved.unwrap();
            assert!(moved.read().unwrap() == wanted, "{route}");
            for stream in &streams {
                let (moved, route) = part.to_on(to, choice, stream).unwrap();
                assert!(moved.read().unwrap() == wanted, "{route}, on {stream:?}");
            }
        }
    }
}

#[test]
fn every_route_delivers_between_devices_of_one_vendor() {
    let name = "routes::every_route_delivers_between_devices_of_one_vendor";
    if over(name, &crate::POLICIES) {
        delivers_everywhere(&["rocm"], &["cpu:0", "rocm:0", "rocm:1"]);
    }
}

#[test]
fn every_route_delivers_between_two_vendors() {
    if built("libcrossdock_plugin_cuda.so").is_none() {
        println!("skipped: the CUDA plugin is not built");
        return;
    }
    let runs = [
        ("lazy", "1"),
        ("threads", "1"),
        ("seeded", "1"),
        ("seeded", "2"),
    ];
    let runs = runs.map(|(policy, seed)| {
        [
            "--cuda", "1", "--rocm", "1", "--policy", policy, "--seed", seed,
        ]
    });
    let runs = runs.each_ref().map(<[&str; 8]>::as_slice);
    if over("routes::every_route_delivers_between_two_vendors", &runs) {
        // Either library may be loaded first.
        delivers_everywhere(&["cuda", "rocm"], &["cpu:0", "cuda:0", "rocm:0"]);
    }
}

#[test]
fn either_vendor_may_come_first() {
    if built("libcrossdock_plugin_cuda.so").is_none() {
        println!("skipped: the CUDA plugin is not built");
        return;
    }
    let options: &[&str] = &["--cuda", "1", "--rocm", "1"];
    if over("routes::either_vendor_may_come_first", &[options]) {
        delivers_everywhere(&["rocm", "cuda"], &["cpu:0", "rocm:0", "cuda:0"]);
    }
}
