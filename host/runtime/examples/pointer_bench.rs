//! Measures pointer queries through the hook against a sorted map behind a lock, a million ranges
//! alive.
//!
//! Both sides are plugins that the runtime calls alike: the built-in CPU plugin, and one that
//! differs in what it looks the address up in. The ranges are registered, so that a million of
//! mixed size need address space and no memory.
//!
//! Run it by `cargo run --release -p crossdock --example pointer_bench`.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]
#![expect(unsafe_code, reason = "a plugin of its own, called as one")]

use std::{
    collections::BTreeMap,
    error::Error,
    ffi::c_void,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crossdock::{Hooks, Plugin, Runtime, Table};
use crossdock_sdk::{
    abi::{
        Address, AllocateArgs, CopyArgs, DeviceInfo, MemoryInfo, MemoryKind, PointerFlags,
        PointerInfo, ProbeInfo, Status, StreamHandle,
    },
    dlpack::Device,
    plugin::{self, Groups, Host, Register, describe, table_of},
};

fn main() -> Result<(), Box<dyn Error>> {
    println!("{RANGES} live ranges, {QUERIES} random addresses in them, median of {RUNS}");
    compare("64 B to 8 MiB, with gaps", 64, 18)?;
    compare("256 B to 8 KiB, with gaps", 256, 6)
}

/// Compares both sides on ranges of `smallest` bytes and more, of so many powers of two.
fn compare(sizes: &str, smallest: u64, powers: u64) -> Result<(), Box<dyn Error>> {
    let mut random = Random(42);
    let ranges = ranges(&mut random, smallest, powers)?;
    let questions: Vec<(u64, u64)> = (0..QUERIES).map(|_| random.inside(&ranges)).collect();
    let cpu: Arc<Plugin> = {
        let runtime = Runtime::builder().search(false).open()?;
        Arc::clone(runtime.device(Device::CPU)?.plugin())
    };
    // SAFETY: the sdk made this table, and it lives as long as the process.
    let table = unsafe { Table::read(table_of::<SortedMap>()) }?;
    let mut map = Hooks::new("map".to_owned(), table);
    map.open()?;
    for hooks in [cpu.hooks(), &map] {
        ranges.iter().try_for_each(|range| range.enter(hooks))?;
    }
    for writers in [0, 3] {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..RUNS {
            times[0].push(measure(cpu.hooks(), &ranges, &questions, writers)?);
            times[1].push(measure(&map, &ranges, &questions, writers)?);
        }
        let [ours, theirs] = times.map(median);
        let ratio = theirs / ours;
        println!(
            "row\tpointer query, {sizes}, {writers} writers\t{ours:.1} ns\t\
             RwLock<BTreeMap> {theirs:.1} ns\t{ratio:.2}\t>= {ASKED}"
        );
    }
    map.close()?;
    Ok(())
}

/// Nanoseconds for one query, with so many threads freeing and allocating beside it.
fn measure(
    hooks: &Hooks,
    ranges: &[Range],
    questions: &[(u64, u64)],
    writers: usize,
) -> Result<f64, Box<dyn Error>> {
    let done = AtomicBool::new(false);
    let renew = |writer: usize| {
        let mut mine = ranges.iter().skip(writer).step_by(writers).cycle();
        while !done.load(Ordering::Relaxed) {
            mine.next().map_or(Ok(()), |range| range.renew(hooks))?;
        }
        Ok::<_, crossdock::Error>(())
    };
    thread::scope(|scope| {
        let renew = &renew;
        let threads: Vec<_> = (0..writers)
            .map(|writer| scope.spawn(move || renew(writer)))
            .collect();
        let begin = Instant::now();
        let wrong = wrong_answers(hooks, questions, writers == 0);
        let time = begin.elapsed();
        done.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().map_err(|_panic| "a writer panicked")??;
        }
        assert_eq!(wrong?, 0, "an answer was wrong");
        Ok(nanoseconds(time) / f64::from(QUERIES))
    })
}

/// How many answers name another range; or none, where all stand still.
fn wrong_answers(
    hooks: &Hooks,
    questions: &[(u64, u64)],
    still: bool,
) -> Result<u32, crossdock::Error> {
    let mut wrong = 0;
    for (address, base) in questions {
        let info = hooks.pointer_query(Address::pointer(*address))?;
        let absent = info.kind == MemoryKind::UNOWNED;
        wrong += u32::from(absent && still || !absent && info.base.word != *base);
    }
    Ok(wrong)
}

/// A range of address space that stays reserved.
#[derive(Clone, Copy)]
struct Range {
    base: u64,
    size: u64,
}

impl Range {
    fn pointer(self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(usize::try_from(self.base).unwrap_or(0))
    }

    fn enter(self, hooks: &Hooks) -> Result<(), crossdock::Error> {
        // SAFETY: reserved for this program until it ends, and nobody uses what lies there.
        unsafe { hooks.register_host(0, self.pointer(), self.size) }
    }

    fn renew(self, hooks: &Hooks) -> Result<(), crossdock::Error> {
        // SAFETY: one thread renews this range, which is registered, and nothing is copied.
        unsafe { hooks.unregister_host(0, self.pointer()) }?;
        self.enter(hooks)
    }
}

