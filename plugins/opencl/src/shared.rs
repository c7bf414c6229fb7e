//! Memory with one address: what is known of it, of ours and of others.

use std::{ffi::c_void, sync::Arc};

use crossdock_sdk::abi::{Address, MemoryKind, PointerFlags, PointerInfo};

use crate::{
    device::{Device, DeviceId},
    memory::Allocation,
    place::Shared,
    plugin::OpenCl,
    usm::Found,
};

impl OpenCl {
    /// Memory with one address that others allocated in a context that is known here.
    pub(crate) fn shared_by_others(&self, address: Address) -> Option<PointerInfo> {
        let pointer = address.as_pointer()?;
        let (device, found) = self.others_at(pointer)?;
        let on_host = found.is_on_host();
        let mut flags = PointerFlags::FOREIGN;
        if on_host {
            flags = flags.with(PointerFlags::HOST_ACCESSIBLE);
        }
        if found.kind == MemoryKind::MANAGED {
            flags = flags.with(PointerFlags::MANAGED);
        }
        Some(PointerInfo {
            kind: found.kind,
            device: self.index_of(found.device.unwrap_or(device.id)),
            base: Address::pointer(found.base),
            size: found.size,
            // The driver does not say when its owner frees it and another takes its place.
            allocation_id: 0,
            host_pointer: if on_host { pointer } else { 0 },
            device_pointer: pointer,
            context: device.context().word(),
            flags,
            reserved: 0,
        })
    }

    /// The same as an end of a copy.
    pub(crate) fn place_of_others(&self, at: *mut c_void) -> Option<Shared> {
        let pointer = crate::handle::word_of(at);
        let (device, found) = self.others_at(pointer)?;
        let before = pointer.checked_sub(found.base)?;
        Some(Shared {
            by_host: found.is_on_host(),
            after: found.size.checked_sub(before)?,
            device,
            at,
            before,
        })
    }

    /// What the drivers say of an address, and a device in the context where it is.
    ///
    /// A driver knows an address only in the context that it was allocated in: ours, or that of a queue of
    /// others.
    fn others_at(&self, pointer: u64) -> Option<(Arc<Device>, Found)> {
        let mut asked = Vec::new();
        let mut look = |device: &Arc<Device>| {
            let usm = device.platform.usm.as_ref()?;
            let context = device.context().word();
            if asked.contains(&context) {
                return None;
            }
            asked.push(context);
            usm.look(device.context(), pointer)
        };
        let (device, found) = {
            let mut ours = self.driver.devices.iter();
            let ours = ours.find_map(|device| Some((Arc::clone(device), look(device)?)));
            let of_queues = || {
                let streams = self.streams.all();
                let mut devices = streams.iter().map(|stream| &stream.device);
                devices.find_map(|device| Some((Arc::clone(device), look(device)?)))
            };
            ours.or_else(of_queues)?
        };
        // Of the devices in that context, the one whose memory it is.
        let is_owner =
            |known: &&Arc<Device>| Some(known.id) == found.device && known.shares_context(&device);
        let owner = self.driver.devices.iter().find(is_owner).cloned();
        Some((owner.unwrap_or(device), found))
    }

    pub(crate) fn index_of(&self, id: DeviceId) -> u32 {
        let place = self.driver.devices.iter().position(|known| known.id == id);
        place
            .and_then(|place| u32::try_from(place).ok())
            .unwrap_or(u32::MAX)
    }
}

impl Found {
    fn is_on_host(&self) -> bool {
        self.kind != MemoryKind::DEVICE
    }
}

impl Allocation {
    /// Memory of ours that has an address and no object, as an end of a copy.
    pub(crate) fn place(&self, at: *mut c_void, before: u64) -> Option<Shared> {
        let is_addressed = self.memory.is_none();
        is_addressed.then(|| Shared {
            device: Arc::clone(&self.device),
            at,
            before,
            after: self.size.saturating_sub(before),
            by_host: true,
        })
    }
}
