//! What an export, import and release cost, against the least that a hand-written exporter could do.
//!
//! Run with `cargo run --release -p crossdock-sdk --example export_bench`.
#![expect(unsafe_code, reason = "the hand-written exporter")]
#![expect(clippy::print_stdout, reason = "the result")]

use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use crossdock_sdk::dlpack::{
    DLManagedTensorVersioned, DLTensor, DataWord, Device, DlpackError, Dtype, Flags, Layout,
    Received, TensorView, VERSION, export,
};

const ROUNDS: u32 = 1_000_000;
const RUNS: usize = 15;

/// One box: the struct, shape, strides and owner, nothing checked but the version.
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

fn by_hand(owner: Arc<u64>, view: &TensorView) -> *mut DLManagedTensorVersioned {
    let mut shape = [0; 4];
    let mut strides = [0; 4];
    shape.copy_from_slice(view.layout().shape());
    strides.copy_from_slice(view.layout().strides());
    let dl_tensor = DLTensor {
        data: view.data().as_ptr(),
        device: view.device().to_raw(),
        ndim: 4,
        dtype: view.layout().dtype().to_raw(),
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
    let mut block = Box::new(ByHand {
        managed,
        shape,
        strides,
        owner,
    });
    block.managed.dl_tensor.shape = block.shape.as_mut_ptr();
    block.managed.dl_tensor.strides = block.strides.as_mut_ptr();
    Box::into_raw(block).cast()
}

fn run_by_hand(owner: &Arc<u64>, view: &TensorView) {
    let managed = black_box(by_hand(Arc::clone(owner), black_box(view)));
    // SAFETY: alive.
    let version = unsafe { (*managed).version };
    // SAFETY: alive.
    if let (1, Some(deleter)) = (version.major, unsafe { (*managed).deleter }) {
        // SAFETY: owned, and released once.
        unsafe { deleter(managed) };
    }
}

fn run_crossdock(owner: &Arc<u64>, view: &TensorView) -> Result<(), DlpackError> {
    let managed: NonNull<_> = black_box(export(Arc::clone(owner), black_box(view))?);
    // SAFETY: a live export that nobody else owns.
    let received = unsafe { Received::from_versioned(managed) }?;
    black_box(&received);
    Ok(())
}

/// Nanoseconds a round.
fn timed(mut round: impl FnMut() -> Result<(), DlpackError>) -> Result<f64, DlpackError> {
    let start = Instant::now();
    for _ in 0..ROUNDS {
        round()?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS))
}

fn main() -> Result<(), DlpackError> {
    let owner = Arc::new(1);
    let layout = Layout::compact(Dtype::FLOAT32, &[2, 3, 4, 5])?;
    let view = TensorView::new(
        layout,
        DataWord::from_addr(0x1000),
        0,
        Device::CPU,
        Flags::NONE,
    )?;
    let (mut hand, mut ours) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..RUNS {
        hand = hand.min(timed(|| {
            run_by_hand(&owner, &view);
            Ok(())
        })?);
        ours = ours.min(timed(|| run_crossdock(&owner, &view))?);
    }
    println!(
        "by hand {hand:.1} ns, crossdock {ours:.1} ns, ratio {:.2}",
        ours / hand
    );
    Ok(())
}
