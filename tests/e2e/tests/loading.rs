//! Loading plugin files: names, copies, new builds, order, and what is told when it fails.
#![expect(
    unsafe_code,
    reason = "looks into libraries as the dynamic linker does"
)]
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail by panicking")]

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crossdock::plugin_files::{self, Preflight, Remark};
use crossdock::{Error, PluginState, Runtime, Tensor};
use crossdock_e2e::outsiders::symbol;
use crossdock_e2e::{asynchronous, compile_plugin, ext_dev, root, throwing, with_environment};
use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::{Dtype, Layout};

fn open() -> Runtime {
    Runtime::builder().search(false).open().unwrap()
}

fn preflight(file: &Path) -> Preflight {
    plugin_files::preflight(file, &plugin_files::Environment::of_process()).unwrap()
}

fn faulty(folder: &Path, fault: &str) -> PathBuf {
    compile_plugin(&root().join("tests/plugins/faulty.c"), folder, &[fault])
}

fn many(folder: &Path, flags: &[&str]) -> PathBuf {
    compile_plugin(&root().join("tests/plugins/many.c"), folder, flags)
}

fn ids(runtime: &Runtime) -> Vec<String> {
    let devices = runtime.devices();
    devices
        .iter()
        .map(|device| device.id().to_string())
        .collect()
}

fn broken(plugin: &crossdock::Plugin) -> String {
    match plugin.state() {
        PluginState::Broken { why } => why.clone(),
        other => unreachable!("{other:?}"),
    }
}

/// The last byte of the uuid of an `ext_dev` device, by id.
fn machine_numbers(runtime: &Runtime) -> Vec<(i32, u8)> {
    let devices = runtime.devices();
    let mut all: Vec<_> = devices
        .iter()
        .filter_map(|device| Some((device.id().id, device.uuid()?[15])))
        .collect();
    all.sort_unstable();
    all
}

#[test]
fn other_names_and_copies_of_a_file_are_the_same_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let file = ext_dev(folder.path());
    let at = |name: &str| folder.path().join(name);
    std::os::unix::fs::symlink(&file, at("link.so")).unwrap();
    fs::hard_link(&file, at("hard.so")).unwrap();
    fs::copy(&file, at("copy.so")).unwrap();
    let runtime = open();
    let first = runtime.load(&file).unwrap();
    for name in ["link.so", "hard.so", "copy.so"] {
        let other = runtime.load(&at(name)).unwrap();
        assert!(Arc::ptr_eq(&first, &other), "{name}");
    }
    assert_eq!(ids(&runtime), ["cpu:0", "ext_dev:0"]);
}

#[test]
fn the_first_cause_is_still_told_at_the_second_try() {
    let folder = tempfile::tempdir().unwrap();
    let file = faulty(folder.path(), "-DOPEN_FAILS_ONCE");
    let first = open().load(&file).unwrap_err().why();
    assert!(first.contains("the driver said no"), "{first}");
    let second = open().load(&file).unwrap_err().why();
    assert!(second.contains("already exists"), "{second}");
    assert!(second.contains("the driver said no"), "{second}");
}

/// What this thread computes where the mode of its floating-point unit shows: subnormal results, and
/// rounding to both sides.
fn computed() -> [u64; 3] {
    use std::hint::black_box;
    let subnormal = black_box(f64::MIN_POSITIVE) / black_box(2.0);
    let (up, down) = (
        black_box(1.0) / black_box(3.0),
        black_box(-1.0) / black_box(3.0),
    );
    [subnormal, up, down].map(f64::to_bits)
}

#[test]
fn a_plugin_that_is_loaded_and_opened_leaves_the_callers_floating_point_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("tests/plugins/fast_math.c");
    let before = computed();
    let runtime = open();
    // The compiler's own way of doing the same: it links what changes the mode at load.
    for flags in [&["-lm"][..], &["-ffast-math", "-lm"]] {
        let plugin = runtime.load(&compile_plugin(&source, folder.path(), flags));
        assert!(plugin.is_ok(), "{plugin:?}");
        assert_eq!(computed(), before, "{flags:?}");
    }
}

