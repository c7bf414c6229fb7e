//! NVIDIA's driver, as the plugin calls it.
#![expect(unsafe_code, reason = "calls the driver")]

use std::ffi::{CStr, c_char, c_int, c_void};

use crossdock_plugin_gpu::Vendor;
use crossdock_plugin_gpu::vendor::{
    Answer, Code, Column, CopyDirection, ErrorKind, Facts, HostFunction, Kind, Known, PoolBytes,
    Region, Unusable,
};
use crossdock_sdk::dlpack::DeviceType;
use crossdock_sdk::plugin::describe;

use crate::codes::{self, device, flags, pool};
use crate::functions::{Functions, LIBRARY, call};
use crate::structs::{Planes, PlanesSide, PoolProperties, RowsCopy, RowsSide};

/// NVIDIA's driver, opened.
#[derive(Debug)]
pub struct Cuda(pub(crate) Functions);

impl Cuda {
    /// A device's attribute, by its number in the vendor's header.
    fn attribute_of(&self, ordinal: i32, key: c_int) -> Answer<c_int> {
        let mut value = 0;
        call!(self.cuDeviceGetAttribute(&raw mut value, key, ordinal))?;
        Ok(value)
    }

    fn is(&self, ordinal: i32, key: c_int) -> bool {
        // A driver that is older than an attribute refuses its number.
        self.attribute_of(ordinal, key).is_ok_and(|value| value > 0)
    }

    fn uuid(&self, ordinal: i32) -> Answer<[u8; 16]> {
        let mut uuid = [0; 16];
        // The second form tells MIG instances of one device apart.
        if self.0.cuDeviceGetUuid_v2.is_some() {
            call!(self.cuDeviceGetUuid_v2?(&raw mut uuid, ordinal))?;
        } else {
            call!(self.cuDeviceGetUuid(&raw mut uuid, ordinal))?;
        }
        Ok(uuid)
    }

