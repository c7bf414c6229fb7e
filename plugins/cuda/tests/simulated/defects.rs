//! Every kind of defect that the simulator's checker names, made by the plugin: each is told with the calls that are
//! wrong, and the plugin as it is shows none.

use std::ffi::c_void;
use std::mem::ManuallyDrop;

use crossdock_plugin_gpu::Gpu;
use crossdock_sdk::abi::{CopyArgs, FillArgs, MemoryKind, Side, Status, StreamHandle};
use crossdock_sdk::plugin::{
    AsyncMemory as _, Error, Fill as _, Host, HostEvents as _, Plugin as _, Register as _,
    Streams as _,
};

use crate::broken::{Broken, DEFECT, makes};
use crate::driver::Driver;
use crate::hooks::{BYTES, LIMIT_NS, allocate, device, free, upload};
use crate::{POLICIES, run_over};

/// A mistake of the plugin, what is told of it, and the second call, where there is one.
const DEFECTS: [(&str, &str, &str); 15] = [
    (
        "waits for nothing",
        "Race: `cuMemsetD8Async`",
        "`cuMemcpyDtoHAsync_v2`",
    ),
    (
        "records on another stream",
        "Race: `cuMemsetD8Async`",
        "`cuMemcpyDtoHAsync_v2`",
    ),
    (
        "says that all is over",
        "HostRace: `cuMemcpyDtoHAsync_v2`",
        "`host code`",
    ),
    (
        "frees before a use",
        "UseAfterFree: `cuMemFreeAsync`",
        "`cuMemcpyDtoHAsync_v2`",
    ),
    (
        "frees on another stream",
        "FreeInUse: `cuMemsetD8Async`",
        "`cuMemFreeAsync`",
    ),
    (
        "allocates on another stream",
        "UseBeforeAllocation: `cuMemAllocFromPoolAsync`",
        "`cuMemsetD8Async`",
    ),
    (
        "copies past the end",
        "OutOfBounds: `cuMemAllocFromPoolAsync`",
        "`cuMemcpyDtoHAsync_v2`",
    ),
    (
        "fills a half",
        "Uninitialised: `cuMemAllocFromPoolAsync`",
        "`cuMemcpyDtoHAsync_v2`",
    ),
    (
        "frees twice",
        "DoubleFree: `cuMemFreeAsync`",
        "`cuMemFreeAsync`",
    ),
    (
        "waits for what it destroyed",
        "Stale: `cuEventDestroy_v2`",
        "`cuStreamWaitEvent`",
    ),
    (
        "records nothing",
        "Unrecorded: `cuEventCreate`",
        "`cuStreamWaitEvent`",
    ),
    (
        "calls from a host function",
        "InHostFunction: `cuStreamQuery`",
        "",
    ),
    (
        "locks twice",
        "Registration: `cuMemHostRegister_v2`",
        "`cuMemHostRegister_v2`",
    ),
    ("waits for ever", "Standstill: `cuStreamWaitValue32_v2`", ""),
    ("destroys nothing", "Leak: `cuEventCreate`", ""),
];

const TEST: &str = "defects::every_kind_of_defect_is_told_with_the_right_calls";

#[test]
fn every_kind_of_defect_is_told_with_the_right_calls() {
    if std::env::var_os(DEFECT).is_some() {
        right_use();
        return;
    }
    for (defect, kind, second) in DEFECTS {
        let first = format!("crossdock-sim: {kind} (call ");
        let second = format!(" and {second} (call ");
        let is_told = |line: &str| {
            let is_second = second.contains('`') == line.contains(") and ");
            line.starts_with(&first)
                && is_second
                && (line.contains(&second) || !second.contains('`'))
        };
        for policy in POLICIES {
            let Some((code, told)) = with(defect, policy) else {
                return;
            };
            assert_eq!(code, Some(3), "{defect}, {policy:?}:\n{told}");
            assert!(told.lines().any(is_told), "{defect}, {policy:?}:\n{told}");
        }
    }
}

#[test]
fn a_wait_for_a_whole_device_is_told_and_right_use_is_not() {
    let waits = "crossdock-sim: `cuCtxSynchronize` (call ";
    for policy in POLICIES {
        let Some((code, told)) = with("waits for the device", policy) else {
            return;
        };
        assert!(code == Some(0) && told.contains(waits), "{told}");
        let Some((code, told)) = with("none", policy) else {
            return;
        };
        assert!(
            code == Some(0) && !told.contains("crossdock-sim: "),
            "{told}"
        );
    }
}