#[test]
fn a_plugin_that_could_not_be_opened_is_an_error_and_the_next_try_tries_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = faulty(folder.path(), "-DOPEN_FAILS_AT_FIRST");
    let at_search = compile_into(folder.path(), "libcrossdock_plugin_faulty.so", &file);
    let runtime = Runtime::builder().search(false).plugin_dir(folder.path());
    let runtime = runtime.open().unwrap();
    // What a search finds is listed with the reason, and says nothing of later tries.
    let listed = runtime.plugins().into_iter().find(|it| it.path().is_some());
    assert!(broken(&listed.unwrap()).contains("the driver said no"));
    let error = runtime.load(&at_search).unwrap_err();
    assert_eq!(error.status(), Some(Status::VENDOR), "{error}");
    assert!(
        error.why().contains("the driver said no"),
        "{}",
        error.why()
    );
    let plugin = runtime.load(&at_search).unwrap();
    assert_eq!(*plugin.state(), PluginState::Ready);
    assert_eq!(ids(&runtime), ["cpu:0", "ext_dev:0"]);
    // The entry of the first try is gone.
    assert_eq!(runtime.plugins().len(), 2);
    assert!(Arc::ptr_eq(&plugin, &runtime.load(&at_search).unwrap()));
    let given = Runtime::builder().search(false);
    let given = given.plugin(faulty(folder.path(), "-DOPEN_FAILS")).open();
    assert_eq!(given.unwrap_err().status(), Some(Status::VENDOR));
}

/// The file under a name that a search looks for, alone in its folder.
fn compile_into(folder: &Path, name: &str, file: &Path) -> PathBuf {
    let path = folder.join(name);
    fs::rename(file, &path).unwrap();
    path
}

#[test]
fn devices_of_a_type_that_the_description_does_not_name_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(root().join("tests/plugins/ext_dev.c")).unwrap();
    let source = folder.path().join("claims_rocm.c");
    fs::write(&source, text.replace("EXT_DEV = 12", "EXT_DEV = 10")).unwrap();
    let file = compile_plugin(&source, folder.path(), &[]);
    let runtime = open();
    let why = runtime.load(&file).unwrap_err().why();
    assert!(why.contains("`devices=ext_dev`"), "{why}");
    assert!(why.contains("device 0 is `rocm`"), "{why}");
    assert_eq!(ids(&runtime), ["cpu:0"]);
    assert_eq!(runtime.plugins().len(), 1);
}

#[test]
fn a_description_with_an_illegal_device_type_is_refused_with_the_legal_ones() {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(root().join("tests/plugins/ext_dev.c")).unwrap();
    let source = folder.path().join("gpu.c");
    fs::write(&source, text.replace("devices=ext_dev", "devices=gpu")).unwrap();
    let file = compile_plugin(&source, folder.path(), &[]);
    let why = open().load(&file).unwrap_err().why();
    assert!(why.contains("\"gpu\"; there are cpu, cuda"), "{why}");
}

/// What happened when a plugin used Crossdock while it was opened.
static REENTRY: AtomicU32 = AtomicU32::new(0);

extern "C" fn reenter() {
    let refused = |error: &Error| {
        let told = matches!(error, Error::Misuse { .. }) && error.why().contains("being loaded");
        u32::from(told)
    };
    let open = Runtime::builder().search(false).open();
    REENTRY.fetch_add(open.err().as_ref().map_or(0, refused), Ordering::SeqCst);
}

