//! Memory that is a native object (a `cl_mem`) of others, or that others name by its object.
#![expect(unsafe_code, reason = "adopts native objects")]

use std::sync::Arc;

use crossdock_sdk::abi::{Address, AdoptFlags, MemoryKind, PointerFlags};

use crate::devices::device::Device;
use crate::error::Error;
use crate::hooks::panics::lend;
use crate::plugins::plugin::Plugin;
use crate::tensors::foreign::MemoryOwner;
use crate::tensors::memory::Memory;
use crate::tensors::owner::Owner;
use crate::tensors::tensor::Tensor;

impl Memory {
    /// Adopts a native memory object of others, whose handle is `word`. Where it is a part of the object
    /// of a tensor, it is a view of that tensor's memory.
    ///
    /// # Safety
    /// - `word` is a live memory object of the device's vendor until `tensor` is dropped.
    pub(crate) unsafe fn native(
        device: Device,
        word: u64,
        tensor: MemoryOwner,
        read_only: bool,
    ) -> Result<Self, Error> {
        device.check_listed("adopt")?;
        let handle = Address::handle(word, 0);
        // SAFETY: the caller's promise, and the new memory holds `tensor` until the adoption ends.
        let (_tensor, address) = lend(tensor, |_lent| unsafe {
            let (hooks, flags) = (device.hooks(), AdoptFlags::empty());
            hooks.adopt(device.index(), handle, MemoryKind::DEVICE, 1, flags)
        })?;
        let owner = Owner::Native { _tensor, of: None };
        let mut adopted = Self::new(device.clone(), address, 1, MemoryKind::DEVICE, owner);
        let info = device.hooks().pointer_query(address)?;
        adopted.size = info.size;
        if let Some(whole) = Self::numbered(device.plugin(), info.allocation_id) {
            adopted.set_whole(Tensor::keeping(whole)?);
        }
        Ok(adopted.with_read_only(read_only || info.flags.contains(PointerFlags::READ_ONLY)))
    }

    /// The memory that the plugin's object of this word is, where somebody holds it: with its owner and
    /// the work on it.
    pub(crate) fn of_object(plugin: &Plugin, word: u64) -> Option<Arc<Self>> {
        plugin.objects().find(word)?.downcast().ok()
    }

    /// The memory that the plugin gives this number: under another handle, an object that is a part
    /// of it or that it is a part of.
    fn numbered(plugin: &Plugin, number: u64) -> Option<Arc<Self>> {
        let all = plugin.objects().all().into_iter().filter(|_| number != 0);
        let mut live = all.filter_map(|object| object.downcast::<Self>().ok());
        live.find(|memory| {
            let said = memory.device.hooks().pointer_query(memory.address);
            said.is_ok_and(|said| said.allocation_id == number)
        })
    }

    /// Lets others find it under the words by which its object is named. Where another thread was first,
    /// the answer is that one's memory.
    pub(crate) fn enter_object(self: &Arc<Self>, words: [u64; 2]) -> Option<Arc<Self>> {
        let first = self.device.plugin().objects().enter(words, self)?;
        first.downcast().ok()
    }

    /// The memory of a tensor, whose object others named in theirs.
    pub(crate) fn named(of: Tensor, others: MemoryOwner, read_only: bool) -> Self {
        let memory = of.memory();
        let (device, read_only) = (memory.device.clone(), read_only || memory.read_only);
        let (address, size) = (memory.address, memory.size);
        let reach = (memory.kind, memory.reach().by_host);
        let owner = Owner::Named {
            of,
            _tensor: others,
        };
        Self::of_reach(device, (address, size), reach, owner).with_read_only(read_only)
    }
}
