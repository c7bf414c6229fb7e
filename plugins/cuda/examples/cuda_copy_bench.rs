//! Times copies between host memory and CUDA devices through the plugin's hooks, beside the driver's own functions on
//! the same memory in the same run, turn by turn.
//!
//! `--short` takes one run of each. Over a simulated driver the rates are those of its links, or of this machine's memory.
#![expect(
    unsafe_code,
    reason = "copies and frees are unsafe to call in the contract, and the driver is called by itself"
)]
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::{
    ffi::{c_int, c_void},
    time::{Duration, Instant},
};

use crossdock_plugin_cuda::Plugin as Cuda;
use crossdock_sdk::{
    abi::{Address, AllocateArgs, CopyArgs, MemoryKind, ProbeState, Side, Status, StreamHandle},
    plugin::{Error, Host, Plugin as _, Streams as _, read_fixed_text},
};
use libloading::Library;

const SIZES: [usize; 3] = [1 << 20, 16 << 20, 128 << 20];
const RUNS: usize = 15;
/// With `--short`, which tries the program and measures nothing.
const FEW_RUNS: usize = 1;
const LIMIT_NS: u64 = 60_000_000_000;

fn main() -> Result<(), Error> {
    let found = Cuda::probe()?;
    if found.state != ProbeState::READY {
        println!("skip\tCUDA\t{}", read_fixed_text(&found.detail));
        return Ok(());
    }
    // SAFETY: null is a host that offers nothing.
    let plugin = Cuda::open(unsafe { Host::from_raw(std::ptr::null()) })?;
    let driver = Driver::open()?;
    let is_short = std::env::args().any(|word| word == "--short");
    let runs = if is_short { FEW_RUNS } else { RUNS };
    for device in 0..plugin.device_count() {
        println!(
            "cuda:{device} {}",
            read_fixed_text(&plugin.device_info(device)?.name)
        );
        for bytes in SIZES {
            compare(&plugin, &driver, device, bytes, runs)?;
        }
    }
    Ok(())
}

/// Prints what is asked of copies of this size.
fn compare(
    plugin: &Cuda,
    driver: &Driver,
    device: u32,
    bytes: usize,
    runs: usize,
) -> Result<(), Error> {
    let work = Work::new(plugin, driver, device, bytes)?;
    for upload in [true, false] {
        let [pinned, theirs, pageable, at_once] = work.times(upload, runs)?;
        let way = if upload { "to" } else { "from" };
        let row = |what: &str, ours: Duration, peer: Duration, asked: &str| {
            let rate = |took: Duration| bytes as f64 / took.as_secs_f64() / 1e9;
            println!(
                "row\t{what} {way} cuda:{device}, {} MiB\t{:.2} GB/s\t{:.2} GB/s\t{:.2}\t{asked}",
                bytes >> 20,
                rate(ours),
                rate(peer),
                peer.as_secs_f64() / ours.as_secs_f64(),
            );
        };
        row(
            "pinned, beside the driver's own,",
            pinned,
            theirs,
            ">= 0.95",
        );
        row(
            "pageable on a stream, beside pinned,",
            pageable,
            pinned,
            ">= 0.85",
        );
        row("pageable at once, beside pinned,", at_once, pinned, "-");
    }
    work.end()
}

/// Memory of one size: a device's, pinned and pageable, and a stream of the plugin's and one of the driver's.
struct Work<'a> {
    plugin: &'a Cuda,
    driver: &'a Driver,
    device: Side,
    pinned: Side,
    pageable: Side,
    // What `pageable` points into.
    _bytes: Vec<u8>,
    stream: StreamHandle,
    theirs: *mut c_void,
    bytes: usize,
}

impl<'a> Work<'a> {
    fn new(plugin: &'a Cuda, driver: &'a Driver, device: u32, bytes: usize) -> Result<Self, Error> {
        let allocate = |kind| {
            let size = bytes as u64;
            let address = plugin.allocate(AllocateArgs {
                size,
                alignment: 256,
                kind,
                device,
            })?;
            Ok::<_, Error>(Side {
                address,
                kind,
                device,
            })
        };
        let mut content: Vec<u8> = (0..=250_u8).cycle().take(bytes).collect();
        let pageable = Side {
            address: Address::pointer(content.as_mut_ptr().expose_provenance() as u64),
            kind: MemoryKind::HOST,
            device: 0,
        };
        let made = Self {
            plugin,
            driver,
            device: allocate(MemoryKind::DEVICE)?,
            pinned: allocate(MemoryKind::PINNED)?,
            pageable,
            _bytes: content,
            stream: plugin.stream_create(device)?,
            theirs: driver.stream(device)?,
            bytes,
        };
        made.ours(made.pinned, true, made.stream)?;
        made.ours(made.pageable, true, made.stream)?;
        Ok(made)
    }