#[test]
fn a_plugin_that_uses_the_host_while_it_is_loaded_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = faulty(folder.path(), "-DREENTERS");
    let place = symbol(&file, "on_open").cast::<extern "C" fn()>();
    // SAFETY: the symbol is a variable of this type.
    unsafe { place.write(reenter) };
    let runtime = open();
    let plugin = runtime.load(&file).unwrap();
    assert_eq!(*plugin.state(), PluginState::Ready);
    assert_eq!(REENTRY.load(Ordering::SeqCst), 1);
    assert!(Runtime::builder().search(false).open().is_ok());
}

#[test]
fn a_driver_that_is_too_old_is_told_with_both_numbers_and_the_others_work() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = open();
    let old = runtime.load(&faulty(folder.path(), "-DTOO_OLD"));
    let why = old.unwrap_err().why();
    assert!(why.contains("DRIVER_TOO_OLD"), "{why}");
    assert!(why.contains("11") && why.contains("12"), "{why}");
    let _good = runtime.load(&ext_dev(folder.path())).unwrap();
    assert_eq!(ids(&runtime), ["cpu:0", "ext_dev:0"]);
}

#[test]
fn vendor_masks_decide_which_device_has_which_id() {
    let cases: [(&str, &[u8]); 6] = [
        ("2", &[2]),
        ("3,2,1,0", &[3, 2, 1, 0]),
        ("u3,u1", &[3, 1]),
        ("1,9,2", &[1]),
        ("2,2,0", &[2, 0]),
        ("", &[]),
    ];
    for (mask, expected) in cases {
        let folder = tempfile::tempdir().unwrap();
        let runtime = open();
        let flag = format!("-DMASK=\"{mask}\"");
        let _plugin = runtime.load(&many(folder.path(), &[&flag])).unwrap();
        let seen: Vec<_> = machine_numbers(&runtime)
            .iter()
            .map(|(_, uuid)| *uuid)
            .collect();
        assert_eq!(seen, expected, "{mask}");
        assert_exported_ids(&runtime);
    }
}

/// A tensor of each device goes out under that device's own id, and its address is known as its
/// plugin's, whatever stands between that plugin's devices.
fn assert_exported_ids(runtime: &Runtime) {
    let layout = Layout::compact(Dtype::UINT8, &[9]).unwrap();
    for device in runtime.devices() {
        let tensor = Tensor::from_bytes(&device, &layout, &[3; 9]).unwrap();
        let address = tensor.address().as_pointer().unwrap();
        let owner = runtime.pointer_query(address).unwrap().device.unwrap();
        assert_eq!(owner.plugin().name(), device.plugin().name());
        let managed = tensor.export().unwrap().into_raw();
        // SAFETY: a live managed tensor that is handed over.
        let received = unsafe { crossdock_sdk::dlpack::Received::from_versioned(managed) };
        assert_eq!(received.unwrap().device(), device.id());
        assert_eq!(tensor.read().unwrap(), [3; 9]);
    }
}

#[test]
fn an_order_pins_ids_by_uuid_place_on_the_bus_or_index() {
    let uuid = "ab000000-0000-0000-0000-000000000002";
    let order = format!("{uuid}, 0000:03:00.0, many-missing:7, ext_dev:0, {uuid}");
    let folder = tempfile::tempdir().unwrap();
    let runtime = Runtime::builder()
        .search(false)
        .plugin(ext_dev(folder.path()))
        .plugin(many(folder.path(), &[]))
        .device_order(order)
        .open()
        .unwrap();
    // `ext_dev:0` names the first device of both plugins: both have this name.
    assert_eq!(machine_numbers(&runtime), [(0, 2), (1, 3), (3, 0), (4, 1)]);
    assert_eq!(ids(&runtime).len(), 6);
    assert_exported_ids(&runtime);
    let mut bytes = [0; 16];
    (bytes[0], bytes[15]) = (0xab, 2);
    let by_uuid = runtime.device_by_uuid(bytes).unwrap();
    assert_eq!(by_uuid.id().to_string(), "ext_dev:0");
    let by_pci = runtime.device_by_pci("0000:03:00.0").unwrap();
    assert_eq!(by_pci.id().to_string(), "ext_dev:1");
    assert_eq!(runtime.device_by_pci("0000:09:00.0"), None);
}

