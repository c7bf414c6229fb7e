//! Streams of other libraries that were dropped here while their work runs: the objects that keep them alive are kept
//! until that work is over.
//!
//! There is one entry for each stream. A byte of host memory that the stream's work uses is dropped with it, so the
//! runtime releases the entry by a completion, as it releases any memory, and `wait_for_releases` waits for that.
#![expect(unsafe_code, reason = "gives the runtime memory to release")]

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crossdock_api::{
    DLDataType, DLDevice, Out, Owned, XdLayout, XdMemory, XdStream, XdTensor, fence,
};
use pyo3::prelude::*;

use crate::interpreter::attached::detached;
use crate::link::error::check;
use crate::link::handle::{Handle, made, written};
use crate::link::process_runtime::runtime;
use crate::link::table::api;
use crate::managed::py_owner::{self, count_leak};

/// A device and the integer that its vendor uses for a stream.
pub(crate) type Name = (i32, i32, u64);

/// A stream with work, and all objects that were given for it.
struct Busy {
    handle: Handle<XdStream>,
    /// By their addresses.
    natives: HashMap<usize, Py<PyAny>>,
    /// Whether the present end of its work is recorded, behind which the entry is released.
    recorded: bool,
    /// Whether the stream was used after that.
    used_again: bool,
}

static BUSY: LazyLock<Mutex<HashMap<Name, Busy>>> = LazyLock::new(Mutex::default);

/// The memory that a stream's work uses.
static BYTE: u8 = 0;
const CPU: DLDevice = DLDevice {
    device_type: 1,
    device_id: 0,
};
const UINT8: DLDataType = DLDataType {
    code: 1,
    bits: 8,
    lanes: 1,
};

fn busy() -> MutexGuard<'static, HashMap<Name, Busy>> {
    BUSY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the object of a stream back once the stream's work is over.
pub(crate) fn give_back_when_done(name: Name, handle: Handle<XdStream>, native: Py<PyAny>) {
    let idle = written(|out| (api().stream_is_idle)(handle.lend(), out));
    // A stream that cannot say so may still have work.
    if idle.is_ok_and(|idle| idle != 0) {
        return;
    }
    let mut streams = busy();
    let is_new = !streams.contains_key(&name);
    let stream = streams.entry(name).or_insert_with(|| Busy {
        handle,
        natives: HashMap::new(),
        recorded: false,
        used_again: false,
    });
    stream.used_again = !is_new;
    let known = stream.natives.insert(native.as_ptr().addr(), native);
    drop(streams);
    // The entry has the object once more, so that this runs no code of Python.
    drop(known);
    if is_new {
        release_behind_work(name);
    }
}

/// Has the entry of a stream released behind the work that the stream has now. An entry whose stream records no end
/// is leaked and counted, because its work may go on.
fn release_behind_work(name: Name) {
    let recorded = Python::attach(|py| {
        let memory = entered(py, name).ok()?;
        let stream = busy().get(&name).map(|stream| {
            let stream = stream.handle.lend();
            Handle::new((api().stream_retain)(stream))
        })?;
        let use_it = || check((api().tensor_used_on)(memory.lend(), stream.lend()));
        detached(py, use_it).ok()?;
        busy().get_mut(&name)?.recorded = true;
        Some(())
    });
    if recorded.is_none()
        && let Some(stream) = busy().remove(&name)
    {
        count_leak();
        let _leaked = std::mem::ManuallyDrop::new(stream);
    }
}

/// Memory that gives the entry of a stream up when the runtime releases it.
fn entered(py: Python<'_>, name: Name) -> PyResult<Handle<XdTensor>> {
    let runtime = runtime(py)?;
    let byte = (&raw const BYTE).cast_mut().cast();
    let mut memory = XdMemory::new(CPU, byte, XdLayout::compact(UINT8, &[1]));
    memory.owner = Box::into_raw(Box::new(Entry(name))).cast();
    memory.release = Some(release);
    // SAFETY: a static byte, which nothing writes; `release` fits the owner.
    let call = |out: Out<'_, Owned<XdTensor>>| unsafe {
        (api().tensor_from_memory)(runtime.lend(), (&memory).into(), out)
    };
    Ok(made(call)?)
}

/// Called by the runtime once, on any thread.
unsafe extern "C" fn release(owner: *mut c_void) {
    let drop_one = || {
        // SAFETY: the box of `entered`, which is given back once.
        drop(unsafe { Box::from_raw(owner.cast::<Entry>()) });
    };
    let _caught = fence(|| py_owner::give_back(drop_one));
}

/// Dropped by the runtime once the recorded work is over.
struct Entry(Name);

impl Drop for Entry {
    fn drop(&mut self) {
        let mut streams = busy();
        let Some(stream) = streams.get_mut(&self.0).filter(|stream| stream.recorded) else {
            return;
        };
        if stream.used_again {
            (stream.recorded, stream.used_again) = (false, false);
            drop(streams);
            return release_behind_work(self.0);
        }
        let ended = streams.remove(&self.0);
        // Neither hooks nor Python run under the lock.
        drop(streams);
        drop(ended);
    }
}
