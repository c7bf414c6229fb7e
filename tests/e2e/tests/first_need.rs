//! Plugins that name a driver are probed and opened when somebody needs their devices, and not before.
#![expect(unsafe_code, reason = "calls a function of test plugins")]
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail by panicking")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crossdock::{Error, Plugin, PluginState, RouteChoice, Runtime};
use crossdock_e2e::outsiders::{import, symbol};
use crossdock_e2e::{compile_plugin, root};
use crossdock_sdk::dlpack::Device;
use tempfile::TempDir;

/// Plugins with drivers, each in a folder of its own.
struct Plugins {
    folders: Vec<TempDir>,
    files: Vec<PathBuf>,
}

impl Plugins {
    /// Of these names and devices: `("one", "ext_dev,vpi", "12,9")`.
    fn new(plugins: &[(&str, &str, &str)]) -> Self {
        let (mut folders, mut files) = (Vec::new(), Vec::new());
        for (name, types, numbers) in plugins {
            let folder = tempfile::tempdir().unwrap();
            let flags = [
                format!("-DNAME=\"{name}\""),
                format!("-DTYPES=\"{types}\""),
                format!("-DNUMBERS={numbers}"),
            ];
            files.push(compile(folder.path(), &flags));
            folders.push(folder);
        }
        Self { folders, files }
    }

    /// A runtime that finds them in its search.
    fn open(&self) -> Runtime {
        self.open_by(Runtime::builder().search(false))
    }

    fn open_by(&self, builder: crossdock::RuntimeBuilder) -> Runtime {
        let find = |builder: crossdock::RuntimeBuilder, folder: &TempDir| {
            builder.plugin_dir(folder.path())
        };
        self.folders.iter().fold(builder, find).open().unwrap()
    }

    /// How often the driver of each was called by now.
    fn calls(&self) -> Vec<u32> {
        self.files.iter().map(|file| calls(file)).collect()
    }
}

fn compile(folder: &Path, flags: &[String]) -> PathBuf {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    compile_plugin(&root().join("tests/plugins/with_driver.c"), folder, &flags)
}

/// Calls a function of the plugin file that takes nothing.
fn ask(file: &Path, name: &str) -> u32 {
    let symbol = symbol(file, name);
    // SAFETY: the address of a function that takes nothing; of one that gives nothing, what is given is not
    // looked at.
    let function = unsafe { (&raw const symbol).cast::<extern "C" fn() -> u32>().read() };
    function()
}

fn calls(file: &Path) -> u32 {
    ask(file, "driver_calls")
}

const FOUR: [(&str, &str, &str); 4] = [
    ("one", "ext_dev", "12"),
    ("two", "vpi,ext_dev", "9,12"),
    ("three", "vpi", "9,9"),
    ("four", "hexagon", "16"),
];

fn named(name: &str) -> Device {
    name.parse().unwrap()
}

fn states(runtime: &Runtime) -> Vec<(String, PluginState)> {
    let of = |plugin: &Arc<Plugin>| (plugin.name().to_owned(), plugin.state().clone());
    runtime.plugins().iter().skip(1).map(of).collect()
}

fn not_looked_at(runtime: &Runtime) -> Vec<String> {
    let states = states(runtime).into_iter();
    let put_off = states.filter(|(_, state)| *state == PluginState::NotLookedAt);
    put_off.map(|(name, _)| name).collect()
}

#[test]
fn what_needs_no_device_of_theirs_calls_no_driver() {
    let plugins = Plugins::new(&FOUR);
    let runtime = plugins.open();
    let bytes = vec![7_u8; 64];
    let cpu = runtime.device(Device::CPU).unwrap();
    let tensor = import(&runtime, &bytes, Device::CPU).unwrap();
    assert_eq!(tensor.read().unwrap(), bytes);
    tensor.to(&cpu, RouteChoice::Copy).unwrap();
    drop(tensor.export().unwrap());
    runtime.wait_for_releases(None).unwrap();
    let unknown = runtime.device(named("cuda:0")).unwrap_err();
    for name in ["one", "two", "three", "four"] {
        let why = unknown.why();
        assert!(why.contains(&format!("`{name}`")), "{why}");
    }
    assert_eq!(not_looked_at(&runtime), ["one", "two", "three", "four"]);
    assert_eq!(plugins.calls(), [0; 4]);
}

#[test]
fn who_names_a_type_has_those_looked_at_that_may_serve_it_or_share_a_type_with_them() {
    let plugins = Plugins::new(&FOUR);
    let runtime = plugins.open();
    let device = runtime.device(named("vpi:2")).unwrap();
    assert_eq!((device.plugin().name(), device.index()), ("three", 1));
    assert_eq!(not_looked_at(&runtime), ["four"]);
    assert_eq!(plugins.calls(), [2, 2, 2, 0], "looked for, and started");
    let error = runtime.device(named("ext_dev:7")).unwrap_err();
    assert!(
        error.why().contains("ext_dev:1") && error.why().contains("`four`"),
        "{}",
        error.why()
    );
    assert_eq!(runtime.devices().len(), 7);
    assert_eq!(plugins.calls(), [2; 4]);
    assert!(not_looked_at(&runtime).is_empty());
}

