//! Import: tensors of others are checked, verified by pointer query, and taken with their owner.
#![expect(unsafe_code, reason = "managed tensors arrive as raw pointers")]

use std::ptr::NonNull;

use crossdock_sdk::abi::{Address, AddressForm, MemoryKind, PointerFlags, PointerInfo};
use crossdock_sdk::dlpack::{
    self, DLManagedTensorVersioned, DLPackVersion, DeviceType, Layout, Ownership, Received,
    TensorView, VERSION, take_owner,
};

use crate::devices::device::Device;
use crate::devices::pointer_query::{Asked, Claim};
use crate::devices::runtime::Runtime;
use crate::error::Error;
use crate::tensors::claim::{HostClaim, other_owner, start_in};
use crate::tensors::foreign::{LentBytes, MemoryOwner};
use crate::tensors::memory::Memory;
use crate::tensors::owner::HostOwner;
use crate::tensors::tensor::Tensor;

impl Tensor {
    /// Takes a managed tensor over, from any producer. Our own exports give their tensor back, and
    /// nothing of them is checked; others go through [`Tensor::import`].
    ///
    /// # Errors
    /// As [`Received::from_versioned`] and [`Tensor::import`]; the managed tensor is released, once the process
    /// exits it is leaked.
    ///
    /// # Safety
    /// As [`Received::from_versioned`].
    #[inline]
    pub unsafe fn import_managed(
        runtime: &Runtime,
        managed: NonNull<DLManagedTensorVersioned>,
    ) -> Result<Self, Error> {
        // SAFETY: every version begins with its version.
        let version = unsafe { managed.cast::<DLPackVersion>().read_unaligned() };
        if version.major == VERSION.major {
            // SAFETY: alive, of this major version, and the caller's to give up.
            if let Some(own) = unsafe { take_owner::<_, Self>(managed) } {
                return Ok(own);
            }
        }
        // SAFETY: the caller's promise, passed on.
        match unsafe { Received::take_versioned(managed) } {
            Ok(received) => Self::import_foreign(runtime, received),
            Err(error) => {
                // SAFETY: it was refused, so it is still the caller's, who gave it up.
                drop(MemoryOwner::from(unsafe {
                    Ownership::of_versioned(managed)
                }));
                Err(error.into())
            }
        }
    }

    /// Takes a tensor of others, without a copy. Its deleter runs when the last view is dropped.
    ///
    /// Our own exports are recognised and need no query. Any other address is verified by
    /// [`Runtime::pointer_query`]: the claimed device's plugin must know it, except for host memory,
    /// which comes from anywhere; no other plugin may own it where the host cannot reach it; and
    /// every element must lie inside its allocation. A wrong id is corrected where the same plugin
    /// owns the memory. A device may have handles and addresses: its plugin is asked for both, and a word
    /// that it knows as both, of different bytes, is refused.
    ///
    /// Of memory that is claimed to be the host's, plugins that have to ask their driver
    /// ([`QueryCost::DRIVER`](crossdock_sdk::abi::QueryCost::DRIVER)) are asked before it is first read,
    /// written, moved or exported, and once: then that fails with [`Error::Claim`].
    ///
    /// # Errors
    /// [`Error::UnknownDevice`], [`Error::Claim`] with both claims, [`Error::Exchange`], and those of
    /// [`Runtime::pointer_query`].
    pub fn import(runtime: &Runtime, received: Received) -> Result<Self, Error> {
        if let Some(own) = received.owner_of::<Self>() {
            return Ok(own.clone());
        }
        Self::import_foreign(runtime, received)
    }

    /// As [`Tensor::import`], for what is no export of a tensor of ours.
    #[inline]
    fn import_foreign(runtime: &Runtime, received: Received) -> Result<Self, Error> {
        let (view, tensor) = received.into_parts();
        // SAFETY: who made the `Received` promised it.
        unsafe { Self::import_memory(runtime, view, tensor.into()) }
    }

