//! Memory of others on the device: its deleter runs once, behind the work that reads it, on whatever thread.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crossdock::{Event, RouteChoice, Runtime, Stream, Tensor};
use crossdock_sdk::abi::{MemoryKind, Status};
use crossdock_sdk::dlpack::{
    DLManagedTensorVersioned, DataWord, Dtype, Flags, Layout, Produced, Received, TensorView,
};

use crate::driver::Driver;
use crate::{POLICIES, over, runtime};

const BYTES: usize = 100_000;
const LIMIT: Duration = Duration::from_secs(60);

/// Says that it was dropped, each time.
struct Owner(Sender<()>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.send(()).unwrap();
    }
}

/// Memory that another library has on `cuda:0`, as a tensor with its content, and what tells of its deleter.
fn lent(runtime: &Runtime, address: u64) -> (Received, Receiver<()>, Vec<u8>) {
    let layout = Layout::compact(Dtype::UINT8, &[100_000]).unwrap();
    let bytes: Vec<u8> = (0..BYTES).map(|at| at.to_le_bytes()[0] ^ 0x3C).collect();
    let (sender, given_back) = channel();
    let data = DataWord::from_addr(usize::try_from(address).unwrap());
    let claimed = "cuda:0".parse().unwrap();
    let view = TensorView::new(layout, data, 0, claimed, Flags::NONE).unwrap();
    let produced = Produced::<DLManagedTensorVersioned>::new(Owner(sender), &view).unwrap();
    // SAFETY: a live managed tensor that is handed over.
    let received = unsafe { Received::from_versioned(produced.into_raw()) }.unwrap();
    let own = crate::addresses::foreign(runtime, (address, 0), view.layout(), claimed).unwrap();
    own.write(&bytes).unwrap();
    (received, given_back, bytes)
}

#[test]
fn a_deleter_runs_once_and_behind_the_copy_that_reads_the_memory() {
    let name = "deleters::a_deleter_runs_once_and_behind_the_copy_that_reads_the_memory";
    if !over(name, &POLICIES) {
        return;
    }
    let (runtime, driver) = (runtime(), Driver::open());
    let context = driver.create_context(0);
    let address = driver.allocate(BYTES);
    let (received, given_back, bytes) = lent(&runtime, address);
    let source = Tensor::import(&runtime, received).unwrap();
    let device = source.device().clone();
    let (stream, held) = (Stream::new(&device).unwrap(), Event::host(&device).unwrap());
    stream.wait(&held).unwrap();
    let (moved, _) = source.to_on(&device, RouteChoice::Copy, &stream).unwrap();
    // On a thread that has nothing to do with any of it.
    std::thread::spawn(move || drop(source)).join().unwrap();
    driver.progress();
    given_back.try_recv().unwrap_err();
    held.complete(Status::OK).unwrap();
    assert!(moved.read().unwrap() == bytes);
    given_back.recv_timeout(LIMIT).unwrap();
    runtime.wait_for_releases(Some(LIMIT)).unwrap();
    drop((moved, stream, held));
    given_back.try_recv().unwrap_err();
    driver.free(address);
    driver.destroy_context(context);
    assert_eq!(driver.reports(), 0);
}

#[test]
fn a_deleter_runs_once_where_the_import_is_refused() {
    let name = "deleters::a_deleter_runs_once_where_the_import_is_refused";
    if !over(name, &POLICIES[..1]) {
        return;
    }
    let runtime = runtime();
    let (sender, given_back) = channel();
    // Nobody's memory, which is called a device's.
    let nobodys = [0_u8; 64];
    let data = DataWord::from_addr(nobodys.as_ptr().addr());
    let layout = Layout::compact(Dtype::UINT8, &[64]).unwrap();
    let view = TensorView::new(layout, data, 0, "cuda:1".parse().unwrap(), Flags::NONE).unwrap();
    let produced = Produced::<DLManagedTensorVersioned>::new(Owner(sender), &view).unwrap();
    // SAFETY: a live managed tensor that is handed over.
    let received = unsafe { Received::from_versioned(produced.into_raw()) }.unwrap();
    Tensor::import(&runtime, received).unwrap_err();
    given_back.recv_timeout(LIMIT).unwrap();
    given_back.try_recv().unwrap_err();
}

#[test]
fn an_export_outlives_its_tensor_and_is_given_back_on_any_thread() {
    let name = "deleters::an_export_outlives_its_tensor_and_is_given_back_on_any_thread";
    if !over(name, &POLICIES) {
        return;
    }
    let (runtime, driver) = (runtime(), Driver::open());
    let layout = Layout::compact(Dtype::UINT8, &[100_000]).unwrap();
    for kind in [MemoryKind::DEVICE, MemoryKind::PINNED, MemoryKind::MANAGED] {
        let device = runtime.device("cuda:1".parse().unwrap()).unwrap();
        let tensor = Tensor::empty_of(&device, &layout, kind).unwrap();
        tensor.fill(&[9], None).unwrap();
        let managed = tensor.export().unwrap().into_raw();
        // SAFETY: a live managed tensor that is handed over.
        let received = unsafe { Received::from_versioned(managed) }.unwrap();
        drop(tensor);
        let back = Tensor::import(&runtime, received).unwrap();
        assert_eq!((back.memory_kind(), back.device()), (kind, &device));
        assert!(back.read().unwrap().iter().all(|byte| *byte == 9));
        std::thread::spawn(move || drop(back)).join().unwrap();
    }
    runtime.wait_for_releases(Some(LIMIT)).unwrap();
    assert_eq!(driver.reports(), 0);
}
