//! A loader that makes a stream for each batch and keeps the batches.

use crossdock::{Device, RouteChoice, Stream, Tensor};

use super::ends::RUNS;
use super::{Both, LIMIT, Simulator, both_are_built, content, layout};
use crate::{is_long, over};

/// After so many the driver's objects are counted.
const COUNTED: usize = 50;

/// So many streams and events a driver may have at any time: the plugin keeps idle events for the next call.
const MOST: i64 = 400;

/// How many streams and events were made and not given back, of those since this was asked last.
fn more(simulator: &Simulator) -> i64 {
    let signed = |(name, calls): (String, u64)| {
        let is = |what: [&str; 2]| what.iter().any(|what| name.contains(what));
        let calls = i64::try_from(calls).unwrap();
        match (
            is(["StreamCreate", "EventCreate"]),
            is(["StreamDestroy", "EventDestroy"]),
        ) {
            (true, _) => calls,
            (_, true) => -calls,
            _ => 0,
        }
    };
    simulator.take_calls().into_iter().map(signed).sum()
}

fn batches() -> usize {
    if is_long() { 10_000 } else { 1_000 }
}

fn load(simulator: &Simulator, device: &Device, source: &Tensor) -> Vec<Tensor> {
    let mut kept = Vec::new();
    let mut alive = 0;
    for at in 1..=batches() {
        let stream = Stream::new(device).unwrap();
        let (batch, _) = source.to_on(device, RouteChoice::Copy, &stream).unwrap();
        kept.push(batch);
        if at % 10 == 0 {
            // Its work may still run.
            drop(stream);
            device.synchronize(LIMIT).unwrap();
        } else {
            stream.synchronize(LIMIT).unwrap();
        }
        if at % COUNTED == 0 {
            alive += more(simulator);
            assert!(
                alive < MOST,
                "{alive} streams and events after {at} batches"
            );
        }
    }
    kept
}

#[test]
fn kept_batches_with_a_stream_each_keep_few_streams_and_events() {
    let name = "vendors::kept::kept_batches_with_a_stream_each_keep_few_streams_and_events";
    if !over(name, &RUNS) || !both_are_built() {
        return;
    }
    let (both, simulator) = (Both::open(), Simulator::find());
    let wanted = content(64, 1);
    let source = Tensor::from_bytes(&both.cpu, &layout(64), &wanted).unwrap();
    for device in [&both.cuda, &both.rocm] {
        let kept = load(&simulator, device, &source);
        assert!(kept[kept.len() / 2].read().unwrap() == wanted);
    }
}
