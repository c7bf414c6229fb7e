//! Prints each copy's speed as a ratio to `memcpy` of the same bytes, with one thread and with two.
//!
//! An argument keeps the copies whose name contains it; `--serve` times one copy a line of input.
#![expect(unsafe_code, reason = "times copies between addresses")]
#![expect(clippy::print_stdout, reason = "its output is the result")]

use std::time::Instant;

use crossdock_plugin_cpu::copy::{Elements, Plan, Pool, Refusal};
use crossdock_plugin_cpu::memory::Cache;

/// One line of the table.
struct Case {
    name: &'static str,
    bits: u32,
    shape: Vec<i64>,
    dst_strides: Vec<i64>,
    src_strides: Vec<i64>,
    targets: [f64; 2],
}

fn main() -> Result<(), Refusal> {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    if wanted == "--serve" {
        return serve();
    }
    println!(
        "{:<34} {:>8} {:>16} {:>16}",
        "copy", "memcpy", "1 thread", "2 threads"
    );
    println!(
        "{:<34} {:>8} {:>16} {:>16}",
        "", "GB/s", "ratio / target", "ratio / target"
    );
    let pools = [Pool::new(1), Pool::new(2)];
    let wanted = |case: &Case| case.name.contains(&wanted);
    for case in targeted().into_iter().chain(watched()).filter(wanted) {
        measure(&case, &Work::new(&case)?, &pools);
    }
    let clones = Clones::new();
    let first = gb_per_s(Clones::BYTES, clones.seconds(1));
    let later = median((0..5).map(|_| clones.seconds(8)).collect());
    let later = gb_per_s(Clones::BYTES, later);
    println!("new 64 MiB, copied and dropped     first {first:.1} GB/s, then {later:.1} GB/s");
    Ok(())
}

/// Answers lines `WHO CASE` with the seconds of one copy, so that a peer can be timed in between.
/// `WHO` is `memcpy` or the number of threads; `clone N` is the mean of `N` copies into new memory.
fn serve() -> Result<(), Refusal> {
    let (cases, clones) = (targeted(), Clones::new());
    let pools = [Pool::new(1), Pool::new(2)];
    let mut work: Option<(&Case, Work)> = None;
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let (who, name) = line.split_once(' ').unwrap_or((&line, ""));
        if who == "clone" {
            println!(
                "{} {}",
                clones.seconds(name.parse().unwrap_or(1)),
                Clones::BYTES
            );
            continue;
        }
        if work.as_ref().is_none_or(|(case, _)| case.name != name) {
            let case = cases.iter().find(|case| case.name == name);
            work = match case {
                Some(case) => Some((case, Work::new(case)?)),
                None => None,
            };
        }
        let seconds = work.as_ref().map(|(_, work)| match who {
            "memcpy" => work.memcpy(),
            "1" => work.seconds(&pools[0]),
            _ => work.seconds(&pools[1]),
        });
        let bytes = work.as_ref().map_or(0, |(_, work)| work.plan.bytes());
        println!("{} {bytes}", seconds.unwrap_or(f64::NAN));
    }
    Ok(())
}

/// Times `memcpy` and both pools in turn, five times, and prints the medians' ratios.
fn measure(case: &Case, work: &Work, pools: &[Pool; 2]) {
    let mut times = [const { Vec::new() }; 3];
    for round in 0..6 {
        let [memcpy, one, two] = &mut times;
        let taken = [
            work.memcpy(),
            work.seconds(&pools[0]),
            work.seconds(&pools[1]),
        ];
        if round > 0 {
            for (seconds, taken) in [memcpy, one, two].into_iter().zip(taken) {
                seconds.push(taken);
            }
        }
    }
    let [memcpy, one, two] = times.map(median);
    let speed = gb_per_s(work.plan.bytes(), memcpy);
    let [first, second] = case.targets;
    let (one, two) = (memcpy / one, memcpy / two);
    println!(
        "{:<34} {speed:>8.1} {one:>7.2} / {first:>6.2} {two:>7.2} / {second:>6.2}",
        case.name
    );
}

/// A case with its memory.
struct Work {
    plan: Plan,
    from: Memory,
    to: Memory,
    repeats: usize,
}

impl Work {
    fn new(case: &Case) -> Result<Self, Refusal> {
        let plan = Plan::new(&Elements {
            bits: case.bits,
            shape: &case.shape,
            dst_strides: &case.dst_strides,
            src_strides: &case.src_strides,
            dst_offset_bits: 0,
            src_offset_bits: 0,
        })?;
        let extents = case.shape.iter().zip(&case.src_strides);
        let reach: i64 = extents.map(|(n, s)| (n - 1) * s).sum();
        let source = usize::try_from(reach + 1).unwrap_or(0) * 16_usize.min(bytes(case.bits));
        Ok(Self {
            from: Memory::new(source.max(plan.bytes())),
            to: Memory::new(plan.bytes()),
            repeats: ((128 << 20) / plan.bytes()).max(1),
            plan,
        })
    }

    /// Seconds of a plain copy of as many bytes.
    fn memcpy(&self) -> f64 {
        // SAFETY: both memories hold the plan's bytes.
        time(self.repeats, || unsafe {
            self.to
                .0
                .copy_from_nonoverlapping(self.from.0, self.plan.bytes());
        })
    }

