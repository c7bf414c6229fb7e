//! A tensor that was taken and found good, and that the runtime sees when somebody needs it: many a
//! tensor is only handed on.
#![expect(unsafe_code, reason = "lends memory of others, and its owner")]

use std::ffi::c_void;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::sync::{Arc, OnceLock};

use crossdock_api::{MemoryFlags, Out, Ref, XdHostArray, XdLayout, XdMemory, XdTensor, fence};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::error::Failed;
use crate::gate;
use crate::handle::{Handle, made};
use crate::incoming::{Incoming, Kind};
use crate::kept;
use crate::negotiate::HOST;
use crate::runtime::runtime;
use crate::table::api;

/// A compact array in memory of the host, with its owner.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// What it was when it was taken, whatever its producer makes of it since.
    array: XdHostArray,
    /// The owner, as long as it is the only one.
    owner: ManuallyDrop<Owner>,
    /// The same for several: this one, and what the runtime made of it.
    owners: OnceLock<Arc<Owner>>,
}

/// A tensor of a producer. In the child of a fork it is the parent's to give back, and a counted leak.
#[derive(Debug)]
struct Owner {
    incoming: ManuallyDrop<Incoming>,
    /// The generation of forks that took it.
    generation: u32,
}

impl Owner {
    fn of(incoming: Incoming, generation: u32) -> Self {
        Self {
            incoming: ManuallyDrop::new(incoming),
            generation,
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.generation != gate::generation() {
            return kept::count_leak();
        }
        // SAFETY: dropped here and nowhere else.
        unsafe { ManuallyDrop::drop(&mut self.incoming) };
    }
}

// SAFETY: the address is passed on, and nothing is read or written through it here.
unsafe impl Send for Waiting {}
// SAFETY: as above.
unsafe impl Sync for Waiting {}

impl Waiting {
    /// Keeps the tensor, if the runtime finds nothing in it that needs an import at once.
    ///
    /// # Errors
    /// What opening the runtime raises. The tensor itself where it must be imported now.
    #[inline]
    pub(crate) fn keep(py: Python<'_>, incoming: Incoming) -> PyResult<Result<Self, Incoming>> {
        let runtime = runtime(py)?.lend();
        let mut array = MaybeUninit::<XdHostArray>::uninit();
        // SAFETY: a place of ours, aligned and writable.
        let out = unsafe { Out::from_raw(array.as_mut_ptr()) };
        let is_array = match incoming.0 {
            // SAFETY: alive, because it is owned here.
            Kind::Versioned(tensor) => unsafe {
                (api().tensor_as_host_array)(runtime, tensor.as_ptr(), out)
            },
            // SAFETY: as above.
            Kind::Legacy(tensor) => unsafe {
                (api().tensor_as_host_array_legacy)(runtime, tensor.as_ptr(), out)
            },
        };
        if is_array == 0 {
            return Ok(Err(incoming));
        }
        Ok(Ok(Self {
            // SAFETY: written where the answer is not 0.
            array: unsafe { array.assume_init() },
            owner: ManuallyDrop::new(Owner::of(incoming, gate::generation())),
            owners: OnceLock::new(),
        }))
    }

    /// The runtime's tensor of it, which shares the owner.
    ///
    /// # Errors
    /// What `xd_tensor_from_memory` answers.
    #[cold]
    pub(crate) fn import(&self, py: Python<'_>) -> PyResult<Handle<XdTensor>> {
        let runtime = runtime(py)?;
        let shape = self.array.shape.get(..self.array.ndim.into());
        let shape = shape.unwrap_or_default();
        let strides = self.strides_of(shape);
        let layout = strides.as_deref().map_or_else(
            || Some(XdLayout::compact(self.array.dtype, shape)),
            |strides| XdLayout::strided(self.array.dtype, shape, strides),
        );
        let layout = layout.ok_or_else(|| PyRuntimeError::new_err("strides of another length"))?;
        let mut memory = XdMemory::new(HOST, self.array.data, layout);
        memory.flags = MemoryFlags::HOST_ARRAY;
        if self.array.read_only != 0 {
            memory.flags.0 |= MemoryFlags::READ_ONLY.0;
        }
        let share = || Arc::new(Owner::of(Incoming(self.kind()), self.owner.generation));
        let owners = self.owners.get_or_init(share);
        memory.owner = Arc::into_raw(Arc::clone(owners)).cast_mut().cast();
        memory.release = Some(give_back);
        let imported: Result<_, Failed> = made(|out| {
            // SAFETY: the memory lives as long as its owner, a share of which is given up here.
            unsafe { (api().tensor_from_memory)(runtime.lend(), Ref::from(&memory), out) }
        });
        Ok(imported?)
    }

    fn kind(&self) -> Kind {
        self.owner.incoming.0
    }

    /// Compact strides, but those of axes with one element as the producer has them: they mean
    /// nothing, and consumers compare them. `None` where there is no such axis.
    fn strides_of(&self, shape: &[i64]) -> Option<Vec<i64>> {
        let given = match self.kind() {
            // SAFETY: alive, and of a version whose layout this is, or it had not been kept.
            Kind::Versioned(tensor) => unsafe { &raw const (*tensor.as_ptr()).dl_tensor.strides },
            // SAFETY: alive.
            Kind::Legacy(tensor) => unsafe { &raw const (*tensor.as_ptr()).dl_tensor.strides },
        };
        // SAFETY: a field of the struct, which was found to be aligned.
        let given = unsafe { given.read() };
        if given.is_null() || !shape.contains(&1) {
            return None;
        }
        let mut compact = 1_i64;
        let axes = shape.iter().enumerate().rev();
        let mut strides: Vec<i64> = axes
            .map(|(axis, extent)| match extent {
                // SAFETY: inside the numbers, which live and stay as long as the struct.
                1 => unsafe { given.wrapping_add(axis).read_unaligned() },
                extent => {
                    let own = compact;
                    compact = compact.saturating_mul(*extent);
                    own
                }
            })
            .collect();
        strides.reverse();
        Some(strides)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.owners.get().is_some() {
            return;
        }
        // SAFETY: the only owner, dropped here and nowhere else.
        unsafe { ManuallyDrop::drop(&mut self.owner) };
    }
}

/// Drops the share of the owner that `import` lent.
unsafe extern "C" fn give_back(owner: *mut c_void) {
    // SAFETY: the word of `import`, given back once.
    let owner = unsafe { Arc::from_raw(owner.cast_const().cast::<Owner>()) };
    let _caught = fence(|| drop(owner));
}
