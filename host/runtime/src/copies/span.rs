//! Gather and scatter, for plugins that decline a strided copy: what lies between two elements is
//! read along and never written, since it may be another thread's.
#![expect(
    unsafe_code,
    reason = "hands host memory that it keeps alive to copy hooks"
)]

use std::mem::MaybeUninit;

use crossdock_sdk::abi::{CopyArgs, StreamHandle, StridedArgs};
use crossdock_sdk::dlpack::Layout;

use crate::copies::host_bytes::zeroed;
use crate::copies::order::{self, Accesses};
use crate::copies::patch::Patch;
use crate::copies::sorted::{Parts, Sorted};
use crate::copies::walk::{self, Places};
use crate::error::Error;
use crate::hooks::host_memory::{address_of, host_length, host_side};
use crate::hooks::panics::lend;
use crate::tensors::tensor::{Tensor, compact};

/// The elements as compact bytes.
///
/// # Errors
/// As [`Tensor::read`].
pub(crate) fn gathered(tensor: &Tensor) -> Result<Vec<u8>, Error> {
    let bytes = zeroed(host_length(tensor.nbytes())?)?;
    // SAFETY: the bytes are the vector's own, as many as the tensor has.
    let (bytes, ()) = lend(bytes, |bytes| unsafe {
        gather_to(tensor, bytes.as_mut_ptr())
    })?;
    Ok(bytes)
}

/// Reads the elements into compact bytes, as many as the tensor has.
///
/// # Errors
/// As [`Tensor::read`].
pub(crate) fn gather(tensor: &Tensor, bytes: &mut [MaybeUninit<u8>]) -> Result<(), Error> {
    if !tensor.layout().element_bits().is_multiple_of(8) {
        // The bits beside a packed element are kept, so there must be some.
        bytes.fill(MaybeUninit::new(0));
    }
    // SAFETY: the bytes are the caller's own, as many as the tensor has.
    unsafe { gather_to(tensor, bytes.as_mut_ptr().cast()) }
}

/// # Safety
/// - As many bytes as the tensor has are writable at `dst`, and nobody else uses them.
unsafe fn gather_to(tensor: &Tensor, dst: *mut u8) -> Result<(), Error> {
    let (layout, span) = (tensor.layout(), tensor.layout().span());
    let all = zeroed(host_length(span.max.abs_diff(span.min))?)?;
    let start = tensor.offset().wrapping_add_signed(span.min);
    let strides = compact(layout)?;
    let to = Places {
        base: dst,
        first: 0,
        strides: strides.strides(),
    };
    let gathered = lend(all, |all| {
        order::run(tensor.device(), None, Accesses::reads(tensor), |stream| {
            Bytes { tensor, stream }.get(start, all)
        })?;
        let from = Places {
            base: all.as_ptr(),
            // Of bytes that are there, 63 bits count the bits.
            first: -span.min * 8,
            strides: layout.strides(),
        };
        // SAFETY: `all` is what the elements reach, `dst` as long as the compact layout; they are apart.
        unsafe { on_host(layout, layout.shape(), to, from) }
    });
    gathered.map(drop)
}

/// Replaces the elements, which do not overlap, by compact bytes, and nothing between them.
///
/// # Errors
/// As [`Tensor::write`].
pub(crate) fn scatter(tensor: &Tensor, bytes: &[u8]) -> Result<(), Error> {
    let layout = tensor.layout();
    let sorted = Sorted::of(layout)?;
    if sorted.is_as_given() {
        return scatter_sorted(tensor, &sorted, bytes);
    }
    let moved = arranged(layout, &sorted, bytes)?;
    lend(moved, |moved| scatter_sorted(tensor, &sorted, moved)).map(drop)
}

/// The same of bytes that are in address order.
fn scatter_sorted(tensor: &Tensor, sorted: &Sorted, bytes: &[u8]) -> Result<(), Error> {
    let accesses = Accesses::writes(tensor);
    order::run(tensor.device(), None, accesses, |stream| {
        let target = Bytes { tensor, stream };
        if tensor.layout().element_bits().is_multiple_of(8) {
            target.put_rows(sorted, bytes)
        } else {
            target.put_packed(sorted, bytes)
        }
    })
}

/// The elements in address order.
fn arranged(layout: &Layout, sorted: &Sorted, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let strides = Layout::compact(layout.dtype(), &sorted.shape)?;
    let from = Places {
        base: bytes.as_ptr(),
        first: sorted.given_first * i64::from(layout.element_bits()),
        strides: &sorted.given,
    };
    let (moved, ()) = lend(zeroed(bytes.len())?, |moved| {
        let to = Places {
            base: moved.as_mut_ptr(),
            first: 0,
            strides: strides.strides(),
        };
        // SAFETY: both sides are compact bytes of the same elements, and they are apart.
        unsafe { on_host(layout, &sorted.shape, to, from) }
    })?;
    Ok(moved)
}

/// Copies elements from host memory to host memory, by the CPU's plugin where that can.
///
/// # Safety
/// As [`walk::copy`].
unsafe fn on_host(
    layout: &Layout,
    shape: &[i64],
    dst: Places<'_, *mut u8>,
    src: Places<'_, *const u8>,
) -> Result<(), Error> {
    let bits = layout.element_bits();
    #[cfg(feature = "cpu")]
    if dst.first % 8 == 0 && src.first % 8 == 0 {
        // SAFETY: the caller's promise, passed on.
        match unsafe { by_plugin(bits, shape, dst, src) } {
            Err(error) if error.is_unsupported() => {}
            done => return done,
        }
    }
    // SAFETY: the caller's promise, passed on.
    unsafe { walk::copy(bits, shape, dst, src) };
    Ok(())
}

