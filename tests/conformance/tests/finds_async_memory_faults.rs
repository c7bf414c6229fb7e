//! The suite on a plugin that gives memory to others before its stream has come to the free.
#![expect(
    unsafe_code,
    reason = "a faulty hook calls the hook that it stands for"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails where its plugin cannot be made"
)]

#[path = "faulty/table.rs"]
mod faulty;
#[path = "faulty/suite.rs"]
mod suite;

use std::sync::Mutex;

use crossdock_sdk::abi::{
    Address, AsyncMemoryHooks, MemoryKind, PluginHandle, Status, StreamHandle,
};

use faulty::{ErrorOut, group, sound};
use suite::{finds, report_of_case};

/// What was freed last. It stays allocated for ever, so that nobody is harmed by what is wrong.
static FREED: Mutex<Option<Address>> = Mutex::new(None);

fn sound_memory() -> AsyncMemoryHooks {
    // SAFETY: the sound plugin's group is a constant.
    unsafe { sound().async_memory.as_ptr().read() }
}

/// Frees at once, as far as others see.
unsafe extern "C" fn frees(
    _: PluginHandle,
    _: StreamHandle,
    address: *const Address,
    _: ErrorOut,
) -> Status {
    // SAFETY: the caller's argument.
    *FREED.lock().unwrap() = Some(unsafe { address.read() });
    Status::OK
}

unsafe extern "C" fn allocates(
    plugin: PluginHandle,
    stream: StreamHandle,
    size: u64,
    out: *mut Address,
    error: ErrorOut,
) -> Status {
    let freed = *FREED.lock().unwrap();
    if let Some(freed) = freed {
        // SAFETY: the caller's room for the answer.
        unsafe { out.write(freed) };
        return Status::OK;
    }
    // SAFETY: the caller's arguments.
    unsafe { sound_memory().allocate_async.unwrap()(plugin, stream, size, out, error) }
}

unsafe extern "C" fn keeps(
    plugin: PluginHandle,
    address: *const Address,
    kind: MemoryKind,
    error: ErrorOut,
) -> Status {
    // SAFETY: the caller's argument.
    if *FREED.lock().unwrap() == Some(unsafe { address.read() }) {
        return Status::OK;
    }
    // SAFETY: the caller's arguments.
    unsafe { sound().free.unwrap()(plugin, address, kind, error) }
}

#[test]
fn memory_that_is_given_to_others_before_its_stream_frees_it_is_found() {
    let case = "memory_is_freed_behind_the_work_before_it";
    let report = report_of_case(case, |table| {
        table.free = Some(keeps);
        table.async_memory = group(AsyncMemoryHooks {
            allocate_async: Some(allocates),
            free_async: Some(frees),
        });
    });
    finds(&report, case);
    let said = report.to_string();
    assert!(said.contains("is still in use"), "{said}");
}
