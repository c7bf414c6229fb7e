//! The plugin whose memory lives in another process, which is killed at every moment of random programs.
#![expect(
    unsafe_code,
    reason = "reads symbols of the plugin, and asks for children"
)]
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crossdock::{CostCache, Device, Error, RouteChoice, Runtime, Tensor};
use crossdock_e2e::{compile_plugin, ext_dev, root, with_environment};
use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::{Dtype, Layout};

const SEEDS: u64 = 8;
const STEPS: usize = 14;
const LIMIT: Duration = Duration::from_secs(20);

fn dying(folder: &Path) -> PathBuf {
    let source = root().join("tests/plugins/remote_dies.c");
    compile_plugin(&source, folder, &[])
}

/// A number of the plugin's, by its name.
fn number(plugin: &Path, name: &CStr) -> &'static AtomicU32 {
    let path = CString::new(plugin.as_os_str().as_bytes()).unwrap();
    // SAFETY: a C string; the library is one of this test.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!library.is_null());
    // SAFETY: the library is open, and the name is a C string.
    let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
    assert!(!symbol.is_null());
    // SAFETY: the plugin has an unsigned number there, for ever, and looks at it in calls of this thread.
    unsafe { &*symbol.cast::<AtomicU32>() }
}

fn random(state: &mut u64) -> usize {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1);
    usize::try_from(*state >> 33).unwrap()
}

/// So many equal bytes.
fn some_bytes(state: &mut u64, count: usize) -> Vec<u8> {
    let [byte, ..] = random(state).to_le_bytes();
    vec![byte; count]
}

fn layout(bytes: usize) -> Layout {
    Layout::compact(Dtype::UINT8, &[i64::try_from(bytes).unwrap()]).unwrap()
}

/// The devices of a program: the one with the helper, and two others.
struct Devices {
    remote: Device,
    cpu: Device,
    other: Device,
}

impl Devices {
    fn of(runtime: &Runtime, plugin: &Path) -> Self {
        let loaded = runtime.load(plugin).unwrap();
        let mut all = runtime.devices().into_iter();
        let cpu = all.next().unwrap();
        let (remote, other) = all.partition(|device| device.plugin().name() == loaded.name());
        let [remote, other]: [Vec<Device>; 2] = [remote, other];
        let [remote, other] = [remote, other].map(|found| found.into_iter().next().unwrap());
        Self { remote, cpu, other }
    }
}

/// Whether a call worked; a failure is the loss of the device, after which none works.
fn worked<T>(answer: Result<T, Error>, is_lost: &mut bool, step: usize) -> Option<T> {
    match answer {
        Ok(value) => {
            assert!(!*is_lost, "step {step} worked on a device that is lost");
            Some(value)
        }
        Err(error) => {
            assert_eq!(
                error.status(),
                Some(Status::DEVICE_LOST),
                "step {step}: {error}: {}",
                error.why()
            );
            *is_lost = true;
            None
        }
    }
}

/// A random program; whether the device was lost.
fn program(devices: &Devices, seed: u64) -> bool {
    let mut state = seed;
    let mut is_lost = false;
    let mut held: Vec<(Tensor, Vec<u8>)> = Vec::new();
    for step in 0..STEPS {
        let at = random(&mut state) % held.len().max(1);
        match (random(&mut state) % 7, held.get(at)) {
            (0, _) | (_, None) => {
                let count = 1 + random(&mut state) % 300_000;
                let bytes = some_bytes(&mut state, count);
                let made = Tensor::from_bytes(&devices.remote, &layout(bytes.len()), &bytes);
                held.extend(worked(made, &mut is_lost, step).map(|made| (made, bytes)));
            }
            (1, Some((tensor, bytes))) => {
                let read = worked(tensor.read(), &mut is_lost, step);
                assert!(read.is_none_or(|read| read == *bytes));
            }
            (2, Some((tensor, bytes))) => {
                let is_even = random(&mut state).is_multiple_of(2);
                let to = if is_even {
                    &devices.cpu
                } else {
                    &devices.other
                };
                let moved = tensor.to(to, RouteChoice::Best);
                if let Some((moved, _)) = worked(moved, &mut is_lost, step) {
                    assert_eq!(moved.read().unwrap(), *bytes);
                }
            }
            (3, Some((tensor, bytes))) => {
                let made = Tensor::empty(&devices.remote, tensor.layout());
                if let Some(copy) = worked(made, &mut is_lost, step)
                    && worked(copy.copy_from(tensor, None), &mut is_lost, step).is_some()
                {
                    let bytes = bytes.clone();
                    held.push((copy, bytes));
                }
            }
            (4, Some(_)) => drop(held.swap_remove(at)),
            (5, Some((tensor, bytes))) => {
                let bytes = some_bytes(&mut state, bytes.len());
                if worked(tensor.write(&bytes), &mut is_lost, step).is_some() {
                    let tensor = held.swap_remove(at).0;
                    held.push((tensor, bytes));
                }
            }
            _ => {
                worked(devices.remote.memory(), &mut is_lost, step);
            }
        }
    }
    others_go_on(devices);
    is_lost
}