    /// A text about an error, which a function writes.
    fn error_text(
        &self,
        code: Code,
        function: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int,
    ) -> String {
        let mut text: *const c_char = std::ptr::null();
        // SAFETY: any number is looked up, and the text's place is our own.
        let found = unsafe { function(code.number, &raw mut text) };
        if found != 0 || text.is_null() {
            return String::new();
        }
        // SAFETY: not NULL, and a text that lives as long as the driver.
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

impl Vendor for Cuda {
    const DESCRIPTION: &'static str = describe!(
        name = "cuda",
        vendor = "Crossdock",
        devices = "cuda,cuda_host,cuda_managed",
        driver = "libcuda.so.1"
    );
    const LIBRARY: &'static str = LIBRARY;
    const DEVICE_TYPE: DeviceType = DeviceType::CUDA;
    const PINNED_TYPE: DeviceType = DeviceType::CUDA_HOST;
    const MANAGED_TYPE: Option<DeviceType> = Some(DeviceType::CUDA_MANAGED);
    const DEFAULT_STREAM: u64 = 1;
    const DEFAULT_STREAMS: &'static [u64] = &[0, 1];
    const PER_THREAD_DEFAULT_STREAM: u64 = 2;
    const WIDEST_WITH_GAPS: u64 = 4;

    fn load() -> Result<Self, Unusable> {
        Functions::load().map(Self)
    }

    fn start(&self) -> Answer {
        call!(self.cuInit(0))
    }

    fn version(&self) -> Answer<Result<String, Unusable>> {
        let mut number = 0;
        call!(self.cuDriverGetVersion(&raw mut number))?;
        let (has, needs) = (
            codes::version_text(number),
            codes::version_text(codes::OLDEST),
        );
        if number < codes::OLDEST {
            return Ok(Err(Unusable::TooOld(format!(
                "the driver is for CUDA {has}, and this plugin needs one for {needs} or newer; \
                 update the driver"
            ))));
        }
        Ok(Ok(has))
    }

    fn error_kind(code: Code) -> ErrorKind {
        codes::error_kind(code)
    }

    fn name_and_text(&self, code: Code) -> (String, String) {
        let name = self.error_text(code, self.0.cuGetErrorName);
        (name, self.error_text(code, self.0.cuGetErrorString))
    }

    fn count(&self) -> Answer<u32> {
        let mut count = 0;
        call!(self.cuDeviceGetCount(&raw mut count))?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    fn facts(&self, ordinal: i32) -> Answer<Facts> {
        let mut name: [c_char; 128] = [0; 128];
        call!(self.cuDeviceGetName(name.as_mut_ptr(), 128, ordinal))?;
        let mut bus: [c_char; 32] = [0; 32];
        // An instance of a device (MIG) may have none.
        let bus_id = call!(self.cuDeviceGetPCIBusId(bus.as_mut_ptr(), 32, ordinal));
        let mut total = 0;
        call!(self.cuDeviceTotalMem_v2(&raw mut total, ordinal))?;
        let pitch = self.attribute_of(ordinal, device::MAX_PITCH).unwrap_or(0);
        let pitch = u64::try_from(pitch).ok().filter(|pitch| *pitch > 0);
        Ok(Facts {
            name: text_of(&name),
            uuid: self.uuid(ordinal)?,
            pci_bus_id: bus_id.map_or_else(|_| String::new(), |()| text_of(&bus)),
            total_memory: total as u64,
            has_pools: self.0.have_pools() && self.is(ordinal, device::MEMORY_POOLS_SUPPORTED),
            has_managed: self.is(ordinal, device::MANAGED_MEMORY)
                && self.is(ordinal, device::CONCURRENT_MANAGED_ACCESS),
            has_wait_value32: self.0.cuStreamWaitValue32_v2.is_some(),
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
        let mut context = 0;
        call!(self.cuDevicePrimaryCtxRetain(&raw mut context, ordinal))?;
        Ok(context)
    }

    fn release(&self, ordinal: i32) -> Answer {
        call!(self.cuDevicePrimaryCtxRelease_v2(ordinal))
    }

    fn enter(&self, _ordinal: i32, context: u64) -> Answer<u64> {
        call!(self.cuCtxPushCurrent_v2(context))?;
        Ok(context)
    }

    fn leave(&self, _before: u64) {
        let mut context = 0;
        // It fails only where other code took the context off this thread.
        let _left = call!(self.cuCtxPopCurrent_v2(&raw mut context));
    }

    fn relax_capture_mode(&self) -> Option<i32> {
        let mut mode = codes::RELAXED;
        let exchanged = call!(self.cuThreadExchangeStreamCaptureMode(&raw mut mode));
        exchanged.ok().map(|()| mode)
    }

    fn restore_capture_mode(&self, before: i32) {
        let mut mode = before;
        // A number that the driver gave.
        let _exchanged = call!(self.cuThreadExchangeStreamCaptureMode(&raw mut mode));
    }

    fn memory_info(&self) -> Answer<(u64, u64)> {
        let (mut free, mut total) = (0, 0);
        call!(self.cuMemGetInfo_v2(&raw mut free, &raw mut total))?;
        Ok((free as u64, total as u64))
    }

    fn allocate(&self, bytes: u64) -> Answer<u64> {
        let mut address = 0;
        call!(self.cuMemAlloc_v2(&raw mut address, size(bytes)))?;
        Ok(address)
    }

    fn allocate_pinned(&self, bytes: u64) -> Answer<u64> {
        let mut address = 0;
        call!(self.cuMemHostAlloc(&raw mut address, size(bytes), flags::PORTABLE_MAPPED))?;
        Ok(address)
    }

    fn allocate_managed(&self, bytes: u64) -> Answer<u64> {
        let mut address = 0;
        call!(self.cuMemAllocManaged(&raw mut address, size(bytes), flags::ATTACH_GLOBAL))?;
        Ok(address)
    }

    unsafe fn free(&self, address: u64, kind: Kind) -> Answer {
        match kind {
            Kind::Pinned => call!(self.cuMemFreeHost(address)),
            Kind::Device | Kind::Managed => call!(self.cuMemFree_v2(address)),
        }
    }

    unsafe fn register_host(&self, address: u64, bytes: u64) -> Answer {
        let lock = |flags| call!(self.cuMemHostRegister_v2(address, size(bytes), flags));
        match lock(flags::PORTABLE_MAPPED) {
            // Pages that the process may only read (a mapped file) can be locked with this flag alone.
            Err(Code {
                number: 1 | 800, ..
            }) => lock(flags::PORTABLE_MAPPED | flags::READ_ONLY),
            locked => locked,
        }
    }

    unsafe fn unregister_host(&self, address: u64) -> Answer {
        call!(self.cuMemHostUnregister(address))
    }

    fn create_pool(&self, ordinal: i32, keep: u64) -> Answer<u64> {
        let (mut made, mut keep, properties) = (0, keep, PoolProperties::of(ordinal));
        call!(self.cuMemPoolCreate?(&raw mut made, &raw const properties))?;
        let key = pool::RELEASE_THRESHOLD;
        let kept = call!(self.cuMemPoolSetAttribute?(made, key, &raw mut keep));
        // By default an allocation may make its stream wait for another one, which may wait for the host.
        let (key, mut no) = (pool::REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0);
        let set = kept.and_then(|()| call!(self.cuMemPoolSetAttribute?(made, key, &raw mut no)));
        if set.is_err() {
            let _gone = self.destroy_pool(made);
        }
        set.map(|()| made)
    }

    fn destroy_pool(&self, pool: u64) -> Answer {
        call!(self.cuMemPoolDestroy?(pool))
    }

    fn trim_pool(&self, pool: u64, reserved: u64) -> Answer {
        call!(self.cuMemPoolTrimTo?(pool, size(reserved)))
    }

    fn pool_bytes(&self, pool: u64) -> Answer<PoolBytes> {
        let ask = |key| {
            let mut bytes = 0;
            call!(self.cuMemPoolGetAttribute?(pool, key, &raw mut bytes))?;
            Ok(bytes)
        };
        Ok(PoolBytes {
            reserved: ask(pool::RESERVED_MEM_CURRENT)?,
            peak_reserved: ask(pool::RESERVED_MEM_HIGH)?,
        })
    }

    fn reset_pool_peak(&self, pool: u64) -> Answer {
        let mut nothing = 0;
        call!(self.cuMemPoolSetAttribute?(
            pool,
            pool::RESERVED_MEM_HIGH,
            &raw mut nothing
        ))
    }

    fn allocate_on(&self, pool: u64, bytes: u64, stream: u64) -> Answer<u64> {
        let mut address = 0;
        call!(self.cuMemAllocFromPoolAsync?(
            &raw mut address,
            size(bytes),
            pool,
            stream
        ))?;
        Ok(address)
    }

    unsafe fn free_on(&self, address: u64, stream: u64) -> Answer {
        call!(self.cuMemFreeAsync?(address, stream))
    }

    fn can_reach(&self, ordinal: i32, peer: i32) -> Answer<bool> {
        self.reaches(ordinal, peer)
    }

    fn enable_peer(&self, context: u64) -> Answer<bool> {
        self.reach(context)
    }

    fn disable_peer(&self, context: u64) -> Answer {
        self.reach_no_more(context)
    }

    fn share_pool(&self, pool: u64, ordinal: i32, is_shared: bool) -> Answer {
        self.open_pool(pool, ordinal, is_shared)
    }

    fn create_stream(&self) -> Answer<u64> {
        let mut stream = 0;
        call!(self.cuStreamCreate(&raw mut stream, flags::NON_BLOCKING))?;
        Ok(stream)
    }

    fn destroy_stream(&self, stream: u64) -> Answer {
        call!(self.cuStreamDestroy_v2(stream))
    }

    fn query_stream(&self, stream: u64) -> Answer {
        call!(self.cuStreamQuery(stream))
    }

    fn synchronize_stream(&self, stream: u64) -> Answer {
        call!(self.cuStreamSynchronize(stream))
    }

    fn wait_event(&self, stream: u64, event: u64) -> Answer {
        call!(self.cuStreamWaitEvent(stream, event, 0))
    }

    unsafe fn wait_value32(&self, stream: u64, address: u64, value: u32) -> Answer {
        call!(self.cuStreamWaitValue32_v2?(
            stream,
            address,
            value,
            flags::AT_LEAST
        ))
    }

    unsafe fn call(&self, stream: u64, function: HostFunction, user_data: *mut c_void) -> Answer {
        call!(self.cuLaunchHostFunc(stream, Some(function), user_data))
    }

    unsafe fn context_of(&self, stream: u64) -> Answer<(u64, i32)> {
        let mut context = 0;
        call!(self.cuStreamGetCtx(stream, &raw mut context))?;
        let before = self.enter(0, context)?;
        let mut ordinal = 0;
        let told = call!(self.cuCtxGetDevice(&raw mut ordinal));
        self.leave(before);
        told.map(|()| (context, ordinal))
    }

    fn is_capturing(&self, stream: u64) -> Answer<bool> {
        let mut status = 0;
        call!(self.cuStreamIsCapturing(stream, &raw mut status))?;
        Ok(status != 0)
    }

    fn create_event(&self) -> Answer<u64> {
        let mut event = 0;
        call!(self.cuEventCreate(&raw mut event, 0))?;
        Ok(event)
    }

    fn destroy_event(&self, event: u64) -> Answer {
        call!(self.cuEventDestroy_v2(event))
    }

    fn record(&self, event: u64, stream: u64) -> Answer {
        call!(self.cuEventRecord(event, stream))
    }

    fn query_event(&self, event: u64) -> Answer {
        call!(self.cuEventQuery(event))
    }

    fn synchronize_event(&self, event: u64) -> Answer {
        call!(self.cuEventSynchronize(event))
    }

    fn elapsed(&self, start: u64, end: u64) -> Answer<f32> {
        let mut milliseconds = 0.0;
        call!(self.cuEventElapsedTime(&raw mut milliseconds, start, end))?;
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
        let bytes = size(bytes);
        match direction {
            CopyDirection::HostToDevice => {
                call!(self.cuMemcpyHtoDAsync_v2(dst, src, bytes, stream))
            }
            CopyDirection::DeviceToHost => {
                call!(self.cuMemcpyDtoHAsync_v2(dst, src, bytes, stream))
            }
            CopyDirection::DeviceToDevice => {
                call!(self.cuMemcpyDtoDAsync_v2(dst, src, bytes, stream))
            }
            CopyDirection::HostToHost => call!(self.cuMemcpyAsync(dst, src, bytes, stream)),
        }
    }

    unsafe fn copy_across(
        &self,
        (dst, to, _): (u64, u64, i32),
        (src, from, _): (u64, u64, i32),
        bytes: u64,
        stream: u64,
    ) -> Answer {
        call!(self.cuMemcpyPeerAsync(dst, to, src, from, size(bytes), stream))
    }

    unsafe fn copy_rows(&self, region: &Region, stream: u64) -> Answer {
        let (dst, src) = (&region.dst, &region.src);
        let (width, height) = (size(region.width), size(region.height));
        if region.depth == 1 {
            let rows = RowsCopy {
                src: RowsSide::new(src.address, src.is_host, size(src.pitch)),
                dst: RowsSide::new(dst.address, dst.is_host, size(dst.pitch)),
                width,
                height,
            };
            return call!(self.cuMemcpy2DAsync_v2(&raw const rows, stream));
        }
        let (from, to) = (
            (size(src.pitch), size(src.rows)),
            (size(dst.pitch), size(dst.rows)),
        );
        let planes = Planes {
            src: PlanesSide::new(src.address, src.is_host, from.0, from.1),
            dst: PlanesSide::new(dst.address, dst.is_host, to.0, to.1),
            width,
            height,
            depth: size(region.depth),
        };
        call!(self.cuMemcpy3DAsync_v2(&raw const planes, stream))
    }

    unsafe fn fill(&self, column: &Column, stream: u64) -> Answer {
        let [first, second, ..] = column.value.to_le_bytes();
        let short = u16::from_le_bytes([first, second]);
        let (at, word) = (column.address, column.value);
        let (count, pitch) = (size(column.count), size(column.pitch));
        match (column.unit, column.pitch == column.unit) {
            (1, true) => call!(self.cuMemsetD8Async(at, first, count, stream)),
            (2, true) => call!(self.cuMemsetD16Async(at, short, count, stream)),
            (_, true) => call!(self.cuMemsetD32Async(at, word, count, stream)),
            (1, false) => call!(self.cuMemsetD2D8Async(at, pitch, first, 1, count, stream)),
            (2, false) => call!(self.cuMemsetD2D16Async(at, pitch, short, 1, count, stream)),
            (_, false) => call!(self.cuMemsetD2D32Async(at, pitch, word, 1, count, stream)),
        }
    }
}
