//! A device that has handles and addresses: what its plugin says of a word decides, not the device.
#![expect(unsafe_code, reason = "calls functions of a test plugin")]
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail by panicking")]

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossdock::{CostCache, Error, Layer, RouteChoice, RouteKind, Runtime, Tensor};
use crossdock_e2e::outsiders::{import, symbol};
use crossdock_e2e::{compile_plugin, root};
use crossdock_sdk::abi::{Address, AddressForm, MemoryKind};
use crossdock_sdk::dlpack::{AxisSlice, DLManagedTensorVersioned, Device, Dtype, Layout};

const ALIAS: RouteChoice = RouteChoice::Only(RouteKind::Alias);

/// The plugin `two_forms.c`, whose file is open once in the process: one test at a time uses it.
struct TwoForms {
    file: PathBuf,
    others: extern "C" fn(u64, u64, u32),
    next_handle: extern "C" fn(u64),
    _one_at_a_time: MutexGuard<'static, ()>,
}

impl TwoForms {
    fn new(folder: &Path) -> Self {
        static ONE: Mutex<()> = Mutex::new(());
        let one_at_a_time = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let source = root().join("tests/plugins/two_forms.c");
        let file = compile_plugin(&source, folder, &[]);
        let others = symbol(&file, "two_forms_others");
        let next_handle = symbol(&file, "two_forms_next_handle");
        // SAFETY: the address of a function of this type.
        let others = unsafe {
            (&raw const others)
                .cast::<extern "C" fn(u64, u64, u32)>()
                .read()
        };
        // SAFETY: as above.
        let next_handle = unsafe { (&raw const next_handle).cast::<extern "C" fn(u64)>().read() };
        Self {
            file,
            others,
            next_handle,
            _one_at_a_time: one_at_a_time,
        }
    }

    fn open(&self, layers: &[Layer]) -> (Runtime, Device) {
        let builder = Runtime::builder().search(false).costs(CostCache::Off);
        let runtime = builder.layers(layers).plugin(self.file.clone()).open();
        (runtime.unwrap(), "ext_dev:0".parse().unwrap())
    }

    /// Makes these bytes memory that others have from the driver.
    fn make_known(&self, bytes: &[u8], host_too: bool) {
        let size = bytes.len() as u64;
        (self.others)(word_of(bytes), size, u32::from(host_too));
    }

    fn forget(&self, bytes: &[u8]) {
        (self.others)(word_of(bytes), 0, 0);
    }
}

fn word_of(bytes: &[u8]) -> u64 {
    bytes.as_ptr().expose_provenance() as u64
}

fn counted() -> Vec<u8> {
    (0..=255).collect()
}

fn part(tensor: &Tensor) -> Tensor {
    let (start, step, len) = (100, 1, 50);
    tensor.slice(&[AxisSlice { start, step, len }]).unwrap()
}

#[test]
fn memory_of_others_that_has_an_address_is_used_beside_memory_that_has_a_handle() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = TwoForms::new(folder.path());
    for layers in [[].as_slice(), &[Layer::Validate]] {
        let (runtime, id) = plugin.open(layers);
        let device = runtime.device(id).unwrap();
        let layout = Layout::compact(Dtype::UINT8, &[256]).unwrap();
        let own = Tensor::from_bytes(&device, &layout, &[9; 256]).unwrap();
        assert_eq!(own.address().form, AddressForm::HANDLE);
        for host_too in [false, true] {
            let bytes = counted();
            plugin.make_known(&bytes, host_too);
            let tensor = import(&runtime, &bytes, id).unwrap();
            let kind = if host_too {
                MemoryKind::PINNED
            } else {
                MemoryKind::DEVICE
            };
            assert_eq!((tensor.device(), tensor.memory_kind()), (&device, kind));
            assert_eq!(tensor.address(), Address::pointer(word_of(&bytes)));
            assert_eq!(tensor.read().unwrap(), bytes);
            moves_and_writes(&runtime, &own, &tensor, host_too);
            drop(tensor);
            plugin.forget(&bytes);
            let refused = import(&runtime, &bytes, id).unwrap_err();
            assert!(matches!(refused, Error::Claim { .. }), "{refused}");
        }
    }
}