/// Ranges of mixed size in no order, with gaps, as a driver's address space looks.
fn ranges(random: &mut Random, smallest: u64, powers: u64) -> Result<Vec<Range>, Box<dyn Error>> {
    let mut end = 0;
    let mut ranges: Vec<_> = (0..RANGES)
        .map(|_| {
            let size = (smallest << random.below(powers)) + random.below(4) * smallest;
            let range = Range { base: end, size };
            end += range.size + random.below(4) * 256;
            range
        })
        .collect();
    let start = reserve(usize::try_from(end)?)?;
    for at in (0..ranges.len()).rev() {
        let other = random.below(u64::try_from(at)? + 1);
        ranges.swap(at, usize::try_from(other)?);
    }
    ranges.iter_mut().for_each(|range| range.base += start);
    Ok(ranges)
}

/// Addresses that nothing else is given.
fn reserve(bytes: usize) -> Result<u64, std::io::Error> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping without access, at an address of the system's choice.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    Ok(u64::try_from(start.expose_provenance()).unwrap_or(0))
}

/// The plugin to compare with: the known ranges in a sorted map behind a lock.
#[derive(Default)]
struct SortedMap {
    ranges: RwLock<BTreeMap<u64, Known>>,
    ids: AtomicU64,
}

#[derive(Clone, Copy)]
struct Known {
    size: u64,
    id: u64,
    kind: MemoryKind,
    flags: PointerFlags,
}

impl plugin::Plugin for SortedMap {
    const DESCRIPTION: &'static str = describe!(name = "map", vendor = "bench", devices = "cpu");
    const GROUPS: Groups<Self> = Groups::new().register();

    fn probe() -> Result<ProbeInfo, plugin::Error> {
        Ok(ProbeInfo::ready(1, ""))
    }

    fn open(_: Host) -> Result<Self, plugin::Error> {
        Ok(Self::default())
    }

    fn device_count(&self) -> u32 {
        1
    }

    fn device_info(&self, _: u32) -> Result<DeviceInfo, plugin::Error> {
        Err(plugin::Error::unsupported("device_info"))
    }

    fn memory_info(&self, _: u32) -> Result<MemoryInfo, plugin::Error> {
        Err(plugin::Error::unsupported("memory_info"))
    }

    fn allocate(&self, _: AllocateArgs) -> Result<Address, plugin::Error> {
        Err(plugin::Error::unsupported("allocate"))
    }

    unsafe fn free(&self, _: Address, _: MemoryKind) -> Result<(), plugin::Error> {
        Err(plugin::Error::unsupported("free"))
    }

    unsafe fn copy(&self, _: CopyArgs, _: StreamHandle) -> Result<(), plugin::Error> {
        Err(plugin::Error::unsupported("copy"))
    }

    fn pointer_query(&self, address: Address) -> Result<PointerInfo, plugin::Error> {
        let Some(word) = address.as_pointer() else {
            return Ok(PointerInfo::default());
        };
        let ranges = self.ranges.read().unwrap_or_else(PoisonError::into_inner);
        let last = ranges.range(..=word).next_back();
        let Some((base, known)) = last.filter(|(base, known)| word - **base < known.size) else {
            return Ok(PointerInfo::default());
        };
        Ok(PointerInfo {
            kind: known.kind,
            base: Address::pointer(*base),
            size: known.size,
            allocation_id: known.id,
            host_pointer: word,
            device_pointer: word,
            flags: known.flags,
            ..PointerInfo::default()
        })
    }
}

impl Register for SortedMap {
    unsafe fn register_host(
        &self,
        _: u32,
        pointer: *mut c_void,
        size: u64,
    ) -> Result<(), plugin::Error> {
        let known = Known {
            size,
            id: self.ids.fetch_add(1, Ordering::Relaxed),
            kind: MemoryKind::PINNED,
            flags: PointerFlags::HOST_ACCESSIBLE.with(PointerFlags::FOREIGN),
        };
        let base = u64::try_from(pointer.addr()).unwrap_or(0);
        let mut ranges = self.ranges.write().unwrap_or_else(PoisonError::into_inner);
        let before = ranges.range(..base + size).next_back();
        if before.is_some_and(|(other, known)| other + known.size > base) {
            return Err(plugin::Error::new(
                Status::CONFLICT,
                "register_host",
                "known",
            ));
        }
        ranges.insert(base, known);
        Ok(())
    }

    fn unregister_host(&self, _: u32, pointer: *mut c_void) -> Result<(), plugin::Error> {
        let base = u64::try_from(pointer.addr()).unwrap_or(0);
        let mut ranges = self.ranges.write().unwrap_or_else(PoisonError::into_inner);
        let removed = ranges.remove(&base);
        let unknown = || plugin::Error::new(Status::NOT_OWNER, "unregister_host", "unknown");
        removed.map(|_| ()).ok_or_else(unknown)
    }
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

    /// An address in one of the ranges, and where that range begins.
    fn inside(&mut self, ranges: &[Range]) -> (u64, u64) {
        let at = usize::try_from(self.below(RANGES)).unwrap_or(0);
        let none = Range { base: 0, size: 1 };
        let Range { base, size } = ranges.get(at).copied().unwrap_or(none);
        (base + self.below(size), base)
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

const RANGES: u64 = 1_000_000;
const QUERIES: u32 = 500_000;
const RUNS: usize = 9;
const ASKED: f64 = 2.5;