/// # Safety
/// As [`walk::copy`]; both sides begin at whole bytes.
#[cfg(feature = "cpu")]
unsafe fn by_plugin(
    bits: u32,
    shape: &[i64],
    dst: Places<'_, *mut u8>,
    src: Places<'_, *const u8>,
) -> Result<(), Error> {
    let at = |base: *mut u8, first: i64| host_side(address_of(base).wrapping_add_signed(first / 8));
    let args = StridedArgs {
        dst: at(dst.base, dst.first),
        src: at(src.base.cast_mut(), src.first),
        element_bits: bits,
        rank: u32::try_from(shape.len()).unwrap_or(u32::MAX),
        shape: shape.as_ptr(),
        dst_strides: dst.strides.as_ptr(),
        src_strides: src.strides.as_ptr(),
    };
    let cpu = crate::devices::host_device::open()?;
    // SAFETY: the arrays have `rank` numbers each and outlive the call; the elements are what the
    // caller vouches for.
    unsafe { cpu.hooks().copy_strided(args, StreamHandle::NONE) }
}

/// The bytes of a tensor's memory, in the place of some work on it.
struct Bytes<'a> {
    tensor: &'a Tensor,
    stream: StreamHandle,
}

impl Bytes<'_> {
    /// Writes rows of whole bytes: as many at once as the plugin can, each by itself if it must.
    fn put_rows(&self, sorted: &Sorted, bytes: &[u8]) -> Result<(), Error> {
        for depth in 0..sorted.depth() {
            match self.put_parts(&sorted.parts(depth), bytes) {
                Err(error) if error.is_unsupported() => {}
                done => return done,
            }
        }
        let bits = u64::from(self.tensor.layout().element_bits());
        let bytes_of = |elements: u64| elements.saturating_mul(bits / 8);
        let (mut rest, length) = (bytes, host_length(bytes_of(sorted.row))?);
        sorted.rows(|elements| {
            let (row, behind) = rest.split_at(length.min(rest.len()));
            rest = behind;
            let bytes = elements * i64::try_from(bits / 8).unwrap_or(0);
            self.put(self.tensor.offset().wrapping_add_signed(bytes), row)
        })
    }

    /// Writes parts of the same layout, each by one strided copy.
    fn put_parts(&self, parts: &Parts<'_>, bytes: &[u8]) -> Result<(), Error> {
        let layout = self.tensor.layout();
        let compact = Layout::compact(layout.dtype(), &parts.shape)?;
        let size = i64::from(layout.element_bits() / 8);
        let mut from = address_of(bytes.as_ptr().cast_mut());
        parts.each(|elements| {
            let at = self.tensor.offset().wrapping_add_signed(elements * size);
            let args = StridedArgs {
                dst: self.tensor.memory().side(at),
                src: host_side(from),
                element_bits: layout.element_bits(),
                rank: u32::try_from(parts.shape.len()).unwrap_or(u32::MAX),
                shape: parts.shape.as_ptr(),
                dst_strides: parts.strides.as_ptr(),
                src_strides: compact.strides().as_ptr(),
            };
            from = from.wrapping_add_signed(parts.count * size);
            // SAFETY: the arrays have `rank` numbers each and outlive the call; these are elements of
            // a live tensor, and the caller's slice is only read; the copy is done when it returns.
            unsafe { self.tensor.device().hooks().copy_strided(args, self.stream) }
        })
    }

    /// Writes rows of packed elements, and reads the bytes that are not theirs alone first.
    fn put_packed(&self, sorted: &Sorted, bytes: &[u8]) -> Result<(), Error> {
        let bits = i64::from(self.tensor.layout().element_bits());
        let length = i64::try_from(sorted.row).unwrap_or(0) * bits;
        let (mut patch, mut from) = (Patch::default(), 0);
        sorted.rows(|elements| {
            let first = elements * bits;
            if !patch.takes(first, length) {
                self.put_patch(&mut patch)?;
            }
            patch.add(first, length, (bytes, from))?;
            from += length;
            Ok(())
        })?;
        self.put_patch(&mut patch)
    }

    fn put_patch(&self, patch: &mut Patch) -> Result<(), Error> {
        let at = |byte: i64| self.tensor.offset().wrapping_add_signed(byte);
        patch.complete(|byte, bytes| self.get(at(byte), bytes))?;
        let (byte, bytes) = patch.take();
        lend(bytes, |bytes| self.put(at(byte), bytes)).map(drop)
    }

    fn put(&self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        let args = CopyArgs {
            dst: self.tensor.memory().side(at),
            src: host_side(address_of(bytes.as_ptr().cast_mut())),
            bytes: bytes.len() as u64,
        };
        // SAFETY: these are bytes that elements of a live tensor have, and the caller's slice is
        // only read; the copy is done when it returns.
        unsafe { self.tensor.device().hooks().copy(args, self.stream) }
    }

    fn get(&self, at: u64, bytes: &mut [u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        let args = CopyArgs {
            dst: host_side(address_of(bytes.as_mut_ptr())),
            src: self.tensor.memory().side(at),
            bytes: bytes.len() as u64,
        };
        // SAFETY: these bytes lie between elements of a live tensor, and the caller's slice is its
        // own; the copy is done when it returns.
        unsafe { self.tensor.device().hooks().copy(args, self.stream) }
    }
}
