//! Claims of host memory: a plugin that has to ask its driver whose memory it is, is asked before the
//! memory is first used, and not at its import.
#![expect(unsafe_code, reason = "calls functions of a test plugin")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the helpers of tests fail by panicking"
)]

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossdock::{Error, RouteChoice, Runtime, Stream, Tensor};
use crossdock_e2e::outsiders::{import, symbol};
use crossdock_e2e::{compile_plugin, root};
use crossdock_sdk::dlpack::{AxisSlice, Device, Dtype, Layout};

/// What the plugin says of the bytes.
#[derive(Clone, Copy)]
enum What {
    DeviceAlone,
    HostToo,
    Lost,
}

/// The plugin `asks_driver.c`, whose file is open once in the process: one test at a time uses it.
struct Driver {
    file: PathBuf,
    count: extern "C" fn() -> u32,
    own: extern "C" fn(u64, u64, u32),
    _one_at_a_time: MutexGuard<'static, ()>,
}

impl Driver {
    fn new(folder: &Path) -> Self {
        static ONE: Mutex<()> = Mutex::new(());
        let one_at_a_time = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let source = root().join("tests/plugins/asks_driver.c");
        let file = compile_plugin(&source, folder, &[]);
        let (count, own) = (
            symbol(&file, "asks_driver_count"),
            symbol(&file, "asks_driver_own"),
        );
        // SAFETY: the address of a function of this type.
        let count = unsafe { (&raw const count).cast::<extern "C" fn() -> u32>().read() };
        // SAFETY: as above.
        let own = unsafe {
            (&raw const own)
                .cast::<extern "C" fn(u64, u64, u32)>()
                .read()
        };
        own(0, 0, 0);
        Self {
            file,
            count,
            own,
            _one_at_a_time: one_at_a_time,
        }
    }

    fn open(&self) -> Runtime {
        let builder = Runtime::builder().search(false).plugin(self.file.clone());
        builder.open().unwrap()
    }

    fn own(&self, bytes: &[u8], what: What) {
        (self.own)(
            bytes.as_ptr().addr() as u64,
            bytes.len() as u64,
            what as u32,
        );
    }

    /// How often it is asked while `work` runs.
    fn asked<R>(&self, work: impl FnOnce() -> R) -> (u32, R) {
        let before = (self.count)();
        let done = work();
        ((self.count)() - before, done)
    }
}

fn both_claims<T: std::fmt::Debug>(use_: &str, refused: Result<T, Error>) {
    match refused {
        Err(Error::Claim { claimed, found }) => {
            assert_eq!(claimed, Device::CPU, "{use_}");
            assert!(found.contains("`ext_dev:0`"), "{use_}: {found}");
        }
        other => panic!("{use_}: {other:?}"),
    }
}

#[test]
fn a_plugin_that_asks_its_driver_is_asked_once_a_memory_and_not_at_its_import() {
    let folder = tempfile::tempdir().unwrap();
    let driver = Driver::new(folder.path());
    let (runtime, bytes) = (driver.open(), vec![7_u8; 64]);
    let (asked, tensor) = driver.asked(|| import(&runtime, &bytes, Device::CPU).unwrap());
    assert_eq!(asked, 0, "at its import");
    let part = |tensor: &Tensor| {
        let slice = AxisSlice {
            start: 1,
            step: 1,
            len: 8,
        };
        tensor.slice(&[slice]).unwrap()
    };
    let (asked, view) = driver.asked(|| part(&tensor));
    assert_eq!(asked, 0, "by a view");
    let (asked, read) = driver.asked(|| view.read().unwrap());
    assert_eq!((asked, read), (1, vec![7; 8]), "at the first use");
    let (asked, _) = driver.asked(|| {
        tensor.read().unwrap();
        tensor.write(&[1; 64]).unwrap();
        tensor.export().unwrap();
        part(&tensor).read().unwrap()
    });
    assert_eq!(asked, 0, "later");
}

