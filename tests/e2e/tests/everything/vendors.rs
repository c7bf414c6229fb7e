//! The simulated drivers beside the plugins: memory and streams of others, and what the simulator tells.

use std::ffi::c_int;

use crossdock_sdk::dlpack::{Device, DeviceType};
use libloading::Library;

/// Calls a function of a vendor's library by its name; what it answers.
macro_rules! call {
    ($library:expr, $name:expr, $($argument:expr => $type:ty),* $(,)?) => {{
        // SAFETY: the simulator has the function, with the types of the vendor's header.
        let function = unsafe {
            $library.get::<unsafe extern "C" fn($($type),*) -> c_int>($name)
        }.unwrap();
        // SAFETY: the arguments are live objects of the vendor's and places of this function's own.
        unsafe { function($($argument),*) }
    }};
}

/// A vendor's library. Where the names alone differ, both have one signature.
pub(super) struct Vendor {
    library: Library,
    device_type: DeviceType,
    /// Functions that give memory and streams, and take them back.
    names: [&'static str; 4],
}

impl Vendor {
    pub(super) fn cuda() -> Self {
        let vendor = Self {
            library: open("libcuda.so.1"),
            device_type: DeviceType::CUDA,
            names: [
                "cuMemAlloc_v2",
                "cuMemFree_v2",
                "cuStreamCreate",
                "cuStreamDestroy_v2",
            ],
        };
        assert_eq!(call!(vendor.library, "cuInit", 0 => u32), 0);
        vendor
    }

    pub(super) fn rocm() -> Self {
        Self {
            library: open("libamdhip64.so.7"),
            device_type: DeviceType::ROCM,
            names: [
                "hipMalloc",
                "hipFree",
                "hipStreamCreateWithFlags",
                "hipStreamDestroy",
            ],
        }
    }

    pub(super) fn device(&self, ordinal: i32) -> Device {
        Device::new(self.device_type, ordinal)
    }

    fn has_contexts(&self) -> bool {
        self.device_type == DeviceType::CUDA
    }

    /// Makes a device the thread's: CUDA's by a context of others, HIP's by its number. What `current` gives then.
    fn begin(&self, ordinal: i32) -> u64 {
        let mut context = 0;
        let begun = if self.has_contexts() {
            let made = &raw mut context;
            call!(self.library, "cuCtxCreate_v2", made => *mut u64, 0 => u32, ordinal => c_int)
        } else {
            context = u64::try_from(ordinal).unwrap();
            call!(self.library, "hipSetDevice", ordinal => c_int)
        };
        assert_eq!(begun, 0);
        context
    }

    fn enter(&self, context: u64) {
        let entered = if self.has_contexts() {
            call!(self.library, "cuCtxSetCurrent", context => u64)
        } else {
            let ordinal = c_int::try_from(context).unwrap();
            call!(self.library, "hipSetDevice", ordinal => c_int)
        };
        assert_eq!(entered, 0);
    }

    fn current(&self) -> u64 {
        let (mut context, mut ordinal) = (0, 0);
        let told = if self.has_contexts() {
            call!(self.library, "cuCtxGetCurrent", &raw mut context => *mut u64)
        } else {
            let told = call!(self.library, "hipGetDevice", &raw mut ordinal => *mut c_int);
            context = u64::try_from(ordinal).unwrap();
            told
        };
        assert_eq!(told, 0);
        context
    }

    fn end(&self, context: u64) {
        if self.has_contexts() {
            assert_eq!(call!(self.library, "cuCtxDestroy_v2", context => u64), 0);
        }
    }
}

/// Memory and a stream that others made. Giving them back waits for their device, as the vendors have it.
pub(super) struct Lent<'a> {
    vendor: &'a Vendor,
    context: u64,
    pub(super) address: u64,
    pub(super) stream: u64,
}

impl<'a> Lent<'a> {
    pub(super) fn new(vendor: &'a Vendor, ordinal: i32, bytes: usize) -> Self {
        let context = vendor.begin(ordinal);
        let ([allocate, _, stream, _], library) = (vendor.names, &vendor.library);
        let mut lent = Self {
            vendor,
            context,
            address: 0,
            stream: 0,
        };
        let made = [
            call!(library, allocate, &raw mut lent.address => *mut u64, bytes => usize),
            call!(library, stream, &raw mut lent.stream => *mut u64, 1 => u32),
        ];
        assert_eq!(made, [0; 2]);
        lent
    }

    /// Whether the device of this thread is still the one that its owner chose.
    pub(super) fn is_current(&self) -> bool {
        self.vendor.current() == self.context
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.vendor.enter(self.context);
        let ([_, free, _, destroy], library) = (self.vendor.names, &self.vendor.library);
        let given_back = [
            call!(library, destroy, self.stream => u64),
            call!(library, free, self.address => u64),
        ];
        assert_eq!(given_back, [0; 2]);
        self.vendor.end(self.context);
    }
}

/// What the simulator behind all vendors knows.
pub(super) struct Simulator(Library);

impl Simulator {
    pub(super) fn open() -> Self {
        Self(open("libcrossdock_sim.so"))
    }

    /// How often something waited for all work of a device.
    pub(super) fn device_waits(&self) -> i64 {
        self.count("crossdock_sim_device_waits")
    }

    /// How many objects are left.
    pub(super) fn leaks(&self) -> i64 {
        self.count("crossdock_sim_leaks")
    }

    fn count(&self, name: &str) -> i64 {
        // SAFETY: the simulator has the function, of this type.
        let function = unsafe { self.0.get::<unsafe extern "C" fn() -> i64>(name) }.unwrap();
        // SAFETY: it has no arguments.
        unsafe { function() }
    }
}

fn open(name: &str) -> Library {
    // SAFETY: the simulator's initialisers touch nothing of ours.
    unsafe { Library::new(name) }.unwrap()
}