fn version_of(runtime: &Runtime, path: &Path) -> Result<String, Error> {
    runtime.load(path).map(|plugin| plugin.version().to_owned())
}

/// The C plugin with another version in its description.
fn build_version(folder: &Path, version: &str) -> PathBuf {
    let source = fs::read_to_string(root().join("tests/plugins/ext_dev.c")).unwrap();
    let source = source.replace("version=1.0.0", &format!("version={version}"));
    let file = folder.join("ext_dev.c");
    fs::write(&file, source).unwrap();
    compile_plugin(&file, folder, &[])
}

#[test]
fn a_new_build_under_the_same_path_is_loaded_beside_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let staging = tempfile::tempdir().unwrap();
    let runtime = open();
    let file = build_version(folder.path(), "1.0.0");
    let old = runtime.load(&file).unwrap();
    let device = runtime.devices().pop().unwrap();
    let layout = Layout::compact(Dtype::UINT8, &[3]).unwrap();
    let tensor = Tensor::from_bytes(&device, &layout, &[1, 2, 3]).unwrap();
    runtime.retire(&old).unwrap();
    for version in ["2.0.0", "3.0.0"] {
        let new = build_version(staging.path(), version);
        fs::rename(new, &file).unwrap();
        assert_eq!(version_of(&runtime, &file).unwrap(), version);
        let device = runtime.devices().pop().unwrap();
        assert!(Tensor::from_bytes(&device, &layout, &[4; 3]).is_ok());
    }
    // The old build's memory is the old build's.
    drop(tensor);
}

#[test]
fn a_file_that_was_written_over_while_it_is_loaded_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = open();
    let file = ext_dev(folder.path());
    let plugin = runtime.load(&file).unwrap();
    let bytes = fs::read(&file).unwrap();
    let other = fs::OpenOptions::new().append(true).open(&file).unwrap();
    std::io::Write::write_all(&mut &other, &[0; 8]).unwrap();
    let error = runtime.load(&file).unwrap_err();
    assert!(error.why().contains("written over"), "{}", error.why());
    other.set_len(bytes.len() as u64).unwrap();
    drop(plugin);
}

#[test]
fn each_reason_to_refuse_a_file_has_its_own_words() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = open();
    let at = |name: &str| folder.path().join(name);
    let good = fs::read(ext_dev(folder.path())).unwrap();
    let mut other_machine = good.clone();
    other_machine[18..20].copy_from_slice(&8_u16.to_ne_bytes());
    fs::write(at("machine.so"), other_machine).unwrap();
    fs::write(at("short.so"), &good[..good.len() / 2]).unwrap();
    fs::write(at("text.so"), "hello\n").unwrap();
    let plain = "int f(void); int f(void) { return 1; }";
    fs::write(at("plain.c"), plain).unwrap();
    let plain = compile_plugin(&at("plain.c"), folder.path(), &["-fvisibility=default"]);
    let cases = [
        (at("nothing.so"), "no such file"),
        (at("machine.so"), "mips"),
        (at("short.so"), "bytes, and its"),
        (at("text.so"), "a text"),
        (plain, "does not describe itself"),
        (
            needs_a_missing_library(folder.path()),
            "libcrossdock_not_here.so.7",
        ),
        (
            compile_plugin(
                &root().join("tests/plugins/other_version.c"),
                folder.path(),
                &["-DOTHER_MAJOR"],
            ),
            "2.0",
        ),
    ];
    let mut told = Vec::new();
    for (path, part) in cases {
        let error = runtime.load(&path).unwrap_err();
        let (what, why, hint) = (error.to_string(), error.why(), error.hint());
        assert!(what.contains(path.to_str().unwrap()), "{what}");
        assert!(why.contains(part), "{}: {why}", path.display());
        assert!(!hint.is_empty());
        assert!(!told.contains(&why), "{why}");
        told.push(why);
    }
}

