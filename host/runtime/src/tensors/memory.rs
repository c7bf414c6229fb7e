//! Memory with an owner: what a tensor views, and how it is given back.
#![expect(unsafe_code, reason = "frees and adopts memory through hooks")]

use std::sync::Arc;

use crossdock_sdk::abi::{Address, AddressForm, AdoptFlags, MemoryKind, Side};
use crossdock_sdk::dlpack;

use crate::devices::device::Device;
use crate::error::Error;
use crate::hooks::panics::lend;
use crate::plugins::releases::{Release, RunAtDrop};
use crate::process::process_state;
use crate::streams::completion;
use crate::streams::event::Event;
use crate::streams::outstanding_work::{Access, OutstandingWork, Work};
use crate::streams::stream::Stream;
use crate::tensors::calls::Calls;
use crate::tensors::claim::HostClaim;
use crate::tensors::foreign::{LentBytes, MemoryOwner};
use crate::tensors::inherited::Here;
use crate::tensors::owner::{Owner, Pointer, give_back, log_failure};
use crate::tensors::reach::{Maps, Reach};
use crate::tensors::tensor::Tensor;

/// The owner of a tensor's bytes on one device.
pub(crate) struct Memory {
    pub(crate) device: Device,
    /// First byte.
    pub(crate) address: Address,
    /// Length in bytes; 0 has no address.
    pub(crate) size: u64,
    pub(crate) kind: MemoryKind,
    pub(crate) read_only: bool,
    /// Whether the host reads and writes it at its address.
    by_host: bool,
    owner: Owner,
    outstanding: OutstandingWork,
    calls: Calls<RunAtDrop>,
    /// The generation of forks that it was made in, and what a later one has in its place.
    generation: u32,
    here: Here,
}

impl Memory {
    /// Takes a tensor of others whose memory is `size` bytes from `address`. Whether the host reaches it is
    /// what its plugin answered for it.
    #[inline]
    pub(crate) fn received(
        device: Device,
        (address, size): (Address, u64),
        (kind, by_host): (MemoryKind, bool),
        (tensor, claim): (MemoryOwner, HostClaim),
        read_only: bool,
    ) -> Self {
        let owner = Owner::Received {
            _tensor: tensor,
            claim,
        };
        Self::of_reach(device, (address, size), (kind, by_host), owner).with_read_only(read_only)
    }

    /// Takes host bytes, read-only: their owner lends them as a shared slice.
    pub(crate) fn host(device: &Device, owner: LentBytes) -> Self {
        let bytes = owner.bytes();
        let address = Address::pointer(bytes.as_ptr().expose_provenance() as u64);
        let size = bytes.len() as u64;
        let owner = Owner::Host { _owner: owner };
        Self::new(device.clone(), address, size, MemoryKind::HOST, owner).with_read_only(true)
    }

    /// Makes memory of `device` that aliases host-accessible memory of another device.
    pub(crate) fn adopt(device: &Device, tensor: &Tensor) -> Result<Self, Error> {
        device.check_listed("adopt")?;
        let of = tensor.memory();
        let flags = if of.read_only {
            AdoptFlags::READ_ONLY
        } else {
            AdoptFlags::empty()
        };
        let (hooks, index) = (device.hooks(), device.index());
        // SAFETY: the new memory holds a tensor of these bytes until the adoption has ended.
        let (kept, address) = lend(tensor.keeper().clone(), |_kept| unsafe {
            hooks.adopt(index, of.address, MemoryKind::HOST, of.size, flags)
        })?;
        let owner = Owner::Adopted { of: kept };
        let adopted = Self::new(device.clone(), address, of.size, MemoryKind::DEVICE, owner);
        Ok(adopted.with_read_only(of.read_only))
    }

