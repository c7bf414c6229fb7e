//! Cached memory that is given back while other memory is in use.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use crossdock::{Device, RouteChoice, RouteKind, Runtime, Stream, Tensor};
use crossdock_e2e::simulated::Simulated;
use crossdock_e2e::{asynchronous, ext_dev};
use crossdock_sdk::abi::MemoryUsage;
use crossdock_sdk::dlpack::{Dtype, Layout};

const BYTES: usize = 1 << 16;
const DIRECT: RouteChoice = RouteChoice::Only(RouteKind::Direct);
const STAGED: RouteChoice = RouteChoice::Only(RouteKind::Staged);

fn tensor(device: &Device, value: u8) -> Tensor {
    let layout = Layout::compact(Dtype::UINT8, &[1 << 16]).unwrap();
    Tensor::from_bytes(device, &layout, &vec![value; BYTES]).unwrap()
}

/// What is reserved and not used.
fn cached(usage: MemoryUsage) -> u64 {
    usage.reserved - usage.used
}

#[test]
fn memory_that_was_dropped_behind_work_is_used_until_the_work_is_over() {
    let simulated = Simulated::new();
    for name in ["vpi:0", "vpi:1"] {
        let device = simulated.device(name);
        let before = device.memory_usage().unwrap().used;
        let stream = Stream::new(&device).unwrap();
        let source = tensor(&device, 5);
        let copy = simulated.held(|| {
            let (copy, _) = source.to_on(&device, DIRECT, &stream).unwrap();
            drop(source);
            device.trim(0).unwrap();
            let used = device.memory_usage().unwrap().used;
            assert!(used >= before + 2 * BYTES as u64, "{used} of {before}");
            copy
        });
        assert_eq!(copy.read().unwrap(), [5; BYTES]);
        let limit = Some(Simulated::LIMIT);
        simulated.runtime.wait_for_releases(limit).unwrap();
        let usage = device.memory_usage().unwrap();
        assert_eq!(usage.used, before + BYTES as u64);
        assert!(cached(usage) >= BYTES as u64, "{usage:?}");
        device.trim(1000).unwrap();
        assert_eq!(cached(device.memory_usage().unwrap()), 1000);
        device.trim(0).unwrap();
        assert_eq!(cached(device.memory_usage().unwrap()), 0);
        assert_eq!(copy.read().unwrap(), [5; BYTES]);
    }
    simulated.assert_clean();
}

#[test]
fn trims_beside_staged_copies_take_no_host_memory_from_them() {
    let simulated = Simulated::new();
    let (cpu, device) = (simulated.device("cpu:0"), simulated.device("vpi:1"));
    let source = tensor(&cpu, 6);
    std::thread::scope(|scope| {
        let copies = scope.spawn(|| {
            for _ in 0..40 {
                let (there, _) = source.to(&device, STAGED).unwrap();
                assert_eq!(there.read().unwrap(), [6; BYTES]);
            }
        });
        while !copies.is_finished() {
            device.trim(0).unwrap();
            cpu.trim(0).unwrap();
        }
    });
    simulated.assert_clean();
}

#[test]
fn two_runtimes_count_the_memory_of_one_plugin() {
    let simulated = Simulated::new();
    let others = Runtime::builder().search(false);
    let others = others.plugin(asynchronous()).open().unwrap();
    let device = others.device("vpi:1".parse().unwrap()).unwrap();
    device.reset_peaks().unwrap();
    let before = device.memory_usage().unwrap();
    assert_eq!(before.peak_used, before.used);
    let held = tensor(&simulated.device("vpi:1"), 7);
    let with = device.memory_usage().unwrap();
    assert!(with.used >= before.used + BYTES as u64 && with.peak_used >= with.used);
    device.trim(0).unwrap();
    assert_eq!(held.read().unwrap(), [7; BYTES]);
    simulated.assert_clean();
}

#[test]
fn a_plugin_that_keeps_nothing_is_trimmed_and_knows_no_number() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = Runtime::builder().search(false);
    let runtime = runtime.plugin(ext_dev(folder.path())).open().unwrap();
    let device = runtime.device("ext_dev:0".parse().unwrap()).unwrap();
    let tensor = tensor(&device, 8);
    device.trim(0).unwrap();
    device.reset_peaks().unwrap();
    assert_eq!(device.memory_usage().unwrap(), MemoryUsage::UNKNOWN);
    assert_eq!(tensor.read().unwrap(), [8; BYTES]);
    let hook = device.plugin().hooks().memory_trim(0, 0).unwrap_err();
    assert!(hook.is_unsupported(), "{hook}");
}
