//! Copies. One with memory of the host that is not pinned waits until it is over, on a stream too; so do those
//! without a stream, but for copies inside of devices.
#![expect(
    unsafe_code,
    reason = "the engine takes addresses as clients give them"
)]

use std::ffi::c_int;

use crossdock_sim_engine::Strided;

use super::codes::Code;
use super::entry::{Answer, Call, In, entries};
use super::fills::default_stream;
use super::lies::astray;
use super::objects::objects;

/// `CUDA_MEMCPY2D`: where each side begins, with what between its rows.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Rows {
    source: Side,
    target: Side,
    width: usize,
    height: usize,
}

/// A side of it.
#[derive(Clone, Copy)]
#[repr(C)]
struct Side {
    x: usize,
    y: usize,
    kind: c_int,
    host: u64,
    device: u64,
    array: u64,
    pitch: usize,
}

/// `CUDA_MEMCPY3D`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Planes {
    source: PlaneSide,
    target: PlaneSide,
    width: usize,
    height: usize,
    depth: usize,
}

/// A side of it.
#[derive(Clone, Copy)]
#[repr(C)]
struct PlaneSide {
    x: usize,
    y: usize,
    z: usize,
    level: usize,
    kind: c_int,
    host: u64,
    device: u64,
    array: u64,
    reserved: u64,
    pitch: usize,
    height: usize,
}

/// `CU_MEMORYTYPE_*`.
const HOST: c_int = 1;
const DEVICE: c_int = 2;
const UNIFIED: c_int = 4;

entries! {
    fn cuMemcpy(dst: u64, src: u64, bytes: usize) = cuMemcpy_ptds |call| {
        at_once(call, dst, src, bytes)
    }

    fn cuMemcpyAsync(dst: u64, src: u64, bytes: usize, stream: u64) = cuMemcpyAsync_ptsz |call| {
        copy(call, stream, dst, src, bytes)
    }

    fn cuMemcpyHtoD_v2(dst: u64, src: u64, bytes: usize) = cuMemcpyHtoD_v2_ptds |call| {
        refuse_unknown(call, bytes, &[dst])?;
        at_once(call, dst, src, bytes)
    }

    fn cuMemcpyDtoH_v2(dst: u64, src: u64, bytes: usize) = cuMemcpyDtoH_v2_ptds |call| {
        refuse_unknown(call, bytes, &[src])?;
        at_once(call, dst, src, bytes)
    }

    fn cuMemcpyDtoD_v2(dst: u64, src: u64, bytes: usize) = cuMemcpyDtoD_v2_ptds |call| {
        refuse_unknown(call, bytes, &[dst, src])?;
        at_once(call, dst, src, bytes)
    }

    fn cuMemcpyHtoDAsync_v2(dst: u64, src: u64, bytes: usize, stream: u64) = cuMemcpyHtoDAsync_v2_ptsz |call| {
        refuse_unknown(call, bytes, &[dst])?;
        copy(call, stream, dst, src, bytes)
    }

    fn cuMemcpyDtoHAsync_v2(dst: u64, src: u64, bytes: usize, stream: u64) = cuMemcpyDtoHAsync_v2_ptsz |call| {
        refuse_unknown(call, bytes, &[src])?;
        copy(call, stream, dst, src, bytes)
    }

    fn cuMemcpyDtoDAsync_v2(dst: u64, src: u64, bytes: usize, stream: u64) = cuMemcpyDtoDAsync_v2_ptsz |call| {
        refuse_unknown(call, bytes, &[dst, src])?;
        copy(call, stream, dst, src, bytes)
    }

    fn cuMemcpyPeer(dst: u64, to: u64, src: u64, from: u64, bytes: usize) = cuMemcpyPeer_ptds |call| {
        of_contexts(to, from)?;
        at_once(call, dst, src, bytes)
    }

    fn cuMemcpyPeerAsync(
        dst: u64,
        to: u64,
        src: u64,
        from: u64,
        bytes: usize,
        stream: u64,
    ) = cuMemcpyPeerAsync_ptsz |call| {
        of_contexts(to, from)?;
        copy(call, stream, dst, src, bytes)
    }

    fn cuMemcpy2D_v2(rows: In<Rows>) = cuMemcpy2D_v2_ptds |call| {
        strided_at_once(call, Boxes::of_rows(rows.get()?)?)
    }

    fn cuMemcpy2DUnaligned_v2(rows: In<Rows>) = cuMemcpy2DUnaligned_v2_ptds |call| {
        strided_at_once(call, Boxes::of_rows(rows.get()?)?)
    }

    fn cuMemcpy2DAsync_v2(rows: In<Rows>, stream: u64) = cuMemcpy2DAsync_v2_ptsz |call| {
        strided(call, stream, &Boxes::of_rows(rows.get()?)?)
    }

    fn cuMemcpy3D_v2(planes: In<Planes>) = cuMemcpy3D_v2_ptds |call| {
        strided_at_once(call, Boxes::of_planes(planes.get()?)?)
    }

    fn cuMemcpy3DAsync_v2(planes: In<Planes>, stream: u64) = cuMemcpy3DAsync_v2_ptsz |call| {
        strided(call, stream, &Boxes::of_planes(planes.get()?)?)
    }
}

