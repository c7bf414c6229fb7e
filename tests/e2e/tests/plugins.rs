//! Loading plugins: beside each other, twice, of other versions, and removing them while tensors live.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail by panicking")]

use std::sync::Arc;

use crossdock::{Error, PluginState, Runtime, Tensor};
use crossdock_e2e::{compile_plugin, ext_dev, plugin_file, report, root};
use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::{Device, Dtype, Layout};

fn open() -> Runtime {
    Runtime::builder().search(false).open().unwrap()
}

#[test]
fn a_runtime_without_any_file_has_the_cpu() {
    let runtime = open();
    let cpu = runtime.device(Device::CPU).unwrap();
    assert_eq!(cpu.plugin().name(), "cpu");
    assert_eq!(cpu.plugin().path(), None);
    assert!(cpu.total_memory() > 0);
}

#[test]
fn the_cpu_as_a_file_stands_beside_the_built_in_one_under_the_next_id() {
    let Some(file) = plugin_file("cpu") else {
        return report("skipped: the CPU plugin's file was not built in this run");
    };
    let runtime = Runtime::builder()
        .search(false)
        .plugin(file)
        .open()
        .unwrap();
    let ids: Vec<_> = runtime
        .devices()
        .iter()
        .map(|device| device.id().to_string())
        .collect();
    assert_eq!(ids, ["cpu:0", "cpu:1"]);
}

#[test]
fn the_same_file_is_loaded_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = ext_dev(folder.path());
    let link = folder.path().join("libcrossdock_plugin_other.so");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let runtime = open();
    let first = runtime.load(&file).unwrap();
    let second = runtime.load(&link).unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(runtime.devices().len(), 2);
}

#[test]
fn a_retired_plugin_takes_no_work_and_its_tensors_can_still_be_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = open();
    let plugin = runtime.load(&ext_dev(folder.path())).unwrap();
    let device = runtime.devices().pop().unwrap();
    let layout = Layout::compact(Dtype::UINT8, &[100]).unwrap();
    let tensor = Tensor::from_bytes(&device, &layout, &[1; 100]).unwrap();
    runtime.retire(&plugin).unwrap();
    assert!(runtime.device(device.id()).is_err());
    assert!(Tensor::empty(&device, &layout).is_err());
    drop(tensor);
}

#[test]
fn a_plugin_that_one_runtime_retires_goes_on_for_the_other_and_can_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = ext_dev(folder.path());
    let (here, there) = (open(), open());
    let plugin = here.load(&file).unwrap();
    assert!(Arc::ptr_eq(&there.load(&file).unwrap(), &plugin));
    let [mine, theirs] = [&here, &there].map(|runtime| runtime.devices().pop().unwrap());
    let layout = Layout::compact(Dtype::UINT8, &[100]).unwrap();
    let tensor = Tensor::from_bytes(&mine, &layout, &[1; 100]).unwrap();
    here.retire(&plugin).unwrap();
    assert_eq!((here.devices().len(), there.devices().len()), (1, 2));
    let refused = Tensor::empty(&mine, &layout).unwrap_err();
    assert_eq!(refused.status(), Some(Status::RETIRED));
    assert_eq!(tensor.read().unwrap(), [1; 100]);
    let other = Tensor::from_bytes(&theirs, &layout, &[2; 100]).unwrap();
    assert_eq!(other.read().unwrap(), [2; 100]);
    // Loaded here once more, it is the plugin that the other runtime has.
    assert!(Arc::ptr_eq(&here.load(&file).unwrap(), &plugin));
    let again = here.devices().pop().unwrap();
    assert!(Tensor::from_bytes(&again, &layout, &[3; 100]).is_ok());
    for runtime in [&here, &there] {
        assert!(!plugin.is_retired());
        runtime.retire(&plugin).unwrap();
    }
    assert!(plugin.is_retired());
    assert!(Tensor::empty(&theirs, &layout).is_err());
    // This plugin has one state, so it is opened anew once nobody holds it.
    let refused = here.load(&file).unwrap_err();
    assert_eq!(refused.status(), Some(Status::CONFLICT));
    let closed = Arc::downgrade(&plugin);
    drop((plugin, mine, theirs, again, tensor, other));
    assert_eq!(closed.strong_count(), 0);
    let anew = here.load(&file).unwrap();
    let device = here.devices().pop().unwrap();
    assert!(Arc::ptr_eq(device.plugin(), &anew));
    assert!(Tensor::from_bytes(&device, &layout, &[4; 100]).is_ok());
}

