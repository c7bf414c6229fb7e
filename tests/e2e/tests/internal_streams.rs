//! The streams that the runtime makes for itself.

use std::time::{Duration, Instant};

use crossdock::{CostCache, Event, Layer, RouteChoice, RouteKind, Runtime, Stream, Tensor};
use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::{Dtype, Layout};

const LIMIT: Option<Duration> = Some(Duration::from_secs(20));

#[test]
fn streams_that_many_releases_took_at_once_are_given_back() {
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    let runtime = builder.layers(&[Layer::Validate]).open().unwrap();
    let cpu = runtime.devices().into_iter().next().unwrap();
    let streams = || cpu.plugin().hooks().live_objects().unwrap().streams;
    let (stream, host_event) = (Stream::new(&cpu).unwrap(), Event::host(&cpu).unwrap());
    stream.wait(&host_event).unwrap();
    for _ in 0..200 {
        let layout = Layout::compact(Dtype::UINT8, &[64]).unwrap();
        let lent = Tensor::from_host_memory(&runtime, Box::new(vec![7; 64]), 0, &layout).unwrap();
        let direct = RouteChoice::Only(RouteKind::Direct);
        drop(lent.to_on(&cpu, direct, &stream).unwrap());
    }
    let most = streams();
    host_event.complete(Status::OK).unwrap();
    runtime.wait_for_releases(LIMIT).unwrap();
    // The last ones go back behind their releases.
    let end = Instant::now() + LIMIT.unwrap();
    while streams() > 30 && Instant::now() < end {
        std::thread::yield_now();
    }
    assert!(most > 100, "{most} streams, so nothing is to be given back");
    assert!(streams() <= 30, "{} of {most} streams are left", streams());
}
