//! The plugin with one mistake in its calls of the driver, which `CROSSDOCK_DEFECT` names: a `Vendor` that passes every
//! other call on as it is.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use crossdock_plugin_cuda::Cuda;
use crossdock_plugin_gpu::Vendor;
use crossdock_plugin_gpu::vendor::{
    Answer, Code, Column, CopyDirection, ErrorKind, Facts, HostFunction, Kind, Known, PoolBytes,
    Region, Unusable,
};
use crossdock_sdk::dlpack::DeviceType;

use crate::driver::Driver;

pub(crate) const DEFECT: &str = "CROSSDOCK_DEFECT";

/// Whether this process makes the mistake.
pub(crate) fn makes(mistake: &str) -> bool {
    std::env::var(DEFECT).is_ok_and(|defect| defect == mistake)
}

/// CUDA's driver with the mistake.
#[derive(Debug)]
pub(crate) struct Broken(Cuda);

/// The stream that was made first: the device's own one for its memory.
static FIRST_STREAM: AtomicU64 = AtomicU64::new(0);

/// The stream that a call is made on: the first one instead of the right one, where that is the mistake.
fn on(stream: u64, mistake: &str) -> u64 {
    if makes(mistake) {
        FIRST_STREAM.load(Ordering::Relaxed)
    } else {
        stream
    }
}

/// What a host function that calls the driver was to call.
struct Inside {
    function: HostFunction,
    user_data: *mut c_void,
    stream: u64,
}

unsafe extern "C" fn calls_the_driver(inside: *mut c_void) {
    // SAFETY: the pointer that `call` made of a box, once.
    let inside = unsafe { Box::from_raw(inside.cast::<Inside>()) };
    let _refused = Cuda::load().unwrap().query_stream(inside.stream);
    // SAFETY: the plugin's function with its own user data, once.
    unsafe { (inside.function)(inside.user_data) };
}

/// Methods that are the driver's own.
macro_rules! right {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)*) => {
        $(fn $name(&self $(, $argument: $kind)*) -> $answer {
            self.0.$name($($argument),*)
        })*
    };
    ($(unsafe fn $name:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)*) => {
        $(unsafe fn $name(&self $(, $argument: $kind)*) -> $answer {
            // SAFETY: the caller vouches for the same.
            unsafe { self.0.$name($($argument),*) }
        })*
    };
}

impl Vendor for Broken {
    const DESCRIPTION: &'static str = Cuda::DESCRIPTION;
    const LIBRARY: &'static str = Cuda::LIBRARY;
    const DEVICE_TYPE: DeviceType = Cuda::DEVICE_TYPE;
    const PINNED_TYPE: DeviceType = Cuda::PINNED_TYPE;
    const MANAGED_TYPE: Option<DeviceType> = Cuda::MANAGED_TYPE;
    const DEFAULT_STREAM: u64 = Cuda::DEFAULT_STREAM;
    const DEFAULT_STREAMS: &'static [u64] = Cuda::DEFAULT_STREAMS;
    const PER_THREAD_DEFAULT_STREAM: u64 = Cuda::PER_THREAD_DEFAULT_STREAM;
    const WIDEST_WITH_GAPS: u64 = Cuda::WIDEST_WITH_GAPS;

    fn load() -> Result<Self, Unusable> {
        Cuda::load().map(Self)
    }

    fn error_kind(code: Code) -> ErrorKind {
        Cuda::error_kind(code)
    }

    right! {
        fn start() -> Answer;
        fn version() -> Answer<Result<String, Unusable>>;
        fn name_and_text(code: Code) -> (String, String);
        fn count() -> Answer<u32>;
        fn facts(ordinal: i32) -> Answer<Facts>;
        fn attribute(ordinal: i32, key: i32) -> Answer<i32>;
        fn known(address: u64) -> Answer<Option<Known>>;
        fn retain(ordinal: i32) -> Answer<u64>;
        fn enter(ordinal: i32, context: u64) -> Answer<u64>;
        fn leave(before: u64) -> ();
        fn relax_capture_mode() -> Option<i32>;
        fn restore_capture_mode(before: i32) -> ();
        fn memory_info() -> Answer<(u64, u64)>;
        fn allocate(bytes: u64) -> Answer<u64>;
        fn allocate_pinned(bytes: u64) -> Answer<u64>;
        fn allocate_managed(bytes: u64) -> Answer<u64>;
        fn create_pool(ordinal: i32, keep: u64) -> Answer<u64>;
        fn destroy_pool(pool: u64) -> Answer;
        fn trim_pool(pool: u64, reserved: u64) -> Answer;
        fn pool_bytes(pool: u64) -> Answer<PoolBytes>;
        fn reset_pool_peak(pool: u64) -> Answer;
        fn can_reach(ordinal: i32, peer: i32) -> Answer<bool>;
        fn enable_peer(context: u64) -> Answer<bool>;
        fn disable_peer(context: u64) -> Answer;
        fn share_pool(pool: u64, ordinal: i32, is_shared: bool) -> Answer;
        fn destroy_stream(stream: u64) -> Answer;
        fn is_capturing(stream: u64) -> Answer<bool>;
        fn create_event() -> Answer<u64>;
        fn synchronize_stream(stream: u64) -> Answer;
        fn elapsed(start: u64, end: u64) -> Answer<f32>;
    }

