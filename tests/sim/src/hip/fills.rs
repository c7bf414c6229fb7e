//! Fills. None waits: AMD's documents promise that of device memory, and nothing of the host's.
#![expect(unsafe_code, reason = "the runtime's functions are exported by name")]

use std::ffi::c_int;

use super::entry::entries;
use crate::cuda::fills::{default_stream, fill};

entries! {
    fn hipMemset(dst: u64, value: c_int, count: usize) = hipMemset_spt |call| {
        fill(call, default_stream(call), dst, &[low(value)], [count, 1, 0])
    }

    fn hipMemsetAsync(dst: u64, value: c_int, count: usize, stream: u64) = hipMemsetAsync_spt |call| {
        fill(call, stream, dst, &[low(value)], [count, 1, 0])
    }

    fn hipMemsetD8(dst: u64, value: u8, count: usize) |call| {
        fill(call, default_stream(call), dst, &[value], [count, 1, 0])
    }

    fn hipMemsetD8Async(dst: u64, value: u8, count: usize, stream: u64) |call| {
        fill(call, stream, dst, &[value], [count, 1, 0])
    }

    fn hipMemsetD16(dst: u64, value: u16, count: usize) |call| {
        fill(call, default_stream(call), dst, &value.to_le_bytes(), [count, 1, 0])
    }

    fn hipMemsetD16Async(dst: u64, value: u16, count: usize, stream: u64) |call| {
        fill(call, stream, dst, &value.to_le_bytes(), [count, 1, 0])
    }

    fn hipMemsetD32(dst: u64, value: c_int, count: usize) |call| {
        fill(call, default_stream(call), dst, &value.to_le_bytes(), [count, 1, 0])
    }

    fn hipMemsetD32Async(dst: u64, value: c_int, count: usize, stream: u64) |call| {
        fill(call, stream, dst, &value.to_le_bytes(), [count, 1, 0])
    }

    fn hipMemset2D(dst: u64, pitch: usize, value: c_int, width: usize, height: usize) = hipMemset2D_spt |call| {
        fill(call, default_stream(call), dst, &[low(value)], [width, height, pitch])
    }

    fn hipMemset2DAsync(
        dst: u64, pitch: usize, value: c_int, width: usize, height: usize, stream: u64
    ) = hipMemset2DAsync_spt |call| {
        fill(call, stream, dst, &[low(value)], [width, height, pitch])
    }
}

const fn low(value: c_int) -> u8 {
    let [low, ..] = value.to_le_bytes();
    low
}
