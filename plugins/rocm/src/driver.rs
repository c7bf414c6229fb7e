//! AMD's HIP runtime, as the plugin calls it.
#![expect(unsafe_code, reason = "calls the runtime")]

use std::ffi::{CStr, c_char, c_int, c_void};

use crossdock_plugin_gpu::Vendor;
use crossdock_plugin_gpu::vendor::{
    Answer, Code, Column, CopyDirection, ErrorKind, Facts, HostFunction, Kind, Known, PoolBytes,
    Region, Unusable,
};
use crossdock_sdk::dlpack::DeviceType;
use crossdock_sdk::plugin::describe;

use crate::codes::{self, device, flags, pool};
use crate::context::{context_of_device, device_of_context};
use crate::functions::{Functions, call};
use crate::structs::{Planes, PlanesSide, PoolProperties};

/// AMD's HIP runtime, opened.
#[derive(Debug)]
pub struct Hip(pub(crate) Functions);

/// Whether a call found an error of the program's own as the thread's last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HadError(bool);

impl Hip {
    /// Looks at the thread's last error before a call. Before HIP 7 each call that succeeds forgets it too, and there is
    /// nothing to keep.
    pub(crate) fn before_call(&self) -> HadError {
        // SAFETY: it has no arguments, and reads the calling thread's own state.
        HadError(self.0.keeps_errors() && unsafe { (self.0.hipPeekAtLastError)() } != 0)
    }

    /// The answer that a result's number stands for. What the call left as the thread's last error is forgotten with it:
    /// a program that asks for that (`hipGetLastError`) asks about its own calls. An error of its own stays. Where ours
    /// took its place, that one does: nothing brings the other back, and the program must not be told that all is well.
    pub(crate) fn checked(&self, before: HadError, call: &'static str, number: c_int) -> Answer {
        if number == 0 {
            return Ok(());
        }
        if before == HadError(false) {
            // SAFETY: it has no arguments, and touches the calling thread's own state.
            let _same = unsafe { (self.0.hipGetLastError)() };
        }
        Err(Code { number, call })
    }

    /// A device's attribute, by its number in the vendor's header.
    fn attribute_of(&self, ordinal: i32, key: c_int) -> Answer<c_int> {
        let mut value = 0;
        call!(self.hipDeviceGetAttribute(&raw mut value, key, ordinal))?;
        Ok(value)
    }

    fn is(&self, ordinal: i32, key: c_int) -> bool {
        // A runtime that is older than an attribute refuses its number.
        self.attribute_of(ordinal, key).is_ok_and(|value| value > 0)
    }

    /// A text about an error, which a function writes.
    fn error_text(
        &self,
        code: Code,
        function: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int,
    ) -> String {
        let mut text: *const c_char = std::ptr::null();
        let before = self.before_call();
        // SAFETY: any number is looked up, and the text's place is our own.
        let number = unsafe { function(code.number, &raw mut text) };
        let told = self.checked(before, "hipDrvGetErrorName", number);
        if told.is_err() || text.is_null() {
            return String::new();
        }
        // SAFETY: not NULL, and a text that lives as long as the runtime.
        let text = unsafe { CStr::from_ptr(text) };
        text.to_string_lossy().into_owned()
    }
}