    right! {
        unsafe fn free(address: u64, kind: Kind) -> Answer;
        unsafe fn unregister_host(address: u64) -> Answer;
        unsafe fn context_of(stream: u64) -> Answer<(u64, i32)>;
        unsafe fn copy_across(
            dst: (u64, u64, i32), src: (u64, u64, i32), bytes: u64, stream: u64
        ) -> Answer;
        unsafe fn copy_rows(region: &Region, stream: u64) -> Answer;
    }

    fn create_stream(&self) -> Answer<u64> {
        let made = self.0.create_stream()?;
        let _later = FIRST_STREAM.compare_exchange(0, made, Ordering::Relaxed, Ordering::Relaxed);
        Ok(made)
    }

    fn release(&self, ordinal: i32) -> Answer {
        // With its context an event would be gone too.
        if makes("destroys nothing") {
            return Ok(());
        }
        self.0.release(ordinal)
    }

    unsafe fn register_host(&self, address: u64, bytes: u64) -> Answer {
        if makes("locks twice") {
            // SAFETY: the caller vouches for the range.
            unsafe { self.0.register_host(address, bytes) }?;
        }
        // SAFETY: as above.
        unsafe { self.0.register_host(address, bytes) }
    }

    fn allocate_on(&self, pool: u64, bytes: u64, stream: u64) -> Answer<u64> {
        let stream = on(stream, "allocates on another stream");
        self.0.allocate_on(pool, bytes, stream)
    }

    unsafe fn free_on(&self, address: u64, stream: u64) -> Answer {
        let stream = on(stream, "frees on another stream");
        if makes("frees twice") {
            // SAFETY: the caller vouches that nobody uses the memory.
            unsafe { self.0.free_on(address, stream) }?;
        }
        if makes("waits for the device") {
            Driver::open().synchronize();
        }
        // SAFETY: as above, and it is wrong otherwise, which the simulator looks for.
        unsafe { self.0.free_on(address, stream) }
    }

    fn query_stream(&self, stream: u64) -> Answer {
        if makes("says that all is over") {
            return Ok(());
        }
        self.0.query_stream(stream)
    }

    fn query_event(&self, event: u64) -> Answer {
        if makes("says that all is over") {
            return Ok(());
        }
        self.0.query_event(event)
    }

    fn synchronize_event(&self, event: u64) -> Answer {
        if makes("says that all is over") {
            return Ok(());
        }
        self.0.synchronize_event(event)
    }

    fn wait_event(&self, stream: u64, event: u64) -> Answer {
        if makes("waits for nothing") {
            return Ok(());
        }
        if makes("waits for what it destroyed") {
            self.0.destroy_event(event)?;
        }
        self.0.wait_event(stream, event)
    }

    unsafe fn wait_value32(&self, stream: u64, address: u64, value: u32) -> Answer {
        let value = value.wrapping_add(u32::from(makes("waits for ever")));
        // SAFETY: the caller vouches for the word.
        unsafe { self.0.wait_value32(stream, address, value) }
    }

    unsafe fn call(&self, stream: u64, function: HostFunction, user_data: *mut c_void) -> Answer {
        if !makes("calls from a host function") {
            // SAFETY: the caller vouches for the function.
            return unsafe { self.0.call(stream, function, user_data) };
        }
        let inside = Inside {
            function,
            user_data,
            stream,
        };
        let inside = Box::into_raw(Box::new(inside)).cast();
        // SAFETY: the function is called once with the box, and calls the caller's.
        unsafe { self.0.call(stream, calls_the_driver, inside) }
    }

    fn destroy_event(&self, event: u64) -> Answer {
        if makes("destroys nothing") {
            return Ok(());
        }
        self.0.destroy_event(event)
    }

    fn record(&self, event: u64, stream: u64) -> Answer {
        if makes("records nothing") {
            return Ok(());
        }
        let stream = on(stream, "records on another stream");
        self.0.record(event, stream)
    }

    unsafe fn copy(
        &self,
        direction: CopyDirection,
        dst: u64,
        src: u64,
        bytes: u64,
        stream: u64,
    ) -> Answer {
        if makes("frees before a use") {
            // SAFETY: it is wrong, which the simulator looks for.
            unsafe { self.0.free_on(src, stream) }?;
        }
        let bytes = bytes + 512 * u64::from(makes("copies past the end"));
        // SAFETY: the caller vouches for the bytes, and the simulator looks at those that are too many.
        unsafe { self.0.copy(direction, dst, src, bytes, stream) }
    }

    unsafe fn fill(&self, column: &Column, stream: u64) -> Answer {
        let mut column = *column;
        if makes("fills a half") {
            column.count /= 2;
        }
        // SAFETY: the caller vouches for more than is filled.
        unsafe { self.0.fill(&column, stream) }
    }
}