#[test]
fn device_memory_that_is_claimed_as_the_hosts_is_found_out_before_each_use() {
    let folder = tempfile::tempdir().unwrap();
    let driver = Driver::new(folder.path());
    let (runtime, bytes) = (driver.open(), vec![7_u8; 64]);
    let cpu = runtime.device(Device::CPU).unwrap();
    let other = runtime.device("ext_dev:0".parse().unwrap()).unwrap();
    let stream = Stream::new(&cpu).unwrap();
    let plain = Tensor::from_bytes(
        &cpu,
        &Layout::compact(Dtype::UINT8, &[64]).unwrap(),
        &[1; 64],
    );
    let plain = plain.unwrap();
    driver.own(&bytes, What::DeviceAlone);
    let tensor = import(&runtime, &bytes, Device::CPU).unwrap();
    let view = tensor.reshape(&[8, 8]).unwrap();
    for (which, tensor) in [("the tensor", tensor), ("a view of it", view)] {
        let layout = tensor.layout().clone();
        let source = plain.reshape(layout.shape()).unwrap();
        let says = |what: &str| format!("{what} {which}");
        both_claims(&says("read"), tensor.read());
        both_claims(&says("write"), tensor.write(&[1; 64]));
        both_claims(&says("fill"), tensor.fill(&[1], None));
        both_claims(&says("fill on a stream"), tensor.fill(&[1], Some(&stream)));
        both_claims(&says("copy into"), tensor.copy_from(&source, None));
        both_claims(&says("copy from"), source.copy_from(&tensor, Some(&stream)));
        both_claims(&says("export"), tensor.export());
        both_claims(&says("try to export"), tensor.try_export());
        both_claims(&says("export unordered"), tensor.export_unordered());
        both_claims(&says("export on a stream"), tensor.export_on(&stream));
        both_claims(&says("wait to read"), tensor.wait_to_read(&stream));
        both_claims(&says("wait to write"), tensor.wait_to_write(&stream));
        both_claims(&says("synchronize"), tensor.synchronize(None));
        both_claims(&says("ask for"), tensor.ready());
        both_claims(&says("register"), tensor.register(&cpu));
        for choice in [
            RouteChoice::Best,
            RouteChoice::Copy,
            RouteChoice::Only(crossdock::RouteKind::Alias),
        ] {
            both_claims(&says("move"), tensor.to(&other, choice));
            both_claims(&says("share"), tensor.to(&cpu, choice));
            both_claims(
                &says("move on a stream"),
                tensor.to_on(&other, choice, &stream),
            );
        }
        assert_eq!((tensor.nbytes(), tensor.device()), (64, &cpu), "{which}");
    }
    assert_eq!(bytes, [7; 64]);
    // It tells the truth about the next one.
    (driver.own)(0, 0, 0);
    assert_eq!(
        import(&runtime, &bytes, Device::CPU)
            .unwrap()
            .read()
            .unwrap(),
        bytes
    );
}

#[test]
fn a_plugin_that_is_opened_later_is_asked_at_the_next_use_and_one_that_was_retired_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let driver = Driver::new(folder.path());
    let runtime = Runtime::builder().search(false).open().unwrap();
    let bytes = vec![7_u8; 64];
    driver.own(&bytes, What::DeviceAlone);
    let tensor = import(&runtime, &bytes, Device::CPU).unwrap();
    assert_eq!(tensor.read().unwrap(), bytes, "nobody is there to ask");
    let plugin = runtime.load(&driver.file).unwrap();
    both_claims("read", tensor.read());
    runtime.retire(&plugin).unwrap();
    let (asked, read) = driver.asked(|| tensor.read().unwrap());
    assert_eq!((asked, read), (0, bytes));
}