    /// Takes memory of others, without a copy: what [`Tensor::import`] does once it has taken a tensor apart.
    /// `owner` keeps the memory, and is dropped when the last view is, or when this fails.
    ///
    /// ```
    /// use crossdock::{MemoryOwner, Runtime, Tensor};
    /// use crossdock_sdk::dlpack::{DataWord, Device, Dtype, Flags, Layout, TensorView};
    ///
    /// let runtime = Runtime::builder().search(false).open()?;
    /// let numbers = vec![1_i32, 2, 3];
    /// let word = DataWord::from_addr(numbers.as_ptr().expose_provenance());
    /// let layout = Layout::compact(Dtype::INT32, &[3])?;
    /// let view = TensorView::new(layout, word, 0, Device::CPU, Flags::READ_ONLY)?;
    /// // SAFETY: the vector has three numbers there, which stay until it is dropped.
    /// let tensor = unsafe { Tensor::import_memory(&runtime, view, MemoryOwner::new(numbers)) }?;
    /// assert_eq!(tensor.read()?, [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
    /// # Ok::<(), crossdock::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::import`].
    ///
    /// # Safety
    /// - The memory is there as `view` says until `owner` is dropped, and where `view` is not read-only it may be
    ///   written.
    #[inline]
    pub unsafe fn import_memory(
        runtime: &Runtime,
        view: TensorView,
        owner: MemoryOwner,
    ) -> Result<Self, Error> {
        // From here on every way out gives it back, or leaks it where the process exits.
        let claimed = claimed_device(runtime, view.device())?;
        if view.layout().numel() == 0 {
            return Self::of_nothing(&claimed, view);
        }
        let found = verify(runtime, claimed, &view)?;
        Ok(Self::of_verified(found, view, owner))
    }

    /// As [`Tensor::import_memory`], of memory whose device nobody names: the plugin that owns the address
    /// does, in the same answer by which the memory is checked. The device of `view` counts only where it has
    /// no element.
    ///
    /// # Errors
    /// [`Error::UnknownAddress`] where no plugin knows the address, so never host memory of others; those of
    /// [`Tensor::import`].
    ///
    /// # Safety
    /// As [`Tensor::import_memory`].
    pub unsafe fn import_address(
        runtime: &Runtime,
        view: TensorView,
        owner: MemoryOwner,
    ) -> Result<Self, Error> {
        // From here on every way out gives it back, or leaks it where the process exits.
        if view.layout().numel() == 0 {
            return Self::of_nothing(&claimed_device(runtime, view.device())?, view);
        }
        runtime.look_at_all();
        let address = view.data().addr() as u64;
        let known = runtime.owner_of(address, Asked::All, None)?;
        let known = known.ok_or(Error::UnknownAddress { address })?;
        let device = known.device.clone();
        let place = view.place();
        let layout = view.into_layout();
        let view = TensorView::new(
            layout,
            place.data,
            place.byte_offset,
            device.id(),
            place.flags,
        )?;
        let found = verify_known(device, &view, &known)?;
        Ok(Self::of_verified(found, view, owner))
    }

    /// A tensor without an element, which has no memory.
    pub(super) fn of_nothing(device: &Device, view: TensorView) -> Result<Self, Error> {
        let nothing = Self::empty(device, view.layout())?;
        Ok(nothing.view(view.into_layout(), 0))
    }

    #[inline(always)]
    fn of_verified(found: Verified, view: TensorView, tensor: MemoryOwner) -> Self {
        let read_only = view.is_read_only();
        // Everything is put where it stays: what is moved once more costs as much as the checks.
        Self::made(
            || {
                Memory::received(
                    found.device,
                    found.place,
                    (found.kind, found.by_host),
                    (tensor, found.claim),
                    read_only,
                )
            },
            || view.into_layout(),
            found.offset,
        )
    }

    /// Views host memory that `owner` keeps alive: a mapped file, a vector. No copy, read-only.
    ///
    /// # Errors
    /// [`Error::UnknownDevice`] when no plugin offers `cpu:0`; [`Error::Exchange`] when `layout`
    /// leaves the memory.
    pub fn from_host_memory(
        runtime: &Runtime,
        owner: HostOwner,
        byte_offset: u64,
        layout: &Layout,
    ) -> Result<Self, Error> {
        let owner = LentBytes::new(owner);
        let cpu = runtime.device(dlpack::Device::CPU)?;
        Self::from_host_owner(&cpu, owner, byte_offset, layout)
    }
}

