//! Adoption: native memory objects of others become tensors, by their handles.
#![expect(unsafe_code, reason = "handles are live by promise")]

use std::sync::Arc;

use crossdock_sdk::abi::{Address, Capabilities, MemoryKind, PointerFlags};
use crossdock_sdk::dlpack::TensorView;

use crate::devices::runtime::Runtime;
use crate::error::Error;
use crate::tensors::foreign::MemoryOwner;
use crate::tensors::memory::Memory;
use crate::tensors::tensor::Tensor;

impl Tensor {
    /// Takes a native memory object of others (a `cl_mem`), without a copy: its handle is the view's data. The claimed
    /// device's plugin adopts it, and every element must lie inside it. Of an object that a tensor here is of already, it is a view of that tensor's memory, which it
    /// keeps too.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a device that takes no native objects, and for an object that was made here
    /// and that no tensor keeps any more; [`Error::Hook`] where the plugin cannot adopt it, and those of
    /// [`Tensor::import`].
    ///
    /// # Safety
    /// - The handle is a live memory object of the device's vendor until `owner` is dropped.
    pub unsafe fn adopt_native(
        runtime: &Runtime,
        view: TensorView,
        owner: MemoryOwner,
    ) -> Result<Self, Error> {
        let claimed = runtime.device(view.device())?;
        if !claimed.capabilities().contains(Capabilities::ADOPT_NATIVE) {
            let why = format!("{} takes no native objects of others", claimed.id());
            return Err(Error::misuse("adopt a native object", why));
        }
        let word = view.data().addr() as u64;
        if view.layout().numel() == 0 {
            return Self::of_nothing(&claimed, view);
        }
        if let Some(memory) = Memory::of_object(claimed.plugin(), word) {
            return Self::of_known_object(memory, view, owner);
        }
        let known = claimed.hooks().pointer_query(Address::handle(word, 0))?;
        let is_others = known.flags.contains(PointerFlags::FOREIGN)
            && !known.flags.contains(PointerFlags::HOST_ACCESSIBLE);
        if known.kind != MemoryKind::UNOWNED && !is_others {
            let why = "it was made here, and its tensor was dropped: keep that tensor for as long as the \
                       object is used";
            return Err(Error::misuse("adopt a native object", why));
        }
        let claimed = claimed.clone();
        // SAFETY: the caller's promise, passed on.
        let memory = unsafe { Memory::native(claimed, word, owner, view.is_read_only()) }?;
        view.check_within(0, memory.size)?;
        let offset = view.byte_offset();
        Self::of_adopted(memory, word, view.into_layout(), offset)
    }

    /// A view of the memory that is this object, and that tensors here keep.
    fn of_known_object(
        memory: Arc<Memory>,
        view: TensorView,
        others: MemoryOwner,
    ) -> Result<Self, Error> {
        view.check_within(0, memory.size)?;
        let (read_only, offset) = (view.is_read_only(), view.byte_offset());
        let layout = view.into_layout();
        let whole = Self::of_object(memory, layout.clone(), offset);
        let named = || Memory::named(whole, others, read_only);
        Ok(Self::made(named, || layout, offset))
    }
}
