//! Two runtimes of one process on the same devices: their streams are one, and take turns.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]
#![expect(unsafe_code, reason = "wraps a stream that this test made")]

use std::sync::Barrier;

use crossdock::{CostCache, Device, Error, Layer, RouteChoice, Runtime, Stream, Tensor};
use crossdock_e2e::simulated::Simulated;
use crossdock_e2e::{asynchronous, everything_behind, ext_dev};
use crossdock_sdk::dlpack::{Dtype, Layout};

/// A runtime whose plugins refuse two threads on one stream.
fn runtime(folder: &std::path::Path) -> Runtime {
    everything_behind(folder, &[Layer::Validate])
}

/// Two runtimes, and the devices with streams that both have.
fn two(folder: &std::path::Path) -> ([Runtime; 2], Vec<[Device; 2]>) {
    let runtimes = [runtime(folder), runtime(folder)];
    let [one, other] = runtimes.each_ref().map(Runtime::devices);
    let with_streams = one.into_iter().filter(|one| Stream::new(one).is_ok());
    let both = with_streams.filter_map(|one| {
        let same = other.iter().find(|other| **other == one)?.clone();
        Some([one, same])
    });
    let both: Vec<_> = both.collect();
    assert!(!both.is_empty(), "the CPU has streams");
    (runtimes, both)
}

/// Copies on the device's default stream, again and again.
fn copy(device: &Device, seed: u8) -> Result<(), Error> {
    let layout = Layout::compact(Dtype::UINT8, &[64]).unwrap();
    let from = Tensor::from_bytes(device, &layout, &[seed; 64])?;
    let to = Tensor::empty(device, &layout)?;
    for _ in 0..ROUNDS {
        let stream = Stream::default_of(device)?;
        to.copy_from(&from, Some(&stream))?;
    }
    assert_eq!(to.read()?, [seed; 64]);
    Ok(())
}

const ROUNDS: usize = 100;

/// What threads of both runtimes, in turn, get of one device at once.
fn at_once<T: Send>(
    both: &[Device; 2],
    count: u8,
    get: impl Fn(&Device, u8) -> T + Sync,
) -> Vec<T> {
    let begin = Barrier::new(count.into());
    let [even, odd] = both;
    let part = |seed: u8| {
        begin.wait();
        get(if seed.is_multiple_of(2) { even } else { odd }, seed)
    };
    std::thread::scope(|scope| {
        let start = |seed| {
            let part = &part;
            scope.spawn(move || part(seed))
        };
        let threads: Vec<_> = (0..count).map(start).collect();
        let got = threads.into_iter().map(|thread| thread.join().unwrap());
        got.collect()
    })
}

#[test]
fn two_runtimes_that_copy_on_default_streams_meet_no_conflict() {
    let folder = tempfile::tempdir().unwrap();
    let (_runtimes, devices) = two(folder.path());
    for both in devices {
        let refused: Vec<Error> = at_once(&both, 8, copy)
            .into_iter()
            .filter_map(Result::err)
            .collect();
        assert!(refused.is_empty(), "{}: {refused:?}", both[0]);
    }
}

#[test]
fn threads_of_two_runtimes_have_one_default_stream_in_every_round() {
    let folder = tempfile::tempdir().unwrap();
    let (_runtimes, devices) = two(folder.path());
    for both in devices {
        let mut differing = 0;
        for _ in 0..500 {
            let streams = at_once(&both, 4, |device, _| Stream::default_of(device).unwrap());
            differing += usize::from(streams.iter().any(|stream| *stream != streams[0]));
        }
        assert_eq!(differing, 0, "of 500 rounds on {}", both[0]);
    }
}

#[test]
fn a_stream_is_found_and_wrapped_by_its_native_handle_in_every_runtime() {
    let folder = tempfile::tempdir().unwrap();
    let (_runtimes, devices) = two(folder.path());
    for [one, other] in devices {
        let made = Stream::new(&one).unwrap();
        let Ok(native) = made.native_handle() else {
            continue;
        };
        let found = Stream::find(&other, native).unwrap();
        assert!(found == made, "{one}");
        // SAFETY: `made` lives, and no other thread uses it.
        let wrapped = unsafe { Stream::wrap(&other, native) }.unwrap();
        assert!(wrapped == made, "{one}");
        drop(made);
        assert!(Stream::find(&one, native).is_some(), "somebody holds it");
        drop((found, wrapped));
        assert!(Stream::find(&one, native).is_none(), "{one}: nobody does");
    }
}

/// A runtime with this plugin.
fn open_with(file: &std::path::Path) -> Runtime {
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    builder.plugin(file).open().unwrap()
}

/// 4 by 4 numbers, and what they are with their axes exchanged.
fn square() -> (Layout, Vec<u8>, Vec<u8>) {
    let layout = Layout::compact(Dtype::UINT32, &[4, 4]).unwrap();
    let rows = (0..16_u32).flat_map(u32::to_le_bytes);
    let columns = (0..16_u32).map(|at| at % 4 * 4 + at / 4);
    (
        layout,
        rows.collect(),
        columns.flat_map(u32::to_le_bytes).collect(),
    )
}

fn told<T>(result: Result<T, Error>) -> Result<T, String> {
    result.map_err(|error| format!("{error}: {}", error.why()))
}

#[test]
fn a_strided_tensor_is_used_while_another_runtime_keeps_its_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let file = ext_dev(folder.path());
    let [here, _there] = [&file; 2].map(|file| open_with(file));
    let device = here.devices().pop().unwrap();
    let (layout, rows, columns) = square();
    let tensor = Tensor::from_bytes(&device, &layout, &rows).unwrap();
    let turned = tensor.permute(&[1, 0]).unwrap();
    here.retire(device.plugin()).unwrap();
    assert!(!device.plugin().is_retired(), "the other runtime lists it");
    assert_eq!(told(tensor.read()), Ok(rows.clone()));
    assert_eq!(told(turned.read()), Ok(columns));
    assert_eq!(told(turned.write(&rows)), Ok(()));
    assert_eq!(told(turned.read()), Ok(rows));
    // By a copy that is apart from both: they are one memory.
    let before = tensor.read().unwrap();
    assert_eq!(told(turned.copy_from(&tensor, None)), Ok(()));
    assert_eq!(told(turned.read()), Ok(before));
    assert_eq!(told(turned.fill(&[7; 4], None)), Ok(()));
    assert_eq!(told(tensor.read()), Ok(vec![7; 64]));
    let error = Tensor::empty(&device, &layout).unwrap_err();
    assert!(error.why().contains("retired"), "{}", error.why());
}

#[test]
fn a_strided_tensor_is_copied_away_while_another_runtime_keeps_its_plugin() {
    let rig = Simulated::new();
    let there = open_with(&asynchronous());
    let (device, cpu) = (rig.device("vpi:1"), rig.device("cpu:0"));
    let (layout, rows, columns) = square();
    let tensor = Tensor::from_bytes(&device, &layout, &rows).unwrap();
    let turned = tensor.permute(&[1, 0]).unwrap();
    rig.runtime.retire(device.plugin()).unwrap();
    let [read, turned_read] = [&tensor, &turned].map(|tensor| {
        let home = told(tensor.to(&cpu, RouteChoice::Copy));
        home.map(|(home, _)| home.read().unwrap())
    });
    rig.runtime.load(&asynchronous()).unwrap();
    drop(there);
    assert_eq!((read, turned_read), (Ok(rows), Ok(columns)));
}
