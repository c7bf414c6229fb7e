//! Devices, and what is left after a fork, at exit, and without drivers.

use std::{ffi::c_void, process::Command};

use crossdock_plugin_opencl::OpenCl;
use crossdock_sdk::{
    abi::{AddressForm, EventHandle, MemoryKind, ProbeState, Status, StreamHandle},
    plugin::{AsyncMemory, HostEvents, Plugin, Streams, read_fixed_text},
};
use opencl3::memory as cl_memory;

use crate::rig::{
    LATE, NO_LIMIT, allocate, copy, device, free, host, open_or_skip, opened, status,
};

#[test]
fn every_device_says_what_it_is_and_keeps_its_identity() {
    let (first, second) = (open_or_skip!(), open_or_skip!());
    assert!(first.device_count() > 0);
    for index in 0..first.device_count() {
        let info = first.device_info(index).unwrap();
        assert_eq!(info.dl_type, 4);
        assert!(!read_fixed_text(&info.name).is_empty());
        assert!(!read_fixed_text(&info.driver_version).is_empty());
        assert!(info.total_memory > 0);
        assert_ne!(info.uuid, [0; 16]);
        assert_eq!(info.uuid, second.device_info(index).unwrap().uuid);
    }
    assert_eq!(
        status(first.device_info(first.device_count())),
        Status::INVALID
    );
}

#[test]
fn after_a_fork_or_at_exit_every_call_says_so_and_nothing_is_called() {
    type End = fn(&OpenCl);
    let ends: [(End, Status); 2] = [
        (OpenCl::at_fork_child, Status::FORKED),
        (OpenCl::at_exit, Status::EXITING),
    ];
    for (end, wanted) in ends {
        let plugin = open_or_skip!();
        let memory = allocate(&plugin, MemoryKind::DEVICE, 64);
        let stream = plugin.stream_create(0).unwrap();
        let event = plugin.event_create_host(0).unwrap();
        end(&plugin);
        let bytes = [0_u8; 64];
        let copied = copy(
            &plugin,
            device(memory),
            host(bytes.as_ptr()),
            64,
            StreamHandle::NONE,
        );
        assert_eq!(copied, wanted);
        assert_eq!(status(plugin.stream_synchronize(stream, NO_LIMIT)), wanted);
        assert_eq!(status(plugin.event_complete(event, Status::OK)), wanted);
        assert_eq!(free(&plugin, memory, MemoryKind::DEVICE), wanted);
        assert_eq!(
            plugin.pointer_query(memory).unwrap().kind,
            MemoryKind::DEVICE
        );
        drop(plugin);
    }
}

/// A stream that waits for a host event, with memory freed and then an event recorded on it.
fn held_free(plugin: &OpenCl) -> ([EventHandle; 2], StreamHandle, *mut c_void) {
    let stream = plugin.stream_create(0).unwrap();
    let memory = allocate(plugin, MemoryKind::DEVICE, 1 << 20);
    let raw = std::ptr::with_exposed_provenance_mut(memory.word as usize);
    // SAFETY: a live memory object.
    unsafe { cl_memory::retain_mem_object(raw) }.unwrap();
    let (held, after) = (
        plugin.event_create_host(0).unwrap(),
        plugin.event_create(0).unwrap(),
    );
    plugin.stream_wait_event(stream, held).unwrap();
    // SAFETY: memory of the plugin's that nothing uses.
    unsafe { plugin.free_async(stream, memory) }.unwrap();
    plugin.event_record(after, stream).unwrap();
    ([held, after], stream, raw)
}

