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
    /// Memory that its device knows by its address, from a byte of it.
    Shared(Shared),
    /// Host memory.
    Host(*mut c_void),
}

/// A byte of memory with one address: unified shared memory, or SVM of ours.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    /// In whose context it is.
    pub(crate) device: Arc<Device>,
    pub(crate) at: *mut c_void,
    /// Bytes of the allocation before this one.
    pub(crate) before: u64,
    /// Bytes of it from this one on.
    pub(crate) after: u64,
    /// Whether the host reaches it too.
    pub(crate) by_host: bool,
}

impl Shared {
    fn check(&self, reach: Reach) -> Result<(), Fault> {
        if reach.before <= self.before && reach.after <= self.after {
            return Ok(());
        }
        let why = format!(
            "{} bytes before and {} from byte {} on leave an allocation of {} bytes",
            reach.before,
            reach.after,
            self.before,
            self.before.saturating_add(self.after)
        );
        Err(Fault::invalid("range", why))
    }
}

impl Place {
    /// The same place `bytes` further on, or back.
    pub(crate) fn moved(&self, bytes: i64) -> Result<Self, Fault> {
        let add = u64::checked_add_signed;
        let back = bytes.checked_neg().ok_or_else(too_far)?;
        match self {
            Self::Object { allocation, offset } => Ok(Self::Object {
                allocation: Arc::clone(allocation),
                offset: add(*offset, bytes).ok_or_else(too_far)?,
            }),
            Self::Shared(shared) => Ok(Self::Shared(Shared {
                at: moved(shared.at, bytes)?,
                before: add(shared.before, bytes).ok_or_else(too_far)?,
                after: add(shared.after, back).ok_or_else(too_far)?,
                ..shared.clone()
            })),
            Self::Host(start) => moved(*start, bytes).map(Self::Host),
        }
    }

    /// The place as commands of `device` name it, after checking that `reach` from here exists.
    ///
    /// Memory of another context is named by its host address, where it has one.
    pub(crate) fn seen_by(&self, device: &Device, reach: Reach) -> Result<Self, Fault> {
        match self {
            Self::Host(_) => Ok(self.clone()),
            Self::Shared(shared) => {
                shared.check(reach)?;
                match (shared.device.shares_context(device), shared.by_host) {
                    (true, _) => Ok(self.clone()),
                    (false, true) => Ok(Self::Host(shared.at)),
                    (false, false) => Err(two_contexts()),
                }
            }
            Self::Object { allocation, offset } => {
                let first = offset.checked_sub(reach.before).ok_or_else(too_far)?;
                let bytes = reach.before.checked_add(reach.after).ok_or_else(too_far)?;
                allocation.range(first, bytes)?;
                if allocation.device.shares_context(device) {
                    return Ok(self.clone());
                }
                self.on_host().ok_or_else(two_contexts)
            }
        }
    }

    /// The same bytes by their host address, where they have one.
    pub(crate) fn on_host(&self) -> Option<Self> {
        match self {
            Self::Host(_) => Some(self.clone()),
            Self::Shared(shared) => shared.by_host.then_some(Self::Host(shared.at)),
            Self::Object { allocation, offset } => {
                let word = allocation.host_word()?.checked_add(*offset)?;
                let word = usize::try_from(word).ok()?;
                Some(Self::Host(std::ptr::with_exposed_provenance_mut(word)))
            }
        }
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
            Self::Shared(shared) => Ok(End::Address(shared.at)),
            Self::Host(start) => Ok(End::Address(*start)),
        }
    }
}

/// Both ends as one command can name them: beside an object, what has an address is the host's.
///
/// An object and memory that the host does not reach have no command in common, unless the object has
/// a host address.
pub(crate) fn pair(to: Place, from: Place) -> Result<(Place, Place), Fault> {
    let hidden = |place: &Place| matches!(place, Place::Shared(shared) if !shared.by_host);
    let is_object = |place: &Place| matches!(place, Place::Object { .. });
    let by_address = |place: &Place| {
        place.on_host().ok_or_else(|| {
            let why = "no command takes a memory object and memory that only the device reaches";
            Fault::unsupported("copy", why)
        })
    };
    if is_object(&to) && hidden(&from) {
        return Ok((by_address(&to)?, from));
    }
    if is_object(&from) && hidden(&to) {
        return Ok((to, by_address(&from)?));
    }
    Ok((to, from))
}

/// What a command names for both ends, each with the bytes around it.
///
/// An address in the memory that the other end's object was made over is named as that object too: what a
/// driver makes of the address, beside the object, is undefined. `PoCL` takes the object's first address for
/// the other end, wherever in the object that is, and copies nothing.
pub(crate) fn ends(
    (to, to_reach): (&Place, Reach),
    (from, from_reach): (&Place, Reach),
) -> Result<(End, End), Fault> {
    let (dst, src) = (to.end()?, from.end()?);
    Ok((
        dst.in_object_of(from, to_reach).unwrap_or(dst),
        src.in_object_of(to, from_reach).unwrap_or(src),
    ))
}

/// What a command names.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Object { raw: *mut c_void, offset: usize },
    Address(*mut c_void),
}

impl End {
    /// An address as a place in the object of another end, if it is one.
    fn in_object_of(self, other: &Place, reach: Reach) -> Option<Self> {
        let (Self::Address(at), Place::Object { allocation, .. }) = (self, other) else {
            return None;
        };
        let offset = allocation.offset_in_named(at, reach)?;
        let (raw, _) = allocation.named()?;
        Some(Self::Object { raw, offset })
    }

    /// The driver's name for a copy of `from` to here.
    pub(crate) const fn operation(self, from: Self) -> &'static str {
        match (self, from) {
            (Self::Object { .. }, Self::Object { .. }) => "clEnqueueCopyBuffer",
            (Self::Object { .. }, Self::Address(_)) => "clEnqueueWriteBuffer",
            (Self::Address(_), Self::Object { .. }) => "clEnqueueReadBuffer",
            (Self::Address(_), Self::Address(_)) => "clEnqueueSVMMemcpy",
        }
    }
}

fn moved(start: *mut c_void, bytes: i64) -> Result<*mut c_void, Fault> {
    let bytes = isize::try_from(bytes).ok().ok_or_else(too_far)?;
    Ok(start.wrapping_byte_offset(bytes))
}

fn two_contexts() -> Fault {
    Fault::unsupported("copy", "the two sides belong to different contexts")
}

pub(crate) fn too_far() -> Fault {
    Fault::invalid("copy", "the place is beyond this machine's addresses")
}
