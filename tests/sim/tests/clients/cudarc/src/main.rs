//! cudarc over the simulated driver: memory, streams, pinned memory, a second device. With the word `race` one
//! stream does not wait for the other, which the driver reports.

use std::error::Error;

use cudarc::driver::CudaContext;

const LENGTH: usize = 1 << 14;

fn main() -> Result<(), Box<dyn Error>> {
    let is_racy = std::env::args().nth(1).as_deref() == Some("race");
    let context = CudaContext::new(0)?;
    let values: Vec<f32> = (0..LENGTH).map(|at| at as f32).collect();

    let stream = context.default_stream();
    let mut there = stream.clone_htod(&values)?;
    assert_eq!(stream.clone_dtoh(&there)?, values);
    let copy = stream.clone_dtod(&there)?;
    stream.memset_zeros(&mut there)?;
    assert_eq!(stream.clone_dtoh(&there)?, vec![0.0; LENGTH]);
    assert_eq!(stream.clone_dtoh(&copy)?, values);

    // cudarc orders its own streams by what it knows of its memory; switched off, `join` does.
    // SAFETY: where the streams below are not ordered, that is what the driver has to say.
    unsafe { context.disable_event_tracking() };
    let (first, second) = (context.new_stream()?, context.new_stream()?);
    let mut shared = first.alloc_zeros::<f32>(LENGTH)?;
    first.synchronize()?;
    // SAFETY: all of it is written before it is read.
    let mut pinned = unsafe { context.alloc_pinned::<f32>(LENGTH)? };
    pinned.as_mut_slice()?.copy_from_slice(&values);
    first.memcpy_htod(&pinned, &mut shared)?;
    if !is_racy {
        second.join(&first)?;
    }
    let read = second.clone_dtoh(&shared)?;
    second.synchronize()?;
    first.synchronize()?;
    assert!(is_racy || read == values);
    if CudaContext::device_count()? > 1 {
        let other = CudaContext::new(1)?;
        let there = other.default_stream().clone_htod(&values)?;
        assert_eq!(other.default_stream().clone_dtoh(&there)?, values);
    }
    Ok(())
}
