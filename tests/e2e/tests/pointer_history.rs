//! Pointer queries through the hook while others allocate and free: each answer is checked against
//! the recorded history.
//!
//! `CROSSDOCK_HISTORY_SECONDS` makes the run longer, `CROSSDOCK_HISTORY_SEED` another one.
#![expect(unsafe_code, reason = "frees what the hook allocated")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "functions beside the tests are tests too"
)]

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossdock::{Hooks, Runtime};
use crossdock_e2e::{everything, report};
use crossdock_sdk::abi::{Address, AllocateArgs, MemoryKind, PointerInfo};
use crossdock_sdk::dlpack::Device;

/// One allocation's life, by the ticks around its two calls.
#[derive(Debug, Clone, Copy)]
struct Life {
    base: u64,
    size: u64,
    allocated: (u64, u64),
    freed: (u64, u64),
}

/// An answer, and the ticks around it.
#[derive(Debug, Clone, Copy)]
struct Answer {
    address: u64,
    info: PointerInfo,
    asked: (u64, u64),
}

/// What the threads share: a clock, the addresses worth asking for, and when to stop.
struct Stage<'a> {
    hooks: &'a Hooks,
    device: u32,
    clock: AtomicU64,
    places: [AtomicU64; PLACES],
    done: AtomicBool,
}

#[test]
fn every_answer_through_the_hook_was_right_at_some_moment_between_call_and_return() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    let seed = number("CROSSDOCK_HISTORY_SEED").unwrap_or(7);
    let seconds = number("CROSSDOCK_HISTORY_SECONDS").unwrap_or(1);
    for device in [Device::CPU, "ext_dev:0".parse().unwrap()] {
        let end = Instant::now() + Duration::from_secs(seconds);
        let (mut ids, mut answers, mut round) = (HashSet::new(), 0, seed);
        // A history is checked and forgotten before it grows large.
        while Instant::now() < end {
            let (lived, told) = record(&runtime, device, round);
            check(&lived, &told, round);
            for (id, _) in lived {
                assert!(ids.insert(id), "the id {id} was given twice, seed {round}");
            }
            answers += told.len();
            round += 1;
        }
        let lives = ids.len();
        report(&format!(
            "{device}: {answers} answers among {lives} allocations, from seed {seed}"
        ));
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Three threads allocate and free, two ask.
fn record(runtime: &Runtime, device: Device, seed: u64) -> (Vec<(u64, Life)>, Vec<Answer>) {
    let device = runtime.device(device).unwrap();
    let stage = Stage {
        hooks: device.plugin().hooks(),
        device: device.index(),
        clock: AtomicU64::new(1),
        places: [const { AtomicU64::new(0) }; PLACES],
        done: AtomicBool::new(false),
    };
    let lived = Mutex::new(Vec::new());
    let told = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (stage, lived) = (&stage, &lived);
                scope.spawn(move || {
                    let mine = stage.write(seed * 31 + writer as u64, writer);
                    lived.lock().unwrap().extend(mine);
                })
            })
            .collect();
        for reader in 0..2 {
            let (stage, told) = (&stage, &told);
            scope.spawn(move || told.lock().unwrap().extend(stage.read(seed * 37 + reader)));
        }
        let ended: Vec<_> = writers
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        stage.done.store(true, Ordering::SeqCst);
        assert!(
            ended.iter().all(Result::is_ok),
            "a writer failed, seed {seed}"
        );
    });
    (lived.into_inner().unwrap(), told.into_inner().unwrap())
}