/// A plugin linked to a library that is gone.
fn needs_a_missing_library(folder: &Path) -> PathBuf {
    let source = folder.join("gone.c");
    fs::write(&source, "int gone(void); int gone(void) { return 1; }").unwrap();
    let flags = [
        "-fvisibility=default",
        "-Wl,-soname,libcrossdock_not_here.so.7",
    ];
    let library = compile_plugin(&source, folder, &flags);
    let plugin = fs::read_to_string(root().join("tests/plugins/ext_dev.c")).unwrap();
    let source = folder.join("needy.c");
    let more = "int gone(void); static int (*volatile use)(void) = gone;";
    let start = "__attribute__((constructor)) static void start(void) { use(); }";
    fs::write(&source, format!("{plugin}\n{more}\n{start}\n")).unwrap();
    let needy = compile_plugin(
        &source,
        folder,
        &["-Wl,--no-as-needed", library.to_str().unwrap()],
    );
    fs::remove_file(library).unwrap();
    needy
}

#[test]
fn sixty_four_plugins_load() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = open();
    let first = fs::read(ext_dev(folder.path())).unwrap();
    let word = b"version=1.0.0";
    let at = first
        .windows(word.len())
        .position(|window| window == word)
        .unwrap();
    for number in 0..64 {
        let mut copy = first.clone();
        copy[at + 8..at + 13].copy_from_slice(format!("1.{number:03}").as_bytes());
        let path = folder.path().join(format!("p{number}.so"));
        fs::write(&path, copy).unwrap();
        let _plugin = runtime.load(&path).unwrap();
    }
    assert_eq!(runtime.devices().len(), 1 + 64);
}

#[test]
fn static_thread_storage_is_named_as_the_cause() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = fs::read_to_string(root().join("tests/plugins/ext_dev.c")).unwrap();
    let source = folder.path().join("greedy.c");
    let more = "static __thread volatile char much[1 << 20];\n\
                __attribute__((constructor)) static void touch(void) { much[7] = 1; }\n";
    fs::write(&source, format!("{plugin}\n{more}")).unwrap();
    let flags = ["-ftls-model=initial-exec"];
    let file = compile_plugin(&source, folder.path(), &flags);
    let seen = preflight(&file);
    assert!(seen.remarks.contains(&Remark::StaticTls));
    let error = open().load(&file).unwrap_err();
    assert!(
        error.hint().contains("DF_STATIC_TLS"),
        "{}: {}",
        error.why(),
        error.hint()
    );
}

#[test]
fn an_export_list_keeps_a_plugins_own_symbols_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = fs::read_to_string(root().join("tests/plugins/ext_dev.c")).unwrap();
    let build = |name: &str, number: i32, attribute: &str| {
        let source = folder.path().join(format!("{name}.c"));
        let own = format!("{attribute} int own(void); int own(void) {{ return {number}; }}");
        let which = format!(
            "XD_EXPORT extern int {name}; int {name};\n\
             __attribute__((constructor)) static void set(void) {{ {name} = own(); }}"
        );
        fs::write(&source, format!("{plugin}\n{own}\n{which}\n")).unwrap();
        compile_plugin(&source, folder.path(), &[])
    };
    // The program has a symbol of the same name, visible to all.
    let program = build("program", 7, "XD_EXPORT");
    let name = CString::new(program.as_os_str().as_bytes()).unwrap();
    // SAFETY: a C string; the library is one of this test.
    let global = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    assert!(!global.is_null());
    let (one, two) = (build("one", 1, ""), build("two", 2, ""));
    let open_names = build("open_names", 3, "XD_EXPORT");
    let runtime = open();
    let answers =
        [("two", &two), ("one", &one), ("open_names", &open_names)].map(|(name, file)| {
            let _plugin = runtime.load(file).unwrap();
            // SAFETY: the symbol is a variable of this type, and no longer written to.
            unsafe { symbol(file, name).cast::<i32>().read() }
        });
    // Without an export list a plugin gets the program's.
    assert_eq!(answers, [2, 1, 7]);
    let remarks = preflight(&open_names).remarks;
    let told = remarks.iter().any(
        |remark| matches!(remark, Remark::Exports { names } if names.contains(&"own".to_owned())),
    );
    assert!(told, "{remarks:?}");
}

