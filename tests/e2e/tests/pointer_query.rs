//! Who owns an address: one plugin, none, or a refusal that names two.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail by panicking")]

use std::path::Path;

use crossdock::{Error, Runtime, Tensor};
use crossdock_e2e::{compile_plugin, everything, root};
use crossdock_sdk::abi::{Address, MemoryKind, PointerFlags};
use crossdock_sdk::dlpack::{Device, Dtype, Layout};

/// A runtime with the CPU plugin and a plugin that claims every address.
fn with_claims(folder: &Path, which: &str) -> Runtime {
    let source = root().join("tests/plugins/claims.c");
    let file = compile_plugin(&source, folder, &[which]);
    Runtime::builder()
        .search(false)
        .plugin(file)
        .open()
        .unwrap()
}

fn tensor(runtime: &Runtime, device: Device) -> (Tensor, u64) {
    let layout = Layout::compact(Dtype::UINT8, &[1000]).unwrap();
    let tensor = Tensor::from_bytes(&runtime.device(device).unwrap(), &layout, &[7; 1000]).unwrap();
    let address = tensor.address().as_pointer().unwrap();
    (tensor, address)
}

#[test]
fn every_byte_of_a_tensor_is_answered_by_its_own_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    for device in [Device::CPU, "ext_dev:0".parse().unwrap()] {
        let (_tensor, address) = tensor(&runtime, device);
        for at in [address, address + 999] {
            let answer = runtime.pointer_query(at).unwrap();
            assert_eq!(answer.device.map(|owner| owner.id()), Some(device));
            assert_eq!(answer.info.base, Address::pointer(address));
            assert_eq!(answer.info.host_pointer, at);
        }
    }
}

#[test]
fn an_address_that_no_plugin_knows_is_unowned_also_after_its_memory_was_freed() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    let local = 0_u8;
    // So large that no other test of this process is given the same memory again.
    let layout = Layout::compact(Dtype::UINT8, &[5 << 20]).unwrap();
    let freed = Tensor::empty(&runtime.device(Device::CPU).unwrap(), &layout).unwrap();
    let address = freed.address().as_pointer().unwrap();
    drop(freed);
    for at in [0, 1, (&raw const local).addr() as u64, address, u64::MAX] {
        let answer = runtime.pointer_query(at).unwrap();
        assert_eq!(
            (answer.device, answer.info.kind),
            (None, MemoryKind::UNOWNED)
        );
    }
}

#[test]
fn two_plugins_that_both_allocated_an_address_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = with_claims(folder.path(), "-DALLOCATED");
    let (_tensor, address) = tensor(&runtime, Device::CPU);
    let error = runtime.pointer_query(address).unwrap_err();
    assert!(matches!(error, Error::Owners { .. }), "{error}");
    for name in ["`cpu`", "`ext_dev`", "`cpu:0`", "`ext_dev:0`"] {
        assert!(error.why().contains(name), "{}", error.why());
    }
    let alone = runtime.pointer_query(8).unwrap();
    assert_eq!(alone.device.unwrap().id(), "ext_dev:0".parse().unwrap());
    // NULL is nobody's, whatever a plugin says.
    assert_eq!(runtime.pointer_query(0).unwrap().device, None);
}

#[test]
fn who_registered_an_address_answers_only_where_nobody_allocated_it() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = with_claims(folder.path(), "-DREGISTERED");
    let (_tensor, address) = tensor(&runtime, Device::CPU);
    let answer = runtime.pointer_query(address).unwrap();
    assert_eq!(answer.device.unwrap().id(), Device::CPU);
    assert!(!answer.info.flags.contains(PointerFlags::FOREIGN));
    let answer = runtime.pointer_query(8).unwrap();
    assert_eq!(answer.device.unwrap().id(), "ext_dev:0".parse().unwrap());
    assert!(answer.info.flags.contains(PointerFlags::FOREIGN));
}

#[test]
fn a_plugin_that_cannot_answer_is_an_error_only_where_nobody_allocated_the_address() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = with_claims(folder.path(), "-DFAILS");
    let (_tensor, address) = tensor(&runtime, Device::CPU);
    let answer = runtime.pointer_query(address).unwrap();
    assert_eq!(answer.device.unwrap().id(), Device::CPU);
    let error = runtime.pointer_query(8).unwrap_err();
    assert_eq!(error.why(), "the device is lost (DEVICE_LOST)");
}

#[test]
fn an_owner_that_does_not_exist_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = with_claims(folder.path(), "-DWRONG_DEVICE");
    let error = runtime.pointer_query(8).unwrap_err();
    assert!(error.why().contains("device 9"), "{}", error.why());
}
