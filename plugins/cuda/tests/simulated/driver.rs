//! The driver beside the plugin: what other libraries in the process do, and what the simulator tells.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicU32, Ordering};

use libloading::Library;

/// The simulated driver.
pub(crate) struct Driver(Library);

/// Calls a function of it by its name.
macro_rules! call {
    ($driver:ident.$name:ident($($argument:expr => $type:ty),* $(,)?) -> $answer:ty) => {{
        // SAFETY: the simulator has the function, with the types of the driver's header.
        let function = unsafe {
            $driver.0.get::<unsafe extern "C" fn($($type),*) -> $answer>(stringify!($name))
        }.unwrap();
        // SAFETY: the arguments are live objects of the driver's and places of this function's own.
        unsafe { function($($argument),*) }
    }};
}

impl Driver {
    pub(crate) fn open() -> Self {
        // SAFETY: the simulator's initialisers touch nothing of ours.
        let library = unsafe { Library::new("libcuda.so.1") }.unwrap();
        let driver = Self(library);
        assert_eq!(call!(driver.cuInit(0 => u32) -> c_int), 0);
        driver
    }

    /// A context of others, which is the thread's from then on.
    pub(crate) fn create_context(&self, device: c_int) -> u64 {
        let mut context = 0;
        let made = call!(self.cuCtxCreate_v2(&raw mut context => *mut u64, 0 => u32, device => c_int) -> c_int);
        assert_eq!(made, 0);
        context
    }

    /// Makes the device's own context the thread's, which holds it from then on.
    pub(crate) fn enter_primary_context(&self, device: c_int) {
        let mut context = 0;
        let made = call!(self.cuDevicePrimaryCtxRetain(&raw mut context => *mut u64, device => c_int) -> c_int);
        assert_eq!(made, 0);
        assert_eq!(call!(self.cuCtxPushCurrent_v2(context => u64) -> c_int), 0);
    }

    pub(crate) fn leave_primary_context(&self, device: c_int) {
        self.pop();
        assert_eq!(
            call!(self.cuDevicePrimaryCtxRelease_v2(device => c_int) -> c_int),
            0
        );
    }

    /// Makes a stream wait until 4 bytes of pinned memory are 1 at least.
    pub(crate) fn wait_value(&self, stream: u64, address: u64) {
        let waits = call!(self.cuStreamWaitValue32_v2(
            stream => u64, address => u64, 1 => u32, 0 => u32
        ) -> c_int);
        assert_eq!(waits, 0);
    }

    pub(crate) fn current(&self) -> u64 {
        let mut context = 0;
        assert_eq!(
            call!(self.cuCtxGetCurrent(&raw mut context => *mut u64) -> c_int),
            0
        );
        context
    }

    pub(crate) fn has_primary_context(&self, device: c_int) -> bool {
        let (mut flags, mut is_active) = (0, 0);
        let told = call!(self.cuDevicePrimaryCtxGetState(
            device => c_int, &raw mut flags => *mut u32, &raw mut is_active => *mut c_int
        ) -> c_int);
        assert_eq!(told, 0);
        is_active != 0
    }

    pub(crate) fn allocate(&self, bytes: usize) -> u64 {
        let mut address = 0;
        let made = call!(self.cuMemAlloc_v2(&raw mut address => *mut u64, bytes => usize) -> c_int);
        assert_eq!(made, 0);
        address
    }

    /// Memory of the pool of the thread's device, in the order of a stream.
    pub(crate) fn allocate_on(&self, stream: u64, bytes: usize) -> u64 {
        let mut address = 0;
        let made = call!(self.cuMemAllocAsync(
            &raw mut address => *mut u64, bytes => usize, stream => u64
        ) -> c_int);
        assert_eq!(made, 0);
        address
    }

    pub(crate) fn allocate_pinned(&self, bytes: usize) -> u64 {
        let mut address = 0;
        let made = call!(self.cuMemHostAlloc(
            &raw mut address => *mut u64, bytes => usize, 0 => u32
        ) -> c_int);
        assert_eq!(made, 0);
        address
    }

    pub(crate) fn allocate_managed(&self, bytes: usize) -> u64 {
        let mut address = 0;
        let made = call!(self.cuMemAllocManaged(
            &raw mut address => *mut u64, bytes => usize, 1 => u32
        ) -> c_int);
        assert_eq!(made, 0);
        address
    }

    /// The driver's number for the kind of the memory at an address, where it knows the address.
    pub(crate) fn kind_of(&self, address: u64) -> Result<u32, c_int> {
        let mut kind = 0_u32;
        let told = call!(self.cuPointerGetAttribute(
            &raw mut kind => *mut u32, 2 => c_int, address => u64
        ) -> c_int);
        if told == 0 { Ok(kind) } else { Err(told) }
    }

    /// The pool that memory is of.
    pub(crate) fn pool_of(&self, address: u64) -> u64 {
        let mut pool = 0;
        let told = call!(self.cuPointerGetAttribute(
            &raw mut pool => *mut u64, 17 => c_int, address => u64
        ) -> c_int);
        assert_eq!(told, 0);
        pool
    }

    /// An attribute of a pool that is a number of 32 bits.
    pub(crate) fn pool_attribute(&self, pool: u64, key: c_int) -> c_int {
        let mut value = -1;
        let told = call!(self.cuMemPoolGetAttribute(
            pool => u64, key => c_int, &raw mut value => *mut c_int
        ) -> c_int);
        assert_eq!(told, 0);
        value
    }

