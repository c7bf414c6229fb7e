//! The operations whose instructions `scripts/bench counts` counts, each in windows of known rounds.
//!
//! Callgrind writes what it counted whenever `window_ends` is entered; a line of output names the
//! operation whose windows come next. By itself the program only runs them.
#![expect(
    unsafe_code,
    reason = "managed tensors are handed over as raw pointers"
)]
#![expect(clippy::print_stdout, reason = "the reader's key to the windows")]

use std::error::Error;
use std::hint::black_box;
use std::ptr::NonNull;

use crossdock::{Device, RouteChoice, RouteKind, Runtime, Tensor};
use crossdock_sdk::dlpack::{
    self, DLManagedTensorVersioned, DLTensor, DataWord, Dtype, Layout, VERSION,
};

/// Rounds of the windows, after some that warm up. What surrounds a window falls out of differences.
const WINDOWS: [u32; 4] = [100, 200, 100, 200];
const WARM_UP: u32 = 50;
/// Elements of four bytes: 4 KiB.
const LENGTH: usize = 1024;
const EXTENT: i64 = 1024;

/// What a pointer query costs depends on what else lies in the address's page of the table: memory of
/// others gets a page of its own, ours the start of one.
const PAGE: usize = 1 << 20;

type Outcome = Result<(), Box<dyn Error>>;
/// An operation's name and one round of it.
type Operation<'bench> = (&'static str, Box<dyn Fn() -> Outcome + 'bench>);

/// What callgrind is told to write its counts before.
#[inline(never)]
fn window_ends(rounds: u32) {
    black_box(rounds);
}

/// A tensor of another library that costs nothing to hand over: one struct, released by no work.
struct Foreign {
    managed: Box<DLManagedTensorVersioned>,
    _shape: Box<[i64; 2]>,
}

unsafe extern "C" fn release_nothing(_managed: *mut DLManagedTensorVersioned) {}

impl Foreign {
    fn at(data: DataWord) -> Self {
        let mut shape = Box::new([EXTENT, 1]);
        let (extents, strides) = shape.split_at_mut(1);
        let dl_tensor = DLTensor {
            data: data.as_ptr(),
            device: dlpack::Device::CPU.to_raw(),
            ndim: 1,
            dtype: Dtype::FLOAT32.to_raw(),
            shape: extents.as_mut_ptr(),
            strides: strides.as_mut_ptr(),
            byte_offset: 0,
        };
        let managed = DLManagedTensorVersioned {
            version: VERSION,
            manager_ctx: std::ptr::null_mut(),
            deleter: Some(release_nothing),
            flags: 0,
            dl_tensor,
        };
        Self {
            managed: Box::new(managed),
            _shape: shape,
        }
    }

    fn import(&self, runtime: &Runtime) -> Result<Tensor, Box<dyn Error>> {
        let managed = NonNull::from(&*self.managed);
        // SAFETY: it outlives every import of it, nobody writes to it, and its release is no work.
        Ok(unsafe { Tensor::import_managed(runtime, black_box(managed)) }?)
    }
}

/// What the rounds need.
struct Bench {
    runtime: Runtime,
    cpu: Device,
    ours: Tensor,
    /// On memory that no plugin knows, as NumPy's is.
    theirs: Foreign,
    /// On memory of ours.
    lent: Foreign,
    host: Box<Page>,
}

/// Memory that shares its page with nothing.
#[repr(align(1_048_576))]
struct Page([f32; PAGE / 4]);

/// Fills the heap up to the start of a page.
fn page_begun() -> Vec<Box<[u8; 4096]>> {
    let mut filled = Vec::with_capacity(4096);
    while filled.len() < filled.capacity() {
        let block = Box::new([1; 4096]);
        let offset = block.as_ptr().addr() % PAGE;
        filled.push(block);
        if (PAGE / 64..PAGE / 8).contains(&offset) {
            break;
        }
    }
    filled
}

impl Bench {
    fn new() -> Result<Self, Box<dyn Error>> {
        let runtime = Runtime::builder().search(false).open()?;
        let cpu = runtime.device(dlpack::Device::CPU)?;
        let layout = Layout::compact(Dtype::FLOAT32, &[EXTENT])?;
        let ours = Tensor::from_bytes(&cpu, &layout, &[1; 4 * LENGTH])?;
        let host = Box::new(Page([0.0; PAGE / 4]));
        let word = usize::try_from(ours.address().as_pointer().unwrap_or(0))?;
        Ok(Self {
            theirs: Foreign::at(DataWord::from_ptr(host.0.as_ptr().cast_mut().cast())),
            lent: Foreign::at(DataWord::from_addr(word)),
            runtime,
            cpu,
            ours,
            host,
        })
    }

    fn export(&self) -> Outcome {
        drop(black_box(self.ours.export()?));
        Ok(())
    }

    fn exchange(&self) -> Outcome {
        let managed = black_box(self.ours.export()?.into_raw());
        // SAFETY: a live export that nobody else owns.
        black_box(unsafe { Tensor::import_managed(&self.runtime, managed) }?);
        Ok(())
    }

    fn import(&self, foreign: &Foreign) -> Outcome {
        black_box(foreign.import(&self.runtime)?);
        Ok(())
    }

    fn query(&self, address: u64) -> Outcome {
        black_box(self.runtime.pointer_query(black_box(address))?);
        Ok(())
    }

    fn copy(&self, tensor: &Tensor) -> Outcome {
        black_box(tensor.to(&self.cpu, RouteChoice::Only(RouteKind::Direct))?);
        Ok(())
    }

    fn hook(&self) -> Outcome {
        black_box(self.cpu.plugin().hooks().device_count()?);
        Ok(())
    }
}

fn main() -> Outcome {
    let filled = page_begun();
    let bench = Bench::new()?;
    let imported = bench.theirs.import(&bench.runtime)?;
    let address = bench.ours.address().as_pointer().unwrap_or(0);
    let strange = bench.host.0.as_ptr().addr() as u64;
    let operations: [Operation<'_>; 9] = [
        ("export ours, release", Box::new(|| bench.export())),
        ("export ours, import, drop", Box::new(|| bench.exchange())),
        (
            "import theirs, drop",
            Box::new(|| bench.import(&bench.theirs)),
        ),
        (
            "import theirs on our memory, drop",
            Box::new(|| bench.import(&bench.lent)),
        ),
        ("pointer query, ours", Box::new(|| bench.query(address))),
        ("pointer query, theirs", Box::new(|| bench.query(strange))),
        ("to of 4 KiB, ours", Box::new(|| bench.copy(&bench.ours))),
        ("to of 4 KiB, theirs", Box::new(|| bench.copy(&imported))),
        ("hook call", Box::new(|| bench.hook())),
    ];
    for (name, round) in &operations {
        println!("windows\t{name}");
        for rounds in [WARM_UP].into_iter().chain(WINDOWS) {
            for _ in 0..rounds {
                round()?;
            }
            window_ends(rounds);
        }
    }
    drop(filled);
    Ok(())
}
