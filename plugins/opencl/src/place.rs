//! The ends of a copy: where they are, and what a command calls them.

use std::{ffi::c_void, sync::Arc};

use crate::{device::Device, fault::Fault, memory::Allocation, rect::Reach};

/// One end of a copy.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// A memory object, from a byte of it.
    Object {
        allocation: Arc<Allocation>,
        offset: u64,
    },
    /// Host memory, or memory that has one address for host and device.
    Host(*mut c_void),
}

impl Place {
    /// The same place `bytes` further on, or back.
    pub(crate) fn moved(&self, bytes: i64) -> Result<Self, Fault> {
        match self {
            Self::Object { allocation, offset } => Ok(Self::Object {
                allocation: Arc::clone(allocation),
                offset: offset.checked_add_signed(bytes).ok_or_else(too_far)?,
            }),
            Self::Host(start) => {
                let bytes = isize::try_from(bytes).ok().ok_or_else(too_far)?;
                Ok(Self::Host(start.wrapping_byte_offset(bytes)))
            }
        }
    }

    /// The place as commands of `device` name it, after checking that `reach` from here exists.
    ///
    /// Memory of another context is named by its host address, where it has one.
    pub(crate) fn seen_by(&self, device: &Device, reach: Reach) -> Result<Self, Fault> {
        let Self::Object { allocation, offset } = self else {
            return Ok(self.clone());
        };
        let first = offset.checked_sub(reach.before).ok_or_else(too_far)?;
        let bytes = reach.before.checked_add(reach.after).ok_or_else(too_far)?;
        allocation.range(first, bytes)?;
        if allocation.device.shares_context(device) {
            return Ok(self.clone());
        }
        let word = allocation
            .host_word()
            .and_then(|base| base.checked_add(*offset))
            .and_then(|word| usize::try_from(word).ok());
        let word = word.ok_or_else(|| {
            Fault::unsupported("copy", "the two sides belong to different contexts")
        })?;
        Ok(Self::Host(std::ptr::with_exposed_provenance_mut(word)))
    }

    /// What a command names.
    pub(crate) fn end(&self) -> Result<End, Fault> {
        match self {
            Self::Object { allocation, offset } => {
                let (raw, origin) = allocation.named().ok_or_else(|| {
                    Fault::invalid("copy", "the memory is the host's; name it by its address")
                })?;
                let offset = origin.checked_add(*offset).ok_or_else(too_far)?;
                Ok(End::Object {
                    raw,
                    offset: usize::try_from(offset).ok().ok_or_else(too_far)?,
                })
            }
            Self::Host(start) => Ok(End::Host(*start)),
        }
    }
}

/// What a command names.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Object { raw: *mut c_void, offset: usize },
    Host(*mut c_void),
}

impl End {
    /// The driver's name for a copy of `from` to here.
    pub(crate) const fn operation(self, from: Self) -> &'static str {
        match (self, from) {
            (Self::Object { .. }, Self::Object { .. }) => "clEnqueueCopyBuffer",
            (Self::Object { .. }, Self::Host(_)) => "clEnqueueWriteBuffer",
            (Self::Host(_), Self::Object { .. }) => "clEnqueueReadBuffer",
            (Self::Host(_), Self::Host(_)) => "clEnqueueSVMMemcpy",
        }
    }
}

pub(crate) fn too_far() -> Fault {
    Fault::invalid("copy", "the place is beyond this machine's addresses")
}