/// Copies in the order of a stream.
pub(crate) fn copy(call: &Call, stream: u64, dst: u64, src: u64, bytes: usize) -> Answer {
    if bytes == 0 {
        return objects().stream(call, stream).map(drop);
    }
    call.refuse_others(&[dst, src])?;
    let waits = is_pageable(call, dst) || is_pageable(call, src);
    let Some((engine, context)) = objects().submit_to(call, stream)? else {
        return Ok(());
    };
    let (dst, src) = astray(call, context, dst, src)?;
    // SAFETY: the client vouches for its host memory, as to the vendor's driver: pinned memory until the stream
    // is past the copy, other memory until this returns.
    unsafe {
        call.process
            .engine
            .copy(call.site, engine, dst, src, bytes as u64)?
    };
    if waits { wait(call, stream) } else { Ok(()) }
}

/// Copies on the default stream, and waits unless both sides are memory of devices.
pub(crate) fn at_once(call: &Call, dst: u64, src: u64, bytes: usize) -> Answer {
    let stream = own_default_stream(call)?;
    copy(call, stream, dst, src, bytes)?;
    if is_device(call, dst) && is_device(call, src) {
        return Ok(());
    }
    wait(call, stream)
}

/// The default stream that a call without one is about, which must not capture: the call waits for it.
pub(super) fn own_default_stream(call: &Call) -> Answer<u64> {
    let stream = default_stream(call);
    let mut objects = objects();
    let key = objects.resolve(call, stream)?;
    objects.captures.refuse_stream(key)?;
    Ok(stream)
}

/// Waits for a stream's work, on which the call stands.
pub(crate) fn wait(call: &Call, stream: u64) -> Answer {
    let (stream, _) = objects().stream(call, stream)?;
    Ok(call
        .process
        .engine
        .synchronize_stream(call.site, stream, None)?)
}

/// Whether the driver does not know the memory: the host's own.
fn is_pageable(call: &Call, address: u64) -> bool {
    !call.is_known(address)
}

/// Refuses what a client calls memory of a device and no driver knows: nobody else may touch it for the client.
pub(crate) fn refuse_unknown(call: &Call, bytes: usize, addresses: &[u64]) -> Answer {
    let is_unknown = |address: &u64| is_pageable(call, *address);
    if bytes > 0 && addresses.iter().any(is_unknown) {
        return Err(Code::INVALID_VALUE);
    }
    Ok(())
}

pub(super) fn is_device(call: &Call, address: u64) -> bool {
    let owner = call.owner_of(address);
    owner.is_some_and(|owner| owner.kind == crossdock_sim_engine::MemoryKind::Device)
}

fn of_contexts(to: u64, from: u64) -> Answer {
    let mut objects = objects();
    objects.context(to)?;
    objects.context(from).map(drop)
}

/// What lies between the elements of two sides, outermost first.
pub(crate) struct Boxes {
    shape: [u64; 3],
    target: Strided,
    source: Strided,
    /// Where the sides begin that are called memory of a device.
    on_devices: Vec<u64>,
}

impl Boxes {
    fn of_rows(rows: Rows) -> Answer<Self> {
        let side = |side: Side| {
            let row = pitch(side.pitch, rows.width)?;
            let first = offset(&[(side.y, row), (side.x, 1)])?;
            let base = base(side.kind, side.host, side.device)?;
            strided_side(base, first, [0, row])
        };
        let kinds = [rows.target.kind, rows.source.kind];
        let shape = [1, rows.height as u64, rows.width as u64];
        Ok(Self::new(
            shape,
            [side(rows.target)?, side(rows.source)?],
            kinds,
        ))
    }