#[test]
fn a_hook_that_panicked_quarantines_its_plugin_and_the_host_lives() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = open();
    let plugin = runtime.load(&faulty(folder.path(), "-DPANICS")).unwrap();
    let device = runtime.devices().pop().unwrap();
    let layout = Layout::compact(Dtype::UINT8, &[3]).unwrap();
    let error = Tensor::from_bytes(&device, &layout, &[1, 2, 3]).unwrap_err();
    assert_eq!(error.status(), Some(Status::PANIC));
    assert!(plugin.hooks().is_quarantined());
    assert_eq!(device.memory().unwrap_err().status(), Some(Status::PANIC));
    let cpu = runtime.device(crossdock_sdk::dlpack::Device::CPU).unwrap();
    assert!(Tensor::from_bytes(&cpu, &layout, &[1, 2, 3]).is_ok());
}

#[test]
fn an_exception_of_a_plugin_in_cpp_quarantines_it_and_the_host_lives() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = open();
    let plugin = runtime.load(&throwing(folder.path())).unwrap();
    let device = runtime.devices().pop().unwrap();
    let layout = Layout::compact(Dtype::UINT8, &[3]).unwrap();
    let error = Tensor::from_bytes(&device, &layout, &[1, 2, 3]).unwrap_err();
    assert_eq!(error.status(), Some(Status::PANIC));
    assert!(
        error.why().contains("the C++ code threw"),
        "{}",
        error.why()
    );
    assert!(plugin.hooks().is_quarantined());
}

#[test]
fn a_thread_of_a_closed_plugin_may_end_later() {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("tests/plugins/threaded.c");
    let file = compile_plugin(&source, folder.path(), &[]);
    let runtime = open();
    let plugin = runtime.load(&file).unwrap();
    runtime.retire(&plugin).unwrap();
    drop((plugin, runtime));
    let flag = |name| symbol(&file, name).cast::<AtomicU32>();
    // SAFETY: the symbol is an int that is only used atomically, and libraries stay mapped.
    let may_end = unsafe { &*flag("may_end") };
    // SAFETY: as above.
    let has_ended = unsafe { &*flag("has_ended") };
    may_end.store(1, Ordering::SeqCst);
    let begin = std::time::Instant::now();
    while has_ended.load(Ordering::SeqCst) == 0 {
        assert!(begin.elapsed().as_secs() < 10);
        std::thread::yield_now();
    }
}

#[test]
fn several_copies_of_the_library_that_a_plugin_starts_are_told() {
    let name = "several_copies_of_the_library_that_a_plugin_starts_are_told";
    if !with_environment(name, &[]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let library = ext_dev(folder.path());
    let copies = ["first", "second"].map(|name| folder.path().join(name));
    for copy in &copies {
        fs::create_dir(copy).unwrap();
        let file = copy.join("libvpi.so.1");
        fs::copy(&library, &file).unwrap();
        assert!(!symbol(&file, "crossdock_plugin").is_null());
    }
    let runtime = open();
    let plugin = runtime.load(&asynchronous()).unwrap();
    let told: Vec<_> = plugin.remarks().map(ToString::to_string).collect();
    assert!(
        told.len() == 1 && told[0].contains("2 copies of its driver `libvpi.so.1`"),
        "{told:?}"
    );
    for copy in copies {
        assert!(told[0].contains(&*copy.to_string_lossy()), "{told:?}");
    }
}
