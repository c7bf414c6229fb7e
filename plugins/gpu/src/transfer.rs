//! The hooks for strided copies and fills.
#![expect(
    unsafe_code,
    reason = "copying and filling are unsafe to call in the contract"
)]

use crossdock_sdk::abi::{FillArgs, StreamHandle, StridedArgs};
use crossdock_sdk::plugin::{Error, Fill, Strided};

use crate::fault::Fault;
use crate::place::Reach;
use crate::plugin::Gpu;
use crate::strided::{Shape, strided};
use crate::vendor::Vendor;

impl<V: Vendor> Strided for Gpu<V> {
    unsafe fn copy_strided(&self, args: StridedArgs, stream: StreamHandle) -> Result<(), Error> {
        let operation = "copy_strided";
        self.check(operation)?;
        // SAFETY: `read` needs arrays of `rank` numbers: the caller promises them.
        let shape = unsafe { Shape::read(&args) }?;
        let stream = self.stream_for(stream, operation)?;
        let dst = self.place(&args.dst, shape.reach(|one| one.dst)?, operation)?;
        let src = self.place(&args.src, shape.reach(|one| one.src)?, operation)?;
        // SAFETY: `strided` needs elements that are valid: the caller promises them.
        Ok(unsafe { strided(stream.as_deref(), &dst, &src, &shape) }?)
    }
}

impl<V: Vendor> Fill for Gpu<V> {
    unsafe fn fill(&self, args: FillArgs, stream: StreamHandle) -> Result<(), Error> {
        let operation = "fill";
        self.check(operation)?;
        let length = usize::try_from(args.pattern_bytes).unwrap_or(0);
        let pattern = args.pattern.get(..length);
        let pattern = pattern.filter(|_| length.is_power_of_two());
        let pattern = pattern.ok_or_else(|| Fault::invalid(operation, "no such pattern length"))?;
        if !args.bytes.is_multiple_of(u64::from(args.pattern_bytes)) {
            return Err(Fault::invalid(operation, "a part of a pattern is left").into());
        }
        let stream = self.stream_for(stream, operation)?;
        let reach = Reach {
            before: 0,
            after: args.bytes,
        };
        let dst = self.place(&args.dst, reach, operation)?;
        // SAFETY: `fill` needs a range that is valid: the caller promises it.
        Ok(unsafe { crate::fill::fill(stream.as_deref(), &dst, args.bytes, pattern) }?)
    }
}