    fn of_planes(planes: Planes) -> Answer<Self> {
        let side = |side: PlaneSide| {
            let row = pitch(side.pitch, planes.width)?;
            let rows = if side.height == 0 {
                planes.height
            } else {
                side.height
            };
            let plane = row.checked_mul(rows).ok_or(Code::INVALID_VALUE)?;
            let first = offset(&[(side.z, plane), (side.y, row), (side.x, 1)])?;
            let base = base(side.kind, side.host, side.device)?;
            strided_side(base, first, [plane, row])
        };
        let kinds = [planes.target.kind, planes.source.kind];
        let shape = [planes.depth, planes.height, planes.width].map(|size| size as u64);
        Ok(Self::new(
            shape,
            [side(planes.target)?, side(planes.source)?],
            kinds,
        ))
    }

    /// Rows and planes, by address with the bytes between both; which sides are called memory of a device.
    pub(crate) fn between(
        shape: [u64; 3],
        sides: [(u64, [usize; 2]); 2],
        on_devices: [bool; 2],
    ) -> Answer<Self> {
        let kinds = on_devices.map(|is_devices| if is_devices { DEVICE } else { UNIFIED });
        let [(target, to), (source, from)] = sides;
        let sides = [strided_side(target, 0, to)?, strided_side(source, 0, from)?];
        Ok(Self::new(shape, sides, kinds))
    }

    fn new(shape: [u64; 3], sides: [Strided; 2], kinds: [c_int; 2]) -> Self {
        let called = sides.iter().zip(kinds).filter(|(_, kind)| *kind == DEVICE);
        let on_devices = called.map(|(side, _)| side.address).collect();
        let [target, source] = sides;
        Self {
            shape,
            target,
            source,
            on_devices,
        }
    }
}

fn pitch(pitch: usize, width: usize) -> Answer<usize> {
    match pitch {
        0 => Ok(width),
        pitch if pitch < width => Err(Code::INVALID_VALUE),
        pitch => Ok(pitch),
    }
}

fn offset(parts: &[(usize, usize)]) -> Answer<usize> {
    let sum = parts.iter().try_fold(0usize, |sum, (index, step)| {
        sum.checked_add(index.checked_mul(*step)?)
    });
    sum.ok_or(Code::INVALID_VALUE)
}

/// Where a side begins; arrays are not simulated.
const fn base(kind: c_int, host: u64, device: u64) -> Answer<u64> {
    match kind {
        HOST => Ok(host),
        DEVICE | UNIFIED => Ok(device),
        3 => Err(Code::NOT_SUPPORTED),
        _ => Err(Code::INVALID_VALUE),
    }
}

fn strided_side(base: u64, first: usize, [plane, row]: [usize; 2]) -> Answer<Strided> {
    let address = base.checked_add(first as u64).ok_or(Code::INVALID_VALUE)?;
    let stride = |bytes: usize| i64::try_from(bytes).ok().ok_or(Code::INVALID_VALUE);
    Ok(Strided {
        address,
        bit_offset: 0,
        strides: vec![stride(plane)?, stride(row)?, 1],
    })
}

pub(crate) fn strided(call: &Call, stream: u64, boxes: &Boxes) -> Answer {
    let Boxes {
        shape,
        target,
        source,
        on_devices,
    } = boxes;
    if shape.contains(&0) {
        return objects().stream(call, stream).map(drop);
    }
    refuse_unknown(call, 1, on_devices)?;
    call.refuse_others(&[target.address, source.address])?;
    let waits = is_pageable(call, target.address) || is_pageable(call, source.address);
    let Some((engine, _)) = objects().submit_to(call, stream)? else {
        return Ok(());
    };
    let sides = (target, source);
    // SAFETY: as for a copy of bytes.
    unsafe {
        call.process
            .engine
            .copy_strided(call.site, engine, 8, shape, sides)?
    };
    if waits { wait(call, stream) } else { Ok(()) }
}

pub(crate) fn strided_at_once(call: &Call, boxes: Boxes) -> Answer {
    let stream = own_default_stream(call)?;
    strided(call, stream, &boxes)?;
    if is_device(call, boxes.target.address) && is_device(call, boxes.source.address) {
        return Ok(());
    }
    wait(call, stream)
}
