//! Tensors between every pair of devices by every route, bit for bit, and no call that waits for a whole device.

use crossdock::{CostCache, Device, Error, RouteChoice, RouteKind, Runtime, Stream, Tensor};
use crossdock_sdk::dlpack::{AxisSlice, Dtype, Layout};

use crate::driver::Driver;
use crate::{built, over};

const DTYPES: [Dtype; 5] = [
    Dtype::UINT8,
    Dtype::BFLOAT16,
    Dtype::FLOAT32,
    Dtype::COMPLEX64,
    Dtype::COMPLEX128,
];
const ROUTES: [RouteChoice; 3] = [
    RouteChoice::Best,
    RouteChoice::Only(RouteKind::Direct),
    RouteChoice::Only(RouteKind::Staged),
];

/// The plugins of this build. OpenCL's is not among them where it was not built.
pub(crate) fn runtime() -> Runtime {
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    let builder = builder.plugin(built("libcrossdock_plugin_cuda.so").unwrap());
    let builder = match built("libcrossdock_plugin_opencl.so") {
        Some(opencl) => builder.plugin(opencl),
        None => builder,
    };
    builder.open().unwrap()
}

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

#[test]
fn every_route_delivers_and_waits_for_no_whole_device() {
    // A seed chooses under one policy alone.
    let runs = [
        ("lazy", "1"),
        ("threads", "1"),
        ("seeded", "1"),
        ("seeded", "2"),
        ("seeded", "3"),
    ];
    let runs = runs.map(|(policy, seed)| ["--cuda", "2", "--policy", policy, "--seed", seed]);
    let runs = runs.each_ref().map(<[&str; 6]>::as_slice);
    let name = "routes::every_route_delivers_and_waits_for_no_whole_device";
    if !over(name, &runs) {
        return;
    }
    let (runtime, driver) = (runtime(), Driver::open());
    let devices = runtime.devices();
    assert!(devices.len() >= 3);
    for dtype in DTYPES {
        let pairs = devices
            .iter()
            .flat_map(|from| devices.iter().map(move |to| (from, to)));
        for (from, to) in pairs {
            delivers(dtype, from, to);
        }
    }
    assert_eq!(driver.device_waits(), 0);
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
