//! Two runtimes of one process on the same devices: their streams are one, and take turns.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]
#![expect(unsafe_code, reason = "wraps a stream that this test made")]

use std::sync::Barrier;

use crossdock::{Device, Error, Layer, Runtime, Stream, Tensor};
use crossdock_e2e::everything_behind;
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
