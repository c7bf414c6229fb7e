//! A child of a fork: what it inherited answers that, calls no driver, and gives nothing back.

use std::ffi::c_int;

use crossdock_plugin_cuda::Plugin as Cuda;
use crossdock_sdk::abi::{Address, EventHandle, MemoryKind, Status, StreamHandle};
use crossdock_sdk::fence::fence;
use crossdock_sdk::plugin::{
    AsyncMemory as _, Error, HostEvents as _, Peer as _, Plugin as _, Pool as _, Register as _,
    Streams as _, Wrap as _,
};

use crate::driver::Driver;
use crate::hooks::{BYTES, LIMIT_NS, allocate, device, free, open, round_trip};
use crate::{POLICIES, over};

unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(child: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(code: c_int) -> !;
}

/// The exit code of a child that does this.
fn in_a_child(work: impl FnOnce()) -> c_int {
    // SAFETY: the child runs `work` and ends without anything else of this process.
    let child = unsafe { fork() };
    if child == 0 {
        let done = fence(work);
        // SAFETY: it ends the child.
        unsafe { _exit(c_int::from(done.is_none())) }
    }
    assert!(child > 0);
    let mut status = 0;
    // SAFETY: it is a child of this process, and the place is this function's own.
    assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
    status
}

/// What each hook answers that could reach the driver.
fn answers(
    cuda: &Cuda,
    (stream, event): (StreamHandle, EventHandle),
    memory: Address,
) -> Vec<(&'static str, Result<(), Error>)> {
    let side = device(memory.word, 0);
    let host = std::ptr::without_provenance_mut(4096);
    // SAFETY: it does nothing in a child of a fork.
    let freed = unsafe { cuda.free_async(stream, memory) };
    // SAFETY: as above.
    let registered = unsafe { cuda.register_host(0, host, 4096) };
    // SAFETY: as above.
    let wrapped = unsafe { cuda.stream_wrap(0, 0x1000) };
    vec![
        ("memory_info", cuda.memory_info(0).map(drop)),
        ("allocate", allocate(cuda, MemoryKind::DEVICE, 0).map(drop)),
        ("allocate", allocate(cuda, MemoryKind::PINNED, 1).map(drop)),
        ("copy", round_trip(cuda, side, StreamHandle::NONE)),
        ("copy on a stream", round_trip(cuda, side, stream)),
        ("free", free(cuda, memory, MemoryKind::DEVICE)),
        ("free_async", freed),
        ("register_host", registered),
        ("stream_wrap", wrapped.map(drop)),
        ("allocate_async", cuda.allocate_async(stream, 16).map(drop)),
        ("stream_create", cuda.stream_create(0).map(drop)),
        ("stream_query", cuda.stream_query(stream)),
        (
            "stream_synchronize",
            cuda.stream_synchronize(stream, LIMIT_NS),
        ),
        ("stream_wait_event", cuda.stream_wait_event(stream, event)),
        ("stream_destroy", cuda.stream_destroy(stream)),
        ("event_create", cuda.event_create(0).map(drop)),
        ("event_create_host", cuda.event_create_host(0).map(drop)),
        ("event_record", cuda.event_record(event, stream)),
        ("event_query", cuda.event_query(event)),
        ("event_synchronize", cuda.event_synchronize(event, LIMIT_NS)),
        ("event_destroy", cuda.event_destroy(event)),
        ("memory_trim", cuda.memory_trim(0, 0)),
        ("peer_enable", cuda.peer_enable(0, 1)),
        ("retire", cuda.retire(LIMIT_NS)),
    ]
}

#[test]
fn each_hook_of_an_inherited_plugin_says_that_the_process_was_forked() {
    let name = "forks::each_hook_of_an_inherited_plugin_says_that_the_process_was_forked";
    if !over(name, &POLICIES) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let stream = cuda.stream_create(0).unwrap();
    let event = cuda.event_create(0).unwrap();
    let memory = allocate(&cuda, MemoryKind::DEVICE, 0).unwrap();
    round_trip(&cuda, device(memory.word, 0), stream).unwrap();
    let code = in_a_child(|| {
        for (hook, answer) in answers(&cuda, (stream, event), memory) {
            let error = answer.expect_err(hook);
            assert_eq!(error.status(), Status::FORKED, "{hook}: {error}");
        }
        let unknown = cuda.pointer_query(Address::pointer(memory.word + BYTES as u64));
        assert_eq!(unknown.unwrap().kind, MemoryKind::UNOWNED);
    });
    assert_eq!(code, 0);
    // The parent lost nothing by it.
    round_trip(&cuda, device(memory.word, 0), stream).unwrap();
    free(&cuda, memory, MemoryKind::DEVICE).unwrap();
    cuda.event_destroy(event).unwrap();
    cuda.stream_destroy(stream).unwrap();
    drop(cuda);
    assert_eq!(driver.leaks(), 0);
}