/// Uses the plugin with a defect, in a process over the simulator, which looks for all that it can tell.
fn with(defect: &str, policy: &[&str]) -> Option<(Option<i32>, String)> {
    let set = match defect {
        "fills a half" => "uninitialised=1",
        "waits for the device" => "waits=1",
        "none" | "destroys nothing" => "leaks=1",
        _ => "seed=2",
    };
    run_over(
        TEST,
        &[policy, &["--set", set]].concat(),
        &[(DEFECT, defect)],
    )
}

/// Uses the plugin rightly, in all ways in which it can be wrong.
fn right_use() {
    let driver = Driver::open();
    let user = std::thread::spawn(|| {
        let driver = Driver::open();
        // SAFETY: there is no host.
        let host = unsafe { Host::from_raw(std::ptr::null()) };
        // What is left of a broken one may stand still, so that is not closed.
        let plugin = ManuallyDrop::new(Gpu::<Broken>::open(host).unwrap());
        let done = order(&plugin, &driver)
            .and_then(|()| memory_in_order(&plugin))
            .and_then(|()| host_work(&plugin));
        if makes("none") {
            assert_eq!(driver.device_waits(), 0);
        }
        if makes("none") || makes("destroys nothing") {
            done.unwrap();
            drop(ManuallyDrop::into_inner(plugin));
        }
    });
    if makes("waits for ever") {
        while driver.reports() == 0 {
            std::thread::yield_now();
        }
    } else {
        user.join().unwrap();
        // What nobody waited for, as it should have.
        driver.progress();
    }
}

fn fill(plugin: &Gpu<Broken>, dst: Side, stream: StreamHandle) -> Result<(), Error> {
    let fill = FillArgs {
        dst,
        bytes: BYTES as u64,
        pattern: [0x55; 16],
        pattern_bytes: 1,
        reserved: 0,
    };
    // SAFETY: the memory lives until the stream is over.
    unsafe { plugin.fill(fill, stream) }
}

/// One stream writes, another one reads behind it, and the host reads last.
fn order(plugin: &Gpu<Broken>, driver: &Driver) -> Result<(), Error> {
    let (writer, reader) = (plugin.stream_create(0)?, plugin.stream_create(0)?);
    let event = plugin.event_create(0)?;
    let memory = allocate(plugin, MemoryKind::DEVICE, 0)?;
    let pinned = allocate(plugin, MemoryKind::PINNED, 0)?;
    let src = device(memory.word, 0);
    fill(plugin, src, writer)?;
    plugin.event_record(event, writer)?;
    plugin.stream_wait_event(reader, event)?;
    let args = CopyArgs {
        dst: Side {
            address: pinned,
            kind: MemoryKind::PINNED,
            device: 0,
        },
        src,
        bytes: BYTES as u64,
    };
    // SAFETY: both live until the stream is over.
    unsafe { plugin.copy(args, reader) }?;
    plugin.stream_synchronize(reader, LIMIT_NS)?;
    plugin.stream_synchronize(writer, LIMIT_NS)?;
    driver.touch(pinned.word, BYTES as u64);
    free(plugin, memory, MemoryKind::DEVICE)?;
    free(plugin, pinned, MemoryKind::PINNED)?;
    plugin.event_destroy(event)?;
    plugin.stream_destroy(writer)?;
    plugin.stream_destroy(reader)
}

/// Memory that a stream allocates, uses and frees.
fn memory_in_order(plugin: &Gpu<Broken>) -> Result<(), Error> {
    let stream = plugin.stream_create(0)?;
    let memory = plugin.allocate_async(stream, BYTES as u64)?;
    fill(plugin, device(memory.word, 0), stream)?;
    // SAFETY: nobody uses it behind this.
    unsafe { plugin.free_async(stream, memory) }?;
    plugin.stream_synchronize(stream, LIMIT_NS)?;
    plugin.stream_destroy(stream)
}

/// A stream waits for the host and calls it, and memory of the host is locked.
fn host_work(plugin: &Gpu<Broken>) -> Result<(), Error> {
    let stream = plugin.stream_create(0)?;
    let memory = allocate(plugin, MemoryKind::DEVICE, 0)?;
    let host = plugin.event_create_host(0)?;
    let bytes = vec![7; BYTES];
    plugin.stream_wait_event(stream, host)?;
    upload(plugin, device(memory.word, 0), &bytes, stream)?;
    plugin.event_complete(host, Status::OK)?;
    // Without a limit the plugin waits inside of the driver, which sees who waits for what.
    plugin.stream_synchronize(stream, u64::MAX)?;
    plugin.event_destroy(host)?;
    free(plugin, memory, MemoryKind::DEVICE)?;
    plugin.stream_destroy(stream)?;
    let pointer: *mut c_void = bytes.as_ptr().cast_mut().cast();
    // SAFETY: the bytes live until they are unregistered.
    unsafe { plugin.register_host(0, pointer, BYTES as u64) }?;
    plugin.unregister_host(0, pointer)
}
