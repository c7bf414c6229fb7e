//! Copies. Those without `Async` wait, but for copies inside of devices.
#![expect(unsafe_code, reason = "the runtime's functions are exported by name")]

use std::ffi::c_int;

use super::entry::{Answer, Call, In, entries};
use crate::cuda::copies::{Boxes, at_once, copy, refuse_unknown, strided, strided_at_once, wait};
use crate::face::codes::Code;

/// `hipErrorInvalidMemcpyDirection`.
const INVALID_DIRECTION: Code = Code(21);

/// `hipMemcpy3DParms`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Planes {
    source: Side,
    target: Side,
    extent: [usize; 3],
    kind: c_int,
}

/// A side of it: an array, where it begins, and a `hipPitchedPtr`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Side {
    array: u64,
    first: [usize; 3],
    address: u64,
    pitch: usize,
    width: usize,
    height: usize,
}

entries! {
    fn hipMemcpy(dst: u64, src: u64, bytes: usize, kind: c_int) = hipMemcpy_spt |call| {
        refuse(call, bytes, [dst, src], kind)?;
        at_once(call, dst, src, bytes)
    }

    fn hipMemcpyAsync(dst: u64, src: u64, bytes: usize, kind: c_int, stream: u64) = hipMemcpyAsync_spt |call| {
        refuse(call, bytes, [dst, src], kind)?;
        copy(call, stream, dst, src, bytes)
    }

    fn hipMemcpyWithStream(dst: u64, src: u64, bytes: usize, kind: c_int, stream: u64) |call| {
        refuse(call, bytes, [dst, src], kind)?;
        copy(call, stream, dst, src, bytes)?;
        wait(call, stream)
    }

    fn hipMemcpyHtoD(dst: u64, src: u64, bytes: usize) |call| {
        refuse(call, bytes, [dst, src], 1)?;
        at_once(call, dst, src, bytes)
    }

    fn hipMemcpyDtoH(dst: u64, src: u64, bytes: usize) |call| {
        refuse(call, bytes, [dst, src], 2)?;
        at_once(call, dst, src, bytes)
    }

    fn hipMemcpyDtoD(dst: u64, src: u64, bytes: usize) |call| {
        refuse(call, bytes, [dst, src], 3)?;
        at_once(call, dst, src, bytes)
    }

    fn hipMemcpyHtoDAsync(dst: u64, src: u64, bytes: usize, stream: u64) |call| {
        refuse(call, bytes, [dst, src], 1)?;
        copy(call, stream, dst, src, bytes)
    }

    fn hipMemcpyDtoHAsync(dst: u64, src: u64, bytes: usize, stream: u64) |call| {
        refuse(call, bytes, [dst, src], 2)?;
        copy(call, stream, dst, src, bytes)
    }

    fn hipMemcpyDtoDAsync(dst: u64, src: u64, bytes: usize, stream: u64) |call| {
        refuse(call, bytes, [dst, src], 3)?;
        copy(call, stream, dst, src, bytes)
    }

    fn hipMemcpyPeer(dst: u64, to: c_int, src: u64, from: c_int, bytes: usize) |call| {
        of_devices(call, to, from)?;
        refuse(call, bytes, [dst, src], 3)?;
        at_once(call, dst, src, bytes)
    }

    fn hipMemcpyPeerAsync(
        dst: u64,
        to: c_int,
        src: u64,
        from: c_int,
        bytes: usize,
        stream: u64,
    ) |call| {
        of_devices(call, to, from)?;
        refuse(call, bytes, [dst, src], 3)?;
        copy(call, stream, dst, src, bytes)
    }

    fn hipMemcpy2D(
        dst: u64, to: usize, src: u64, from: usize, width: usize, height: usize, kind: c_int,
    ) = hipMemcpy2D_spt |call| {
        strided_at_once(call, rows([(dst, to), (src, from)], [width, height], kind)?)
    }

    fn hipMemcpy2DAsync(
        dst: u64, to: usize, src: u64, from: usize, width: usize, height: usize, kind: c_int, stream: u64,
    ) = hipMemcpy2DAsync_spt |call| {
        strided(call, stream, &rows([(dst, to), (src, from)], [width, height], kind)?)
    }

    fn hipMemcpy3D(parameters: In<Planes>) = hipMemcpy3D_spt |call| {
        strided_at_once(call, planes(parameters.get()?)?)
    }

    fn hipMemcpy3DAsync(parameters: In<Planes>, stream: u64) = hipMemcpy3DAsync_spt |call| {
        strided(call, stream, &planes(parameters.get()?)?)
    }
}

/// Which sides a direction calls memory of a device: where it is written, and where it is read.
const fn on_devices(kind: c_int) -> Answer<[bool; 2]> {
    match kind {
        // Of the default (4) nothing is said.
        0 | 4 => Ok([false, false]),
        1 => Ok([true, false]),
        2 => Ok([false, true]),
        3 => Ok([true, true]),
        _ => Err(INVALID_DIRECTION),
    }
}

/// Refuses a direction that is none, and memory of a device that the runtime does not know.
fn refuse(call: &Call, bytes: usize, sides: [u64; 2], kind: c_int) -> Answer {
    let called = sides.into_iter().zip(on_devices(kind)?);
    let called: Vec<u64> = called.filter_map(|(side, is)| is.then_some(side)).collect();
    refuse_unknown(call, bytes, &called)
}

fn of_devices(call: &Call, to: c_int, from: c_int) -> Answer {
    call.device(to)?;
    call.device(from).map(drop)
}

fn rows(sides: [(u64, usize); 2], [width, height]: [usize; 2], kind: c_int) -> Answer<Boxes> {
    let is_narrow = |(_, pitch): &(u64, usize)| *pitch < width;
    if sides.iter().any(is_narrow) && height > 1 {
        // `hipErrorInvalidPitchValue`.
        return Err(Code(12));
    }
    let sides = sides.map(|(address, pitch)| (address, [0, pitch]));
    let shape = [1, height, width].map(|size| size as u64);
    Boxes::between(shape, sides, on_devices(kind)?)
}

fn planes(planes: Planes) -> Answer<Boxes> {
    let [width, height, depth] = planes.extent;
    let side = |side: Side| {
        if side.array != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        if side.pitch < width || side.height < height {
            return Err(Code::INVALID_VALUE);
        }
        let plane = side.pitch.checked_mul(side.height);
        let plane = plane.ok_or(Code::INVALID_VALUE)?;
        let [x, y, z] = side.first;
        let steps = [(x, 1), (y, side.pitch), (z, plane)];
        let skipped = steps.into_iter().try_fold(0_usize, |sum, (at, step)| {
            sum.checked_add(at.checked_mul(step)?)
        });
        let skipped = skipped.ok_or(Code::INVALID_VALUE)?;
        let address = side.address.checked_add(skipped as u64);
        Ok((address.ok_or(Code::INVALID_VALUE)?, [plane, side.pitch]))
    };
    let sides = [side(planes.target)?, side(planes.source)?];
    let shape = [depth, height, width].map(|size| size as u64);
    Boxes::between(shape, sides, on_devices(planes.kind)?)
}
