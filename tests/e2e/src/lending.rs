//! Work that is held, and memory of others that notes when it is given back.
#![expect(unsafe_code, reason = "plays a producer that speaks C")]
#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    reason = "a test that cannot be set up has failed"
)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossdock::{CostCache, Device, Error, Event, Runtime, Stream, Tensor};
use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::{DataWord, Dtype, Flags, Layout, Produced, Received, TensorView};

use crate::{plugin_file, report};

/// Long enough for whatever comes.
pub const LIMIT: Option<Duration> = Some(Duration::from_secs(20));
/// How long a test looks at what must not come.
pub const MOMENT: Duration = Duration::from_millis(50);
/// The bytes of each tensor here.
pub const ALL: usize = 4096;

/// The CPU twice: built in, and as another plugin from a file.
pub fn two_cpus() -> Option<(Runtime, Device, Device)> {
    let Some(file) = plugin_file("cpu") else {
        report("skipped: the CPU plugin was not built as a file in this run");
        return None;
    };
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    let runtime = builder.plugin(file).open().unwrap();
    let [one, other] = ["cpu:0", "cpu:1"].map(|id| runtime.device(id.parse().unwrap()).unwrap());
    assert!(!Arc::ptr_eq(one.plugin(), other.plugin()));
    Some((runtime, one, other))
}

/// The CPU alone.
pub fn one_cpu() -> (Runtime, Device) {
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    let runtime = builder.open().unwrap();
    let device = runtime.device("cpu:0".parse().unwrap()).unwrap();
    (runtime, device)
}

/// The layout of all tensors here.
pub fn layout() -> Layout {
    Layout::compact(Dtype::UINT8, &[4096]).unwrap()
}

/// A tensor whose bytes are all the same.
pub fn filled(device: &Device, byte: u8) -> Tensor {
    Tensor::from_bytes(device, &layout(), &[byte; ALL]).unwrap()
}

/// A stream whose work waits until the event is completed.
pub fn held(device: &Device) -> (Stream, Event) {
    let (stream, host_event) = (Stream::new(device).unwrap(), Event::host(device).unwrap());
    stream.wait(&host_event).unwrap();
    (stream, host_event)
}

/// Whether a stream's work does not end within a moment.
pub fn is_late(stream: &Stream) -> bool {
    status(&stream.synchronize(Some(MOMENT))) == Some(Status::TIMEOUT)
}

/// The status of a failure.
pub fn status<T>(result: &Result<T, Error>) -> Option<Status> {
    result.as_ref().err().and_then(Error::status)
}

/// Memory of somebody who notes that it was given back, and first waits for leave.
struct Lent {
    bytes: Vec<u8>,
    is_back: Arc<AtomicBool>,
    leave: Option<Mutex<Receiver<()>>>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(leave) = &self.leave {
            let _left = leave.lock().unwrap().recv();
        }
        // Who still reads it gets other bytes.
        self.bytes.fill(0);
        self.is_back.store(true, Ordering::SeqCst);
    }
}

impl Lent {
    fn new(bytes: usize, leave: Option<Receiver<()>>) -> (Self, Arc<AtomicBool>) {
        let is_back = Arc::<AtomicBool>::default();
        let lent = Self {
            bytes: vec![7; bytes],
            is_back: Arc::clone(&is_back),
            leave: leave.map(Mutex::new),
        };
        (lent, is_back)
    }
}

/// A read-only tensor of others, whose bytes are all 7, and whether it was given back.
pub fn lent(runtime: &Runtime, leave: Option<Receiver<()>>) -> (Tensor, Arc<AtomicBool>) {
    lent_with(runtime, ALL, leave)
}

/// The same with so many bytes.
pub fn lent_with(
    runtime: &Runtime,
    bytes: usize,
    leave: Option<Receiver<()>>,
) -> (Tensor, Arc<AtomicBool>) {
    let (owner, is_back) = Lent::new(bytes, leave);
    let layout = Layout::compact(Dtype::UINT8, &[i64::try_from(bytes).unwrap()]).unwrap();
    let tensor = Tensor::from_host_memory(runtime, Box::new(owner), 0, &layout).unwrap();
    (tensor, is_back)
}

/// A tensor of others that may be written.
pub fn writable(runtime: &Runtime) -> (Tensor, Arc<AtomicBool>) {
    writable_as(runtime, layout())
}

/// The same with another layout, of no more bytes.
pub fn writable_as(runtime: &Runtime, layout: Layout) -> (Tensor, Arc<AtomicBool>) {
    let (mut owner, is_back) = Lent::new(ALL, None);
    let data = DataWord::from_ptr(owner.bytes.as_mut_ptr().cast());
    let device = crossdock_sdk::dlpack::Device::CPU;
    let view = TensorView::new(layout, data, 0, device, Flags::NONE).unwrap();
    let produced = Produced::new(owner, &view).unwrap();
    // SAFETY: a live export that nobody else owns.
    let received = unsafe { Received::from_versioned(produced.into_raw()) }.unwrap();
    (Tensor::import(runtime, received).unwrap(), is_back)
}