#[test]
fn numbers_and_lists_do_not_depend_on_who_is_asked_for_first() {
    let plugins = Plugins::new(&FOUR);
    let all = |runtime: &Runtime| -> Vec<_> {
        let devices = runtime.devices();
        let of = |device: &crossdock::Device| {
            (
                device.id(),
                device.plugin().name().to_owned(),
                device.index(),
            )
        };
        devices.iter().map(of).collect()
    };
    let expected = all(&plugins.open());
    let asked = ["ext_dev:0", "ext_dev:1", "vpi:0", "vpi:2", "hexagon:0"];
    for first in asked {
        for second in asked {
            // The plugins are closed with the runtime before it, so each is looked at anew.
            let runtime = plugins.open();
            assert_eq!(not_looked_at(&runtime).len(), 4, "{first} {second}");
            for name in [first, second] {
                assert_eq!(runtime.device(named(name)).unwrap().id(), named(name));
            }
            assert_eq!(all(&runtime), expected, "{first} {second}");
        }
    }
    let ids: Vec<String> = expected.iter().map(|(id, ..)| id.to_string()).collect();
    let order = [
        "cpu:0",
        "ext_dev:0",
        "vpi:0",
        "ext_dev:1",
        "vpi:1",
        "vpi:2",
        "hexagon:0",
    ];
    assert_eq!(ids, order);
}

#[test]
fn threads_that_need_them_at_once_have_each_looked_at_once() {
    let plugins = Plugins::new(&FOUR);
    for _ in 0..20 {
        let before = plugins.calls();
        let runtime = plugins.open();
        std::thread::scope(|threads| {
            for name in ["ext_dev:0", "vpi:2", "hexagon:0", "vpi:0", "ext_dev:1"] {
                let runtime = &runtime;
                threads.spawn(move || {
                    assert_eq!(runtime.device(named(name)).unwrap().id(), named(name));
                    assert_eq!(runtime.devices().len(), 7);
                });
            }
        });
        let after = plugins.calls();
        for (before, after) in before.iter().zip(after) {
            assert_eq!(after - before, 2);
        }
    }
}

#[test]
fn a_claim_a_uuid_an_order_and_a_question_for_an_owner_are_needs() {
    let plugins = Plugins::new(&FOUR);
    let bytes = vec![7_u8; 64];
    let runtime = plugins.open();
    let refused = import(&runtime, &bytes, named("hexagon:0"));
    assert!(matches!(refused, Err(Error::Claim { .. })), "{refused:?}");
    assert_eq!(not_looked_at(&runtime), ["one", "two", "three"]);
    let mut uuid = [0; 16];
    uuid[0] = b't';
    assert!(runtime.device_by_uuid(uuid).is_some());
    assert!(not_looked_at(&runtime).is_empty());
    drop(runtime);
    let runtime = plugins.open();
    let answer = runtime.pointer_query(bytes.as_ptr().addr() as u64).unwrap();
    assert_eq!(answer.device, None);
    assert!(not_looked_at(&runtime).is_empty());
    drop(runtime);
    let order = Runtime::builder().search(false).device_order("three:1");
    let runtime = plugins.open_by(order);
    let first = runtime.device(named("vpi:0")).unwrap();
    assert_eq!((first.plugin().name(), first.index()), ("three", 1));
}

#[test]
fn a_plugin_that_was_retired_first_is_never_looked_at() {
    let plugins = Plugins::new(&FOUR);
    let runtime = plugins.open();
    let four = runtime.plugins().pop().unwrap();
    runtime.retire(&four).unwrap();
    assert!(runtime.device(named("hexagon:0")).is_err());
    assert_eq!((runtime.devices().len(), plugins.calls()[3]), (6, 0));
    assert_eq!(*four.state(), PluginState::NotLookedAt);
}

#[test]
fn a_file_that_is_loaded_by_its_path_is_looked_at_at_once_behind_those_with_its_types() {
    let plugins = Plugins::new(&FOUR);
    let late = Plugins::new(&[("late", "vpi", "9")]);
    let runtime = plugins.open();
    let loaded = runtime.load(&late.files[0]).unwrap();
    assert_eq!(*loaded.state(), PluginState::Ready);
    assert_eq!(not_looked_at(&runtime), ["four"]);
    let device = runtime.device(named("vpi:3")).unwrap();
    assert_eq!(device.plugin().name(), "late");
    assert_eq!(late.calls(), [2]);
    // One that is there already and nobody has looked at.
    let same = runtime.load(&plugins.files[3]).unwrap();
    assert_eq!((same.name(), same.state()), ("four", &PluginState::Ready));
    assert_eq!(
        runtime.device(named("hexagon:0")).unwrap().plugin().name(),
        "four"
    );
    assert_eq!(runtime.plugins().len(), 6);
}

