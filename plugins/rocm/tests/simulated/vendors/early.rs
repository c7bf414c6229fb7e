//! Work that is pending on the source is never read early: each exchange is right as it is, and wrong or reported where
//! one of its waits is left out.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossdock::{Device, Event, RouteChoice, RouteKind, Stream, Target, Tensor};
use crossdock_sdk::abi::{MemoryKind, Status};

use super::{BYTES, Both, LIMIT, Simulator, both_are_built, content, layout};
use crate::{is_long, over};

/// What a tensor goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exchange {
    /// From device to device, through chunks.
    Staged,
    /// Into pinned memory of the destination, by the source alone.
    IntoPinned,
    /// Out of pinned memory of the source, by the destination alone.
    OutOfPinned,
    /// Through memory of the host, which a stream of the source writes.
    ThroughHost,
}

/// Which stream the move is put on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    None,
    Source,
    Destination,
}

const EXCHANGES: [Exchange; 4] = [
    Exchange::Staged,
    Exchange::IntoPinned,
    Exchange::OutOfPinned,
    Exchange::ThroughHost,
];

/// The calls by which a stream or the host waits for work.
const WAITS: [&str; 10] = [
    "cuStreamWaitValue32_v2",
    "hipStreamWaitValue32",
    "cuEventQuery",
    "hipEventQuery",
    "cuStreamWaitEvent",
    "hipStreamWaitEvent",
    "cuEventSynchronize",
    "hipEventSynchronize",
    "cuStreamSynchronize",
    "hipStreamSynchronize",
];

/// More of one function are not left out, as a host that asks may do so for ever.
const MOST: u64 = 4;

/// How long the pending work is held: what is too early happens in this time, and threads of the host may have a part
/// in it. Where nothing was seen, all is tried once more, for longer.
const HELD_MS: [u64; 4] = [10, 50, 250, 2000];

/// A tensor that a stream still writes, and where it is to go.
struct Pending {
    source: Tensor,
    target: Target,
    mover: Option<Stream>,
    /// Holds the work until it is opened.
    gate: Event,
    _writer: Stream,
}

impl Pending {
    fn new(both: &Both, (exchange, [from, to], on): What<'_>, seed: usize) -> Self {
        let writer = Stream::new(from).unwrap();
        let mover = match on {
            On::None => None,
            On::Source => Some(Stream::new(from).unwrap()),
            On::Destination => Some(Stream::new(to).unwrap()),
        };
        let first = Tensor::from_bytes(from, &layout(BYTES), &content(BYTES, seed)).unwrap();
        let source = match exchange {
            Exchange::ThroughHost => Tensor::empty(&both.cpu, &layout(BYTES)),
            Exchange::OutOfPinned => Tensor::empty_of(from, &layout(BYTES), MemoryKind::PINNED),
            Exchange::Staged | Exchange::IntoPinned => Tensor::empty(from, &layout(BYTES)),
        };
        let source = source.unwrap();
        let gate = Event::host(from).unwrap();
        writer.wait(&gate).unwrap();
        source.copy_from(&first, Some(&writer)).unwrap();
        let kind = match exchange {
            Exchange::IntoPinned => MemoryKind::PINNED,
            _ => MemoryKind::DEVICE,
        };
        Self {
            source,
            target: Target::new(to, kind),
            mover,
            gate,
            _writer: writer,
        }
    }
}

/// An exchange, between which devices, and on which stream.
type What<'a> = (Exchange, [&'a Device; 2], On);

