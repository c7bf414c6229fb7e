//! How busy a simulated link is while bytes are copied over it, for each way that the plugin and the runtime have.
//!
//! The simulator counts how long each link moved bytes; a share is that of the slower link, of the time from the
//! first byte to the last. `scripts/bench links` runs this: once with `memcpy` behind the name, to say what this
//! machine copies, then over links of a quarter of that, with `staged` for the copies between two devices that
//! go through host memory, as their driver knows no others, and with `vendors` for those between two vendors.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

mod simulator;
mod vendors;

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use crossdock::{CostCache, Device, RouteChoice, RouteKind, Runtime, Stream, Tensor};
use crossdock_sdk::abi::MemoryKind;
use crossdock_sdk::dlpack::{Dtype, Layout};

use crate::simulator::{Simulator, row, ways};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    let mode = std::env::args().nth(1);
    if mode.as_deref() == Some("memcpy") {
        println!("{:.0}", memcpy());
        return Ok(());
    }
    let Some(simulator) = Simulator::find() else {
        println!("skip\tsimulated links\tno simulated driver; scripts/bench links runs this");
        return Ok(());
    };
    if mode.as_deref() == Some("vendors") {
        return vendors::run(&simulator);
    }
    let bench = Bench::open(simulator)?;
    if mode.as_deref() == Some("staged") {
        return bench.staged();
    }
    println!("{} MiB, the best of {RUNS} runs", BYTES >> 20);
    bench.of_the_host()?;
    bench.both_ways()?;
    bench.among_plugins()?;
    bench.expectations()
}

/// Bytes a second of this machine's memcpy, by one thread, outside of its caches.
fn memcpy() -> f64 {
    let (from, mut to) = (vec![1_u8; LENGTH], vec![0_u8; LENGTH]);
    let once = |_| {
        let begun = Instant::now();
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&to);
        begun.elapsed().as_secs_f64()
    };
    let best = (0..RUNS).map(once).fold(f64::INFINITY, f64::min);
    BYTES as f64 / best
}

struct Bench {
    simulator: Simulator,
    runtime: Runtime,
    cpu: Device,
    cuda: [Device; 2],
    layout: Layout,
}

impl Bench {
    fn open(simulator: Simulator) -> Outcome<Self> {
        let runtime = Runtime::builder().costs(CostCache::Memory).open()?;
        let device = |name: &str| {
            runtime
                .device(name.parse()?)
                .map_err(Box::<dyn Error>::from)
        };
        Ok(Self {
            simulator,
            cpu: device("cpu:0")?,
            cuda: [device("cuda:0")?, device("cuda:1")?],
            layout: Layout::compact(Dtype::UINT8, &[BYTES])?,
            runtime,
        })
    }

    fn tensor(&self, device: &Device, kind: MemoryKind) -> Outcome<Tensor> {
        let tensor = Tensor::empty_of(device, &self.layout, kind)?;
        tensor.fill(&[7], None)?;
        tensor.synchronize(None)?;
        Ok(tensor)
    }

    /// Copies between one device and the host, in the order of a stream.
    fn of_the_host(&self) -> Outcome {
        let [device, _] = &self.cuda;
        let there = self.tensor(device, MemoryKind::DEVICE)?;
        let pinned = self.tensor(device, MemoryKind::PINNED)?;
        let pageable = self.tensor(&self.cpu, MemoryKind::DEVICE)?;
        let stream = Stream::new(device)?;
        for (what, host, asked) in [("pinned", &pinned, PINNED), ("pageable", &pageable, COPIED)] {
            for (to, from, way) in [
                (&there, host, "host -> cuda:0"),
                (host, &there, "cuda:0 -> host"),
            ] {
                let run = self.simulator.best(|| {
                    to.copy_from(from, Some(&stream))?;
                    Ok(stream.synchronize(None)?)
                })?;
                row(&format!("{what} {way}"), BYTES, &run, asked);
            }
        }
        Ok(())
    }