#[test]
fn a_plugin_is_retired_in_a_runtime_that_has_it_and_once() {
    let folder = tempfile::tempdir().unwrap();
    let (here, there) = (open(), open());
    let plugin = here.load(&ext_dev(folder.path())).unwrap();
    let refused = there.retire(&plugin).unwrap_err();
    assert!(
        refused.why().contains("not registered"),
        "{}",
        refused.why()
    );
    assert!(!plugin.is_retired());
    here.retire(&plugin).unwrap();
    assert!(matches!(here.retire(&plugin), Err(Error::Misuse { .. })));
}

#[test]
fn a_folder_that_holds_plugins_is_searched_and_what_is_no_plugin_is_listed_as_refused() {
    let folder = tempfile::tempdir().unwrap();
    let _file = ext_dev(folder.path());
    std::fs::write(folder.path().join("libcrossdock_plugin_text.so"), "hello").unwrap();
    let runtime = Runtime::builder()
        .search(false)
        .plugin_dir(folder.path())
        .open()
        .unwrap();
    let plugins = runtime.plugins();
    let names: Vec<_> = plugins.iter().map(|plugin| plugin.name()).collect();
    assert!(
        names.contains(&"ext_dev"),
        "{names:?} {:?}",
        runtime.refused()
    );
    let refused = runtime.refused();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(
        matches!(&refused[0], Error::Load { path, .. } if path.ends_with("libcrossdock_plugin_text.so"))
    );
}

/// The C plugin as another version of the contract would have built it.
fn other_version(folder: &std::path::Path, which: &str) -> std::path::PathBuf {
    compile_plugin(
        &root().join("tests/plugins/other_version.c"),
        folder,
        &[which],
    )
}

#[test]
fn a_table_of_another_major_version_is_refused_with_both_versions() {
    let folder = tempfile::tempdir().unwrap();
    let error = open()
        .load(&other_version(folder.path(), "-DOTHER_MAJOR"))
        .unwrap_err();
    let why = error.why();
    assert_eq!(why, "its table says ABI 2.0, and its description says 1.0");
}

#[test]
fn a_table_that_is_longer_than_those_of_its_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = other_version(folder.path(), "-DLONG_TODAY");
    let why = open().load(&file).unwrap_err().why();
    assert!(why.contains("one of version 1.0 has"), "{why}");
}

#[test]
fn a_plugin_that_opens_or_finds_nothing_or_counts_no_possible_number_of_devices_is_refused() {
    let source = root().join("tests/plugins/faulty.c");
    for (which, part) in [
        ("-DOPEN_ZERO", "answered OK with the handle 0"),
        ("-DCOUNT=0", "its `device_count` is 0"),
        (
            "-DCOUNT=4097",
            "its `device_count` is 4097; the limit is 4096",
        ),
        (
            "-DCOUNT=UINT32_MAX",
            "its `device_count` is 4294967295; the limit is 4096",
        ),
        ("-DPROBE_SILENT", "answered OK and wrote no state"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = compile_plugin(&source, folder.path(), &[which]);
        let why = open().load(&file).unwrap_err().why();
        assert!(why.contains(part), "{which}: {why}");
    }
}

#[test]
fn a_table_that_claims_a_group_that_it_lacks_is_refused_whatever_its_version() {
    let source = root().join("tests/plugins/other_version.c");
    for version in [[].as_slice(), &["-DSHORT_TABLE"], &["-DLONG_TABLE"]] {
        let folder = tempfile::tempdir().unwrap();
        let flags = [version, &["-DCLAIMS_GROUP"]].concat();
        let file = compile_plugin(&source, folder.path(), &flags);
        let why = open().load(&file).unwrap_err().why();
        assert!(why.contains("capability `FILL`"), "{why}");
        assert!(why.contains("lacks the group `fill`"), "{why}");
    }
}

#[test]
fn reserved_words_of_this_version_are_zero() {
    let folder = tempfile::tempdir().unwrap();
    let file = other_version(folder.path(), "-DRESERVED");
    let why = open().load(&file).unwrap_err().why();
    assert!(why.contains("[0, 1]"), "{why}");
}

#[test]
fn a_table_from_before_the_groups_and_one_that_grew_both_work() {
    for which in ["-DSHORT_TABLE", "-DLONG_TABLE"] {
        let folder = tempfile::tempdir().unwrap();
        let runtime = open();
        let plugin = runtime.load(&other_version(folder.path(), which)).unwrap();
        assert_eq!(*plugin.state(), PluginState::Ready, "{which}");
        let device = runtime.devices().pop().unwrap();
        let layout = Layout::compact(Dtype::UINT8, &[3]).unwrap();
        let tensor = Tensor::from_bytes(&device, &layout, &[1, 2, 3]).unwrap();
        assert_eq!(tensor.read().unwrap(), [1, 2, 3], "{which}");
    }
}
