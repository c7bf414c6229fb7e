//! The functions of a vendor's driver that another library in the process calls.
#![expect(unsafe_code, reason = "calls functions of a library that is open")]

use std::ffi::c_int;

use libloading::os::unix::Library;

use crate::driver;

/// What a driver answers: its number where it refuses.
pub(crate) type Answer<T = ()> = Result<T, c_int>;

/// Of a thread's own capture mode: its calls end no capture of others.
const RELAXED: c_int = 2;
/// Of streams: they do not wait for the default one. Of events: they note no time.
const NON_BLOCKING: u32 = 1;
const DISABLE_TIMING: u32 = 2;
/// What captured work writes.
const FILLED: u8 = 0x5a;
/// How both vendors number a copy whose ends the driver finds out.
const ANY_WAY: c_int = 4;

/// A simulated driver, as one of its two vendors has it.
#[derive(Debug)]
pub(crate) struct Vendor {
    driver: Library,
    is_hip: bool,
}

/// How often a call is made that gives something back: the first may be what is made to fail.
const TRIES: usize = 4;

/// Makes a call until it succeeds, or for the last time.
pub(crate) fn retried(call: impl Fn() -> Answer) -> Answer {
    let answers = (0..TRIES).map(|_| call());
    let last = answers.enumerate();
    let mut last = last.skip_while(|(at, answer)| answer.is_err() && at + 1 < TRIES);
    last.next().map_or(Ok(()), |(_, answer)| answer)
}

/// What was a thread's before a context was entered.
#[derive(Debug)]
pub(crate) struct Before {
    device: c_int,
    mode: c_int,
}

/// Calls a function by its name.
macro_rules! call {
    ($self:ident.$name:ident($($argument:expr => $type:ty),* $(,)?)) => {{
        // SAFETY: only the simulator is opened here, and it declares its functions with these types: handles as `u64`.
        let function = unsafe {
            $self.driver.get::<unsafe extern "C" fn($($type),*) -> c_int>(
                stringify!($name).as_bytes(),
            )
        };
        let function = function.expect(concat!("the simulator has ", stringify!($name)));
        // SAFETY: places for answers are the caller's own; handles and numbers are looked up, and wrong ones refused.
        match unsafe { function($($argument),*) } {
            0 => Ok(()),
            code => Err(code),
        }
    }};
}

/// Calls the function of the vendor.
macro_rules! either {
    ($self:ident, $cuda:ident, $hip:ident, $arguments:tt) => {
        match $self.is_hip {
            false => call!($self.$cuda $arguments),
            true => call!($self.$hip $arguments),
        }
    };
}

impl Vendor {
    /// That of a plugin's devices, where this process has it.
    pub(crate) fn of(plugin: &str) -> Option<Self> {
        let is_hip = match plugin {
            "cuda" => false,
            "rocm" => true,
            _ => return None,
        };
        let driver = driver::open()?;
        Some(Self { driver, is_hip })
    }

    /// Whether contexts are made: HIP has devices alone.
    pub(crate) const fn has_contexts(&self) -> bool {
        !self.is_hip
    }

    /// A context that is not the device's primary one, and that no thread has.
    pub(crate) fn create_context(&self, device: c_int) -> Answer<u64> {
        let (mut context, mut popped) = (0, 0);
        call!(self.cuCtxCreate_v2(&raw mut context => *mut u64, 0 => u32, device => c_int))?;
        call!(self.cuCtxPopCurrent_v2(&raw mut popped => *mut u64))?;
        Ok(context)
    }

    pub(crate) fn destroy_context(&self, context: u64) -> Answer {
        call!(self.cuCtxDestroy_v2(context => u64))
    }

    pub(crate) fn retain_primary(&self, device: c_int) -> Answer<u64> {
        let mut context = 0;
        call!(self.cuDevicePrimaryCtxRetain(&raw mut context => *mut u64, device => c_int))?;
        Ok(context)
    }

    pub(crate) fn release_primary(&self, device: c_int) -> Answer {
        call!(self.cuDevicePrimaryCtxRelease_v2(device => c_int))
    }

    /// Makes a context, or a device, the thread's current one; the device before it.
    pub(crate) fn push(&self, context: u64, device: c_int) -> Answer<c_int> {
        let mut before = 0;
        if self.is_hip {
            call!(self.hipGetDevice(&raw mut before => *mut c_int))?;
            call!(self.hipSetDevice(device => c_int))?;
        } else {
            call!(self.cuCtxPushCurrent_v2(context => u64))?;
        }
        Ok(before)
    }

    /// Undoes [`Vendor::push`]; what was current until now.
    pub(crate) fn pop(&self, before: c_int) -> Answer<u64> {
        let (mut device, mut context) = (0, 0);
        if !self.is_hip {
            call!(self.cuCtxPopCurrent_v2(&raw mut context => *mut u64))?;
            return Ok(context);
        }
        call!(self.hipGetDevice(&raw mut device => *mut c_int))?;
        call!(self.hipSetDevice(before => c_int))?;
        Ok(device as u64)
    }

    /// Enters a context for some calls, which no capture forbids.
    pub(crate) fn enter(&self, context: u64, device: c_int) -> Answer<Before> {
        let device = self.push(context, device)?;
        let mode = self.exchange_mode(RELAXED);
        Ok(Before { device, mode })
    }

    pub(crate) fn leave(&self, before: &Before) -> Answer {
        self.exchange_mode(before.mode);
        self.pop(before.device).map(drop)
    }

    fn exchange_mode(&self, mut mode: c_int) -> c_int {
        let at = &raw mut mode;
        let exchanged = either!(
            self,
            cuThreadExchangeStreamCaptureMode,
            hipThreadExchangeStreamCaptureMode,
            (at => *mut c_int)
        );
        assert_eq!(exchanged, Ok(()), "a mode that there is");
        mode
    }