    /// Copies between both devices, and between each and the host, both ways at once.
    fn both_ways(&self) -> Outcome {
        let [[a, b], [c, d]] = self.pairs()?;
        let streams = [Stream::new(a.device())?, Stream::new(c.device())?];
        let [here, there] = &streams;
        let end = || -> Outcome {
            Ok(streams
                .iter()
                .try_for_each(|stream| stream.synchronize(None))?)
        };
        let run = self.simulator.best(|| {
            d.copy_from(&a, Some(here))?;
            b.copy_from(&c, Some(there))?;
            end()
        })?;
        ways(
            "direct between cuda:0 and cuda:1, both ways",
            BYTES,
            &run,
            run.together,
        );
        let pinned = |device| self.tensor(device, MemoryKind::PINNED);
        let (from, to) = (pinned(a.device())?, pinned(c.device())?);
        let run = self.simulator.best(|| {
            a.copy_from(&from, Some(here))?;
            to.copy_from(&c, Some(there))?;
            end()
        })?;
        ways(
            "pinned host -> cuda:0 and cuda:1 -> host",
            BYTES,
            &run,
            run.together,
        );
        Ok(())
    }

    /// Two tensors of each device.
    fn pairs(&self) -> Outcome<[[Tensor; 2]; 2]> {
        let [one, other] = &self.cuda;
        let tensor = |device| self.tensor(device, MemoryKind::DEVICE);
        Ok([
            [tensor(one)?, tensor(one)?],
            [tensor(other)?, tensor(other)?],
        ])
    }

    /// Copies through host memory from one device to the other, over two links for each way. The driver was made to
    /// know no copies between devices.
    fn staged(&self) -> Outcome {
        let [[a, b], [c, d]] = self.pairs()?;
        let run = self.simulator.best(|| Ok(c.copy_from(&a, None)?))?;
        row("staged cuda:0 -> cuda:1", BYTES, &run, COPIED);
        let run = self.simulator.best(|| {
            std::thread::scope(|scope| {
                let back = scope.spawn(|| b.copy_from(&d, None));
                c.copy_from(&a, None)?;
                Ok(back.join().map_err(|_panic| "the other copy panicked")??)
            })
        })?;
        ways(
            "staged between cuda:0 and cuda:1, both ways",
            BYTES,
            &run,
            run.together / 2.0,
        );
        Ok(())
    }

    /// Copies between this plugin and each other one, which go through host memory.
    fn among_plugins(&self) -> Outcome {
        let [device, _] = &self.cuda;
        let here = self.tensor(device, MemoryKind::DEVICE)?;
        let is_another = |other: &&Device| {
            let known = [device, &self.cpu];
            !known
                .iter()
                .any(|one| Arc::ptr_eq(one.plugin(), other.plugin()))
        };
        for other in self.runtime.devices().iter().filter(is_another) {
            let there = self.tensor(other, MemoryKind::DEVICE)?;
            for (to, from) in [(&there, &here), (&here, &there)] {
                let run = self.simulator.best(|| Ok(to.copy_from(from, None)?))?;
                row(
                    &format!("staged {} -> {}", from.device(), to.device()),
                    BYTES,
                    &run,
                    COPIED,
                );
            }
        }
        Ok(())
    }

    /// What `explain` says beside what a copy took.
    fn expectations(&self) -> Outcome {
        let [one, other] = &self.cuda;
        let here = self.tensor(one, MemoryKind::DEVICE)?;
        for kind in [RouteKind::Direct, RouteKind::Staged] {
            let choice = RouteChoice::Only(kind);
            let route = here.explain(other, choice);
            println!("{route}");
            let run = self.simulator.best(|| {
                here.to(other, choice)?;
                Ok(())
            })?;
            let expected = route.cost.time.unwrap_or_default();
            let [expected_ms, took_ms] = [expected, run.span].map(|time| time.as_secs_f64() * 1e3);
            let ratio = expected_ms / took_ms;
            println!(
                "row\texplained {kind} cuda:0 -> cuda:1\t{expected_ms:.1} ms\ttook {took_ms:.1} ms\t{:.2}\t-",
                ratio.max(ratio.recip()),
            );
        }
        Ok(())
    }
}

const BYTES: i64 = 64 << 20;
const LENGTH: usize = 64 << 20;
const RUNS: u32 = 9;
const PINNED: f64 = 0.95;
const COPIED: f64 = 0.9;
const BOTH: f64 = 1.8;