    /// Makes host memory that is a view of device memory.
    pub(crate) fn map(host: &Device, tensor: &Tensor) -> Result<Self, Error> {
        let of = tensor.memory();
        let (kept, pointer) = lend(tensor.keeper().clone(), |_kept| {
            let (hooks, index) = (of.device.hooks(), of.device.index());
            hooks.map(index, of.address, of.size)
        })?;
        let address = Address::pointer(pointer.expose_provenance() as u64);
        let owner = Owner::Mapped {
            of: kept,
            pointer: Pointer(pointer),
        };
        let mapped = Self::new(host.clone(), address, of.size, MemoryKind::HOST, owner);
        Ok(mapped.with_read_only(of.read_only))
    }

    /// Memory that a hook gave for this device, or the host's: what of it the host reaches follows from
    /// its form, its kind and the device.
    pub(crate) fn new(
        device: Device,
        address: Address,
        size: u64,
        kind: MemoryKind,
        owner: Owner,
    ) -> Self {
        let is_hosts = kind != MemoryKind::DEVICE || device.is_host_accessible();
        let by_host = address.form == AddressForm::POINTER && is_hosts;
        Self::of_reach(device, (address, size), (kind, by_host), owner)
    }

    /// Memory that exists, of which is known whether the host reaches it at its address.
    #[inline]
    pub(crate) fn of_reach(
        device: Device,
        (address, size): (Address, u64),
        (kind, by_host): (MemoryKind, bool),
        owner: Owner,
    ) -> Self {
        Self {
            device,
            address,
            size,
            kind,
            read_only: false,
            by_host,
            owner,
            outstanding: OutstandingWork::default(),
            calls: Calls::default(),
            generation: process_state::generation(),
            here: Here::default(),
        }
    }

    /// Takes host memory of the parent, in the child of a fork. `inherited` outlives it.
    pub(crate) fn inherited(device: Device, address: u64, inherited: &Self) -> Self {
        let of = inherited.viewed();
        let of = of.filter(|of| !of.memory().is_inherited()).cloned();
        let (address, owner) = (Address::pointer(address), Owner::Inherited { of });
        Self::new(device, address, inherited.size, MemoryKind::HOST, owner)
            .with_read_only(inherited.read_only)
    }

    /// Whether the parent of this process made it, before the fork.
    #[inline]
    pub(crate) fn is_inherited(&self) -> bool {
        self.generation != process_state::generation()
    }

    /// What a child of a fork has in its place.
    pub(crate) const fn here(&self) -> &Here {
        &self.here
    }

    /// Whether all work that was entered on it before the fork is known to have ended well. Only its own
    /// outstanding work is looked at: the work of all aliases is entered at the last of [`Memory::views`].
    pub(crate) fn was_at_rest(&self) -> bool {
        self.outstanding.was_at_rest()
    }

    #[inline]
    pub(crate) const fn with_read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Where DLPack says that it is.
    #[inline]
    pub(crate) fn dlpack_device(&self) -> dlpack::Device {
        match self.kind {
            MemoryKind::DEVICE | MemoryKind::HOST => self.device.id(),
            kind => self.device.id_of(kind),
        }
    }

    /// The address of byte `offset`.
    #[inline]
    pub(crate) fn at(&self, offset: u64) -> Address {
        self.address.advanced(offset).unwrap_or(self.address)
    }

    /// This memory, `offset` bytes in, as one side of a copy by its own plugin.
    pub(crate) fn side(&self, offset: u64) -> Side {
        Side {
            address: self.at(offset),
            kind: self.kind,
            device: self.device.index(),
        }
    }

    /// Who reaches these bytes, besides the device: the host, where it reads and writes them at the same
    /// addresses.
    pub(crate) fn reach(&self) -> Reach {
        Reach {
            by_host: self.by_host,
            is_of_a_kind: [MemoryKind::PINNED, MemoryKind::MANAGED].contains(&self.kind),
            maps: if self.size == 0 || self.address.form == self.device.info().address_form {
                Maps::Tried
            } else {
                Maps::Never
            },
        }
    }

    /// The host's address of byte `offset`, where the host can dereference it.
    pub(crate) fn host_address(&self, offset: u64) -> Option<u64> {
        if self.by_host {
            self.address.advanced(offset)?.as_pointer()
        } else {
            None
        }
    }

