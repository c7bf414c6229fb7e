//! Devices, and what is left after a fork, at exit, and without drivers.

use std::process::Command;

use crossdock_plugin_opencl::OpenCl;
use crossdock_sdk::{
    abi::{MemoryKind, ProbeState, Status, StreamHandle},
    plugin::{HostEvents, Plugin, Streams, read_fixed_text},
};

use crate::rig::{NO_LIMIT, allocate, copy, device, free, host, open_or_skip, opened, status};

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
        && text.contains("cache folder `/proc/none` cannot be written; set POCL_CACHE_DIR");
    assert!(has_others || says_why, "{text}");
}