/// Whether the call was made that is left out of the move, and what was seen of work that came too early.
fn run(
    (both, simulator): (&Both, &Simulator),
    what: What<'_>,
    seed: usize,
    (left_out, nth, held): (&str, u64, Duration),
) -> (bool, Vec<String>) {
    let pending = Pending::new(both, what, seed);
    let is_over = AtomicBool::new(false);
    let (moved, is_made) = thread::scope(|scope| {
        scope.spawn(|| {
            let begun = Instant::now();
            // As long as the move waits; where nothing is left out, no longer.
            while begun.elapsed() < held
                && !(left_out.is_empty() && is_over.load(Ordering::Acquire))
            {
                simulator.progress();
            }
            pending.gate.complete(Status::OK).unwrap();
        });
        simulator.drop_call(left_out, nth);
        let copy = RouteChoice::Copy;
        let mover = pending.mover.as_ref();
        let moved = pending.source.move_to(&pending.target, copy, mover);
        let is_made = !simulator.drop_call("", 0);
        is_over.store(true, Ordering::Release);
        (moved, is_made)
    });
    let (moved, route) = moved.unwrap();
    let is_staged = route.kind == RouteKind::Staged;
    assert_eq!(is_staged, what.0 == Exchange::Staged, "{route}");
    let is_right = moved
        .read()
        .is_ok_and(|found| found == content(BYTES, seed));
    drop((moved, pending));
    simulator.progress();
    both.runtime.wait_for_releases(LIMIT).unwrap();
    simulator.progress();
    let reports = simulator.take_reports();
    let kinds = reports
        .iter()
        .map(|report| report["kind"].as_str().unwrap().to_owned());
    let mut seen: Vec<String> = kinds.collect();
    if !is_right {
        seen.push("WrongBytes".to_owned());
    }
    (is_made, seen)
}

/// Runs an exchange as it is, and without each of its waits, until it needs one: which, or what was left out in vain.
fn needed(
    both: (&Both, &Simulator),
    what: What<'_>,
    seed: &mut usize,
) -> Result<String, Vec<String>> {
    let mut run = |left_out: &str, nth, held_ms| {
        *seed += 1;
        run(
            both,
            what,
            *seed,
            (left_out, nth, Duration::from_millis(held_ms)),
        )
    };
    for _ in 0..2 {
        // The first time makes what is kept.
        let (_, seen) = run("", 0, 20);
        assert!(seen.is_empty(), "{what:?}: {seen:?}");
    }
    let is_early = |kind: &String| ["Race", "HostRace", "WrongBytes"].contains(&kind.as_str());
    let mut in_vain = Vec::new();
    for held_ms in HELD_MS {
        for wait in WAITS {
            for nth in 1..=MOST {
                let (is_made, seen) = run(wait, nth, held_ms);
                if !is_made {
                    break;
                }
                let told = format!("{wait}@{nth}: {seen:?}");
                if seen.iter().any(is_early) {
                    return Ok(told);
                }
                in_vain.push(told);
            }
        }
    }
    Err(in_vain)
}

#[test]
fn pending_work_is_never_read_early_and_each_exchange_needs_its_waits() {
    let name = "vendors::early::pending_work_is_never_read_early_and_each_exchange_needs_its_waits";
    let seeds: Vec<String> = (1..=if is_long() { 20 } else { 3 })
        .map(|seed: u32| seed.to_string())
        .collect();
    let policies = ["lazy", "seeded", "threads"].into_iter();
    // Many hardware queues: what shares one with the pending work comes after it without a wait.
    let runs: Vec<_> = policies
        .flat_map(|policy| seeds.iter().map(move |seed| (policy, seed.as_str())))
        .map(|(policy, seed)| {
            [
                "--cuda", "1", "--rocm", "1", "--queues", "64", "--policy", policy, "--seed", seed,
            ]
        })
        .collect();
    let runs: Vec<&[&str]> = runs.iter().map(<[&str; 10]>::as_slice).collect();
    if !both_are_built() || !over(name, &runs) {
        return;
    }
    let (both, simulator) = (Both::open(), Simulator::find());
    let mut seed = 0;
    for ends in both.directions() {
        for exchange in EXCHANGES {
            for on in [On::None, On::Source, On::Destination] {
                let needed = needed((&both, &simulator), (exchange, ends, on), &mut seed);
                let [from, to] = ends;
                println!("{exchange:?} {from} -> {to}, {on:?}: {needed:?}");
                assert!(needed.is_ok(), "it needs none of these");
            }
        }
    }
}
