//! The calls in C that take memory in, and those that ask.
#![expect(unsafe_code, reason = "calls what a program in C calls")]

use std::ffi::c_void;

use crossdock_api::{
    Order, Owned, Ref, XdDevice, XdEmptyOptions, XdExportOptions, XdImportOptions, XdLayout,
    XdMemory, XdMoveOptions, XdStream, XdTensor,
};
use crossdock_sdk::abi::{Capabilities, DeviceInfo, MemoryKind};
use crossdock_sdk::dlpack::DLManagedTensor;

use crate::caller::{Failed, Outcome, Stop};
use crate::handles::{Handle, Managed, check, described, made, written, xd};
use crate::in_c::InC;

impl InC {
    pub(crate) fn import(&self, managed: Managed) -> Result<Handle<XdTensor>, Stop> {
        let runtime = self.table.runtime.lend();
        // SAFETY: a live managed tensor, given up here.
        made(|out| unsafe { xd!(tensor_import)(runtime, managed.into_raw(), Ref::NULL, out) })
    }

    /// Hands a tensor out as DLPack 0.x, in a stream's order, and takes it in again.
    pub(crate) fn draft(&self, of: usize, s: usize) -> Result<Handle<XdTensor>, Stop> {
        let mut options = XdExportOptions::new();
        (options.order, options.stream) = (Order::STREAM, self.stream(s)?);
        let tensor = self.tensor(of)?;
        let managed: *mut DLManagedTensor = written(std::ptr::null_mut(), |out| {
            xd!(tensor_export_legacy)(tensor, (&options).into(), out)
        })?;
        let runtime = self.table.runtime.lend();
        let mut taking = XdImportOptions::new();
        taking.stream = self.stream(s)?;
        // SAFETY: a live managed tensor, given up here.
        made(|out| unsafe { xd!(tensor_import_legacy)(runtime, managed, (&taking).into(), out) })
    }

    /// Takes the memory of a tensor once more, which work on a stream is said to write.
    pub(crate) fn take(&self, of: usize, s: usize, native: bool) -> Result<Handle<XdTensor>, Stop> {
        let (tensor, info, stream) = (self.tensor(of)?, self.info(of)?, self.stream(s)?);
        let layout =
            XdLayout::strided(info.dtype, info.shape(), info.strides()).ok_or(Stop::Empty)?;
        let data = std::ptr::with_exposed_provenance_mut(info.data as usize);
        let mut memory = XdMemory::new(info.device, data, layout);
        memory.byte_offset = info.byte_offset;
        memory.owner = xd!(tensor_retain)(tensor).into_raw().cast();
        memory.release = Some(release);
        memory.stream = stream;
        let runtime = self.table.runtime.lend();
        made(|out| {
            if native {
                // SAFETY: the owner keeps the memory, and is released once.
                return unsafe { xd!(tensor_adopt_native)(runtime, (&memory).into(), out) };
            }
            // SAFETY: as above.
            unsafe { xd!(tensor_from_memory)(runtime, (&memory).into(), out) }
        })
    }

    /// What a move would do is said at once, whatever its stream waits for.
    pub(crate) fn explain(&self, of: usize, device: usize, s: usize) -> Result<(), Stop> {
        let mut options = XdMoveOptions::new();
        options.stream = self.stream(s)?;
        let (tensor, info) = (self.tensor(of)?, self.info(of)?);
        let to = self.table.devices[device].lend();
        let from = made(|out| xd!(tensor_device)(tensor, out))?;
        made(|out| xd!(tensor_explain)(tensor, to, (&options).into(), out))?;
        let layout = XdLayout::compact(info.dtype, info.shape());
        let (layout, options) = (Ref::from(&layout), Ref::from(&options));
        made(|out| xd!(route_explain)(from.lend(), to, layout, options, out))?;
        Ok(())
    }

    /// What a stream is: answered at once, whatever it waits for.
    pub(crate) fn ask(&self, s: usize) -> Result<Outcome, Stop> {
        let stream = self.stream(s)?;
        let device = made(|out| xd!(stream_device)(stream, out))?;
        let retained = Handle::new(xd!(stream_retain)(stream));
        let idle = written(0, |out| xd!(stream_is_idle)(stream, out))?;
        let mut same = vec![retained];
        // Not every plugin's streams have a native handle.
        let native = written(0, |out| xd!(stream_native_handle)(stream, out)).ok();
        if let Some(native) = native {
            same.push(made(|out| xd!(stream_find)(device.lend(), native, out))?);
            // SAFETY: the handle of a live stream, on which nobody puts work meanwhile.
            same.push(made(|out| unsafe {
                xd!(stream_wrap)(device.lend(), native, out)
            })?);
        }
        for same in &same {
            if same.is_null() || xd!(stream_equal)(stream, same.lend()) != 1 {
                let why = "a stream is not found by its native handle".to_owned();
                return Err(Stop::Failed(Failed::other(why)));
            }
        }
        Ok(Outcome::Idle(idle != 0))
    }
}

/// Gives back the tensor that lent its memory.
unsafe extern "C" fn release(owner: *mut c_void) {
    // SAFETY: `take` made it of a share of a tensor, and it comes back once.
    let tensor = unsafe { Owned::<XdTensor>::from_raw(owner.cast()) };
    (crossdock_capi::api().tensor_free)(tensor);
}

/// A copy in memory that is allocated for it: in the stream's order, or else pinned where the device has that.
pub(crate) fn into_own(
    source: Ref<'_, XdTensor>,
    device: Ref<'_, XdDevice>,
    stream: Ref<'_, XdStream>,
) -> Result<Handle<XdTensor>, Stop> {
    let info = described(source)?;
    let layout = XdLayout::compact(info.dtype, info.shape());
    let mut options = XdEmptyOptions::new();
    if stream.is_null() {
        // SAFETY: numbers, all of which may be zero.
        let empty: DeviceInfo = unsafe { std::mem::zeroed() };
        let about = written(empty, |out| xd!(device_describe)(device, out))?;
        if about.capabilities.contains(Capabilities::PINNED) {
            options.kind = MemoryKind::PINNED;
        }
    } else {
        let own = made(|out| xd!(stream_device)(stream, out))?;
        if xd!(device_equal)(own.lend(), device) != 0 {
            options.stream = stream;
        }
    }
    let own = made(|out| xd!(tensor_empty)(device, (&layout).into(), (&options).into(), out))?;
    check(xd!(tensor_copy_from)(own.lend(), source, stream))?;
    Ok(own)
}