    /// Seconds of the copy.
    fn seconds(&self, pool: &Pool) -> f64 {
        // SAFETY: both memories hold all that the plan reaches.
        time(self.repeats, || unsafe {
            self.plan.run(pool, self.to.0, self.from.0);
        })
    }
}

/// Copies of 64 MiB into new memory that is dropped again.
struct Clones {
    cache: Cache,
    pool: Pool,
    plan: Plan,
    from: Memory,
}

impl Clones {
    const BYTES: usize = 64 << 20;

    fn new() -> Self {
        Self {
            cache: Cache::for_machine(),
            pool: Pool::new(1),
            plan: Plan::of_bytes(Self::BYTES),
            from: Memory::new(Self::BYTES),
        }
    }

    /// Seconds of one.
    fn seconds(&self, repeats: usize) -> f64 {
        time(repeats, || {
            if let Ok(block) = self.cache.allocate(Self::BYTES, 256) {
                // SAFETY: both hold the bytes.
                unsafe {
                    self.plan
                        .run(&self.pool, block.address().as_ptr(), self.from.0)
                };
                self.cache.free(block);
            }
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "a speed needs no more digits")]
fn gb_per_s(bytes: usize, seconds: f64) -> f64 {
    bytes as f64 / seconds / 1e9
}

/// Seconds that one copy takes.
fn time(repeats: usize, mut copy: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..repeats).for_each(|_| copy());
    #[expect(clippy::cast_precision_loss, reason = "at most 64")]
    let each = repeats as f64;
    start.elapsed().as_secs_f64() / each
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Written memory in huge pages, as the allocator gives it; kept until the program ends.
struct Memory(*mut u8);

impl Memory {
    fn new(bytes: usize) -> Self {
        let layout = std::alloc::Layout::from_size_align(bytes.max(1), 2 << 20);
        let Ok(layout) = layout else {
            return Self(std::ptr::null_mut());
        };
        // SAFETY: the layout's size is not zero.
        let memory = unsafe { std::alloc::alloc(layout) };
        // SAFETY: advice on pages of this allocation; a refusal changes nothing.
        let _ = unsafe { libc::madvise(memory.cast(), bytes, libc::MADV_HUGEPAGE) };
        // SAFETY: `bytes` bytes were allocated.
        unsafe { memory.write_bytes(1, bytes) };
        Self(memory)
    }
}

fn bytes(bits: u32) -> usize {
    usize::try_from(bits / 8).unwrap_or(0)
}

fn case(name: &'static str, bits: u32, axes: &[(i64, i64, i64)], targets: [f64; 2]) -> Case {
    Case {
        name,
        bits,
        shape: axes.iter().map(|axis| axis.0).collect(),
        dst_strides: axes.iter().map(|axis| axis.1).collect(),
        src_strides: axes.iter().map(|axis| axis.2).collect(),
        targets,
    }
}

/// The copies that have a target.
fn targeted() -> Vec<Case> {
    let image = 56 * 56;
    let batch = 64 * image;
    let swapped = [(4096, 1, 4096), (4096, 4096, 1)];
    let to_nhwc = [(32, batch, batch), (64, 1, image), (image, 64, 1)];
    let to_nchw = [(32, batch, batch), (image, 1, 64), (64, image, 1)];
    vec![
        case("contiguous 64 MiB", 8, &[(64 << 20, 1, 1)], [0.95, 0.95]),
        case("contiguous 512 MiB", 8, &[(512 << 20, 1, 1)], [0.95, 0.95]),
        case("transpose f32 4096x4096", 32, &swapped, [0.35, 0.6]),
        case("NCHW to NHWC f32 32x64x56x56", 32, &to_nhwc, [0.35, 0.6]),
        case("NHWC to NCHW f32 32x56x56x64", 32, &to_nchw, [0.35, 0.6]),
        case(
            "[::2, ::2] f32 4096x4096",
            32,
            &[(2048, 2048, 8192), (2048, 1, 2)],
            [0.35, 0.55],
        ),
        case("transpose u8 4096x4096", 8, &swapped, [0.25, 0.25]),
    ]
}

/// Copies that are watched.
fn watched() -> Vec<Case> {
    let plane = 1080 * 1920;
    let none = [0.0, 0.0];
    let swapped = [(4096, 1, 4096), (4096, 4096, 1)];
    let u8_image = [(3, 4 * plane, 1), (4 * plane, 1, 3)];
    vec![
        case("transpose u16 4096x4096", 16, &swapped, none),
        case("transpose f64 4096x4096", 64, &swapped, none),
        case(
            "transpose c128 2048x2048",
            128,
            &[(2048, 1, 2048), (2048, 2048, 1)],
            none,
        ),
        case(
            "transpose f32 4095x4097",
            32,
            &[(4095, 1, 4097), (4097, 4095, 1)],
            none,
        ),
        case(
            "[:, :2048] f32 4096x4096",
            32,
            &[(4096, 2048, 4096), (2048, 1, 1)],
            none,
        ),
        case("HWC to CHW u8 2160x3840x3", 8, &u8_image, none),
        case(
            "CHW to HWC f32 3x1080x1920",
            32,
            &[(3, 1, plane), (plane, 3, 1)],
            none,
        ),
    ]
}
