//! Events. One belongs to a device: a stream of another one cannot record it, and can wait for it.
#![expect(unsafe_code, reason = "the runtime's functions are exported by name")]

use super::entry::{Out, entries};
use crate::cuda::events;

/// `hipEventDisableSystemFence`, `-ReleaseToDevice` and `-ReleaseToSystem`: how caches see an event.
const FENCES: u32 = 0xE000_0000;

entries! {
    fn hipEventCreate(out: Out<u64>) |call| {
        events::create(call, out, 0)
    }

    fn hipEventCreateWithFlags(out: Out<u64>, flags: u32) |call| {
        events::create(call, out, flags & !FENCES)
    }

    fn hipEventDestroy(event: u64) |call| {
        events::destroy(call, event)
    }

    fn hipEventRecord(event: u64, stream: u64) = hipEventRecord_spt |call| {
        events::record(call, event, stream)
    }

    fn hipEventQuery(event: u64) |call| {
        events::query(call, event)
    }

    fn hipEventSynchronize(event: u64) |call| {
        events::synchronize(call, event)
    }

    fn hipEventElapsedTime(out: Out<f32>, start: u64, end: u64) |call| {
        events::elapsed(call, out, start, end)
    }
}