    /// The medians of pinned copies by us and by the driver, and of pageable ones on a stream and without one.
    fn times(&self, upload: bool, runs: usize) -> Result<[Duration; 4], Error> {
        let mut times: [Vec<Duration>; 4] = Default::default();
        for _ in 0..runs {
            let taken = [
                self.ours(self.pinned, upload, self.stream)?,
                self.their(upload)?,
                self.ours(self.pageable, upload, self.stream)?,
                self.ours(self.pageable, upload, StreamHandle::NONE)?,
            ];
            for (times, took) in times.iter_mut().zip(taken) {
                times.push(took);
            }
        }
        Ok(times.map(|mut times| {
            times.sort();
            times.get(runs / 2).copied().unwrap_or_default()
        }))
    }

    fn ours(&self, host: Side, upload: bool, stream: StreamHandle) -> Result<Duration, Error> {
        let (dst, src) = if upload {
            (self.device, host)
        } else {
            (host, self.device)
        };
        let args = CopyArgs {
            dst,
            src,
            bytes: self.bytes as u64,
        };
        let start = Instant::now();
        // SAFETY: both sides have these bytes and live until the copy is over.
        unsafe { self.plugin.copy(args, stream) }?;
        if stream != StreamHandle::NONE {
            self.plugin.stream_synchronize(stream, LIMIT_NS)?;
        }
        Ok(start.elapsed())
    }

    fn their(&self, upload: bool) -> Result<Duration, Error> {
        let (device, pinned) = (self.device.address.word, self.pinned.address.word);
        let start = Instant::now();
        self.driver
            .copy(device, pinned, self.bytes, upload, self.theirs)?;
        Ok(start.elapsed())
    }

    fn end(self) -> Result<(), Error> {
        self.driver.end_stream(self.theirs)?;
        self.plugin.stream_destroy(self.stream)?;
        for side in [self.device, self.pinned] {
            // SAFETY: allocated here with this kind, and all work is over.
            unsafe { self.plugin.free(side.address, side.kind) }?;
        }
        Ok(())
    }
}

/// The driver, as any program calls it.
struct Driver(Library);

/// Calls one of its functions, and makes an error of what is not 0.
macro_rules! call {
    ($driver:expr, $name:literal, $($argument:expr => $type:ty),*) => {{
        // SAFETY: these are the types of the driver's header.
        let function = unsafe {
            $driver.0.get::<unsafe extern "C" fn($($type),*) -> c_int>($name.as_bytes())
        };
        let function = function
            .map_err(|error| Error::new(Status::VENDOR, "libcuda.so.1", error.to_string()))?;
        // SAFETY: live objects of the driver's, and places of the caller's own.
        match unsafe { function($($argument),*) } {
            0 => Ok::<(), Error>(()),
            code => Err(Error::new(Status::VENDOR, $name, format!("the driver answered {code}"))),
        }
    }};
}

impl Driver {
    fn open() -> Result<Self, Error> {
        // SAFETY: the plugin has it open already.
        let library = unsafe { Library::new("libcuda.so.1") };
        library
            .map(Self)
            .map_err(|error| Error::new(Status::VENDOR, "libcuda.so.1", error.to_string()))
    }

    /// A stream of the device's primary context, which is the thread's from then on.
    fn stream(&self, device: u32) -> Result<*mut c_void, Error> {
        let (mut context, mut stream) = (std::ptr::null_mut(), std::ptr::null_mut());
        call!(self, "cuDevicePrimaryCtxRetain",
            &raw mut context => *mut *mut c_void, device.cast_signed() => c_int)?;
        call!(self, "cuCtxSetCurrent", context => *mut c_void)?;
        // 1 is CU_STREAM_NON_BLOCKING.
        call!(self, "cuStreamCreate", &raw mut stream => *mut *mut c_void, 1 => u32)?;
        Ok(stream)
    }

    fn copy(
        &self,
        device: u64,
        pinned: u64,
        bytes: usize,
        upload: bool,
        stream: *mut c_void,
    ) -> Result<(), Error> {
        if upload {
            call!(self, "cuMemcpyHtoDAsync_v2",
                device => u64, pinned => u64, bytes => usize, stream => *mut c_void)?;
        } else {
            call!(self, "cuMemcpyDtoHAsync_v2",
                pinned => u64, device => u64, bytes => usize, stream => *mut c_void)?;
        }
        call!(self, "cuStreamSynchronize", stream => *mut c_void)
    }

    fn end_stream(&self, stream: *mut c_void) -> Result<(), Error> {
        call!(self, "cuStreamDestroy_v2", stream => *mut c_void)
    }
}
