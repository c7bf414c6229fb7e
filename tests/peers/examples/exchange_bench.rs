//! What an exchange of an aliased tensor costs, beside a hand-written exporter and `dlpark`.
//!
//! Run with `cargo run --release -p crossdock-peers --example exchange_bench`.
#![expect(
    unsafe_code,
    reason = "managed tensors are handed over as raw pointers"
)]
#![expect(clippy::print_stdout, reason = "the result")]

use std::error::Error;
use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use crossdock::{Device, Runtime, Tensor};
use crossdock_sdk::dlpack::{
    self, DLManagedTensorVersioned, DLTensor, DataWord, Dtype, Layout, VERSION,
};
use dlpark::ffi::{DLDataType, DLDevice};
use dlpark::metadata::Fixed;

/// Exchanges in a run.
const ROUNDS: u32 = 20_000;
/// Runs of each, in turn; the fastest counts.
const RUNS: usize = 60;
const SHAPE: [i64; 4] = [2, 3, 4, 5];
const STRIDES: [i64; 4] = [60, 20, 5, 1];

type Outcome = Result<(), Box<dyn Error>>;

/// One box: the struct, shape, strides and owner.
#[repr(C)]
struct ByHand {
    managed: DLManagedTensorVersioned,
    shape: [i64; 4],
    strides: [i64; 4],
    owner: Arc<u64>,
}

unsafe extern "C" fn delete_by_hand(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: made by `by_hand`, and released once.
    drop(unsafe { Box::from_raw(managed.cast::<ByHand>()) });
}

fn by_hand(owner: Arc<u64>, data: DataWord) -> NonNull<DLManagedTensorVersioned> {
    let dl_tensor = DLTensor {
        data: data.as_ptr(),
        device: dlpack::Device::CPU.to_raw(),
        ndim: 4,
        dtype: Dtype::FLOAT32.to_raw(),
        shape: std::ptr::null_mut(),
        strides: std::ptr::null_mut(),
        byte_offset: 0,
    };
    let managed = DLManagedTensorVersioned {
        version: VERSION,
        manager_ctx: std::ptr::null_mut(),
        deleter: Some(delete_by_hand),
        flags: 0,
        dl_tensor,
    };
    let (shape, strides) = (black_box(SHAPE), black_box(STRIDES));
    let mut block = Box::new(ByHand {
        managed,
        shape,
        strides,
        owner,
    });
    block.managed.dl_tensor.shape = block.shape.as_mut_ptr();
    block.managed.dl_tensor.strides = block.strides.as_mut_ptr();
    NonNull::from(Box::leak(block)).cast()
}

/// What every round needs.
struct Bench {
    runtime: Runtime,
    tensor: Tensor,
    device: dlpack::Device,
    data: DataWord,
    /// Memory that no plugin knows, as NumPy's is.
    host: Box<[f32]>,
    owner: Arc<u64>,
}

impl Bench {
    fn new() -> Result<Self, Box<dyn Error>> {
        let runtime = Runtime::builder().search(false).open()?;
        let cpu = runtime.device(dlpack::Device::CPU)?;
        let tensor = Tensor::empty(&cpu, &Layout::compact(Dtype::FLOAT32, &SHAPE)?)?;
        let word = tensor.address().as_pointer().unwrap_or(0);
        Ok(Self {
            runtime,
            tensor,
            device: dlpack::Device::CPU,
            data: DataWord::from_addr(usize::try_from(word)?),
            host: vec![0.0; 120].into(),
            owner: Arc::new(1),
        })
    }

    /// Export, version check, release: the least that the protocol needs.
    fn hand_written(&self) {
        let managed = black_box(by_hand(Arc::clone(&self.owner), self.data)).as_ptr();
        // SAFETY: alive.
        let version = unsafe { (*managed).version };
        // SAFETY: alive.
        if let (1, Some(deleter)) = (version.major, unsafe { (*managed).deleter }) {
            // SAFETY: owned, and released once.
            unsafe { deleter(managed) };
        }
    }

    /// Export, import, drop.
    fn without_lookup(&self) -> Outcome {
        let managed = black_box(self.tensor.export()?.into_raw());
        self.import(managed)
    }

    /// Export, the target device by type and id, import, drop.
    fn with_lookup(&self) -> Outcome {
        let managed = black_box(self.tensor.export()?.into_raw());
        let target: Device = self.runtime.device(black_box(self.device))?;
        black_box(&target);
        self.import(managed)
    }

    /// Import of a tensor that another library made, with the query whose memory it is; drop.
    fn foreign(&self, data: DataWord) -> Outcome {
        self.import(black_box(by_hand(Arc::clone(&self.owner), data)))
    }

    fn host_data(&self) -> DataWord {
        DataWord::from_ptr(self.host.as_ptr().cast_mut().cast())
    }

    fn import(&self, managed: NonNull<DLManagedTensorVersioned>) -> Outcome {
        // SAFETY: a live export that nobody else owns.
        black_box(unsafe { Tensor::import_managed(&self.runtime, managed) }?);
        Ok(())
    }

    /// The same work by `dlpark`.
    fn dlpark(&self) -> Outcome {
        let (shape, strides) = (black_box(SHAPE), black_box(STRIDES));
        let mut made = Fixed::new(shape, strides).initialize(Arc::clone(&self.owner))?;
        made.set_data(self.data.as_ptr())
            .set_device(DLDevice::CPU)
            .set_dtype(DLDataType::F32);
        // SAFETY: the data lives as long as the bench.
        let raw = black_box(unsafe { made.finish() }.into_raw());
        // SAFETY: a live export that nobody else owns.
        let received = unsafe { dlpark::versioned::Dlpack::from_raw(raw) }?;
        black_box(received.validate()?);
        Ok(())
    }
}

/// Nanoseconds a round.
fn timed(mut round: impl FnMut() -> Outcome) -> Result<f64, Box<dyn Error>> {
    let start = Instant::now();
    for _ in 0..ROUNDS {
        round()?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS))
}

fn main() -> Outcome {
    let bench = Bench::new()?;
    let mut best = [f64::INFINITY; 6];
    for _ in 0..RUNS {
        let run = [
            timed(|| {
                bench.hand_written();
                Ok(())
            })?,
            timed(|| bench.with_lookup())?,
            timed(|| bench.without_lookup())?,
            timed(|| bench.dlpark())?,
            timed(|| bench.foreign(bench.data))?,
            timed(|| bench.foreign(bench.host_data()))?,
        ];
        for (best, time) in best.iter_mut().zip(run) {
            *best = best.min(time);
        }
    }
    let [hand, routed, plain, dlpark, foreign, host] = best;
    println!(
        "row\texport, lookup, import, drop\t{routed:.1} ns\tby hand {hand:.1} ns\t{:.2}\t<= 1.8",
        routed / hand
    );
    println!(
        "row\texport, import, drop\t{plain:.1} ns\tdlpark {dlpark:.1} ns\t{:.2}\t< 1",
        plain / dlpark
    );
    println!(
        "row\timport of others, memory of ours\t{foreign:.1} ns\tby hand {hand:.1} ns\t{:.2}\t-",
        foreign / hand
    );
    println!(
        "row\timport of others, memory of theirs\t{host:.1} ns\tby hand {hand:.1} ns\t{:.2}\t-",
        host / hand
    );
    Ok(())
}
