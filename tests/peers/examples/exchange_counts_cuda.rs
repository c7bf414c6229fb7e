//! As `exchange_counts`, of memory that another library made by CUDA's driver, which is the simulated one.
//!
//! `exchange_counts_cuda PLUGIN`: the file of CUDA's plugin. `scripts/bench counts` runs it by `scripts/with-sim`.
#![expect(
    unsafe_code,
    reason = "calls the driver, and hands managed tensors over as raw pointers"
)]
#![expect(clippy::print_stdout, reason = "the reader's key to the windows")]

use std::error::Error;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::hint::black_box;
use std::ptr::NonNull;

use crossdock::{Device, Runtime, Stream, Tensor};
use crossdock_sdk::dlpack::{
    DLManagedTensorVersioned, DLTensor, DataWord, DeviceType, Dtype, VERSION,
};

/// Rounds of the windows, after some that warm up. What surrounds a window falls out of differences.
const WINDOWS: [u32; 4] = [100, 200, 100, 200];
const WARM_UP: u32 = 50;
/// Bytes.
const SIZE: usize = 4096;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// What callgrind is told to write its counts before.
#[inline(never)]
fn window_ends(rounds: u32) {
    black_box(rounds);
}

unsafe extern "C" {
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

const RTLD_NOW: c_int = 2;

/// A function of the driver.
///
/// # Safety
/// - It has this type.
unsafe fn function<F: Copy>(name: &CStr) -> Outcome<F> {
    // SAFETY: a name that ends with 0; the driver's initialisers touch nothing of ours.
    let library = unsafe { dlopen(c"libcuda.so.1".as_ptr(), RTLD_NOW) };
    let found = NonNull::new(library).map(|library| {
        // SAFETY: an open library, and a name that ends with 0.
        unsafe { dlsym(library.as_ptr(), name.as_ptr()) }
    });
    let found = found.filter(|found| !found.is_null());
    let found = found.ok_or("there is no driver of CUDA's")?;
    // SAFETY: a function's address, and the caller vouches for its type.
    Ok(unsafe { std::mem::transmute_copy(&found) })
}

fn done(code: c_int) -> Outcome {
    match code {
        0 => Ok(()),
        code => Err(format!("the driver answered {code}").into()),
    }
}

/// Memory and a stream, as another library makes them in the device's primary context.
fn of_others() -> Outcome<(usize, u64)> {
    let (mut context, mut address, mut stream) = (0_u64, 0_u64, 0_u64);
    // SAFETY: the types of the driver's header.
    let start: unsafe extern "C" fn(c_uint) -> c_int = unsafe { function(c"cuInit") }?;
    // SAFETY: as above.
    let retain: unsafe extern "C" fn(*mut u64, c_int) -> c_int =
        unsafe { function(c"cuDevicePrimaryCtxRetain") }?;
    // SAFETY: as above.
    let enter: unsafe extern "C" fn(u64) -> c_int = unsafe { function(c"cuCtxSetCurrent") }?;
    // SAFETY: as above.
    let allocate: unsafe extern "C" fn(*mut u64, usize) -> c_int =
        unsafe { function(c"cuMemAlloc_v2") }?;
    // SAFETY: as above.
    let create: unsafe extern "C" fn(*mut u64, c_uint) -> c_int =
        unsafe { function(c"cuStreamCreate") }?;
    // SAFETY: no flags.
    done(unsafe { start(0) })?;
    // SAFETY: a place of ours.
    done(unsafe { retain(&raw mut context, 0) })?;
    // SAFETY: the context that was retained.
    done(unsafe { enter(context) })?;
    // SAFETY: a place of ours.
    done(unsafe { allocate(&raw mut address, SIZE) })?;
    // SAFETY: a place of ours, and the flag of a stream that the default one does not wait for.
    done(unsafe { create(&raw mut stream, 1) })?;
    Ok((usize::try_from(address)?, stream))
}

unsafe extern "C" fn release_nothing(_managed: *mut DLManagedTensorVersioned) {}

fn main() -> Outcome {
    let plugin = std::env::args_os().nth(1).ok_or("which plugin?")?;
    let runtime = Runtime::builder().search(false).plugin(plugin).open()?;
    let device: Device = runtime.device(DeviceType::CUDA.device(0))?;
    let (address, native) = of_others()?;
    // SAFETY: a live stream of the device, which nobody destroys.
    let stream = unsafe { Stream::wrap(&device, native) }?;
    let (mut shape, mut strides) = ([i64::try_from(SIZE)?], [1]);
    let dl_tensor = DLTensor {
        data: DataWord::from_addr(address).as_ptr(),
        device: device.id().to_raw(),
        ndim: 1,
        dtype: Dtype::UINT8.to_raw(),
        shape: shape.as_mut_ptr(),
        strides: strides.as_mut_ptr(),
        byte_offset: 0,
    };
    let mut managed = DLManagedTensorVersioned {
        version: VERSION,
        manager_ctx: std::ptr::null_mut(),
        deleter: Some(release_nothing),
        flags: 0,
        dl_tensor,
    };
    let managed = NonNull::from(&mut managed);
    let round = || -> Outcome {
        // SAFETY: it outlives every import of it, and its release is no work.
        let tensor = unsafe { Tensor::import_managed(&runtime, black_box(managed)) }?;
        tensor.ready_on(&stream)?;
        drop(black_box(tensor));
        Ok(())
    };
    println!("windows\timport CUDA's on a stream, drop");
    for rounds in [WARM_UP].into_iter().chain(WINDOWS) {
        for _ in 0..rounds {
            round()?;
        }
        window_ends(rounds);
    }
    Ok(())
}
