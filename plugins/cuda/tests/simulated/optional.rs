//! Drivers that lack a function which the plugin can do without, under its hooks: what needs it is done in another way,
//! or answers `UNSUPPORTED`, and all else works. `lacking` has the same for the whole runtime.

use crossdock_sdk::abi::{MemoryKind, Status, StreamHandle};
use crossdock_sdk::plugin::{
    AsyncMemory as _, HostEvents as _, Peer as _, Plugin as _, Pool as _, Streams as _,
};

use crate::driver::Driver;
use crate::hooks::{BYTES, LIMIT_NS, allocate, device, free, open, round_trip};
use crate::over;

/// Those that a driver may lack (`functions.rs`).
pub(crate) const OPTIONAL: [&str; 10] = [
    "cuDeviceGetUuid_v2",
    "cuMemAllocFromPoolAsync",
    "cuMemFreeAsync",
    "cuMemPoolCreate",
    "cuMemPoolDestroy",
    "cuMemPoolGetAttribute",
    "cuMemPoolSetAccess",
    "cuMemPoolSetAttribute",
    "cuMemPoolTrimTo",
    "cuStreamWaitValue32_v2",
];

#[test]
fn a_function_that_may_be_missing_is_done_without() {
    let missing = OPTIONAL.map(|name| format!("missing={name}"));
    let runs = missing
        .each_ref()
        .map(|set| ["--cuda", "2", "--set", set.as_str()]);
    let runs = runs.each_ref().map(<[&str; 4]>::as_slice);
    if !over(
        "optional::a_function_that_may_be_missing_is_done_without",
        &runs,
    ) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let stream = cuda.stream_create(0).unwrap();
    for kind in [MemoryKind::DEVICE, MemoryKind::PINNED, MemoryKind::MANAGED] {
        let memory = allocate(&cuda, kind, 1).unwrap();
        round_trip(&cuda, device(memory.word, 1), StreamHandle::NONE).unwrap();
        round_trip(&cuda, device(memory.word, 1), stream).unwrap();
        free(&cuda, memory, kind).unwrap();
    }
    let mut refused = Vec::new();
    match cuda.allocate_async(stream, BYTES as u64) {
        // SAFETY: nobody uses it.
        Ok(memory) => unsafe { cuda.free_async(stream, memory) }.unwrap(),
        Err(error) => refused.push(error),
    }
    match cuda.event_create_host(0) {
        Ok(host) => {
            cuda.stream_wait_event(stream, host).unwrap();
            cuda.event_complete(host, Status::OK).unwrap();
            cuda.event_destroy(host).unwrap();
        }
        Err(error) => refused.push(error),
    }
    refused.extend(cuda.memory_trim(0, 0).err());
    refused.extend(cuda.memory_usage(0).err());
    refused.extend(
        cuda.peer_enable(0, 1)
            .and_then(|()| cuda.peer_disable(0, 1))
            .err(),
    );
    for error in refused {
        assert_eq!(error.status(), Status::UNSUPPORTED, "{error}");
        assert!(!error.message().is_empty());
    }
    cuda.stream_synchronize(stream, LIMIT_NS).unwrap();
    cuda.stream_destroy(stream).unwrap();
    assert_eq!(cuda.device_count(), 2);
    drop(cuda);
    assert_eq!(driver.leaks(), 0);
}
