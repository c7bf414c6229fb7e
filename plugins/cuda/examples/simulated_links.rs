//! How busy a simulated link is while bytes are copied over it, for each way that the plugin and the runtime have.
//!
//! The simulator counts how long each link moved bytes; a share is that of the slower link, of the time from the
//! first byte to the last. `scripts/bench links` runs this: once with `memcpy` behind the name, to say what this
//! machine copies, then over links of a quarter of that, and with `staged` for the copies between two devices that
//! go through host memory, as their driver knows no others.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]
#![expect(unsafe_code, reason = "asks the simulator, which it finds by name")]

use std::error::Error;
use std::ffi::c_char;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossdock::{CostCache, Device, RouteChoice, RouteKind, Runtime, Stream, Tensor};
use crossdock_sdk::abi::MemoryKind;
use crossdock_sdk::dlpack::{Dtype, Layout};
use libloading::Library;

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

/// The simulated driver.
struct Simulator(Library);

/// What became of one run.
struct Run {
    /// Of the time from the first byte to the last one that the slower link was busy.
    share: f64,
    /// Of all links together.
    together: f64,
    took: Duration,
    /// From the first byte to the last one.
    span: Duration,
}

impl Simulator {
    fn find() -> Option<Self> {
        // SAFETY: a driver's initialisers touch nothing of ours.
        let library = unsafe { Library::new("libcuda.so.1") }.ok()?;
        // SAFETY: only whether it is there is asked.
        unsafe { library.get::<unsafe extern "C" fn()>("crossdock_sim_version") }.ok()?;
        Some(Self(library))
    }

    /// How each link was used since this was asked last: busy nanoseconds, first and last one.
    fn links(&self) -> Outcome<Vec<[f64; 3]>> {
        let mut text = vec![0_u8; 1 << 16];
        type Take = unsafe extern "C" fn(*mut c_char, usize) -> i64;
        // SAFETY: the simulator has the function, with this type.
        let take = unsafe { self.0.get::<Take>("crossdock_sim_take_links") }?;
        // SAFETY: the text has so many bytes.
        let needed = unsafe { take(text.as_mut_ptr().cast(), text.len()) };
        text.truncate(usize::try_from(needed)?.saturating_sub(1));
        let lines = std::str::from_utf8(&text)?.lines();
        let read = |line: &str| {
            let link: serde_json::Value = serde_json::from_str(line)?;
            let number = |key: &str| link.get(key).and_then(serde_json::Value::as_f64);
            let numbers = ["busy_ns", "first_ns", "last_ns"].map(|key| number(key).unwrap_or(0.0));
            Ok(numbers)
        };
        lines.map(read).collect()
    }

    /// Times work, and looks at the links that it used.
    fn run(&self, work: impl FnOnce() -> Outcome) -> Outcome<Run> {
        self.links()?;
        let begun = Instant::now();
        work()?;
        let took = begun.elapsed();
        let links = self.links()?;
        let [first, last] = [1, 2].map(|at| links.iter().filter_map(move |link| link.get(at)));
        let first = first.copied().fold(f64::INFINITY, f64::min);
        let last = last.copied().fold(0.0, f64::max);
        let busy = links.iter().filter_map(|link| link.first());
        Ok(Run {
            share: busy.clone().copied().fold(0.0, f64::max) / (last - first),
            together: busy.sum::<f64>() / (last - first),
            took,
            span: Duration::from_secs_f64((last - first) / 1e9),
        })
    }

    /// The best of some runs, after one that touches new memory.
    fn best(&self, mut work: impl FnMut() -> Outcome) -> Outcome<Run> {
        work()?;
        let mut best = self.run(&mut work)?;
        for _ in 1..RUNS {
            let run = self.run(&mut work)?;
            best = Run {
                share: best.share.max(run.share),
                together: best.together.max(run.together),
                took: best.took.min(run.took),
                span: best.span.min(run.span),
            };
        }
        Ok(best)
    }
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
                row(&format!("{what} {way}"), &run, asked);
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
        row("staged cuda:0 -> cuda:1", &run, COPIED);
        let run = self.simulator.best(|| {
            std::thread::scope(|scope| {
                let back = scope.spawn(|| b.copy_from(&d, None));
                c.copy_from(&a, None)?;
                Ok(back.join().map_err(|_panic| "the other copy panicked")??)
            })
        })?;
        ways(
            "staged between cuda:0 and cuda:1, both ways",
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

fn row(what: &str, run: &Run, asked: f64) {
    let speed = BYTES as f64 / run.took.as_secs_f64() / 1e9;
    println!(
        "row\t{what}\t{speed:.2} GB/s\tthe slower link's time\t{:.3}\t>= {asked}",
        run.share
    );
}

/// So many times what one way at a time would move.
fn ways(what: &str, run: &Run, ratio: f64) {
    let speed = 2.0 * BYTES as f64 / run.took.as_secs_f64() / 1e9;
    println!("row\t{what}\t{speed:.2} GB/s\tone way\t{ratio:.2}\t>= {BOTH}");
}

const BYTES: i64 = 64 << 20;
const LENGTH: usize = 64 << 20;
const RUNS: u32 = 9;
const PINNED: f64 = 0.95;
const COPIED: f64 = 0.9;
const BOTH: f64 = 1.8;