/// What a function wrote before the first NUL.
fn text_of(bytes: &[c_char]) -> String {
    let bytes = bytes.iter().take_while(|byte| **byte != 0);
    // Characters of C have a sign on some processors only.
    let bytes: Vec<u8> = bytes.flat_map(|byte| byte.to_ne_bytes()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// `hipMemcpyKind`: from the host to the host, from it to a device, and so on.
const fn memcpy_kind(dst_is_host: bool, src_is_host: bool) -> c_int {
    match (src_is_host, dst_is_host) {
        (true, true) => 0,
        (true, false) => 1,
        (false, true) => 2,
        (false, false) => 3,
    }
}

impl Vendor for Hip {
    const DESCRIPTION: &'static str = describe!(
        name = "rocm",
        vendor = "Crossdock",
        devices = "rocm,rocm_host",
        driver = "libamdhip64.so.7"
    );
    const LIBRARY: &'static str = "libamdhip64.so";
    const DEVICE_TYPE: DeviceType = DeviceType::ROCM;
    const PINNED_TYPE: DeviceType = DeviceType::ROCM_HOST;
    const MANAGED_TYPE: Option<DeviceType> = None;
    const DEFAULT_STREAM: u64 = 0;
    // Newer versions call the same stream 1 too (`hipStreamLegacy`). Older ones would take 1 for an address.
    const DEFAULT_STREAMS: &'static [u64] = &[0];
    const PER_THREAD_DEFAULT_STREAM: u64 = 2;
    // HIP fills with gaps by bytes alone.
    const WIDEST_WITH_GAPS: u64 = 1;

    fn load() -> Result<Self, Unusable> {
        Functions::load().map(Self)
    }

    fn start(&self) -> Answer {
        call!(self.hipInit(0))
    }

    fn version(&self) -> Answer<Result<String, Unusable>> {
        let mut number = 0;
        call!(self.hipRuntimeGetVersion(&raw mut number))?;
        Ok(codes::version(self.0.library(), number).map_err(Unusable::Absent))
    }

    fn error_kind(code: Code) -> ErrorKind {
        codes::error_kind(code)
    }

    fn name_and_text(&self, code: Code) -> (String, String) {
        let name = self.error_text(code, self.0.hipDrvGetErrorName);
        (name, self.error_text(code, self.0.hipDrvGetErrorString))
    }

    fn count(&self) -> Answer<u32> {
        let mut count = 0;
        call!(self.hipGetDeviceCount(&raw mut count))?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    fn facts(&self, ordinal: i32) -> Answer<Facts> {
        let mut name: [c_char; 128] = [0; 128];
        call!(self.hipDeviceGetName(name.as_mut_ptr(), 128, ordinal))?;
        let mut bus: [c_char; 32] = [0; 32];
        // A partition of a device may have none.
        let bus_id = call!(self.hipDeviceGetPCIBusId(bus.as_mut_ptr(), 32, ordinal));
        let mut total = 0;
        call!(self.hipDeviceTotalMem(&raw mut total, ordinal))?;
        let mut uuid = [0; 16];
        call!(self.hipDeviceGetUuid(&raw mut uuid, ordinal))?;
        let pitch = self.attribute_of(ordinal, device::MAX_PITCH).unwrap_or(0);
        let pitch = u64::try_from(pitch).ok().filter(|pitch| *pitch > 0);
        Ok(Facts {
            name: text_of(&name),
            uuid,
            pci_bus_id: bus_id.map_or_else(|_| String::new(), |()| text_of(&bus)),
            total_memory: total as u64,
            has_pools: self.0.have_pools() && self.is(ordinal, device::MEMORY_POOLS_SUPPORTED),
            has_managed: self.is(ordinal, device::MANAGED_MEMORY)
                && self.is(ordinal, device::CONCURRENT_MANAGED_ACCESS),
            has_wait_value32: self.0.hipStreamWaitValue32.is_some()
                && self.is(ordinal, device::CAN_USE_STREAM_WAIT_VALUE),
            longest_pitch: pitch.unwrap_or(i32::MAX.unsigned_abs().into()),
        })
    }

    fn attribute(&self, ordinal: i32, key: i32) -> Answer<i32> {
        self.attribute_of(ordinal, key)
    }

    fn known(&self, address: u64) -> Answer<Option<Known>> {
        self.attributes(address)
    }

    fn retain(&self, ordinal: i32) -> Answer<u64> {
        Ok(context_of_device(ordinal))
    }

    fn release(&self, _ordinal: i32) -> Answer {
        Ok(())
    }

    fn enter(&self, ordinal: i32, _context: u64) -> Answer<u64> {
        self.set(ordinal)
    }

    fn leave(&self, before: u64) {
        self.set_back(before);
    }

    fn relax_capture_mode(&self) -> Option<i32> {
        let mut mode = codes::RELAXED;
        let exchanged = call!(self.hipThreadExchangeStreamCaptureMode(&raw mut mode));
        exchanged.ok().map(|()| mode)
    }

    fn restore_capture_mode(&self, before: i32) {
        let mut mode = before;
        // A number that the runtime gave.
        let _exchanged = call!(self.hipThreadExchangeStreamCaptureMode(&raw mut mode));
    }

    fn memory_info(&self) -> Answer<(u64, u64)> {
        let (mut free, mut total) = (0, 0);
        call!(self.hipMemGetInfo(&raw mut free, &raw mut total))?;
        Ok((free as u64, total as u64))
    }

    fn allocate(&self, bytes: u64) -> Answer<u64> {
        let mut address = 0;
        call!(self.hipMalloc(&raw mut address, size(bytes)))?;
        Ok(address)
    }

    fn allocate_pinned(&self, bytes: u64) -> Answer<u64> {
        let mut address = 0;
        call!(self.hipHostMalloc(&raw mut address, size(bytes), flags::PORTABLE_MAPPED))?;
        Ok(address)
    }

    fn allocate_managed(&self, bytes: u64) -> Answer<u64> {
        let mut address = 0;
        call!(self.hipMallocManaged(&raw mut address, size(bytes), flags::ATTACH_GLOBAL))?;
        Ok(address)
    }

    unsafe fn free(&self, address: u64, kind: Kind) -> Answer {
        match kind {
            Kind::Pinned => call!(self.hipHostFree(address)),
            Kind::Device | Kind::Managed => call!(self.hipFree(address)),
        }
    }

    unsafe fn register_host(&self, address: u64, bytes: u64) -> Answer {
        let lock = |flags| call!(self.hipHostRegister(address, size(bytes), flags));
        match lock(flags::PORTABLE_MAPPED) {
            // Pages that the process may only read (a mapped file) can be locked with this flag alone.
            Err(code) if code.number == codes::INVALID_VALUE => {
                lock(flags::PORTABLE_MAPPED | flags::READ_ONLY)
            }
            locked => locked,
        }
    }

    unsafe fn unregister_host(&self, address: u64) -> Answer {
        call!(self.hipHostUnregister(address))
    }

    fn create_pool(&self, ordinal: i32, keep: u64) -> Answer<u64> {
        let (mut made, mut keep, properties) = (0, keep, PoolProperties::of(ordinal));
        call!(self.hipMemPoolCreate?(&raw mut made, &raw const properties))?;
        let key = pool::RELEASE_THRESHOLD;
        let kept = call!(self.hipMemPoolSetAttribute?(made, key, &raw mut keep));
        // By default an allocation may make its stream wait for another one, which may wait for the host.
        let (key, mut no) = (pool::REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0);
        let set = kept.and_then(|()| call!(self.hipMemPoolSetAttribute?(made, key, &raw mut no)));
        if set.is_err() {
            let _gone = self.destroy_pool(made);
        }
        set.map(|()| made)
    }

    fn destroy_pool(&self, pool: u64) -> Answer {
        call!(self.hipMemPoolDestroy?(pool))
    }

    fn trim_pool(&self, pool: u64, reserved: u64) -> Answer {
        call!(self.hipMemPoolTrimTo?(pool, size(reserved)))
    }

    fn pool_bytes(&self, pool: u64) -> Answer<PoolBytes> {
        let ask = |key| {
            let mut bytes = 0;
            call!(self.hipMemPoolGetAttribute?(pool, key, &raw mut bytes))?;
            Ok(bytes)
        };
        Ok(PoolBytes {
            reserved: ask(pool::RESERVED_MEM_CURRENT)?,
            peak_reserved: ask(pool::RESERVED_MEM_HIGH)?,
        })
    }

    fn reset_pool_peak(&self, pool: u64) -> Answer {
        let mut nothing = 0;
        let key = pool::RESERVED_MEM_HIGH;
        call!(self.hipMemPoolSetAttribute?(pool, key, &raw mut nothing))
    }

    fn allocate_on(&self, pool: u64, bytes: u64, stream: u64) -> Answer<u64> {
        let (mut address, bytes) = (0, size(bytes));
        call!(self.hipMallocFromPoolAsync?(
            &raw mut address,
            bytes,
            pool,
            stream
        ))?;
        Ok(address)
    }

    unsafe fn free_on(&self, address: u64, stream: u64) -> Answer {
        call!(self.hipFreeAsync?(address, stream))
    }

    fn can_reach(&self, ordinal: i32, peer: i32) -> Answer<bool> {
        self.reaches(ordinal, peer)
    }

    fn enable_peer(&self, context: u64) -> Answer<bool> {
        self.reach(device_of_context(context))
    }

    fn disable_peer(&self, context: u64) -> Answer {
        self.reach_no_more(device_of_context(context))
    }

    fn share_pool(&self, pool: u64, ordinal: i32, is_shared: bool) -> Answer {
        self.open_pool(pool, ordinal, is_shared)
    }

    fn create_stream(&self) -> Answer<u64> {
        let mut stream = 0;
        call!(self.hipStreamCreateWithFlags(&raw mut stream, flags::NON_BLOCKING))?;
        Ok(stream)
    }

    fn destroy_stream(&self, stream: u64) -> Answer {
        call!(self.hipStreamDestroy(stream))
    }

    fn query_stream(&self, stream: u64) -> Answer {
        call!(self.hipStreamQuery(stream))
    }

    fn synchronize_stream(&self, stream: u64) -> Answer {
        call!(self.hipStreamSynchronize(stream))
    }

    fn wait_event(&self, stream: u64, event: u64) -> Answer {
        call!(self.hipStreamWaitEvent(stream, event, 0))
    }

    unsafe fn wait_value32(&self, stream: u64, address: u64, value: u32) -> Answer {
        let (how, bits) = (flags::AT_LEAST, flags::WHOLE);
        call!(self.hipStreamWaitValue32?(
            stream, address, value, how, bits
        ))
    }

    unsafe fn call(&self, stream: u64, function: HostFunction, user_data: *mut c_void) -> Answer {
        call!(self.hipLaunchHostFunc(stream, Some(function), user_data))
    }

    unsafe fn context_of(&self, stream: u64) -> Answer<(u64, i32)> {
        let mut ordinal = 0;
        call!(self.hipStreamGetDevice(stream, &raw mut ordinal))?;
        Ok((context_of_device(ordinal), ordinal))
    }

    fn is_capturing(&self, stream: u64) -> Answer<bool> {
        let mut status = 0;
        call!(self.hipStreamIsCapturing(stream, &raw mut status))?;
        Ok(status != 0)
    }

    fn create_event(&self) -> Answer<u64> {
        let mut event = 0;
        call!(self.hipEventCreateWithFlags(&raw mut event, 0))?;
        Ok(event)
    }

    fn destroy_event(&self, event: u64) -> Answer {
        call!(self.hipEventDestroy(event))
    }

    fn record(&self, event: u64, stream: u64) -> Answer {
        call!(self.hipEventRecord(event, stream))
    }

    fn query_event(&self, event: u64) -> Answer {
        call!(self.hipEventQuery(event))
    }

    fn synchronize_event(&self, event: u64) -> Answer {
        call!(self.hipEventSynchronize(event))
    }

    fn elapsed(&self, start: u64, end: u64) -> Answer<f32> {
        let mut milliseconds = 0.0;
        call!(self.hipEventElapsedTime(&raw mut milliseconds, start, end))?;
        Ok(milliseconds)
    }

    unsafe fn copy(
        &self,
        direction: CopyDirection,
        dst: u64,
        src: u64,
        bytes: u64,
        stream: u64,
    ) -> Answer {
        let kind = match direction {
            CopyDirection::HostToDevice => memcpy_kind(false, true),
            CopyDirection::DeviceToHost => memcpy_kind(true, false),
            CopyDirection::DeviceToDevice => memcpy_kind(false, false),
            CopyDirection::HostToHost => memcpy_kind(true, true),
        };
        call!(self.hipMemcpyAsync(dst, src, size(bytes), kind, stream))
    }

    unsafe fn copy_across(
        &self,
        (dst, _, to): (u64, u64, i32),
        (src, _, from): (u64, u64, i32),
        bytes: u64,
        stream: u64,
    ) -> Answer {
        call!(self.hipMemcpyPeerAsync(dst, to, src, from, size(bytes), stream))
    }

    unsafe fn copy_rows(&self, region: &Region, stream: u64) -> Answer {
        let (dst, src) = (&region.dst, &region.src);
        let (width, height) = (size(region.width), size(region.height));
        let kind = memcpy_kind(dst.is_host, src.is_host);
        let (to, from) = (size(dst.pitch), size(src.pitch));
        if region.depth == 1 {
            let (dst, src) = (dst.address, src.address);
            return call!(self.hipMemcpy2DAsync(dst, to, src, from, width, height, kind, stream));
        }
        let planes = Planes {
            src: PlanesSide::new(src.address, from, size(src.rows)),
            dst: PlanesSide::new(dst.address, to, size(dst.rows)),
            extent: [width, height, size(region.depth)],
            kind,
        };
        call!(self.hipMemcpy3DAsync(&raw const planes, stream))
    }

    unsafe fn fill(&self, column: &Column, stream: u64) -> Answer {
        let bytes = column.value.to_le_bytes();
        let [first, second, ..] = bytes;
        let (at, count, pitch) = (column.address, size(column.count), size(column.pitch));
        match (column.unit, column.pitch == column.unit) {
            (1, true) => call!(self.hipMemsetD8Async(at, first, count, stream)),
            (2, true) => {
                let word = u16::from_le_bytes([first, second]);
                call!(self.hipMemsetD16Async(at, word, count, stream))
            }
            (_, true) => {
                let word = i32::from_le_bytes(bytes);
                call!(self.hipMemsetD32Async(at, word, count, stream))
            }
            (_, false) => {
                let value = c_int::from(first);
                call!(self.hipMemset2DAsync(at, pitch, value, 1, count, stream))
            }
        }
    }
}