    /// The nearest tensor on `device` that this memory is a view of, directly or through other views.
    pub(crate) fn seen_through(&self, device: &Device) -> Option<&Tensor> {
        let mut memory = self;
        while let Owner::Adopted { of } | Owner::Mapped { of, .. } | Owner::Named { of, .. } =
            &memory.owner
        {
            memory = of.memory();
            if memory.device == *device && (memory.read_only || !self.read_only) {
                return Some(of);
            }
        }
        None
    }

    /// Whether it is this library's own.
    pub(crate) const fn is_allocated(&self) -> bool {
        matches!(self.owner, Owner::Allocated)
    }

    /// The tensor that this is another view of.
    #[inline]
    pub(crate) fn viewed(&self) -> Option<&Tensor> {
        match &self.owner {
            Owner::Adopted { of }
            | Owner::Mapped { of, .. }
            | Owner::Named { of, .. }
            | Owner::Registered { of, .. } => Some(of),
            Owner::Inherited { of } | Owner::Native { of, .. } => of.as_ref(),
            _ => None,
        }
    }

    /// What its producer said of it, where that is still to be checked at times.
    #[inline]
    pub(crate) const fn claim(&self) -> Option<&HostClaim> {
        match &self.owner {
            Owner::Received { claim, .. } => Some(claim),
            _ => None,
        }
    }

    /// Makes an adopted object a part of another one, which it keeps.
    pub(crate) fn set_whole(&mut self, whole: Tensor) {
        if let Owner::Native { of, .. } = &mut self.owner {
            *of = Some(whole);
        }
    }

    /// Whether it lies in the root where nobody here knows: it is a part of an object.
    pub(crate) fn is_in_a_part(&self) -> bool {
        let mut views = std::iter::successors(Some(self), |view| Some(view.viewed()?.memory()));
        views.any(|view| matches!(view.owner, Owner::Native { of: Some(_), .. }))
    }

    /// The memory that these bytes are, whichever device's view of it this is.
    #[inline]
    pub(crate) fn root(&self) -> &Self {
        let mut memory = self;
        while let Some(of) = memory.viewed() {
            memory = of.memory();
        }
        memory
    }

    /// This, and what it is a view of, down to the root; each as the last process made it that did.
    pub(crate) fn views(&self) -> impl Iterator<Item = &Self> {
        let newest =
            |memory| std::iter::successors(Some(memory), |old: &&Self| old.here.get()).last();
        std::iter::successors(Some(self), move |view| newest(view.viewed()?.own_memory()))
    }

    /// At exit, and in the child of a fork, no hook is called: what would be given back is a counted
    /// leak. So is what others lent: their code may be gone, and in a child it is the parent's, who
    /// gives it back.
    #[cold]
    fn leak(&mut self) {
        process_state::leak(std::mem::replace(&mut self.owner, Owner::Empty));
    }

    /// The work that may still be running on these bytes, whichever device's view it went through.
    #[inline]
    pub(crate) fn outstanding(&self) -> &OutstandingWork {
        &self.root().outstanding
    }

    /// The calls that use these bytes, whichever device's view they go through.
    #[inline]
    pub(crate) fn calls(&self) -> &Calls<RunAtDrop> {
        &self.root().calls
    }

    /// Lets a stream of its own plugin free the memory when all work on it is done, so that nobody
    /// has to wait.
    ///
    /// Only a stream that comes behind all of the work as it is: to wait there for other streams would
    /// hold up, and fail, work that has nothing to do with the memory.
    fn free_in_order(&self, work: &[Work]) -> Result<(), Error> {
        let unsupported = || self.device.hooks().missing("free_async");
        let is_own = |stream: &&Stream| self.device.is_of(stream.device().plugin());
        let stream = Work::stream_behind(work).filter(is_own);
        let stream = stream.ok_or_else(unsupported)?;
        if self.device.hooks().table().async_memory().is_none() {
            return Err(unsupported());
        }
        let freed = stream.free(|stream| {
            // SAFETY: this is the last user, and the stream's own plugin keeps it behind all work: that on
            // the stream, and that on others whose events the stream waits for.
            unsafe { self.device.hooks().free_async(stream, self.address) }
        });
        match freed {
            // The plugin may have taken the memory all the same: freed once more, its address could be
            // that of other memory by then. So it is leaked.
            Err(error) if !error.is_unsupported() => {
                log_failure(&error);
                Ok(())
            }
            freed => freed,
        }
    }

