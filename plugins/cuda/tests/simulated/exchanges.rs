//! Exchanges of every kind over the whole runtime, for tests that make one of their calls fail. Each checks what
//! arrives bit for bit, and gives back all that it made, also where a call fails.

use std::time::Duration;

use crossdock::{
    CostCache, Device, Error, Event, Layer, MemoryOwner, RouteChoice, RouteKind, Runtime,
    RuntimeBuilder, Stream, Target, Tensor,
};
use crossdock_sdk::abi::{Capabilities, MemoryKind, Status};
use crossdock_sdk::dlpack::{
    AxisSlice, DataWord, DeviceType, Dtype, Flags, Layout, Received, TensorView,
};

use crate::built;
use crate::driver::Driver;

pub(crate) const LIMIT: Option<Duration> = Some(Duration::from_secs(20));
const DIRECT: RouteChoice = RouteChoice::Only(RouteKind::Direct);
const STAGED: RouteChoice = RouteChoice::Only(RouteKind::Staged);
const ALIAS: RouteChoice = RouteChoice::Only(RouteKind::Alias);
/// Bytes of a tensor: several parts of a staged copy.
const BYTES: usize = 20_000;
const STAGING: u64 = 8 * 4096;

/// What exchanges run on: a runtime with two CUDA devices.
#[derive(Debug)]
pub(crate) struct Rig<'a> {
    pub(crate) runtime: Runtime,
    pub(crate) cpu: Device,
    pub(crate) cuda: [Device; 2],
    /// Devices of other vendors.
    pub(crate) others: Vec<Device>,
    pub(crate) foreign: &'a Foreign,
}

impl<'a> Rig<'a> {
    pub(crate) fn open(layers: &[Layer], foreign: &'a Foreign) -> Result<Self, Error> {
        Self::of(Runtime::builder().layers(layers), foreign)
    }

    /// The same with the devices of OpenCL, where its plugin was built.
    pub(crate) fn open_with_others(foreign: &'a Foreign) -> Result<Self, Error> {
        let builder = Runtime::builder();
        let mut rig = match built("libcrossdock_plugin_opencl.so") {
            Some(opencl) => Self::of(builder.plugin(opencl), foreign),
            None => Self::of(builder, foreign),
        }?;
        let devices = rig.runtime.devices().into_iter();
        let is_other = |device: &Device| device.id().ty == DeviceType::OPENCL;
        rig.others = devices.filter(is_other).collect();
        Ok(rig)
    }

    fn of(builder: RuntimeBuilder, foreign: &'a Foreign) -> Result<Self, Error> {
        let builder = builder.search(false).costs(CostCache::Off);
        let builder = builder.staging_bytes(STAGING);
        let builder = builder.plugin(built("libcrossdock_plugin_cuda.so").unwrap());
        let runtime = builder.open()?;
        let device = |name: &str| runtime.device(name.parse().unwrap());
        Ok(Self {
            cpu: device("cpu:0")?,
            cuda: [device("cuda:0")?, device("cuda:1")?],
            others: Vec::new(),
            foreign,
            runtime,
        })
    }
}

/// Memory and a stream of another library, in a context of its own on the first device.
#[derive(Debug)]
pub(crate) struct Foreign {
    context: u64,
    pub(crate) memory: u64,
    pub(crate) stream: u64,
}

impl Foreign {
    pub(crate) fn new(driver: &Driver) -> Self {
        let context = driver.create_context(0);
        let memory = driver.allocate(BYTES);
        driver.upload(memory, &bytes(5));
        let stream = driver.create_stream();
        driver.pop();
        Self {
            context,
            memory,
            stream,
        }
    }

    /// Ends it, unless it is gone already with its device, which was lost.
    pub(crate) fn end(self, driver: &Driver, is_gone: bool) {
        if !is_gone {
            driver.destroy_context(self.context);
        }
    }
}