#[test]
fn a_driver_that_is_not_there_makes_its_plugin_absent_when_it_is_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let flags = [
        "-DNAME=\"gone\"",
        "-DTYPES=\"vpi\"",
        "-DNUMBERS=9",
        "-DABSENT",
    ];
    let file = compile(folder.path(), &flags.map(str::to_owned));
    let runtime = Runtime::builder()
        .search(false)
        .plugin_dir(folder.path())
        .open()
        .unwrap();
    assert_eq!(calls(&file), 0);
    let error = runtime.device(named("vpi:0")).unwrap_err();
    assert!(matches!(error, Error::UnknownDevice { .. }), "{error}");
    let told = "`gone` has no device: looked for libgone.so.1; the devices here are";
    assert!(error.why().starts_with(told), "{}", error.why());
    let other = runtime.device(named("cuda:0")).unwrap_err();
    assert!(!other.why().contains("gone"), "{}", other.why());
    assert!(matches!(states(&runtime)[0].1, PluginState::Absent { .. }));
    assert_eq!((runtime.devices().len(), calls(&file)), (1, 1));
}

#[test]
fn a_plugin_that_is_retired_while_it_is_looked_at_is_retired_once_it_is_open() {
    let plugins = Plugins::new(&FOUR[3..]);
    let (runtime, file) = (plugins.open(), &plugins.files[0]);
    let plugin = runtime.plugins().pop().unwrap();
    ask(file, "driver_hold_in_open");
    std::thread::scope(|threads| {
        let looker = threads.spawn(|| runtime.device(named("hexagon:0")));
        ask(file, "driver_wait_until_held");
        let retirer = threads.spawn(|| runtime.retire(&plugin));
        let is_listed = || {
            runtime
                .plugins()
                .iter()
                .any(|own| Arc::ptr_eq(own, &plugin))
        };
        while is_listed() {
            std::thread::yield_now();
        }
        // Once more, while the first look is under way.
        let loader = threads.spawn(|| runtime.load(file).map(drop));
        while_not(|| retirer.is_finished() || loader.is_finished());
        ask(file, "driver_let_go");
        retirer.join().unwrap().unwrap();
        assert!(looker.join().unwrap().is_err());
        // The file has one state, which the first one has as long as it is held here.
        let _opened_or_refused = loader.join().unwrap();
    });
    assert_eq!(ask(file, "driver_retires"), 1, "it was open");
    assert_eq!(ask(file, "driver_most_at_once"), 1);
    assert!(runtime.refused().is_empty());
}

/// Gives threads that should stand still the chance not to.
fn while_not(is_over: impl Fn() -> bool) {
    for _ in 0..2000 {
        if is_over() {
            return;
        }
        std::thread::yield_now();
    }
}

#[test]
fn who_fails_to_look_takes_nothing_from_who_did_not() {
    let plugins = Plugins::new(&FOUR[3..]);
    let (runtime, file) = (plugins.open(), &plugins.files[0]);
    ask(file, "driver_hold_in_device_count");
    std::thread::scope(|threads| {
        let other = threads.spawn(|| runtime.device(named("hexagon:0")).map(drop));
        ask(file, "driver_wait_until_held");
        runtime.device(named("hexagon:0")).unwrap();
        ask(file, "driver_let_go");
        other.join().unwrap().unwrap();
    });
    runtime.device(named("hexagon:0")).unwrap();
    assert!(runtime.refused().is_empty(), "{:?}", runtime.refused());
}

#[test]
fn the_device_with_an_identity_is_that_of_the_first_plugin_whoever_was_asked_before() {
    // Their devices have the first letter of their plugin for a uuid.
    let plugins = Plugins::new(&[("the", "ext_dev", "12"), ("two", "vpi", "9")]);
    let runtime = plugins.open();
    runtime.device(named("vpi:0")).unwrap();
    let mut uuid = [0; 16];
    uuid[0] = b't';
    let found = runtime.device_by_uuid(uuid).unwrap();
    assert_eq!(found.plugin().name(), "the");
}

#[test]
fn a_second_file_of_a_name_is_tried_where_the_first_does_not_work_and_starts_no_driver_before() {
    let plugins = Plugins::new(&[("twin", "ext_dev", "12"), ("twin", "ext_dev", "12,12")]);
    let runtime = plugins.open();
    assert_eq!(
        (not_looked_at(&runtime).len(), plugins.calls()),
        (1, vec![0, 0])
    );
    assert_eq!(runtime.devices().len(), 2);
    assert_eq!(plugins.calls(), [2, 0]);
    drop(runtime);
    let broken = tempfile::tempdir().unwrap();
    let flags = [
        "-DNAME=\"twin\"",
        "-DTYPES=\"ext_dev\"",
        "-DNUMBERS=12",
        "-DBROKEN",
    ];
    let file = compile(broken.path(), &flags.map(str::to_owned));
    let runtime = plugins.open_by(Runtime::builder().search(false).plugin_dir(broken.path()));
    assert_eq!((calls(&file), plugins.calls()), (0, vec![2, 0]));
    let device = runtime.device(named("ext_dev:0")).unwrap();
    assert_eq!(device.plugin().path(), Some(plugins.files[0].as_path()));
    assert_eq!((calls(&file), plugins.calls()), (1, vec![4, 0]));
    assert_eq!(runtime.devices().len(), 2);
}