    /// Defers the end of a view that is dropped to that of the last call that uses the memory; false where there
    /// is none. A call that begins later may meet the view still: its plugin waits for what is submitted then.
    #[inline(never)]
    fn defer_to_calls(&mut self) -> bool {
        let Some(of) = self.viewed() else {
            return false;
        };
        if !self.calls().is_any() {
            return false;
        }
        let of = of.clone();
        of.memory().calls().defer(|| {
            let ended = self.take();
            let outstanding = Arc::clone(ended.device.plugin().releases());
            RunAtDrop::new(Release::new(&outstanding, move || drop(ended)))
        })
    }

    /// The memory with its owner, which this one has no more.
    fn take(&mut self) -> Self {
        let owner = std::mem::replace(&mut self.owner, Owner::Empty);
        let (address, kind) = (self.address, self.kind);
        Self::new(self.device.clone(), address, self.size, kind, owner)
    }

    /// Gives it back at once; all work on it is over.
    fn give_back(&mut self) {
        let owner = std::mem::replace(&mut self.owner, Owner::Empty);
        give_back(&self.device, self.address, self.kind, owner);
    }

    /// Gives it back when this work is over. `over` happened before.
    fn give_back_behind(self, work: Vec<Work>, mut over: Vec<Event>) {
        let outstanding = Arc::clone(self.device.plugin().releases());
        over.extend(work.iter().filter_map(|one| one.end.clone().ok()));
        let release = Release::new(&outstanding, move || self.give_back_unless_used(over));
        completion::release_after(work, release);
    }

    /// Gives it back when all work is over: the holder of the memory behind a plugin's view may have submitted
    /// more work than what is `over`.
    fn give_back_unless_used(mut self, over: Vec<Event>) {
        let is_view = matches!(
            self.owner,
            Owner::Adopted { .. } | Owner::Mapped { .. } | Owner::Registered { .. }
        );
        if !is_view {
            return self.give_back();
        }
        if self.calls().is_any() {
            // Dropped, it waits for the calls.
            return;
        }
        let mut work = self.outstanding().before(Access::Write);
        // What failed stays outstanding, and is over.
        work.retain(|one| !one.is_done() && !over.iter().any(|event| one.is_of(event)));
        match work.is_empty() {
            true => self.give_back(),
            false => self.give_back_behind(work, over),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if matches!(self.owner, Owner::Empty | Owner::Inherited { .. }) {
            return;
        }
        if process_state::exiting() || self.device.hooks().is_forked() {
            return self.leak();
        }
        if self.viewed().is_some() && self.defer_to_calls() {
            return;
        }
        // Others keep what is theirs until their own work on it is over. What they lent ends with the
        // memory; a native object has to be given back to the plugin besides.
        let is_lent = matches!(
            self.owner,
            Owner::Received { .. } | Owner::Host { .. } | Owner::Named { .. }
        );
        if is_lent && !self.outstanding().is_busy() {
            return;
        }
        self.end(is_lent);
    }
}

impl Memory {
    /// Gives it back behind all work. Out of line: most memory of others never sees any.
    #[inline(never)]
    fn end(&mut self, is_lent: bool) {
        let is_kept = is_lent || matches!(self.owner, Owner::Native { .. });
        let mut work = self.outstanding().before(Access::Write);
        work.retain(|one| (one.holds_memory || !is_kept) && !one.is_done());
        let is_of_streams = self.is_allocated() && self.kind == MemoryKind::DEVICE;
        if is_of_streams && !work.is_empty() && self.free_in_order(&work).is_ok() {
            return;
        }
        if work.is_empty() {
            return self.give_back();
        }
        self.take().give_back_behind(work, Vec::new());
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory")
            .field("device", &self.device.id())
            .field("address", &self.address)
            .field("size", &self.size)
            .field("kind", &self.kind)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}
