//! Copies between memories: contiguous and strided, by the plugin that can make them.
#![expect(unsafe_code, reason = "hands memory that it keeps alive to copy hooks")]

use crossdock_sdk::abi::{Address, CopyArgs, MemoryKind, Side, StridedArgs};
use crossdock_sdk::dlpack::Layout;

use crate::device::Device;
use crate::error::Error;
use crate::tensor::{SYNCHRONOUS, Tensor, compact};

/// One end of a copy: where the first element is, and how the elements lie.
#[derive(Clone, Copy)]
pub(crate) struct End<'a> {
    pub(crate) side: Side,
    pub(crate) layout: &'a Layout,
}

impl<'a> End<'a> {
    /// A tensor as its own plugin sees it.
    pub(crate) fn of(tensor: &'a Tensor) -> Self {
        Self {
            side: tensor.memory().side(tensor.offset()),
            layout: tensor.layout(),
        }
    }

    /// A tensor as another plugin sees it: host memory, where the host can dereference it.
    pub(crate) fn on_host(tensor: &'a Tensor) -> Option<Self> {
        let address = tensor.memory().host_address(tensor.offset())?;
        Some(Self {
            side: host_side(address),
            layout: tensor.layout(),
        })
    }
}

/// Host memory at `address`, as a side of a copy.
pub(crate) fn host_side(address: u64) -> Side {
    Side {
        address: Address::pointer(address),
        kind: MemoryKind::HOST,
        device: 0,
    }
}

/// Copies every element of `src` to `dst` by `device`'s plugin; done when it returns.
///
/// # Safety
/// - Both ends are valid for the elements of their layouts, and do not overlap.
pub(crate) unsafe fn copy(device: &Device, dst: End<'_>, src: End<'_>) -> Result<(), Error> {
    if src.layout.numel() == 0 {
        return Ok(());
    }
    if dst.layout.is_contiguous() && src.layout.is_contiguous() {
        let args = CopyArgs {
            dst: dst.side,
            src: src.side,
            bytes: src.layout.bytes(),
        };
        // SAFETY: both are compact, so the bytes of their layouts are what the caller vouches for.
        return unsafe { device.hooks().copy(args, SYNCHRONOUS) };
    }
    let args = StridedArgs {
        dst: dst.side,
        src: src.side,
        element_bits: src.layout.element_bits(),
        rank: u32::try_from(src.layout.rank()).unwrap_or(u32::MAX),
        shape: src.layout.shape().as_ptr(),
        dst_strides: dst.layout.strides().as_ptr(),
        src_strides: src.layout.strides().as_ptr(),
    };
    // SAFETY: the arrays are the layouts', which have `rank` numbers each and outlive the call;
    // the elements are what the caller vouches for.
    unsafe { device.hooks().copy_strided(args, SYNCHRONOUS) }
}

/// The tensor itself where it is compact, else a compact copy on its own device.
pub(crate) fn packed(tensor: &Tensor) -> Result<Tensor, Error> {
    if tensor.layout().is_contiguous() {
        return Ok(tensor.clone());
    }
    let packed = Tensor::empty(tensor.device(), tensor.layout())?;
    // SAFETY: two live memories, the second one new; both layouts lie inside theirs.
    unsafe { copy(tensor.device(), End::of(&packed), End::of(tensor)) }?;
    Ok(packed)
}

/// Reads a tensor as compact bytes.
pub(crate) fn read(tensor: &Tensor) -> Result<Vec<u8>, Error> {
    let length = host_length(tensor.nbytes())?;
    let mut bytes = vec![0; length];
    let compact = compact(tensor.layout())?;
    let dst = End {
        side: host_side(address_of(bytes.as_mut_ptr())),
        layout: &compact,
    };
    // SAFETY: `bytes` is as long as the compact layout and lives until the copy is done.
    match unsafe { copy(tensor.device(), dst, End::of(tensor)) } {
        Err(error) if error.is_unsupported() => {}
        done => return done.map(|()| bytes),
    }
    let packed = packed(tensor)?;
    // SAFETY: as above; `packed` is alive and compact.
    unsafe { copy(tensor.device(), dst, End::of(&packed)) }?;
    Ok(bytes)
}

/// Writes compact bytes, as many as the tensor has, into a tensor.
pub(crate) fn write(tensor: &Tensor, bytes: &[u8]) -> Result<(), Error> {
    let compact = compact(tensor.layout())?;
    let src = End {
        side: host_side(address_of(bytes.as_ptr().cast_mut())),
        layout: &compact,
    };
    // SAFETY: `bytes` is as long as the compact layout and is only read; the tensor is alive.
    match unsafe { copy(tensor.device(), End::of(tensor), src) } {
        Err(error) if error.is_unsupported() => {}
        done => return done,
    }
    let packed = Tensor::from_bytes(tensor.device(), &compact, bytes)?;
    // SAFETY: two live memories of one device; both layouts lie inside theirs.
    unsafe { copy(tensor.device(), End::of(tensor), End::of(&packed)) }
}

pub(crate) fn host_length(bytes: u64) -> Result<usize, Error> {
    usize::try_from(bytes)
        .map_err(|error| Error::misuse("copy a tensor to the host", error.to_string()))
}

pub(crate) fn address_of(pointer: *mut u8) -> u64 {
    pointer.expose_provenance() as u64
}
