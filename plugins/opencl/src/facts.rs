//! What the driver says of a memory object: where it lies in another one, and in host memory.

use std::{ffi::c_void, ptr::NonNull};

use opencl3::memory as cl;

use crate::{
    fault::Fault,
    handle::{Memory, word_of},
    rect::Reach,
};

/// Where an object lies in the one that it was made a part of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    /// Its address; the part keeps it alive.
    whole: usize,
    pub(crate) origin: u64,
}

impl Part {
    pub(crate) fn of(object: &Memory) -> Result<Option<Self>, Fault> {
        let whole = usize::try_from(fact(object, cl::CL_MEM_ASSOCIATED_MEMOBJECT)?).unwrap_or(0);
        let origin = fact(object, cl::CL_MEM_OFFSET)?;
        Ok((whole != 0).then_some(Self { whole, origin }))
    }

    pub(crate) fn whole(self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.whole)
    }
}

/// The host memory that an object was made over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beneath {
    first: u64,
    size: u64,
}

impl Beneath {
    pub(crate) fn new(first: NonNull<c_void>, size: u64) -> Self {
        let first = word_of(first.as_ptr());
        Self { first, size }
    }

    /// None where the driver made the memory.
    pub(crate) fn of(object: &Memory) -> Result<Option<Self>, Fault> {
        if fact(object, cl::CL_MEM_FLAGS)? & cl::CL_MEM_USE_HOST_PTR == 0 {
            return Ok(None);
        }
        let first = fact(object, cl::CL_MEM_HOST_PTR)?;
        let size = fact(object, cl::CL_MEM_SIZE)?;
        Ok((first != 0).then_some(Self { first, size }))
    }

    /// Where an address lies in it, if all of `reach` around it does.
    pub(crate) fn offset_of(self, at: *mut c_void, reach: Reach) -> Option<usize> {
        let offset = word_of(at).checked_sub(self.first)?;
        offset.checked_sub(reach.before)?;
        let end = offset.checked_add(reach.after)?;
        usize::try_from(offset).ok().filter(|_| end <= self.size)
    }
}

pub(crate) fn fact(object: &Memory, which: u32) -> Result<u64, Fault> {
    let bytes = cl::get_mem_object_data(object.raw(), which)
        .map_err(|code| Fault::native("clGetMemObjectInfo", code))?;
    let wide = <[u8; 8]>::try_from(bytes.as_slice()).map(u64::from_ne_bytes);
    let narrow = <[u8; 4]>::try_from(bytes.as_slice()).map(u32::from_ne_bytes);
    let unexpected = |_| Fault::invalid("clGetMemObjectInfo", "a fact of an unexpected size");
    wide.or_else(|_| narrow.map(u64::from)).map_err(unexpected)
}
