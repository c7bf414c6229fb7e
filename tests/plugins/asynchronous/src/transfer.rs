//! Copies and fills: checked where they are called, done by the engine when their stream gets there.
#![expect(
    unsafe_code,
    reason = "copies between addresses that the host vouches for"
)]

use crossdock_sdk::abi::{CopyArgs, FillArgs, MemoryKind, Side, Status, StreamHandle, StridedArgs};
use crossdock_sdk::plugin::{Error, Fill, Strided};
use crossdock_sim_engine::{self as sim, Site};

use crate::answer::refused;
use crate::device::is_integrated;
use crate::plugin::Asynchronous;
use crate::region::{Elements, Region};
use crate::streams::HostStream;

impl Asynchronous {
    /// Copies bytes.
    ///
    /// # Safety
    /// - Both sides are valid until the copy is done.
    pub(crate) unsafe fn copy_bytes(
        &self,
        args: &CopyArgs,
        stream: StreamHandle,
    ) -> Result<(), Error> {
        let operation = "copy";
        let on = self.work_stream(operation, stream)?;
        let region = Region::compact(args.bytes)?;
        let (dst, src) = self.sides(operation, &region, (&args.dst, &args.src))?;
        let maker = maker(on, &[args.dst, args.src]);
        let in_truth = self.in_truth(maker, (&args.dst, &args.src), (dst, src));
        let (dst, src) = in_truth.map_err(|error| refused(operation, &error))?;
        self.run(operation, on, (maker, &[dst, src]), |stream| {
            // SAFETY: the caller keeps host memory valid until the copy is done, and without a
            // stream `run` returns behind its end only.
            unsafe {
                self.engine
                    .copy(Site::new(operation), stream, dst, src, args.bytes)
            }
        })
    }

    /// The addresses of both sides, which lie in their memories and have no bit in common.
    fn sides(
        &self,
        operation: &'static str,
        region: &Region,
        (dst, src): (&Side, &Side),
    ) -> Result<(u64, u64), Error> {
        let dst = self.side(operation, dst, region.written())?;
        let src = self.side(operation, src, region.read())?;
        if region.overlaps_itself(i128::from(dst) - i128::from(src)) {
            let why = "the two sides overlap";
            return Err(Error::new(Status::INVALID, operation, why));
        }
        Ok((dst, src))
    }
}

impl Strided for Asynchronous {
    unsafe fn copy_strided(&self, args: StridedArgs, stream: StreamHandle) -> Result<(), Error> {
        let operation = "copy_strided";
        let on = self.work_stream(operation, stream)?;
        // SAFETY: the caller's promise, passed on.
        let [shape, dst_strides, src_strides] = unsafe { arrays(&args)? };
        let region = Region::strided(Elements {
            bits: args.element_bits,
            shape,
            dst: dst_strides,
            src: src_strides,
        })?;
        let devices = [args.dst, args.src]
            .into_iter()
            .filter(|side| side.kind != MemoryKind::HOST);
        if !devices.clone().all(|side| is_integrated(side.device)) && !region.is_pitched() {
            return Err(Error::unsupported(operation));
        }
        let (dst, src) = self.sides(operation, &region, (&args.dst, &args.src))?;
        let extents: Vec<u64> = shape.iter().map(|extent| extent.unsigned_abs()).collect();
        let strided = |address, strides: &[i64]| sim::Strided {
            address,
            bit_offset: 0,
            strides: strides.to_vec(),
        };
        let maker = maker(on, &[args.dst, args.src]);
        let to = strided(dst, dst_strides);
        let from = if self.peers.drops(maker, &args.dst, &args.src) {
            strided(dst, dst_strides)
        } else {
            strided(src, src_strides)
        };
        self.run(operation, on, (maker, &[dst, src]), |stream| {
            let site = Site::new(operation);
            // SAFETY: the caller keeps host memory valid until the copy is done, and without a
            // stream `run` returns behind its end only.
            unsafe {
                self.engine
                    .copy_strided(site, stream, args.element_bits, &extents, (&to, &from))
            }
        })
    }
}

impl Fill for Asynchronous {
    unsafe fn fill(&self, args: FillArgs, stream: StreamHandle) -> Result<(), Error> {
        let operation = "fill";
        let on = self.work_stream(operation, stream)?;
        let length = usize::try_from(args.pattern_bytes).unwrap_or(usize::MAX);
        let pattern = args.pattern.get(..length);
        let pattern = pattern.filter(|pattern| {
            matches!(pattern.len(), 1 | 2 | 4 | 8 | 16)
                && args.bytes.is_multiple_of(u64::from(args.pattern_bytes))
        });
        let pattern = pattern.ok_or_else(|| {
            let why = format!(
                "a pattern of {length} bytes does not fill {} bytes",
                args.bytes
            );
            Error::new(Status::INVALID, operation, why)
        })?;
        let region = Region::compact(args.bytes)?;
        let dst = self.side(operation, &args.dst, region.written())?;
        let is_on_grid = dst.is_multiple_of(u64::from(args.pattern_bytes));
        if args.dst.kind != MemoryKind::HOST && !is_integrated(args.dst.device) && !is_on_grid {
            return Err(Error::unsupported(operation));
        }
        let maker = maker(on, &[args.dst]);
        self.run(operation, on, (maker, &[dst]), |stream| {
            // SAFETY: the caller keeps host memory valid until the fill is done, and without a
            // stream `run` returns behind its end only.
            unsafe {
                self.engine
                    .fill(Site::new(operation), stream, dst, args.bytes, pattern)
            }
        })
    }
}

/// The device that does the work: the stream's, else the first that a side is on.
fn maker(on: Option<HostStream>, sides: &[Side]) -> u32 {
    let of_side = || {
        sides
            .iter()
            .find(|side| side.kind != MemoryKind::HOST)
            .map(|side| side.device)
    };
    on.map(|host_stream| host_stream.device)
        .or_else(of_side)
        .unwrap_or(0)
}

/// The arrays of a strided copy.
///
/// # Safety
/// - Each is null, or has `rank` numbers that live as long as the answer is used.
unsafe fn arrays<'a>(args: &StridedArgs) -> Result<[&'a [i64]; 3], Error> {
    // SAFETY: the caller's promise, passed on.
    let read = (args.rank <= MAX_RANK).then(|| unsafe { args.arrays() });
    let why = "a shape of more than 64 axes, or without its numbers";
    let refused = || Error::new(Status::INVALID, "copy_strided", why);
    read.flatten().ok_or_else(refused)
}

/// The contract's limit.
const MAX_RANK: u32 = 64;