    pub(crate) fn create_stream(&self, is_blocking: bool) -> Answer<u64> {
        let (mut stream, flags) = (0, if is_blocking { 0 } else { NON_BLOCKING });
        let at = &raw mut stream;
        either!(self, cuStreamCreate, hipStreamCreateWithFlags, (at => *mut u64, flags => u32))?;
        Ok(stream)
    }

    pub(crate) fn destroy_stream(&self, stream: u64) -> Answer {
        either!(self, cuStreamDestroy_v2, hipStreamDestroy, (stream => u64))
    }

    pub(crate) fn synchronize(&self, stream: u64) -> Answer {
        either!(self, cuStreamSynchronize, hipStreamSynchronize, (stream => u64))
    }

    /// Asks whether all of a stream is over, as a library does that minds no captures.
    pub(crate) fn query(&self, stream: u64) -> Answer {
        either!(self, cuStreamQuery, hipStreamQuery, (stream => u64))
    }

    /// Device memory, of the context or in the order of a stream.
    pub(crate) fn allocate(&self, bytes: usize, on: Option<u64>) -> Answer<u64> {
        let mut address = 0;
        let at = &raw mut address;
        match on {
            None => either!(self, cuMemAlloc_v2, hipMalloc, (at => *mut u64, bytes => usize)),
            Some(stream) => either!(
                self,
                cuMemAllocAsync,
                hipMallocAsync,
                (at => *mut u64, bytes => usize, stream => u64)
            ),
        }?;
        Ok(address)
    }

    pub(crate) fn free(&self, address: u64, on: Option<u64>) -> Answer {
        match on {
            None => either!(self, cuMemFree_v2, hipFree, (address => u64)),
            Some(stream) => {
                either!(self, cuMemFreeAsync, hipFreeAsync, (address => u64, stream => u64))
            }
        }
    }

    /// Pinned memory with these bytes.
    pub(crate) fn pin(&self, bytes: &[u8]) -> Answer<u64> {
        let (mut address, count) = (0_u64, bytes.len().max(1));
        let at = &raw mut address;
        either!(
            self,
            cuMemHostAlloc,
            hipHostMalloc,
            (at => *mut u64, count => usize, 0 => u32)
        )?;
        let to = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
        // SAFETY: so many bytes of new memory, which nobody else has.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(address)
    }

    pub(crate) fn unpin(&self, address: u64) -> Answer {
        either!(self, cuMemFreeHost, hipHostFree, (address => u64))
    }

    pub(crate) fn copy(&self, to: u64, from: u64, bytes: usize, stream: u64) -> Answer {
        if self.is_hip {
            return call!(self.hipMemcpyAsync(
                to => u64, from => u64, bytes => usize, ANY_WAY => c_int, stream => u64
            ));
        }
        call!(self.cuMemcpyAsync(to => u64, from => u64, bytes => usize, stream => u64))
    }

    pub(crate) fn fill(&self, to: u64, bytes: usize, stream: u64) -> Answer {
        either!(
            self,
            cuMemsetD8Async,
            hipMemsetD8Async,
            (to => u64, FILLED => u8, bytes => usize, stream => u64)
        )
    }

    /// An event at the end of a stream.
    pub(crate) fn record(&self, stream: u64) -> Answer<u64> {
        let mut event = 0;
        let at = &raw mut event;
        either!(self, cuEventCreate, hipEventCreateWithFlags, (at => *mut u64, DISABLE_TIMING => u32))?;
        let recorded = either!(self, cuEventRecord, hipEventRecord, (event => u64, stream => u64));
        if recorded.is_err() {
            self.destroy_event(event)?;
        }
        recorded.map(|()| event)
    }

    pub(crate) fn wait(&self, stream: u64, event: u64) -> Answer {
        either!(
            self,
            cuStreamWaitEvent,
            hipStreamWaitEvent,
            (stream => u64, event => u64, 0 => u32)
        )
    }

    pub(crate) fn destroy_event(&self, event: u64) -> Answer {
        either!(self, cuEventDestroy_v2, hipEventDestroy, (event => u64))
    }

    /// Makes a call fail by a wrong argument, which HIP keeps as the thread's last error; false where nothing is kept.
    pub(crate) fn set_last_error(&self) -> bool {
        self.is_hip && call!(self.hipSetDevice(-1 => c_int)).is_err()
    }

    /// Forgets the thread's last error, where there is such a thing.
    pub(crate) fn clear_last_error(&self) -> bool {
        if self.is_hip {
            let _last = call!(self.hipGetLastError());
        }
        self.is_hip
    }

    pub(crate) fn begin_capture(&self, stream: u64, mode: c_int) -> Answer {
        either!(
            self,
            cuStreamBeginCapture_v2,
            hipStreamBeginCapture,
            (stream => u64, mode => c_int)
        )
    }

    /// Ends a capture: how much was captured.
    pub(crate) fn end_capture(&self, stream: u64) -> Answer<usize> {
        let (mut graph, mut count) = (0, 0_usize);
        let (at, counted) = (&raw mut graph, &raw mut count);
        either!(self, cuStreamEndCapture, hipStreamEndCapture, (stream => u64, at => *mut u64))?;
        either!(
            self,
            cuGraphGetNodes,
            hipGraphGetNodes,
            (graph => u64, std::ptr::null_mut() => *mut u64, counted => *mut usize)
        )?;
        either!(self, cuGraphDestroy, hipGraphDestroy, (graph => u64))?;
        Ok(count)
    }
}
