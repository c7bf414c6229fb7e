//! Memory in stream order.
#![expect(unsafe_code, reason = "the runtime's functions are exported by name")]

use std::ffi::c_int;

use super::entry::{In, Out, entries};
use crate::cuda::pools::{self, Access, Location, Properties};

entries! {
    fn hipMallocAsync(out: Out<u64>, bytes: usize, stream: u64) |call| {
        // Of no bytes there is none.
        if bytes == 0 {
            return out.set(0);
        }
        pools::allocate(call, out, bytes, stream, None)
    }

    fn hipMallocFromPoolAsync(out: Out<u64>, bytes: usize, pool: u64, stream: u64) |call| {
        if bytes == 0 {
            return out.set(0);
        }
        pools::allocate_from(call, out, bytes, pool, stream)
    }

    fn hipFreeAsync(address: u64, stream: u64) |call| {
        pools::free(call, address, stream)
    }

    fn hipDeviceGetDefaultMemPool(out: Out<u64>, ordinal: c_int) |call| {
        pools::get_default(call, out, ordinal)
    }

    fn hipDeviceGetMemPool(out: Out<u64>, ordinal: c_int) |call| {
        pools::get_current(call, out, ordinal)
    }

    fn hipDeviceSetMemPool(ordinal: c_int, pool: u64) |call| {
        pools::set_current(call, ordinal, pool)
    }

    fn hipMemPoolCreate(out: Out<u64>, properties: In<Properties>) |call| {
        pools::create(call, out, properties)
    }

    fn hipMemPoolDestroy(pool: u64) |call| {
        pools::destroy(call, pool)
    }

    fn hipMemPoolTrimTo(pool: u64, keep: usize) |call| {
        pools::trim(call, pool, keep)
    }

    fn hipMemPoolGetAttribute(pool: u64, attribute: c_int, out: Out<u64>) |call| {
        pools::get_attribute(call, pool, attribute, out)
    }

    fn hipMemPoolSetAttribute(pool: u64, attribute: c_int, value: In<u64>) |call| {
        pools::set_attribute(call, pool, attribute, value)
    }

    fn hipMemPoolSetAccess(pool: u64, access: In<Access>, count: usize) |call| {
        pools::set_access(call, pool, access, count)
    }

    fn hipMemPoolGetAccess(flags: Out<c_int>, pool: u64, location: In<Location>) |call| {
        pools::get_access(call, flags, pool, location)
    }
}
