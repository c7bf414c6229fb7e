//! Measures the pointer table against a sorted map behind a lock, a million ranges alive.
//!
//! Run it by `cargo run --release -p crossdock --example pointer_bench`.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::{
    collections::BTreeMap,
    process::ExitCode,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crossdock_sdk::pointers::{PointerEntry, PointerTable};

/// What is measured: both answer the same questions about the same ranges.
trait Answers: Sync {
    fn lookup(&self, address: u64) -> Option<PointerEntry>;
    fn renew(&self, entry: PointerEntry);
}

impl Answers for PointerTable {
    fn lookup(&self, address: u64) -> Option<PointerEntry> {
        Self::lookup(self, address)
    }

    fn renew(&self, entry: PointerEntry) {
        self.remove(entry.base);
        let entered = self.insert(entry);
        debug_assert!(entered.is_ok(), "each writer has its own ranges");
    }
}

type LockedMap = RwLock<BTreeMap<u64, PointerEntry>>;

impl Answers for LockedMap {
    fn lookup(&self, address: u64) -> Option<PointerEntry> {
        let map = self.read().unwrap_or_else(PoisonError::into_inner);
        let (_, entry) = map.range(..=address).next_back()?;
        entry.contains(address).then_some(*entry)
    }

    fn renew(&self, entry: PointerEntry) {
        self.write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&entry.base);
        self.write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(entry.base, entry);
    }
}

fn main() -> ExitCode {
    let mut random = Random(42);
    let entries = ranges(&mut random);
    let questions: Vec<(u64, u64)> = (0..QUERIES).map(|_| random.inside(&entries)).collect();
    let (table, map) = (PointerTable::new(), LockedMap::default());
    for entry in &entries {
        if let Err(error) = table.insert(*entry) {
            println!("{error}");
            return ExitCode::FAILURE;
        }
        map.renew(*entry);
    }
    println!(
        "{RANGES} live ranges of 64 B to 16 MiB, {QUERIES} random addresses, median of {RUNS}"
    );
    for writers in [0, 3] {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..RUNS {
            times[0].push(measure(&table, &entries, &questions, writers));
            times[1].push(measure(&map, &entries, &questions, writers));
        }
        let [ours, theirs] = times.map(median);
        let ratio = theirs / ours;
        println!(
            "{writers} writers: table {ours:6.1} ns, RwLock<BTreeMap> {theirs:6.1} ns, \
             {ratio:.2} times faster (target {TARGET})"
        );
    }
    ExitCode::SUCCESS
}

/// Nanoseconds for one lookup, with so many threads freeing and allocating beside it.
fn measure(
    answers: &impl Answers,
    entries: &[PointerEntry],
    questions: &[(u64, u64)],
    writers: usize,
) -> f64 {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for writer in 0..writers {
            let done = &done;
            scope.spawn(move || {
                let mut mine = entries.iter().skip(writer).step_by(writers.max(1)).cycle();
                while !done.load(Ordering::Relaxed) {
                    mine.next()
                        .into_iter()
                        .for_each(|entry| answers.renew(*entry));
                }
            });
        }
        let begin = Instant::now();
        let wrong = questions
            .iter()
            .filter(|(address, owner)| {
                let answer = answers.lookup(*address);
                answer.map_or(writers == 0, |entry| entry.allocation != *owner)
            })
            .count();
        let time = begin.elapsed();
        done.store(true, Ordering::Relaxed);
        assert_eq!(wrong, 0, "an answer was wrong");
        nanoseconds(time) / f64::from(QUERIES)
    })
}

/// Ranges of mixed size in no order, with gaps, as a driver's address space looks.
fn ranges(random: &mut Random) -> Vec<PointerEntry> {
    let mut base = 0x7000_0000_0000;
    let mut entries: Vec<_> = (0..u64::from(RANGES))
        .map(|id| {
            let size = (64 << random.below(18)) + random.below(64) * 64;
            let entry = PointerEntry::new(base, size.min(16 << 20), id, id);
            base += entry.size + random.below(16) * 256;
            entry
        })
        .collect();
    for at in (1..entries.len()).rev() {
        let other = random.below(u64::try_from(at).unwrap_or(0) + 1);
        entries.swap(at, usize::try_from(other).unwrap_or(0));
    }
    entries
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % limit
    }

    fn inside(&mut self, entries: &[PointerEntry]) -> (u64, u64) {
        let at = usize::try_from(self.below(u64::from(RANGES))).unwrap_or(0);
        let entry = entries
            .get(at)
            .copied()
            .unwrap_or(PointerEntry::new(0, 1, 0, 0));
        (entry.base + self.below(entry.size), entry.allocation)
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

const RANGES: u32 = 1_000_000;
const QUERIES: u32 = 2_000_000;
const RUNS: u32 = 5;
const TARGET: f64 = 2.5;
