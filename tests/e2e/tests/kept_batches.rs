//! A loader that makes a stream for each batch and keeps the batches: streams and events go back all the same.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use crossdock::{CostCache, Device, RouteChoice, Runtime, Stream, Tensor};
use crossdock_e2e::{plugin_file, report, traced};
use crossdock_sdk::dlpack::{Dtype, Layout};

const BATCHES: usize = 10_000;

/// So many streams and events a plugin may have given out at any time.
const MOST: usize = 64;

fn load(device: &Device, source: &Tensor) -> Vec<Tensor> {
    let mut batches = Vec::new();
    for at in 1..=BATCHES {
        let stream = Stream::new(device).unwrap();
        let (batch, _) = source.to_on(device, RouteChoice::Copy, &stream).unwrap();
        batches.push(batch);
        if at % 10 == 0 {
            // Its work may still run.
            drop(stream);
            device.synchronize(None).unwrap();
        } else {
            stream.synchronize(None).unwrap();
        }
    }
    batches
}

/// How many of what was made were alive at one time, at most.
fn most(hooks: &[String], made: &str, given_back: &str) -> usize {
    let (mut alive, mut most) = (0_usize, 0);
    for hook in hooks {
        match hook.as_str() {
            name if name == made => alive += 1,
            name if name == given_back => alive = alive.saturating_sub(1),
            _ => {}
        }
        most = most.max(alive);
    }
    most
}

#[test]
fn kept_batches_with_a_stream_each_keep_few_streams_and_events() {
    let mut builder = Runtime::builder().search(false).costs(CostCache::Off);
    match plugin_file("opencl") {
        Some(file) => builder = builder.plugin(file),
        None => report("skipped: the plugin `opencl` was not built in this run"),
    }
    let runtime = builder.open().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::compact(Dtype::UINT8, &[64]).unwrap();
    let cpu = runtime.device("cpu:0".parse().unwrap()).unwrap();
    let source = Tensor::from_bytes(&cpu, &layout, &[7; 64]).unwrap();
    for device in runtime.devices() {
        let (batches, hooks) = traced(folder.path(), || load(&device, &source));
        let streams = most(&hooks, "stream_create", "stream_destroy");
        let events = most(&hooks, "event_create", "event_destroy");
        let id = device.id();
        assert!(streams > 0 && streams < MOST, "{id}: {streams} streams");
        assert!(events > 0 && events < MOST, "{id}: {events} events");
        assert_eq!(batches[BATCHES / 2].read().unwrap(), [7; 64]);
    }
}