#[test]
fn memory_freed_in_the_order_of_a_stream_is_given_back_to_who_waited_for_that() {
    let plugin = open_or_skip!();
    if plugin.device_info(0).unwrap().address_form != AddressForm::HANDLE {
        println!("skipped: memory is no object there");
        return;
    }
    type Wait = fn(&OpenCl, EventHandle, StreamHandle);
    let waits: [Wait; 3] = [
        |plugin, after, _| {
            plugin.event_synchronize(after, LATE).unwrap();
            plugin.event_destroy(after).unwrap();
        },
        |plugin, _, stream| plugin.stream_synchronize(stream, LATE).unwrap(),
        |plugin, after, stream| {
            plugin.event_synchronize(after, LATE).unwrap();
            plugin.stream_query(stream).unwrap();
        },
    ];
    for wait in waits {
        let ([held, after], stream, raw) = held_free(&plugin);
        let references = || {
            let fact = cl_memory::CL_MEM_REFERENCE_COUNT;
            u32::from(cl_memory::get_mem_object_info(raw, fact).unwrap())
        };
        assert_eq!(references(), 2, "the stream may still use it");
        plugin.event_complete(held, Status::OK).unwrap();
        wait(&plugin, after, stream);
        assert_eq!(references(), 1);
        // SAFETY: the reference of the test.
        unsafe { cl_memory::release_mem_object(raw) }.unwrap();
    }
}

#[test]
#[ignore = "a measurement: prints what is given back late costs"]
fn what_is_given_back_late_costs_the_same_however_much_there_is() {
    let plugin = open_or_skip!();
    for count in [1000, 10_000] {
        let stream = plugin.stream_create(0).unwrap();
        let held = plugin.event_create_host(0).unwrap();
        plugin.stream_wait_event(stream, held).unwrap();
        let before = std::time::Instant::now();
        for _ in 0..count {
            let memory = allocate(&plugin, MemoryKind::DEVICE, 64);
            // SAFETY: memory of the plugin's that nothing uses.
            unsafe { plugin.free_async(stream, memory) }.unwrap();
        }
        println!("{count} frees: {:?}", before.elapsed());
        let before = std::time::Instant::now();
        for _ in 0..count / 10 {
            let stream = plugin.stream_create(0).unwrap();
            plugin.stream_wait_event(stream, held).unwrap();
            plugin.stream_destroy(stream).unwrap();
        }
        println!("{} streams: {:?}", count / 10, before.elapsed());
        plugin.event_complete(held, Status::OK).unwrap();
        plugin.stream_synchronize(stream, NO_LIMIT).unwrap();
    }
}

#[test]
fn probe_tells_its_parent() {
    if std::env::var_os("CROSSDOCK_TEST_PROBE").is_some() {
        let found = OpenCl::probe().unwrap();
        println!(
            "state={} detail={}",
            found.state.0,
            read_fixed_text(&found.detail)
        );
    }
}

#[test]
fn a_machine_without_drivers_or_with_a_dangling_one_is_absent_with_the_places() {
    if opened().is_none() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("crossdock-icd-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for dangling in [false, true] {
        if dangling {
            std::fs::write(folder.join("gone.icd"), "/nowhere/libgone.so\n").unwrap();
        }
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "life::probe_tells_its_parent", "--nocapture"])
            .env("CROSSDOCK_TEST_PROBE", "1")
            .env("OCL_ICD_VENDORS", &folder)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            text.contains(&format!("state={} ", ProbeState::ABSENT.0)),
            "{text}"
        );
        assert!(text.contains(&folder.display().to_string()), "{text}");
        assert_eq!(text.contains("/nowhere/libgone.so"), dangling, "{text}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_platform_whose_cache_folder_cannot_be_written_is_broken_with_what_to_do() {
    if opened().is_none() {
        return;
    }
    // Of all drivers only PoCL, whose folder cannot be made there.
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "life::probe_tells_its_parent", "--nocapture"])
        .env("CROSSDOCK_TEST_PROBE", "1")
        .env("POCL_CACHE_DIR", "/proc/none")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let has_others = text.contains(&format!("state={} ", ProbeState::READY.0));
    let says_why = text.contains(&format!("state={} ", ProbeState::BROKEN.0))
        && text.contains("cache folder `/proc/none` is not writable; set POCL_CACHE_DIR");
    assert!(has_others || says_why, "{text}");
}
