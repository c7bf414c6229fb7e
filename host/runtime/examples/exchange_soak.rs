//! Exchanges in both directions and across threads, for a long time: nothing stays behind.
//!
//! Run with `cargo run --release -p crossdock --example exchange_soak [-- --short]`.
#![expect(
    unsafe_code,
    reason = "managed tensors are handed over as raw pointers"
)]
#![expect(clippy::print_stdout, reason = "the result")]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::{env, fs, thread};

use crossdock::{Runtime, Tensor};
use crossdock_sdk::dlpack::{
    DataWord, Device, Dtype, Flags, Layout, Produced, Received, TensorView,
};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Pairs of threads, each of which sends tensors one way.
const PAIRS: u64 = 2;
const ROUNDS: u64 = 5;
/// Resident memory may grow by this much from the first round to the last.
const GROWTH_KIB: u64 = 4096;

static LIVE: AtomicI64 = AtomicI64::new(0);
static EXCHANGES: AtomicU64 = AtomicU64::new(0);

/// Memory of somebody else, counted while it lives.
struct Counted(Vec<f32>);

impl Counted {
    fn new(first: u64) -> Self {
        LIVE.fetch_add(1, Ordering::Relaxed);
        Self((0..24).map(|at| value(first, at)).collect())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the element `at` of the tensor `number` holds; exact in 32 bits.
fn value(number: u64, at: u16) -> f32 {
    f32::from(u16::try_from(number % 4096).unwrap_or(0) + at)
}

fn main() -> Outcome {
    let is_short = env::args().any(|argument| argument == "--short");
    let count = if is_short { 10_000 } else { 500_000 };
    let runtime = Runtime::builder().search(false).open()?;
    let mut first = None;
    let mut last = 0;
    for _ in 0..ROUNDS {
        round(&runtime, count)?;
        last = resident_kib();
        first.get_or_insert(last);
    }
    let (live, first) = (LIVE.load(Ordering::SeqCst), first.unwrap_or(0));
    let exchanges = EXCHANGES.load(Ordering::SeqCst);
    println!(
        "{exchanges} exchanges, {live} owners alive, resident memory {first} KiB after the first of \
         {ROUNDS} rounds and {last} KiB after the last"
    );
    if live != 0 {
        return Err("an owner was not released".into());
    }
    // A sanitizer keeps freed memory aside, so that its growth says nothing.
    if !is_short && last > first + GROWTH_KIB {
        return Err("resident memory grows".into());
    }
    Ok(())
}

fn round(runtime: &Runtime, count: u64) -> Outcome {
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for _ in 0..PAIRS {
            let (sender, receiver) = sync_channel(64);
            threads.push(scope.spawn(move || produce(runtime, count, &sender)));
            threads.push(scope.spawn(move || consume(runtime, count, &receiver)));
        }
        threads.into_iter().try_for_each(|thread| {
            thread
                .join()
                .map_err(|_panic| "a thread panicked".to_owned())?
        })
    })
}

/// Sends own tensors and tensors of others in turn, and drops every seventh where it was made.
fn produce(runtime: &Runtime, count: u64, sender: &SyncSender<(u64, Produced)>) -> Outcome {
    let cpu = runtime.device(Device::CPU)?;
    let layout = Layout::compact(Dtype::FLOAT32, &[2, 3, 4])?;
    let own = Tensor::empty(&cpu, &layout)?;
    for number in 0..count {
        let produced = if number % 2 == 0 {
            let bytes: Vec<u8> = (0..24)
                .flat_map(|at| value(number, at).to_ne_bytes())
                .collect();
            if number % 64 == 0 {
                Tensor::from_bytes(&cpu, &layout, &bytes)?.export()?
            } else {
                own.export()?
            }
        } else {
            foreign(number, &layout)?
        };
        if number % 7 != 0 {
            sender
                .send((number, produced))
                .map_err(|_gone| "the consumer is gone")?;
        }
    }
    Ok(())
}

fn foreign(number: u64, layout: &Layout) -> Outcome<Produced> {
    let owner = Counted::new(number);
    let data = DataWord::from_addr(owner.0.as_ptr().expose_provenance());
    let view = TensorView::new(layout.clone(), data, 0, Device::CPU, Flags::READ_ONLY)?;
    Ok(Produced::new(Arc::new(owner), &view)?)
}

/// Imports by either way, exports again, imports that, and reads it.
fn consume(runtime: &Runtime, count: u64, receiver: &Receiver<(u64, Produced)>) -> Outcome {
    for (number, produced) in receiver {
        let managed = produced.into_raw();
        let tensor = if number % 3 == 0 {
            // SAFETY: a live export that nobody else owns.
            let received = unsafe { Received::from_versioned(managed) }?;
            Tensor::import(runtime, received)?
        } else {
            // SAFETY: as above.
            unsafe { Tensor::import_managed(runtime, managed) }?
        };
        let again = tensor.permute(&[2, 0, 1])?.export()?.into_raw();
        drop(tensor);
        // SAFETY: as above.
        let back = unsafe { Tensor::import_managed(runtime, again) }?.permute(&[1, 2, 0])?;
        if number % 2 == 1 && number % 5 == 0 {
            verify(number, &back.read()?)?;
        }
        EXCHANGES.fetch_add(2, Ordering::Relaxed);
        if number >= count {
            return Err("a tensor that nobody sent".into());
        }
    }
    Ok(())
}

fn verify(number: u64, bytes: &[u8]) -> Outcome {
    let wanted = (0..24).flat_map(|at| value(number, at).to_ne_bytes());
    if bytes.iter().copied().eq(wanted) {
        return Ok(());
    }
    Err(format!("the tensor {number} came back with other bytes").into())
}

/// Resident memory; 0 where the system does not say.
fn resident_kib() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|text| text.parse().ok()).unwrap_or(0)
}
