//! Fills by one value of 1, 2 or 4 bytes, of a range or of rows with gaps between them.
#![expect(
    unsafe_code,
    reason = "the engine takes addresses as clients give them"
)]

use super::codes::Code;
use super::copies::{is_device, own_default_stream, wait};
use super::entry::{Answer, Call, entries};
use super::objects::{LEGACY, PER_THREAD, objects};

entries! {
    fn cuMemsetD8_v2(dst: u64, value: u8, count: usize) = cuMemsetD8_v2_ptds |call| {
        fill_on_default_stream(call, dst, &[value], [count, 1, 0])
    }

    fn cuMemsetD16_v2(dst: u64, value: u16, count: usize) = cuMemsetD16_v2_ptds |call| {
        fill_on_default_stream(call, dst, &value.to_le_bytes(), [count, 1, 0])
    }

    fn cuMemsetD32_v2(dst: u64, value: u32, count: usize) = cuMemsetD32_v2_ptds |call| {
        fill_on_default_stream(call, dst, &value.to_le_bytes(), [count, 1, 0])
    }

    fn cuMemsetD8Async(dst: u64, value: u8, count: usize, stream: u64) = cuMemsetD8Async_ptsz |call| {
        fill(call, stream, dst, &[value], [count, 1, 0])
    }

    fn cuMemsetD16Async(dst: u64, value: u16, count: usize, stream: u64) = cuMemsetD16Async_ptsz |call| {
        fill(call, stream, dst, &value.to_le_bytes(), [count, 1, 0])
    }

    fn cuMemsetD32Async(dst: u64, value: u32, count: usize, stream: u64) = cuMemsetD32Async_ptsz |call| {
        fill(call, stream, dst, &value.to_le_bytes(), [count, 1, 0])
    }

    fn cuMemsetD2D8_v2(dst: u64, pitch: usize, value: u8, width: usize, height: usize) = cuMemsetD2D8_v2_ptds |call| {
        fill_on_default_stream(call, dst, &[value], [width, height, pitch])
    }

    fn cuMemsetD2D16_v2(dst: u64, pitch: usize, value: u16, width: usize, height: usize) = cuMemsetD2D16_v2_ptds |call| {
        fill_on_default_stream(call, dst, &value.to_le_bytes(), [width, height, pitch])
    }

    fn cuMemsetD2D32_v2(dst: u64, pitch: usize, value: u32, width: usize, height: usize) = cuMemsetD2D32_v2_ptds |call| {
        fill_on_default_stream(call, dst, &value.to_le_bytes(), [width, height, pitch])
    }

    fn cuMemsetD2D8Async(
        dst: u64, pitch: usize, value: u8, width: usize, height: usize, stream: u64
    ) = cuMemsetD2D8Async_ptsz |call| {
        fill(call, stream, dst, &[value], [width, height, pitch])
    }

    fn cuMemsetD2D16Async(
        dst: u64, pitch: usize, value: u16, width: usize, height: usize, stream: u64
    ) = cuMemsetD2D16Async_ptsz |call| {
        fill(call, stream, dst, &value.to_le_bytes(), [width, height, pitch])
    }

    fn cuMemsetD2D32Async(
        dst: u64, pitch: usize, value: u32, width: usize, height: usize, stream: u64
    ) = cuMemsetD2D32Async_ptsz |call| {
        fill(call, stream, dst, &value.to_le_bytes(), [width, height, pitch])
    }
}

pub(crate) const fn default_stream(call: &Call) -> u64 {
    if call.is_per_thread {
        PER_THREAD
    } else {
        LEGACY
    }
}

/// Fills on the default stream, and waits where the memory is the host's or migrates: "API synchronization behavior",
/// Memset, of NVIDIA's documentation.
fn fill_on_default_stream(call: &Call, dst: u64, value: &[u8], rows: [usize; 3]) -> Answer {
    if is_device(call, dst) {
        return fill(call, default_stream(call), dst, value, rows);
    }
    let stream = own_default_stream(call)?;
    fill(call, stream, dst, value, rows)?;
    wait(call, stream)
}

/// Fills `count` values in each of `height` rows, which begin `pitch` bytes apart, and does not wait. Host memory that
/// is not known is refused.
pub(crate) fn fill(
    call: &Call,
    stream: u64,
    dst: u64,
    value: &[u8],
    [count, height, pitch]: [usize; 3],
) -> Answer {
    let width = count.checked_mul(value.len()).ok_or(Code::INVALID_VALUE)?;
    if width == 0 || height == 0 {
        return objects().stream(call, stream).map(drop);
    }
    let is_whole = dst.is_multiple_of(value.len() as u64)
        && (height == 1 || (pitch >= width && pitch.is_multiple_of(value.len())));
    if !is_whole || !call.is_known(dst) {
        return Err(Code::INVALID_VALUE);
    }
    refuse_rows_outside(call, dst, (height - 1, pitch, width))?;
    let Some((engine, _)) = objects().submit_to(call, stream)? else {
        return Ok(());
    };
    let rows = [height as u64, width as u64, pitch as u64];
    // SAFETY: memory of the engine is checked, and no other is filled.
    Ok(unsafe {
        call.process
            .engine
            .fill_rows(call.site, engine, dst, rows, value)
    }?)
}

/// Refuses rows of which one is outside of the allocation that they begin in, before any is filled.
fn refuse_rows_outside(
    call: &Call,
    dst: u64,
    (rows, pitch, width): (usize, usize, usize),
) -> Answer {
    let skipped = rows.checked_mul(pitch).ok_or(Code::INVALID_VALUE)?;
    let extent = skipped.checked_add(width).ok_or(Code::INVALID_VALUE)?;
    let engine = &call.process.engine;
    if rows > 0 {
        engine.refuse_outside(call.site, dst, extent as u64)?;
    }
    // Behind registered memory is the host's own, which no fill reaches.
    let registered = call.owner_of(dst).filter(|owner| owner.is_registered);
    let end = dst.checked_add(extent as u64);
    let is_behind =
        registered.is_some_and(|owner| end.is_none_or(|end| end > owner.base + owner.bytes));
    if is_behind {
        Err(Code::INVALID_VALUE)
    } else {
        Ok(())
    }
}