    /// Writes 4 bytes of pinned memory.
    pub(crate) fn write_pinned(address: u64, value: u32) {
        let at = std::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap());
        // SAFETY: 4 aligned bytes of pinned memory that the caller allocated; the device only reads them meanwhile.
        let flag = unsafe { AtomicU32::from_ptr(at) };
        flag.store(value, Ordering::SeqCst);
    }

    pub(crate) fn free(&self, address: u64) {
        assert_eq!(call!(self.cuMemFree_v2(address => u64) -> c_int), 0);
    }

    pub(crate) fn free_pinned(&self, address: u64) {
        assert_eq!(call!(self.cuMemFreeHost(address => u64) -> c_int), 0);
    }

    pub(crate) fn create_stream(&self) -> u64 {
        let mut stream = 0;
        let made = call!(self.cuStreamCreate(&raw mut stream => *mut u64, 1 => u32) -> c_int);
        assert_eq!(made, 0);
        stream
    }

    pub(crate) fn destroy_stream(&self, stream: u64) {
        assert_eq!(call!(self.cuStreamDestroy_v2(stream => u64) -> c_int), 0);
    }

    /// Takes the thread's context off it.
    pub(crate) fn pop(&self) {
        let mut context = 0;
        assert_eq!(
            call!(self.cuCtxPopCurrent_v2(&raw mut context => *mut u64) -> c_int),
            0
        );
    }

    pub(crate) fn destroy_context(&self, context: u64) {
        assert_eq!(call!(self.cuCtxDestroy_v2(context => u64) -> c_int), 0);
    }

    /// Begins a capture in the mode that forbids most.
    pub(crate) fn begin_capture(&self, stream: u64) {
        let begun = call!(self.cuStreamBeginCapture_v2(stream => u64, 0 => c_int) -> c_int);
        assert_eq!(begun, 0);
    }

    /// Ends a capture; the driver's number.
    pub(crate) fn end_capture(&self, stream: u64) -> c_int {
        let mut graph = 0;
        call!(self.cuStreamEndCapture(stream => u64, &raw mut graph => *mut u64) -> c_int)
    }

    /// Waits for all work of the thread's device.
    pub(crate) fn synchronize(&self) {
        assert_eq!(call!(self.cuCtxSynchronize() -> c_int), 0);
    }

    /// How often something waited for all work of a device.
    pub(crate) fn device_waits(&self) -> i64 {
        call!(self.crossdock_sim_device_waits() -> i64)
    }

    pub(crate) fn leaks(&self) -> i64 {
        call!(self.crossdock_sim_leaks() -> i64)
    }

    /// Runs all that can run.
    pub(crate) fn progress(&self) {
        call!(self.crossdock_sim_progress(usize::MAX => usize) -> i64);
    }

    pub(crate) fn reports(&self) -> i64 {
        call!(self.crossdock_sim_reports() -> i64)
    }

    /// Copies bytes to memory of the current context's device, at once.
    pub(crate) fn upload(&self, address: u64, bytes: &[u8]) {
        let (from, count) = (bytes.as_ptr(), bytes.len());
        let copied = call!(self.cuMemcpyHtoD_v2(
            address => u64, from => *const u8, count => usize
        ) -> c_int);
        assert_eq!(copied, 0);
    }

    /// Lets calls fail, in the words of the simulator's setting; they are counted from now on.
    pub(crate) fn arm(&self, faults: &str) {
        let text = std::ffi::CString::new(faults).unwrap();
        let armed = call!(self.crossdock_sim_arm(text.as_ptr() => *const c_char) -> i64);
        assert_eq!(armed, 0, "{faults}");
    }

    /// Lets no call fail any more, but those of a lost device: how many did.
    pub(crate) fn disarm(&self) -> i64 {
        call!(self.crossdock_sim_disarm() -> i64)
    }

    /// Whether a device is lost.
    pub(crate) fn is_lost(&self, device: u32) -> bool {
        call!(self.crossdock_sim_lost(device => u32) -> c_int) != 0
    }

    /// Makes lost devices new.
    pub(crate) fn give_back(&self) {
        call!(self.crossdock_sim_give_back() -> ());
    }

    /// How often each function was called since this was asked last.
    pub(crate) fn take_calls(&self) -> BTreeMap<String, u64> {
        let lines = self.text(|driver, text, size| {
            call!(driver.crossdock_sim_take_calls(text => *mut u8, size => usize) -> i64)
        });
        let calls = lines.lines().map(|line| {
            let call: serde_json::Value = serde_json::from_str(line).unwrap();
            let name = call["function"].as_str().unwrap().to_owned();
            (name, call["calls"].as_u64().unwrap())
        });
        calls.collect()
    }

    /// The reports so far, which are then forgotten.
    pub(crate) fn take_reports(&self) -> String {
        self.text(|driver, text, size| {
            call!(driver.crossdock_sim_take_reports(text => *mut u8, size => usize) -> i64)
        })
    }

    /// What is left.
    pub(crate) fn list_leaks(&self) -> String {
        self.text(|driver, text, size| {
            call!(driver.crossdock_sim_list_leaks(text => *mut u8, size => usize) -> i64)
        })
    }

    /// A text that a function of the simulator writes where it fits.
    fn text(&self, write: impl Fn(&Self, *mut u8, usize) -> i64) -> String {
        let mut bytes = vec![0_u8; 1 << 16];
        let needed = usize::try_from(write(self, bytes.as_mut_ptr(), bytes.len())).unwrap();
        if needed > bytes.len() {
            bytes.resize(2 * needed, 0);
            write(self, bytes.as_mut_ptr(), bytes.len());
        }
        bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap());
        String::from_utf8(bytes).unwrap()
    }

    /// Host code reads these bytes, which a driver cannot see.
    pub(crate) fn touch(&self, address: u64, bytes: u64) {
        call!(self.crossdock_sim_touch(address => u64, bytes => u64, 0 => c_int) -> ());
    }
}
