//! Import: tensors of others are checked, verified by pointer query, and taken with their owner.

use std::sync::Arc;

use crossdock_sdk::abi::{Address, AddressForm, MemoryKind, PointerFlags, PointerInfo};
use crossdock_sdk::dlpack::{DeviceType, Layout, Received, TensorView};

use crate::device::Device;
use crate::error::Error;
use crate::memory::{HostOwner, Memory};
use crate::runtime::Runtime;
use crate::tensor::Tensor;

impl Tensor {
    /// Takes a tensor of others, without a copy. Its deleter runs when the last view is dropped.
    ///
    /// Our own exports are recognised and need no query. Any other address is verified: the
    /// claimed device's plugin must know it, no other plugin may own it, and every element must
    /// lie inside its allocation. A wrong id is corrected where the same plugin owns the memory.
    ///
    /// # Errors
    /// [`Error::UnknownDevice`], [`Error::Claim`] with both claims, [`Error::Exchange`].
    pub fn import(runtime: &Runtime, received: Received) -> Result<Self, Error> {
        if let Some(own) = received.owner_of::<Self>() {
            return Ok(own.clone());
        }
        let view = received.view();
        let claimed = runtime.device(view.device())?;
        if view.layout().numel() == 0 {
            return Self::empty(&claimed, view.layout());
        }
        let found = verify(runtime, &claimed, view)?;
        let (layout, read_only) = (view.layout().clone(), view.is_read_only());
        let offset = found.offset;
        let memory = Memory::received(&found.device, found.place, found.kind, received, read_only);
        Ok(Self::view(Arc::new(memory), layout, offset))
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
        let cpu = runtime.device(crossdock_sdk::dlpack::Device::CPU)?;
        Self::from_host_owner(&cpu, owner, byte_offset, layout)
    }
}

/// Whose the memory really is, and where the first element lies in it.
struct Verified {
    device: Device,
    place: (Address, u64),
    offset: u64,
    kind: MemoryKind,
}

fn verify(runtime: &Runtime, claimed: &Device, view: &TensorView) -> Result<Verified, Error> {
    let word = view.data().addr() as u64;
    let address = match claimed.address_form() {
        AddressForm::HANDLE => Address::handle(word, 0),
        _ => Address::pointer(word),
    };
    let info = claimed.hooks().pointer_query(address)?;
    if info.kind != MemoryKind::UNOWNED {
        return owned(runtime, claimed, view, (address, info));
    }
    // Host memory comes from anywhere; memory of a device comes from its plugin.
    if claimed.id().ty != DeviceType::CPU {
        let found = format!(
            "plugin `{}` does not know this address",
            claimed.plugin().name()
        );
        return Err(Error::Claim {
            claimed: claimed.id(),
            found,
        });
    }
    refuse_other_owner(runtime, claimed, address)?;
    foreign_host_memory(claimed, view)
}

/// Memory that the claimed plugin knows: the span must lie inside its allocation.
fn owned(
    runtime: &Runtime,
    claimed: &Device,
    view: &TensorView,
    (address, info): (Address, PointerInfo),
) -> Result<Verified, Error> {
    let device = if info.device == claimed.index() {
        claimed.clone()
    } else {
        corrected(runtime, claimed, info.device)?
    };
    let data_at = match (address.as_pointer(), info.base.as_pointer()) {
        (Some(at), Some(base)) => at.wrapping_sub(base),
        _ => 0,
    };
    view.check_within(data_at, info.size)?;
    let offset = data_at.wrapping_add(view.byte_offset());
    Ok(Verified {
        device,
        place: (info.base, info.size),
        offset,
        kind: info.kind,
    })
}

/// The device of the same plugin that really owns the memory.
fn corrected(runtime: &Runtime, claimed: &Device, index: u32) -> Result<Device, Error> {
    let owner = runtime
        .devices()
        .into_iter()
        .find(|device| Arc::ptr_eq(device.plugin(), claimed.plugin()) && device.index() == index);
    owner.ok_or_else(|| Error::Claim {
        claimed: claimed.id(),
        found: format!("the plugin names its device {index}, which it does not have"),
    })
}

/// A host address that another plugin owns as device memory is no host memory.
fn refuse_other_owner(runtime: &Runtime, claimed: &Device, address: Address) -> Result<(), Error> {
    for device in runtime.devices() {
        let addresses = device.address_form() == AddressForm::POINTER;
        if Arc::ptr_eq(device.plugin(), claimed.plugin()) || !addresses {
            continue;
        }
        let info = device.hooks().pointer_query(address)?;
        let reachable = info.flags.contains(PointerFlags::HOST_ACCESSIBLE);
        if info.kind != MemoryKind::UNOWNED && !reachable {
            let found = format!(
                "plugin `{}` owns this address, as memory of `{device}`",
                device.plugin().name()
            );
            return Err(Error::Claim {
                claimed: claimed.id(),
                found,
            });
        }
    }
    Ok(())
}

/// Host memory that no plugin knows: its bounds are the view's own.
fn foreign_host_memory(claimed: &Device, view: &TensorView) -> Result<Verified, Error> {
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
        device: claimed.clone(),
        place: (Address::pointer(start), size),
        offset: first.wrapping_sub(start),
        kind: MemoryKind::HOST,
    })
}