impl Stage<'_> {
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Allocates and frees in its own places, in an order of the seed; at the end all is freed.
    fn write(&self, seed: u64, writer: usize) -> Vec<(u64, Life)> {
        let mut random = Random(seed);
        let mut live: HashMap<usize, (u64, Life)> = HashMap::new();
        let mut lived = Vec::new();
        for _ in 0..STEPS {
            let place = writer + WRITERS * random.below(PLACES / WRITERS);
            match live.remove(&place) {
                Some(life) => lived.push(self.free(life)),
                None => {
                    // The allocator gives a freed block again soon where few sizes are asked for.
                    let size = SIZES[random.below(SIZES.len())];
                    live.insert(place, self.allocate(size, place));
                }
            }
        }
        lived.extend(live.into_values().map(|life| self.free(life)));
        lived
    }

    fn allocate(&self, size: u64, place: usize) -> (u64, Life) {
        let before = self.tick();
        let args = AllocateArgs {
            size,
            alignment: 256,
            kind: MemoryKind::DEVICE,
            device: self.device,
        };
        let base = self.hooks.allocate(args).unwrap().as_pointer().unwrap();
        let life = Life {
            base,
            size,
            allocated: (before, self.tick()),
            freed: (u64::MAX, u64::MAX),
        };
        self.places[place].store(base, Ordering::SeqCst);
        // Only this thread frees it, so the id is the allocation's own.
        let info = self.query(base);
        assert_eq!((info.base, info.size), (Address::pointer(base), size));
        (info.allocation_id, life)
    }

    fn free(&self, (id, life): (u64, Life)) -> (u64, Life) {
        let before = self.tick();
        // SAFETY: this thread allocated it, and nobody uses its bytes.
        unsafe {
            self.hooks
                .free(Address::pointer(life.base), MemoryKind::DEVICE)
        }
        .unwrap();
        let freed = (before, self.tick());
        assert_ne!(
            self.query(life.base).allocation_id,
            id,
            "a freed allocation is the answer"
        );
        (id, Life { freed, ..life })
    }

    fn query(&self, address: u64) -> PointerInfo {
        self.hooks.pointer_query(Address::pointer(address)).unwrap()
    }

    fn read(&self, seed: u64) -> Vec<Answer> {
        let mut random = Random(seed);
        let mut told = Vec::new();
        while !self.done.load(Ordering::SeqCst) && told.len() < 40 * STEPS {
            let base = self.places[random.below(PLACES)].load(Ordering::SeqCst);
            let inside = u64::try_from(random.below(9000)).unwrap();
            let before = self.tick();
            let info = self.query(base + inside);
            told.push(Answer {
                address: base + inside,
                info,
                asked: (before, self.tick()),
            });
        }
        told
    }
}

fn check(lived: &[(u64, Life)], told: &[Answer], seed: u64) {
    let by_id: HashMap<u64, Life> = lived.iter().copied().collect();
    let mut by_page: HashMap<u64, Vec<Life>> = HashMap::new();
    for (_, life) in lived {
        for page in life.base >> PAGE_BITS..=(life.base + life.size - 1) >> PAGE_BITS {
            by_page.entry(page).or_default().push(*life);
        }
    }
    for answer in told {
        let Answer {
            address,
            info,
            asked,
        } = *answer;
        if info.kind == MemoryKind::UNOWNED {
            // Wrong only if one allocation held the address from before the call to after it.
            let missed = by_page.get(&(address >> PAGE_BITS)).and_then(|page| {
                page.iter().find(|life| {
                    address.wrapping_sub(life.base) < life.size
                        && life.allocated.1 < asked.0
                        && life.freed.0 > asked.1
                })
            });
            assert!(
                missed.is_none(),
                "{answer:?} missed {missed:?}, seed {seed}"
            );
            continue;
        }
        let Some(life) = by_id.get(&info.allocation_id) else {
            unreachable!("{answer:?} has an id of nobody, seed {seed}");
        };
        let fits = (info.base, info.size) == (Address::pointer(life.base), life.size)
            && address.wrapping_sub(life.base) < life.size
            && info.device_pointer == address;
        assert!(fits, "{answer:?} is not {life:?}, seed {seed}");
        let lived = life.allocated.0 < asked.1 && life.freed.1 > asked.0;
        assert!(lived, "{answer:?} is stale: {life:?}, seed {seed}");
    }
}

/// A small generator: the test needs spread, not quality.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

const WRITERS: usize = 3;
const PLACES: usize = 48;
const STEPS: usize = 2000;
const PAGE_BITS: u32 = 12;

/// Within a page of the table, across several, and equal ones often.
const SIZES: [u64; 6] = [256, 256, 768, 4096, 70_000, 300_000];
