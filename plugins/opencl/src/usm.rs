//! Unified shared memory of Intel's extension: one address for host and device, which the driver
//! can be asked about, also when others allocated it in the same context.
#![expect(
    unsafe_code,
    reason = "the functions of an extension are looked up by name"
)]

use std::{
    env,
    ffi::{CStr, CString, c_char, c_void},
    ptr::{NonNull, null, null_mut},
};

use crossdock_sdk::abi::MemoryKind;

use crate::{
    device::{Device, DeviceId},
    fault::{Fault, Kind},
    handle::Context,
};

/// The extension's functions of one platform.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usm {
    host: HostAllocate,
    shared: SharedAllocate,
    free: Free,
    info: Info,
    copy: CopyBytes,
    fill: FillBytes,
}

/// What the driver says about an address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) kind: MemoryKind,
    pub(crate) base: u64,
    pub(crate) size: u64,
    /// None for host memory, which belongs to all devices of the context.
    pub(crate) device: Option<DeviceId>,
}

impl Usm {
    /// Looks the functions up; none where one is missing.
    pub(crate) fn of(platform: *mut c_void) -> Option<Self> {
        let lookup = lookup()?;
        // SAFETY: `function` needs the function's type: the field has the one that the extension's
        // text declares (cl_intel_unified_shared_memory, "New API Functions").
        let host = unsafe { function(lookup, platform, c"clHostMemAllocINTEL") }?;
        // SAFETY: as above.
        let shared = unsafe { function(lookup, platform, c"clSharedMemAllocINTEL") }?;
        // SAFETY: as above.
        let free = unsafe { function(lookup, platform, c"clMemBlockingFreeINTEL") }?;
        // SAFETY: as above.
        let info = unsafe { function(lookup, platform, c"clGetMemAllocInfoINTEL") }?;
        // SAFETY: as above.
        let copy = unsafe { function(lookup, platform, c"clEnqueueMemcpyINTEL") }?;
        // SAFETY: as above.
        let fill = unsafe { function(lookup, platform, c"clEnqueueMemFillINTEL") }?;
        Some(Self {
            host,
            shared,
            free,
            info,
            copy,
            fill,
        })
    }

    /// Host memory that every device of the context reaches.
    pub(crate) fn allocate_host(
        &self,
        device: &Device,
        bytes: usize,
    ) -> Result<NonNull<c_void>, Fault> {
        let context = device.context().raw();
        let mut code = 0;
        // SAFETY: `clHostMemAllocINTEL` needs a live context, and a place for its code.
        let raw = unsafe { (self.host)(context, null(), bytes, 0, &raw mut code) };
        given(raw, code, "clHostMemAllocINTEL")
    }

    /// Memory that moves between the host and the device.
    pub(crate) fn allocate_shared(
        &self,
        device: &Device,
        bytes: usize,
    ) -> Result<NonNull<c_void>, Fault> {
        let (context, id) = (device.context().raw(), device.id.raw());
        let mut code = 0;
        // SAFETY: `clSharedMemAllocINTEL` needs a device of a live context, and a place for its
        // code.
        let raw = unsafe { (self.shared)(context, id, null(), bytes, 0, &raw mut code) };
        given(raw, code, "clSharedMemAllocINTEL")
    }

    /// Frees what was allocated, after the commands that use it.
    ///
    /// # Safety
    /// `pointer` was allocated here in this context, and is not used afterwards.
    pub(crate) unsafe fn free(
        &self,
        context: &Context,
        pointer: NonNull<c_void>,
    ) -> Result<(), Fault> {
        // SAFETY: as the caller promises; the context is live.
        match unsafe { (self.free)(context.raw(), pointer.as_ptr()) } {
            0 => Ok(()),
            code => Err(Fault::native("clMemBlockingFreeINTEL", code)),
        }
    }

    /// Copies between addresses of the host and of this memory.
    ///
    /// # Safety
    /// A live queue, and `bytes` usable bytes at both addresses until the command is done.
    pub(crate) unsafe fn copy(
        &self,
        queue: *mut c_void,
        dst: *mut c_void,
        src: *const c_void,
        bytes: usize,
    ) -> Result<*mut c_void, i32> {
        let mut command_event = null_mut();
        // SAFETY: as the caller promises; no wait list, and a place for the event.
        let code =
            unsafe { (self.copy)(queue, 0, dst, src, bytes, 0, null(), &raw mut command_event) };
        if code == 0 {
            Ok(command_event)
        } else {
            Err(code)
        }
    }

    /// Repeats a pattern over this memory.
    ///
    /// # Safety
    /// A live queue, and `bytes` usable bytes at `dst` until the command is done: a multiple of the
    /// pattern's length, on a multiple of that.
    pub(crate) unsafe fn fill(
        &self,
        queue: *mut c_void,
        dst: *mut c_void,
        pattern: &[u8],
        bytes: usize,
    ) -> Result<*mut c_void, i32> {
        let (mut command_event, length) = (null_mut(), pattern.len());
        let pattern = pattern.as_ptr().cast();
        let out = &raw mut command_event;
        // SAFETY: as the caller promises; the driver takes the pattern during the call, no wait list,
        // and a place for the event.
        let code = unsafe { (self.fill)(queue, dst, pattern, length, bytes, 0, null(), out) };
        if code == 0 {
            Ok(command_event)
        } else {
            Err(code)
        }
    }

