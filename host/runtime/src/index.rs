//! The index of devices by DLPack pair, whose readers do one load and one scan.
//!
//! It only grows, by a chunk at a time, so that nothing a reader looks at is ever freed. It holds
//! devices weakly: a retired plugin closes when its last tensor is gone, not when the runtime is.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crossdock_sdk::dlpack;

use crate::device::{Device, WeakDevice};

/// Devices in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct DeviceIndex {
    slots: [OnceLock<Slot>; CHUNK],
    next: OnceLock<Box<Self>>,
}

#[derive(Debug)]
struct Slot {
    id: dlpack::Device,
    device: WeakDevice,
    retired: AtomicBool,
}

impl DeviceIndex {
    /// The device with this pair, if it is there and not retired.
    #[inline]
    pub(crate) fn find(&self, id: dlpack::Device) -> Option<Device> {
        let slots = self.slots.iter().map_while(OnceLock::get);
        let found = slots
            .filter(|slot| slot.id == id && !slot.retired.load(Ordering::Acquire))
            .find_map(|slot| slot.device.upgrade());
        found.or_else(|| self.next.get()?.find(id))
    }

    /// Adds a device. One thread at a time.
    pub(crate) fn add(&self, device: &Device) {
        let mut slot = Slot {
            id: device.id(),
            device: device.downgrade(),
            retired: AtomicBool::new(false),
        };
        for place in &self.slots {
            match place.set(slot) {
                Ok(()) => return,
                Err(taken) => slot = taken,
            }
        }
        self.next.get_or_init(Box::default).add(device);
    }

    /// Hides the devices that `is_gone` names.
    pub(crate) fn retire(&self, is_gone: impl Fn(&Device) -> bool) {
        let mut chunk = Some(self);
        while let Some(part) = chunk {
            for slot in part.slots.iter().map_while(OnceLock::get) {
                if slot.device.upgrade().is_none_or(|device| is_gone(&device)) {
                    slot.retired.store(true, Ordering::Release);
                }
            }
            chunk = part.next.get().map(Box::as_ref);
        }
    }
}

const CHUNK: usize = 16;