#[test]
fn memory_of_a_driver_that_the_host_reaches_is_the_hosts_within_its_allocation() {
    let folder = tempfile::tempdir().unwrap();
    let driver = Driver::new(folder.path());
    let (runtime, bytes) = (driver.open(), vec![7_u8; 64]);
    driver.own(&bytes, What::HostToo);
    let tensor = import(&runtime, &bytes, Device::CPU).unwrap();
    assert_eq!(tensor.read().unwrap(), bytes);
    driver.own(&bytes[..63], What::HostToo);
    let longer = import(&runtime, &bytes, Device::CPU).unwrap();
    match longer.read() {
        Err(Error::Claim { found, .. }) => assert!(found.contains("63 bytes"), "{found}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_claim_of_a_device_is_checked_at_its_import() {
    let folder = tempfile::tempdir().unwrap();
    let driver = Driver::new(folder.path());
    let (runtime, bytes) = (driver.open(), vec![7_u8; 64]);
    let claim = "ext_dev:0".parse().unwrap();
    let (asked, refused) = driver.asked(|| import(&runtime, &bytes, claim));
    assert!(matches!(refused, Err(Error::Claim { .. })), "{refused:?}");
    assert!(asked > 0);
    driver.own(&bytes, What::DeviceAlone);
    let tensor = import(&runtime, &bytes, claim).unwrap();
    assert_eq!(tensor.device().id(), claim);
}

#[test]
fn a_driver_that_cannot_tell_fails_the_use_until_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let driver = Driver::new(folder.path());
    let (runtime, bytes) = (driver.open(), vec![7_u8; 64]);
    driver.own(&bytes, What::Lost);
    let tensor = import(&runtime, &bytes, Device::CPU).unwrap();
    for _ in 0..2 {
        let error = tensor.read().unwrap_err();
        assert_eq!(error.why(), "the device is lost (DEVICE_LOST)");
    }
    (driver.own)(0, 0, 0);
    assert_eq!(tensor.read().unwrap(), bytes);
}

#[test]
fn without_its_runtime_nobody_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let driver = Driver::new(folder.path());
    let (runtime, bytes) = (driver.open(), vec![7_u8; 64]);
    let tensor = import(&runtime, &bytes, Device::CPU).unwrap();
    drop(runtime);
    let (asked, read) = driver.asked(|| tensor.read().unwrap());
    assert_eq!((asked, read), (0, bytes));
}

#[test]
fn a_claim_is_checked_by_plugins_that_another_runtime_lists() {
    let folder = tempfile::tempdir().unwrap();
    let driver = Driver::new(folder.path());
    let here = Runtime::builder().search(false).open().unwrap();
    let (bytes, others) = (vec![7_u8; 64], vec![8_u8; 64]);
    let before = import(&here, &others, Device::CPU).unwrap();
    assert_eq!(before.read().unwrap(), others, "nobody is there to ask");
    let there = driver.open();
    driver.own(&bytes, What::DeviceAlone);
    let tensor = import(&here, &bytes, Device::CPU).unwrap();
    both_claims("read", tensor.read());
    let device = there.device("ext_dev:0".parse().unwrap()).unwrap();
    both_claims("move", tensor.to(&device, RouteChoice::Best));
    assert_eq!(before.read().unwrap(), others);
    driver.own(&others, What::DeviceAlone);
    let (asked, read) = driver.asked(|| before.read().unwrap());
    assert_eq!((asked, read), (0, others), "it was asked");
    drop((there, device));
    let (asked, read) = driver.asked(|| tensor.read().unwrap());
    assert_eq!((asked, read), (0, bytes), "it is closed");
}

#[test]
fn memory_that_is_called_a_vendors_is_checked_by_the_plugin_that_comes_later() {
    let folder = tempfile::tempdir().unwrap();
    let driver = Driver::new(folder.path());
    let runtime = Runtime::builder().search(false).open().unwrap();
    let bytes = vec![7_u8; 64];
    driver.own(&bytes, What::DeviceAlone);
    let claim = "cuda_host:0".parse().unwrap();
    let tensor = import(&runtime, &bytes, claim).unwrap();
    assert_eq!(tensor.read().unwrap(), bytes, "nobody is there to ask");
    let plugin = runtime.load(&driver.file).unwrap();
    both_claims("read", tensor.read());
    runtime.retire(&plugin).unwrap();
    assert_eq!(tensor.read().unwrap(), bytes);
}
