//! Tensors in from others and out to others, as DLPack.
#![expect(unsafe_code, reason = "plays a producer and a consumer that speak C")]
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "the helpers of tests fail by panicking, and the numbers are small"
)]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossdock::{Error, Runtime, Tensor};
use crossdock_e2e::lending::{LIMIT, filled, held, one_cpu};
use crossdock_e2e::{compile_plugin, everything, root};
use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::{
    DLManagedTensorVersioned, DataWord, Device, Dtype, Flags, Layout, Produced, Received,
    TensorView,
};

fn runtime() -> Runtime {
    Runtime::builder().search(false).open().unwrap()
}

/// An owner that counts its drops, behind a foreign deleter: what any other library hands out.
struct Counted(Arc<AtomicUsize>, Vec<f32>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn receive(produced: Produced) -> Received {
    // SAFETY: a live managed tensor that is handed over.
    unsafe { Received::from_versioned(produced.into_raw()) }.unwrap()
}

/// A tensor of somebody else's on `device`, with `values`, and the count of its deletions.
fn foreign(device: Device, values: &[f32]) -> (Received, Arc<AtomicUsize>) {
    let drops = Arc::new(AtomicUsize::new(0));
    let owner = Counted(Arc::clone(&drops), values.to_vec());
    let data = DataWord::from_ptr(owner.1.as_ptr().cast_mut().cast());
    let layout = Layout::compact(Dtype::FLOAT32, &[values.len() as i64]).unwrap();
    let view = TensorView::new(layout, data, 0, device, Flags::default()).unwrap();
    (
        receive(Produced::<DLManagedTensorVersioned>::new(owner, &view).unwrap()),
        drops,
    )
}

#[test]
fn a_foreign_tensor_is_imported_without_a_copy_and_released_once() {
    let runtime = runtime();
    let (received, drops) = foreign(Device::CPU, &[1.0, 2.0, 3.0]);
    let address = received.data().addr() as u64;
    let tensor = Tensor::import(&runtime, received).unwrap();
    assert_eq!(tensor.address().as_pointer(), Some(address));
    let expected: Vec<u8> = [1.0_f32, 2.0, 3.0]
        .iter()
        .flat_map(|v| v.to_ne_bytes())
        .collect();
    assert_eq!(tensor.read().unwrap(), expected);
    let view = tensor.reshape(&[3, 1]).unwrap();
    drop(tensor);
    assert_eq!(drops.load(Ordering::SeqCst), 0, "a view keeps the memory");
    drop(view);
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[test]
fn a_write_through_the_imported_tensor_is_seen_by_its_producer() {
    let runtime = runtime();
    let (received, _drops) = foreign(Device::CPU, &[1.0, 2.0]);
    let data = received.data().as_ptr().cast::<f32>();
    let tensor = Tensor::import(&runtime, received).unwrap();
    tensor.write(&[0; 8]).unwrap();
    // SAFETY: the producer's memory lives as long as `tensor`.
    assert_eq!(unsafe { data.read() }.to_bits(), 0);
}

#[test]
fn an_import_on_a_device_that_is_not_here_is_refused_and_released() {
    let runtime = runtime();
    let (received, drops) = foreign("cuda:0".parse().unwrap(), &[1.0]);
    let error = Tensor::import(&runtime, received).unwrap_err();
    assert!(matches!(error, Error::UnknownDevice { .. }), "{error}");
    assert!(error.why().contains("cpu:0"), "{}", error.why());
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[test]
fn a_host_pointer_that_claims_to_be_device_memory_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    for device in runtime.devices() {
        if device.id() == Device::CPU {
            continue;
        }
        let (received, drops) = foreign(device.id(), &[1.0, 2.0]);
        match Tensor::import(&runtime, received) {
            Err(Error::Claim { claimed, .. }) => assert_eq!(claimed, device.id()),
            other => panic!("{device}: {other:?}"),
        }
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn memory_that_a_plugin_owns_out_of_the_hosts_reach_is_no_host_memory() {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("tests/plugins/claims.c");
    let file = compile_plugin(&source, folder.path(), &["-DALLOCATED"]);
    let runtime = Runtime::builder()
        .search(false)
        .plugin(file)
        .open()
        .unwrap();
    let (received, drops) = foreign(Device::CPU, &[1.0]);
    match Tensor::import(&runtime, received) {
        Err(Error::Claim { found, .. }) => assert!(found.contains("ext_dev:0"), "{found}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[test]
fn a_span_that_leaves_its_allocation_is_refused() {
    let runtime = runtime();
    let cpu = runtime.device(Device::CPU).unwrap();
    let layout = Layout::compact(Dtype::UINT8, &[1000]).unwrap();
    let tensor = Tensor::from_bytes(&cpu, &layout, &[7; 1000]).unwrap();
    let data = DataWord::from_addr(tensor.address().as_pointer().unwrap() as usize);
    // The allocator rounds sizes up, so the lie must be a large one.
    let longer = Layout::compact(Dtype::UINT8, &[1 << 20]).unwrap();
    let view = TensorView::new(longer, data, 0, Device::CPU, Flags::default()).unwrap();
    let received = receive(Produced::<DLManagedTensorVersioned>::new(tensor, &view).unwrap());
    // Our own deleter makes this our own export: its owner is believed, not its claims.
    let imported = Tensor::import(&runtime, received).unwrap();
    assert_eq!(imported.layout().shape(), [1000]);
}

#[test]
fn our_own_export_comes_back_as_the_same_memory_and_is_counted() {
    let runtime = runtime();
    let cpu = runtime.device(Device::CPU).unwrap();
    let layout = Layout::compact(Dtype::INT32, &[2, 3]).unwrap();
    let tensor = Tensor::from_bytes(&cpu, &layout, &[9; 24]).unwrap();
    let back = Tensor::import(&runtime, receive(tensor.export().unwrap())).unwrap();
    assert_eq!(back.address(), tensor.address());
    drop(tensor);
    assert_eq!(back.read().unwrap(), [9; 24]);
}

#[test]
fn an_export_outlives_the_runtime_and_is_deleted_on_another_thread() {
    let runtime = runtime();
    let cpu = runtime.device(Device::CPU).unwrap();
    let layout = Layout::compact(Dtype::UINT8, &[5]).unwrap();
    let produced = Tensor::from_bytes(&cpu, &layout, &[1, 2, 3, 4, 5])
        .unwrap()
        .export()
        .unwrap();
    drop((cpu, runtime));
    let word = produced.into_raw().as_ptr().expose_provenance();
    let consumer = std::thread::spawn(move || {
        let pointer = std::ptr::with_exposed_provenance_mut::<DLManagedTensorVersioned>(word);
        // SAFETY: the managed tensor was handed over to this thread.
        let received = unsafe { Received::from_versioned(NonNull::new(pointer).unwrap()) }.unwrap();
        assert_eq!(received.layout().shape(), [5]);
    });
    consumer.join().unwrap();
}

#[test]
fn mapped_bytes_are_a_read_only_tensor_without_a_copy() {
    let runtime = runtime();
    let bytes: Vec<u8> = (0..64).collect();
    let address = bytes.as_ptr().addr() as u64;
    let layout = Layout::compact(Dtype::UINT16, &[10]).unwrap();
    let tensor = Tensor::from_host_memory(&runtime, Box::new(bytes), 4, &layout).unwrap();
    assert_eq!(tensor.address().as_pointer(), Some(address + 4));
    assert!(tensor.is_read_only());
    assert!(tensor.write(&[0; 20]).is_err());
    assert_eq!(tensor.read().unwrap(), (4..24).collect::<Vec<u8>>());
    let too_long = Layout::compact(Dtype::UINT16, &[31]).unwrap();
    let short: Box<Vec<u8>> = Box::new(vec![0; 64]);
    assert!(Tensor::from_host_memory(&runtime, short, 4, &too_long).is_err());
}

#[test]
fn a_managed_tensor_of_any_maker_is_imported_by_its_pointer() {
    let runtime = runtime();
    let cpu = runtime.device(Device::CPU).unwrap();
    let layout = Layout::compact(Dtype::FLOAT32, &[4]).unwrap();
    let tensor = Tensor::from_bytes(&cpu, &layout, &[7; 16]).unwrap();
    let managed = tensor.export().unwrap().into_raw();
    // SAFETY: a live export that nobody else owns.
    let own = unsafe { Tensor::import_managed(&runtime, managed) }.unwrap();
    drop(tensor);
    assert_eq!(own.read().unwrap(), [7; 16]);

    let owner = Arc::new(vec![1.0_f32, 2.0, 3.0, 4.0]);
    let data = DataWord::from_ptr(owner.as_ptr().cast_mut().cast());
    let view = TensorView::new(layout, data, 0, Device::CPU, Flags::READ_ONLY).unwrap();
    let produced = Produced::<DLManagedTensorVersioned>::new(Arc::clone(&owner), &view).unwrap();
    // SAFETY: as above.
    let foreign = unsafe { Tensor::import_managed(&runtime, produced.into_raw()) }.unwrap();
    assert!(foreign.is_read_only());
    assert_eq!(
        foreign.read().unwrap().get(..4),
        Some(1.0_f32.to_ne_bytes().as_slice())
    );
    assert_eq!(Arc::strong_count(&owner), 2);
    drop(foreign);
    assert_eq!(Arc::strong_count(&owner), 1);
}

#[test]
fn host_memory_of_which_a_part_is_registered_with_the_cpu_is_imported_whole() {
    let runtime = runtime();
    let cpu = runtime.device(Device::CPU).unwrap();
    let owner = Arc::new(vec![7_u8; 64]);
    let of = |bytes| {
        let data = DataWord::from_ptr(owner.as_ptr().cast_mut().cast());
        let layout = Layout::compact(Dtype::UINT8, &[bytes]).unwrap();
        let view = TensorView::new(layout, data, 0, Device::CPU, Flags::default()).unwrap();
        let lent = Produced::<DLManagedTensorVersioned>::new(Arc::clone(&owner), &view).unwrap();
        Tensor::import(&runtime, receive(lent)).unwrap()
    };
    let part = of(32);
    let registered = part.register(&cpu).unwrap();
    assert_eq!(of(64).read().unwrap(), [7; 64]);
    drop((registered, part));
}

#[test]
fn a_managed_tensor_of_another_major_version_is_released_unread() {
    let runtime = runtime();
    let cpu = runtime.device(Device::CPU).unwrap();
    let layout = Layout::compact(Dtype::FLOAT32, &[4]).unwrap();
    let tensor = Tensor::empty(&cpu, &layout).unwrap();
    let managed = tensor.export().unwrap().into_raw();
    // SAFETY: a live export that nobody else uses.
    unsafe { (*managed.as_ptr()).version.major = 2 };
    // SAFETY: a live export that nobody else owns.
    let refused = unsafe { Tensor::import_managed(&runtime, managed) }.unwrap_err();
    assert!(refused.why().contains("2.3"), "{}", refused.why());
}

#[test]
fn elements_that_leave_the_allocation_of_their_plugin_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    for device in runtime.devices() {
        let whole = Layout::compact(Dtype::FLOAT32, &[64]).unwrap();
        let tensor = Tensor::empty(&device, &whole).unwrap();
        let word = tensor.address().word;
        for (count, is_inside) in [(64, true), (65, false)] {
            let layout = Layout::compact(Dtype::FLOAT32, &[count]).unwrap();
            let data = DataWord::from_addr(word as usize);
            let offset = tensor.address().offset;
            let view = TensorView::new(layout, data, offset, device.id(), Flags::default());
            let owner = Counted(Arc::default(), Vec::new());
            let received = receive(Produced::new(owner, &view.unwrap()).unwrap());
            let imported = Tensor::import(&runtime, received);
            assert_eq!(imported.is_ok(), is_inside, "{device}: {count} of 64");
        }
    }
}

#[test]
fn a_tensor_is_handed_out_without_a_wait_where_no_work_may_still_write_it() {
    let (_runtime, cpu) = one_cpu();
    let tensor = filled(&cpu, 7);
    let is_out = || tensor.try_export().unwrap().is_some();
    assert!(is_out());
    let (reading, end_of_read) = held(&cpu);
    tensor.used_on(&reading).unwrap();
    assert!(is_out(), "it is read only");
    let (writing, end_of_write) = held(&cpu);
    tensor.written_on(&writing).unwrap();
    assert!(!is_out());
    end_of_read.complete(Status::OK).unwrap();
    end_of_write.complete(Status::OK).unwrap();
    tensor.synchronize(LIMIT).unwrap();
    assert!(is_out());
}