/// Bytes of which no part is like another.
fn bytes(seed: usize) -> Vec<u8> {
    let byte = |at: usize| (((at + seed) * 2_654_435_761) >> 7).to_le_bytes()[0];
    (0..BYTES).map(byte).collect()
}

fn layout() -> Layout {
    Layout::compact(Dtype::UINT8, &[i64::try_from(BYTES).unwrap()]).unwrap()
}

fn on(device: &Device, seed: usize) -> Result<Tensor, Error> {
    Tensor::from_bytes(device, &layout(), &bytes(seed))
}

/// What a tensor has, and what it should have.
fn same(tensor: &Tensor, wanted: &[u8]) -> Result<(), Error> {
    let found = tensor.read()?;
    assert!(found == wanted, "other bytes arrived");
    Ok(())
}

/// An exchange.
pub(crate) type Exchange = fn(&Rig<'_>) -> Result<(), Error>;

/// Each kind with its name.
pub(crate) const EXCHANGES: [(&str, Exchange); 11] = [
    ("alias", alias),
    ("direct", direct),
    ("link", link),
    ("staged", staged),
    ("import", import),
    ("export", export),
    ("stream", on_streams),
    ("strided", strided),
    ("fill", fill),
    ("free", free),
    ("other", other),
];

/// The host and the device see the same pinned memory.
fn alias(rig: &Rig<'_>) -> Result<(), Error> {
    let pinned = Target::new(&rig.cuda[0], MemoryKind::PINNED);
    let (pinned, _) = on(&rig.cpu, 1)?.move_to(&pinned, RouteChoice::Copy, None)?;
    let (seen, _) = pinned.to(&rig.cpu, ALIAS)?;
    same(&seen, &bytes(1))?;
    seen.write(&bytes(2))?;
    let (back, _) = seen.to(&rig.cuda[0], RouteChoice::Best)?;
    same(&back, &bytes(2))
}

fn direct(rig: &Rig<'_>) -> Result<(), Error> {
    let (there, _) = on(&rig.cpu, 3)?.to(&rig.cuda[0], DIRECT)?;
    let (back, _) = there.to(&rig.cpu, DIRECT)?;
    same(&back, &bytes(3))?;
    let (beside, _) = there.to(&rig.cuda[0], RouteChoice::Copy)?;
    same(&beside, &bytes(3))
}

/// From one device to the other, by their link.
fn link(rig: &Rig<'_>) -> Result<(), Error> {
    let (there, _) = on(&rig.cuda[0], 4)?.to(&rig.cuda[1], DIRECT)?;
    let (back, _) = there.to(&rig.cuda[0], DIRECT)?;
    same(&there, &bytes(4))?;
    same(&back, &bytes(4))
}

fn staged(rig: &Rig<'_>) -> Result<(), Error> {
    let (there, _) = on(&rig.cuda[0], 6)?.to(&rig.cuda[1], STAGED)?;
    let (back, _) = there.to(&rig.cpu, STAGED)?;
    same(&back, &bytes(6))
}

/// Memory of another library, which is ready on a stream of it.
fn import(rig: &Rig<'_>) -> Result<(), Error> {
    let word = DataWord::from_addr(usize::try_from(rig.foreign.memory).unwrap());
    let claimed = "cuda:0".parse().unwrap();
    let view = TensorView::new(layout(), word, 0, claimed, Flags::NONE).unwrap();
    // SAFETY: the memory is there as long as this case.
    let tensor = unsafe { Tensor::import_memory(&rig.runtime, view, MemoryOwner::new(())) }?;
    // SAFETY: the stream is there as long as this case.
    let stream = unsafe { Stream::wrap(&rig.cuda[0], rig.foreign.stream) }?;
    tensor.ready_on(&stream)?;
    let own = Stream::new(&rig.cuda[0])?;
    let (copy, _) = tensor.to_on(&rig.cuda[0], RouteChoice::Copy, &own)?;
    same(&tensor, &bytes(5))?;
    same(&copy, &bytes(5))?;
    let (away, _) = tensor.to(&rig.cuda[1], RouteChoice::Best)?;
    same(&away, &bytes(5))
}

/// A consumer takes what is written on another stream than its own.
fn export(rig: &Rig<'_>) -> Result<(), Error> {
    let [writer, reader] = [Stream::new(&rig.cuda[0])?, Stream::new(&rig.cuda[0])?];
    let (tensor, _) = on(&rig.cpu, 7)?.to_on(&rig.cuda[0], DIRECT, &writer)?;
    for ordered in [true, false] {
        let produced = match ordered {
            true => tensor.export_on(&reader)?,
            false => tensor.export()?,
        };
        // SAFETY: a live export that nobody else owns.
        let received = unsafe { Received::from_versioned(produced.into_raw()) }.unwrap();
        let consumed = Tensor::import(&rig.runtime, received)?;
        consumed.used_on(&reader)?;
        same(&consumed, &bytes(7))?;
    }
    reader.synchronize(LIMIT)
}

/// Moves in the order of streams, of either device.
fn on_streams(rig: &Rig<'_>) -> Result<(), Error> {
    let streams = [Stream::new(&rig.cuda[0])?, Stream::new(&rig.cuda[1])?];
    let source = on(&rig.cuda[0], 8)?;
    for (stream, choice) in [(0, DIRECT), (1, DIRECT), (0, STAGED), (1, STAGED)] {
        let (there, _) = source.to_on(&rig.cuda[1], choice, &streams[stream])?;
        let (back, _) = there.to_on(&rig.cpu, DIRECT, &streams[1])?;
        streams[0].wait(&streams[1].record()?)?;
        same(&back, &bytes(8))?;
        same(&there, &bytes(8))?;
    }
    // Work that waits for the host, which another thread lets go on: a copy that cannot follow the stream waits for it.
    if rig.cuda[0]
        .capabilities()
        .contains(Capabilities::HOST_EVENTS)
    {
        let gate = Event::host(&rig.cuda[0])?;
        let held = streams[0].wait(&gate);
        let (moved, opened) = std::thread::scope(|scope| {
            let opened = scope.spawn(|| gate.complete(Status::OK));
            let moved =
                held.and_then(|_| source.to_on(&rig.cuda[0], RouteChoice::Copy, &streams[0]));
            (moved, opened.join().unwrap())
        });
        let (moved, _) = moved?;
        opened?;
        same(&moved, &bytes(8))?;
    }
    streams
        .iter()
        .try_for_each(|stream| stream.synchronize(LIMIT))
}

/// Rows with gaps, and single elements with gaps.
fn strided(rig: &Rig<'_>) -> Result<(), Error> {
    let axis = |start, step, len| AxisSlice { start, step, len };
    let layout = Layout::compact(Dtype::INT16, &[5, 20, 100]).unwrap();
    let whole = Tensor::from_bytes(&rig.cuda[0], &layout, &bytes(9))?;
    let stream = Stream::new(&rig.cuda[0])?;
    let rows = [axis(1, 2, 2), axis(3, 2, 8), axis(10, 1, 50)];
    let elements = [axis(0, 2, 2), axis(1, 3, 4), axis(1, 7, 9)];
    let host = Tensor::from_bytes(&rig.cpu, &layout, &bytes(9))?;
    for part in [rows, elements] {
        let wanted = host.slice(&part)?.read()?;
        let part = whole.slice(&part)?;
        same(&part, &wanted)?;
        let (there, _) = part.to(&rig.cuda[1], RouteChoice::Best)?;
        same(&there, &wanted)?;
        let (there, _) = part.to_on(&rig.cpu, RouteChoice::Best, &stream)?;
        same(&there, &wanted)?;
        part.copy_from(&there, Some(&stream))?;
    }
    same(&whole, &bytes(9))
}

/// Patterns of each width, at once and on a stream.
fn fill(rig: &Rig<'_>) -> Result<(), Error> {
    let stream = Stream::new(&rig.cuda[0])?;
    let dtypes = [Dtype::UINT8, Dtype::INT16, Dtype::FLOAT32, Dtype::COMPLEX64];
    for (dtype, width) in dtypes.into_iter().zip([1, 2, 4, 8]) {
        let pattern: Vec<u8> = (1..=width).collect();
        let layout = Layout::compact(dtype, &[3, 40]).unwrap();
        let wanted: Vec<u8> = pattern
            .iter()
            .copied()
            .cycle()
            .take(120 * pattern.len())
            .collect();
        let tensor = Tensor::empty(&rig.cuda[0], &layout)?;
        tensor.fill(&pattern, None)?;
        same(&tensor, &wanted)?;
        let tensor = Tensor::empty_on(&stream, &layout)?;
        tensor.fill(&pattern, Some(&stream))?;
        same(&tensor, &wanted)?;
    }
    stream.synchronize(LIMIT)
}

/// Memory of each kind, freed with and without work on it.
fn free(rig: &Rig<'_>) -> Result<(), Error> {
    let stream = Stream::new(&rig.cuda[0])?;
    for kind in [MemoryKind::DEVICE, MemoryKind::PINNED, MemoryKind::MANAGED] {
        match Tensor::empty_of(&rig.cuda[0], &layout(), kind) {
            Ok(tensor) => tensor.fill(&[3], Some(&stream))?,
            // The simulated device has no managed memory that the host shares.
            Err(error) if error.is_unsupported() => {}
            Err(error) => return Err(error),
        }
    }
    let tensor = Tensor::empty_on(&stream, &layout())?;
    tensor.fill(&[4], Some(&stream))?;
    same(&tensor, &[4; BYTES])?;
    drop(tensor);
    rig.runtime.wait_for_releases(LIMIT)?;
    rig.cuda[0].trim(0)?;
    stream.synchronize(LIMIT)
}

/// Registered memory, times, and what a device says of its memory.
fn other(rig: &Rig<'_>) -> Result<(), Error> {
    let stream = Stream::new(&rig.cuda[0])?;
    let host = on(&rig.cpu, 10)?;
    let registration = host.register(&rig.cuda[0])?;
    let begun = stream.record()?;
    let (there, _) = host.to_on(&rig.cuda[0], DIRECT, &stream)?;
    let ended = stream.record()?;
    ended.synchronize(LIMIT)?;
    ended.elapsed_since(&begun)?;
    drop(registration);
    same(&there, &bytes(10))?;
    rig.cuda[0].memory()?;
    rig.cuda[0].memory_usage()?;
    rig.cuda[0].reset_peaks()?;
    let default = Stream::default_of(&rig.cuda[0])?;
    let (beside, _) = there.to_on(&rig.cuda[0], RouteChoice::Copy, &default)?;
    same(&beside, &bytes(10))?;
    rig.cuda[0]
        .plugin()
        .hooks()
        .device_attribute(0, 16)
        .map(drop)
}

/// Bytes go round all devices that are told, at once and on streams.
pub(crate) fn round(rig: &Rig<'_>, devices: &[&Device]) -> Result<(), Error> {
    let mut tensor = on(&rig.cpu, 11)?;
    for device in devices {
        (tensor, _) = tensor.to(device, RouteChoice::Best)?;
        let stream = Stream::new(device)?;
        (tensor, _) = tensor.to_on(device, RouteChoice::Copy, &stream)?;
    }
    let (back, _) = tensor.to(&rig.cpu, RouteChoice::Best)?;
    same(&back, &bytes(11))
}

/// Work on a device.
pub(crate) fn use_of(device: &Device) -> Result<(), Error> {
    on(device, 12).map(drop)
}