/// What is done with a tensor of 256 counted bytes that has an address, and one that has a handle.
fn moves_and_writes(runtime: &Runtime, own: &Tensor, tensor: &Tensor, host_too: bool) {
    let cpu = runtime.device(Device::CPU).unwrap();
    let view = part(tensor);
    let start = tensor.address().as_pointer().unwrap();
    assert_eq!(view.address().as_pointer(), Some(start + 100));
    let (bytes, middle): (_, Vec<u8>) = (counted(), (100..150).collect());
    assert_eq!(view.read().unwrap(), middle);
    // To the host and to a handle, and back.
    for target in [&cpu, own.device()] {
        let (copy, route) = view.to(target, RouteChoice::Copy).unwrap();
        assert_ne!(route.kind, RouteKind::Alias, "{route}");
        assert_eq!(copy.read().unwrap(), middle);
        tensor.write(&[0; 256]).unwrap();
        view.copy_from(&copy, None).unwrap();
        assert_eq!(view.read().unwrap(), middle);
        tensor.write(&bytes).unwrap();
    }
    part(own).copy_from(&view, None).unwrap();
    assert_eq!(part(own).read().unwrap(), middle);
    view.fill(&[7], None).unwrap();
    assert_eq!(view.read().unwrap(), [7; 50]);
    let around = tensor.read().unwrap();
    assert_eq!(around.get(99..101), Some([99, 7].as_slice()));
    // The host shares what it reaches, and no more.
    let explained = tensor.explain(&cpu, RouteChoice::Best);
    let shared = tensor.to(&cpu, ALIAS);
    assert_eq!(explained.kind == RouteKind::Alias, host_too, "{explained}");
    match shared {
        Ok((shared, _)) => assert!(host_too && shared.address() == tensor.address()),
        Err(refused) => assert!(!host_too, "{refused}"),
    }
    exports_again(runtime, &view, tensor);
}

/// Another importer finds the same memory by the same address.
fn exports_again(runtime: &Runtime, view: &Tensor, of: &Tensor) {
    let produced = view.export_as::<DLManagedTensorVersioned>().unwrap();
    let managed = produced.into_raw();
    // SAFETY: a live managed tensor of this test's.
    let tensor = unsafe { managed.as_ref() }.dl_tensor;
    let start = of.address().as_pointer().unwrap();
    assert_eq!(
        (tensor.data.addr() as u64, tensor.byte_offset),
        (start + 100, 0)
    );
    assert_eq!(tensor.device.device_type, of.device().id().ty.raw());
    // SAFETY: 50 bytes of the view, whose managed tensor is given back below.
    let bytes = unsafe { std::slice::from_raw_parts(tensor.data.cast::<u8>(), 50) };
    let again = import(runtime, bytes, of.device().id()).unwrap();
    assert_eq!(again.address(), view.address());
    assert_eq!(again.read().unwrap(), view.read().unwrap());
    // SAFETY: handed back once, as its consumer would.
    drop(unsafe { Tensor::import_managed(runtime, managed) }.unwrap());
}

#[test]
fn a_word_that_may_be_a_handle_or_an_address_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = TwoForms::new(folder.path());
    let (runtime, id) = plugin.open(&[]);
    let device = runtime.device(id).unwrap();
    let layout = Layout::compact(Dtype::UINT8, &[256]).unwrap();
    let bytes = counted();
    plugin.make_known(&bytes, true);
    (plugin.next_handle)(word_of(&bytes));
    let own = Tensor::from_bytes(&device, &layout, &[9; 256]).unwrap();
    assert_eq!(own.address(), Address::handle(word_of(&bytes), 0));
    let refused = import(&runtime, &bytes, id).unwrap_err();
    let why = refused.why();
    assert!(why.contains("as a handle and as an address"), "{why}");
    // One of the two is gone, and the word says what it means.
    drop(own);
    assert_eq!(import(&runtime, &bytes, id).unwrap().read().unwrap(), bytes);
    plugin.forget(&bytes);
}

#[test]
fn elements_beyond_memory_with_an_address_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = TwoForms::new(folder.path());
    let (runtime, id) = plugin.open(&[]);
    let bytes = counted();
    plugin.make_known(&bytes[..255], false);
    let refused = import(&runtime, &bytes, id).unwrap_err();
    assert!(matches!(refused, Error::Exchange(_)), "{refused}");
    assert_eq!(import(&runtime, &bytes[5..255], id).unwrap().nbytes(), 250);
    plugin.forget(&bytes);
}