/// The device that a tensor claims. What its type says that the host can read is the host's where
/// no plugin offers the device itself; the host has one device, whatever id a producer gives it.
#[inline]
fn claimed_device(runtime: &Runtime, claim: dlpack::Device) -> Result<Device, Error> {
    const HOST_READABLE: [DeviceType; 5] = [
        DeviceType::CPU,
        DeviceType::CUDA_HOST,
        DeviceType::ROCM_HOST,
        DeviceType::CUDA_MANAGED,
        DeviceType::TPU_HOST,
    ];
    let found = match runtime.find_device(claim)? {
        None if HOST_READABLE.contains(&claim.ty) => runtime.find_device(dlpack::Device::CPU)?,
        found => found,
    };
    found.ok_or_else(|| runtime.unknown_device(claim))
}

/// Whose the memory really is, and where the first element lies in it.
struct Verified {
    device: Device,
    place: (Address, u64),
    offset: u64,
    kind: MemoryKind,
    by_host: bool,
    claim: HostClaim,
}

#[inline(always)]
fn verify(runtime: &Runtime, claimed: Device, view: &TensorView) -> Result<Verified, Error> {
    let word = view.data().addr() as u64;
    let is_host = claimed.id().ty == DeviceType::CPU;
    if !is_host {
        let info = claimed.hooks().pointer_query(Address::handle(word, 0))?;
        if info.kind != MemoryKind::UNOWNED {
            return known_handle(runtime, &claimed, view, &info);
        }
    }
    // Pinned or managed memory names a vendor, and that vendor's plugin is asked now.
    let asked = match view.device().ty {
        DeviceType::CPU => Asked::Tables,
        _ => Asked::All,
    };
    match runtime.owner_of(word, asked, Some(claimed.plugin()))? {
        None if is_host => foreign_host_memory(claimed, view, HostClaim::unchecked()),
        None => Err(unknown(&claimed)),
        Some(known) => verify_known(claimed, view, &known),
    }
}

/// Memory that some plugin knows.
#[inline(never)]
fn verify_known(claimed: Device, view: &TensorView, known: &Claim) -> Result<Verified, Error> {
    let word = view.data().addr() as u64;
    let is_host = claimed.id().ty == DeviceType::CPU;
    let owner = &known.device;
    // The range that was registered or adopted need not be all of the host's memory.
    if owner.is_of(claimed.plugin()) && !(is_host && known.is_foreign()) {
        return owned(owner, view, word, &known.info);
    }
    if !is_host {
        return registered(&claimed, owner, view, word);
    }
    if !known.info.flags.contains(PointerFlags::HOST_ACCESSIBLE) {
        // As it was claimed: pinned and managed memory is not called `cpu:0`.
        let claim = view.device();
        let is_the_hosts = claim.ty == DeviceType::CPU;
        return Err(other_owner(
            if is_the_hosts { claimed.id() } else { claim },
            owner,
        ));
    }
    if known.is_foreign() {
        // The range that was registered need not be all of the host's memory.
        let is_confirmed = names_kind(view, owner, word, &known.info)
            && owner.id_of(kind_at(word, &known.info)).ty == view.device().ty
            && within(view, word, &known.info).is_ok();
        return if is_confirmed {
            owned(owner, view, word, &known.info)
        } else {
            foreign_host_memory(claimed, view, HostClaim::unchecked())
        };
    }
    if names_kind(view, owner, word, &known.info) {
        return owned(owner, view, word, &known.info);
    }
    within(view, word, &known.info)?;
    foreign_host_memory(claimed, view, HostClaim::settled())
}

/// Whether a tensor in host memory claims to be in pinned or managed memory, and is: it stays there.
fn names_kind(view: &TensorView, owner: &Device, word: u64, info: &PointerInfo) -> bool {
    view.device().ty != DeviceType::CPU && owner.id_of(kind_at(word, info)) != owner.id()
}

/// The kind of the memory at `word`. What the host reaches at another address, or not at all, is the
/// device's, whatever memory lies behind it.
fn kind_at(word: u64, info: &PointerInfo) -> MemoryKind {
    let is_named = [MemoryKind::PINNED, MemoryKind::MANAGED].contains(&info.kind);
    let is_elsewhere = info.base.form == AddressForm::POINTER && info.host_pointer != word;
    if is_named && is_elsewhere {
        MemoryKind::DEVICE
    } else {
        info.kind
    }
}

/// A handle that the claimed plugin knows. No other plugin can make sense of it.
#[cold]
fn known_handle(
    runtime: &Runtime,
    claimed: &Device,
    view: &TensorView,
    info: &PointerInfo,
) -> Result<Verified, Error> {
    check_is_no_address(claimed, view.data().addr() as u64, info)?;
    let owner = runtime.device_of(claimed.plugin(), info.device);
    let owner = owner.ok_or_else(|| Error::Claim {
        claimed: claimed.id(),
        found: format!(
            "the plugin names its device {}, which it does not have",
            info.device
        ),
    })?;
    let word = info.base.word;
    within_owned(&owner, view, word, info)
}