    /// Whose memory an address is; none where this context has no such memory there.
    pub(crate) fn look(&self, context: &Context, address: u64) -> Option<Found> {
        context
            .driver_state()
            .check("clGetMemAllocInfoINTEL")
            .ok()?;
        let kind = match self.fact::<u32>(context, address, TYPE)? {
            HOST => MemoryKind::PINNED,
            DEVICE => MemoryKind::DEVICE,
            SHARED => MemoryKind::MANAGED,
            _ => return None,
        };
        let owner = self.fact::<usize>(context, address, OWNER).unwrap_or(0);
        Some(Found {
            kind,
            base: u64::try_from(self.fact::<usize>(context, address, BASE)?).ok()?,
            size: u64::try_from(self.fact::<usize>(context, address, SIZE)?).ok()?,
            device: (owner != 0)
                .then(|| DeviceId::new(std::ptr::with_exposed_provenance_mut(owner))),
        })
    }

    fn fact<T: Whole>(&self, context: &Context, address: u64, which: u32) -> Option<T> {
        let pointer = std::ptr::with_exposed_provenance(usize::try_from(address).ok()?);
        let mut value = T::default();
        let place = (&raw mut value).cast();
        let size = size_of::<T>();
        // SAFETY: `clGetMemAllocInfoINTEL` needs a live context, and `size` bytes for its answer.
        // It takes any address: one that is not its own is of unknown type.
        let code = unsafe { (self.info)(context.raw(), pointer, which, size, place, null_mut()) };
        (code == 0).then_some(value)
    }
}

/// A number of which every pattern of bytes is a value.
trait Whole: Default + Copy {}
impl Whole for u32 {}
impl Whole for usize {}

fn given(raw: *mut c_void, code: i32, operation: &'static str) -> Result<NonNull<c_void>, Fault> {
    if code != 0 {
        return Err(Fault::native(operation, code));
    }
    let nothing = || {
        Fault::new(
            Kind::OutOfDeviceMemory,
            operation,
            "the driver gave no memory",
        )
    };
    NonNull::new(raw).ok_or_else(nothing)
}

/// The loader's own way to a platform's functions; the loader is open already.
fn lookup() -> Option<Lookup> {
    let chosen = env::var("OPENCL_DYLIB_PATH").unwrap_or_default();
    let names = chosen.split(';').filter(|name| !name.is_empty());
    names
        .chain(["libOpenCL.so.1", "libOpenCL.so"])
        .find_map(|name| {
            let name = CString::new(name).ok()?;
            // SAFETY: `dlopen` needs a text; with RTLD_NOLOAD it runs no code of the library.
            let library =
                unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
            let library = NonNull::new(library)?;
            let symbol = c"clGetExtensionFunctionAddressForPlatform";
            // SAFETY: `dlsym` needs an open library: `library` is, and is never closed.
            let found = unsafe { libc::dlsym(library.as_ptr(), symbol.as_ptr()) };
            // SAFETY: `as_function` needs the function's type: OpenCL 1.2, section 9.2.
            unsafe { as_function(found) }
        })
}

/// # Safety
/// `T` is the type of the function with this name.
unsafe fn function<T: Copy>(lookup: Lookup, platform: *mut c_void, name: &CStr) -> Option<T> {
    // SAFETY: the lookup needs a live platform, which are never freed, and a text.
    let found = unsafe { lookup(platform, name.as_ptr()) };
    // SAFETY: as the caller promises.
    unsafe { as_function(found) }
}

/// # Safety
/// `address` is null or a function of the type `T`, a pointer to a function.
unsafe fn as_function<T: Copy>(address: *mut c_void) -> Option<T> {
    const { assert!(size_of::<T>() == size_of::<*mut c_void>()) };
    if address.is_null() {
        return None;
    }
    // SAFETY: a pointer to a function has the size and form of its address on this system.
    Some(unsafe { std::ptr::from_ref(&address).cast::<T>().read() })
}

type Lookup = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
type HostAllocate =
    unsafe extern "C" fn(*mut c_void, *const u64, usize, u32, *mut i32) -> *mut c_void;
type SharedAllocate =
    unsafe extern "C" fn(*mut c_void, *mut c_void, *const u64, usize, u32, *mut i32) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void, *mut c_void) -> i32;
type Info =
    unsafe extern "C" fn(*mut c_void, *const c_void, u32, usize, *mut c_void, *mut usize) -> i32;
type CopyBytes = unsafe extern "C" fn(
    *mut c_void,
    u32,
    *mut c_void,
    *const c_void,
    usize,
    u32,
    *const *mut c_void,
    *mut *mut c_void,
) -> i32;

type FillBytes = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    *const c_void,
    usize,
    usize,
    u32,
    *const *mut c_void,
    *mut *mut c_void,
) -> i32;

// The extension's numbers.
const TYPE: u32 = 0x419a;
const BASE: u32 = 0x419b;
const SIZE: u32 = 0x419c;
const OWNER: u32 = 0x419d;
const HOST: u32 = 0x4197;
const DEVICE: u32 = 0x4198;
const SHARED: u32 = 0x4199;