fn others_go_on(devices: &Devices) {
    let source = Tensor::from_bytes(&devices.cpu, &layout(1000), &[7; 1000]).unwrap();
    let (moved, _) = source.to(&devices.other, RouteChoice::Best).unwrap();
    assert_eq!(moved.read().unwrap(), [7; 1000]);
}

/// Waits until this process has no child, zombies included.
fn no_child_is_left() {
    let start = Instant::now();
    loop {
        let mut siginfo = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: room for an answer, and nothing is collected.
        if unsafe { libc::waitid(libc::P_ALL, 0, siginfo.as_mut_ptr(), flags) } != 0 {
            return;
        }
        assert!(start.elapsed() < LIMIT, "a child is left");
        std::thread::yield_now();
    }
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_helper_that_is_killed_at_any_moment_is_a_lost_device_and_nothing_else() {
    let test = "a_helper_that_is_killed_at_any_moment_is_a_lost_device_and_nothing_else";
    if !with_environment(test, &[]) {
        return;
    }
    // Rust's programs ignore it, most others end by it.
    // SAFETY: no handler, in a process of this test alone.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let folder = tempfile::tempdir().unwrap();
    let (plugin, other) = (dying(folder.path()), ext_dev(folder.path()));
    let [calls, dies_before] =
        [c"remote_calls", c"remote_dies_before"].map(|name| number(&plugin, name));
    let run = |seed, killed_before| {
        let builder = Runtime::builder().search(false).costs(CostCache::Off);
        let runtime = builder.plugin(&other).open().unwrap();
        calls.store(0, Ordering::Relaxed);
        dies_before.store(killed_before, Ordering::Relaxed);
        let devices = Devices::of(&runtime, &plugin);
        let is_lost = program(&devices, seed);
        drop((devices, runtime));
        no_child_is_left();
        is_lost
    };
    assert!(!run(0, 0));
    let files = open_files();
    for seed in 0..SEEDS {
        assert!(!run(seed, 0), "nobody was killed");
        let all = calls.load(Ordering::Relaxed);
        assert!(all > 20, "{all}");
        for killed_before in 1..=all {
            // What is only given back fails nobody, so the last ones may go unnoticed.
            let noticed = run(seed, killed_before);
            assert!(
                noticed || killed_before > all / 2,
                "seed {seed}, before call {killed_before}"
            );
        }
    }
    assert_eq!(open_files(), files);
}

#[test]
fn a_plugin_that_lost_its_helper_is_loaded_anew_with_another() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = dying(folder.path());
    let dies_before = number(&plugin, c"remote_dies_before");
    let runtime = Runtime::builder().search(false).open().unwrap();
    let remote_device = || {
        let loaded = runtime.load(&plugin).unwrap();
        (loaded, runtime.devices().pop().unwrap())
    };
    let (lost, device) = remote_device();
    dies_before.store(2, Ordering::Relaxed);
    let made = Tensor::from_bytes(&device, &layout(9), &[1; 9]);
    assert_eq!(made.unwrap_err().status(), Some(Status::DEVICE_LOST));
    runtime.retire(&lost).unwrap();
    drop((lost, device));
    let (_loaded, device) = remote_device();
    let tensor = Tensor::from_bytes(&device, &layout(9), &[2; 9]).unwrap();
    assert_eq!(tensor.read().unwrap(), [2; 9]);
}

#[test]
fn threads_that_wait_for_a_helper_as_it_is_killed_all_see_a_lost_device() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = dying(folder.path());
    let dies_before = number(&plugin, c"remote_dies_before");
    let runtime = Runtime::builder().search(false).open().unwrap();
    let _loaded = runtime.load(&plugin).unwrap();
    let device = runtime.devices().pop().unwrap();
    dies_before.store(500, Ordering::Relaxed);
    let copies_until_it_fails = || {
        let (layout, bytes) = (layout(100_000), vec![3; 100_000]);
        let copy = || Tensor::from_bytes(&device, &layout, &bytes)?.read();
        let failed = std::iter::repeat_with(copy).find_map(|copied| match copied {
            Ok(read) => {
                assert!(read == bytes);
                None
            }
            Err(error) => Some(error.status()),
        });
        [failed.unwrap(), copy().unwrap_err().status()]
    };
    let statuses: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(copies_until_it_fails)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(statuses, [[Some(Status::DEVICE_LOST); 2]; 4]);
}