/// Refuses a handle that is also an address in memory which its plugin knows, unless the bytes are the
/// same: DLPack does not say which of the two its producer means.
fn check_is_no_address(claimed: &Device, word: u64, handle: &PointerInfo) -> Result<(), Error> {
    let address = claimed.hooks().pointer_query(Address::pointer(word))?;
    let is_one = handle.allocation_id != 0 && handle.allocation_id == address.allocation_id;
    if address.kind == MemoryKind::UNOWNED || (is_one && start_in(word, &address) == 0) {
        return Ok(());
    }
    let plugin = claimed.plugin().name();
    let found =
        format!("plugin `{plugin}` knows {word:#x} as a handle and as an address of other memory");
    let claimed = claimed.id();
    Err(Error::Claim { claimed, found })
}

/// Memory of another plugin that the claimed one may have registered or adopted.
fn registered(
    claimed: &Device,
    owner: &Device,
    view: &TensorView,
    word: u64,
) -> Result<Verified, Error> {
    let info = claimed.hooks().pointer_query(Address::pointer(word))?;
    if info.kind == MemoryKind::UNOWNED || info.device != claimed.index() {
        return Err(other_owner(claimed.id(), owner));
    }
    owned(claimed, view, word, &info)
}

/// Memory that `device`'s plugin knows by an address: where that is only the host's view of memory with a
/// handle, the plugin knows how far into the memory it is, and nobody else.
fn owned(
    device: &Device,
    view: &TensorView,
    word: u64,
    info: &PointerInfo,
) -> Result<Verified, Error> {
    if info.base.form == AddressForm::HANDLE {
        let plugin = device.plugin().name();
        let base = info.base;
        let found =
            format!("plugin `{plugin}` has this memory under a handle ({base}): name it so");
        let claimed = view.device();
        return Err(Error::Claim { claimed, found });
    }
    within_owned(device, view, word, info)
}

/// Memory that `device`'s plugin knows: the span must lie inside its allocation.
fn within_owned(
    device: &Device,
    view: &TensorView,
    word: u64,
    info: &PointerInfo,
) -> Result<Verified, Error> {
    let data_at = within(view, word, info)?;
    let address = info
        .base
        .as_pointer()
        .map(|base| base.wrapping_add(data_at));
    Ok(Verified {
        device: device.clone(),
        place: (info.base, info.size),
        offset: data_at.wrapping_add(view.byte_offset()),
        kind: kind_at(word, info),
        by_host: info.flags.contains(PointerFlags::HOST_ACCESSIBLE)
            && address == Some(info.host_pointer),
        claim: HostClaim::settled(),
    })
}

/// How far into its allocation the view's data begins, if every element lies in it.
fn within(view: &TensorView, word: u64, info: &PointerInfo) -> Result<u64, Error> {
    let data_at = start_in(word, info);
    view.check_within(data_at, info.size)?;
    Ok(data_at)
}

fn unknown(claimed: &Device) -> Error {
    let found = format!(
        "plugin `{}` does not know this data pointer, as an address or as a handle",
        claimed.plugin().name()
    );
    Error::Claim {
        claimed: claimed.id(),
        found,
    }
}

/// Host memory that no plugin knows: its bounds are the view's own.
#[inline(always)]
fn foreign_host_memory(
    claimed: Device,
    view: &TensorView,
    claim: HostClaim,
) -> Result<Verified, Error> {
    let span = view.layout().span();
    let first = (view.data().addr() as u64).checked_add(view.byte_offset());
    let start = first.and_then(|first| first.checked_add_signed(span.min));
    let (Some(first), Some(start)) = (first, start) else {
        return Err(Error::misuse(
            "import a tensor",
            "its elements leave the address space",
        ));
    };
    let size = span.max.abs_diff(span.min);
    Ok(Verified {
        device: claimed,
        place: (Address::pointer(start), size),
        offset: first.wrapping_sub(start),
        kind: MemoryKind::HOST,
        by_host: true,
        claim,
    })
}

#[cfg(test)]
#[path = "import_tests.rs"]
mod tests;
