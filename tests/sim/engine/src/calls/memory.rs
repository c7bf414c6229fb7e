//! Calls about memory.

use std::ptr::NonNull;

use crate::arena::is_mapped;
use crate::callers::running;
use crate::engine::Locked;
use crate::memory::{Allocation, Life, Registered};
use crate::op::{Body, Use};
use crate::shadow::{Mark, Role};
use crate::state::State;
use crate::{Access, Engine, Error, MemoryKind, Owner, ReportKind, Site, Stream};

impl Engine {
    /// Allocates `bytes` on a device, at once. Fresh bytes are `0xCD` and count as not written.
    /// `alignment` is a power of two; smaller ones than 512 become 512. The same address is handed
    /// out again as late as possible.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for no such device, 0 bytes or a wrong alignment; [`Error::OutOfMemory`].
    pub fn allocate(
        &self,
        site: Site,
        device: u32,
        bytes: u64,
        alignment: u64,
        kind: MemoryKind,
    ) -> Result<u64, Error> {
        let (mut state, site) = self.enter(site, Some(device))?;
        let wanted = Allocation::new(site, device, bytes, kind, Life::Live);
        let at = state.place(wanted, alignment)?;
        if kind != MemoryKind::Device
            && let Err(error) = self.shared.arena.expose(at, bytes, true)
        {
            state.memory.give_back(at);
            state.memory.allocations.remove(&at);
            return Err(error);
        }
        let mark = state.host_mark(site, Role::Allocate);
        let host = state.host.clone();
        state.enter_use(at, at + bytes, true, mark, &host);
        self.get_pages(state, at, bytes);
        Ok(at)
    }

    /// Frees an allocation at once. It waits for nothing: an operation that may still use the memory
    /// makes a report. The null address is ignored.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] where no allocation begins, which is also reported.
    pub fn free(&self, site: Site, address: u64) -> Result<(), Error> {
        let (mut state, site) = self.enter(site, None)?;
        if address == 0 {
            return Ok(());
        }
        let kind = state.condemn(site, address)?;
        let mark = state.host_mark(site, Role::Free);
        let host = state.host.clone();
        let bytes = state
            .memory
            .allocations
            .get(&address)
            .map_or(0, |a| a.bytes);
        state.end_life(address, mark, &host);
        if kind != MemoryKind::Device {
            state.forget_registered(site, address, bytes);
            self.shared.arena.expose(address, bytes, false)?;
        }
        Ok(())
    }

    /// Allocates device memory in a stream's order: the address is known now, and may be used by
    /// operations that are ordered behind this one.
    ///
    /// # Errors
    ///
    /// As [`Engine::allocate`], and [`Error::Stale`].
    pub fn allocate_on(&self, site: Site, stream: Stream, bytes: u64) -> Result<u64, Error> {
        self.promise(site, stream, bytes, None)
    }

    /// The same from a pool, which may be another device's. Pools have numbers of the caller's; 0 is none.
    ///
    /// # Errors
    ///
    /// As [`Engine::allocate_on`].
    pub fn allocate_from(
        &self,
        site: Site,
        stream: Stream,
        bytes: u64,
        pool: (u32, u64),
    ) -> Result<u64, Error> {
        self.promise(site, stream, bytes, Some(pool))
    }

    fn promise(
        &self,
        site: Site,
        stream: Stream,
        bytes: u64,
        from: Option<(u32, u64)>,
    ) -> Result<u64, Error> {
        let (mut state, site) = self.enter_on(site, stream)?;
        let own = state.stream(site, stream)?.device;
        let (device, pool) = from.unwrap_or((own, 0));
        let mut wanted = Allocation::new(site, device, bytes, MemoryKind::Device, Life::Promised);
        wanted.pool = pool;
        let at = state.place(wanted, 512)?;
        state.submit(site, stream, Body::Allocate(at), Vec::new())?;
        self.shared.tell(&state);
        self.get_pages(state, at, bytes);
        Ok(at)
    }

    /// Where work takes real time, the pages of new memory come now, while others go on.
    fn get_pages(&self, state: Locked<'_>, at: u64, bytes: u64) {
        let is_paced = state.is_paced();
        drop(state);
        if is_paced {
            self.shared.arena.populate(at, bytes);
        }
    }

    /// Frees an allocation in a stream's order.
    ///
    /// # Errors
    ///
    /// As [`Engine::free`], and [`Error::Stale`].
    pub fn free_on(&self, site: Site, stream: Stream, address: u64) -> Result<(), Error> {
        let (mut state, site) = self.enter_on(site, stream)?;
        if address == 0 {
            return Ok(());
        }
        let kind = state.memory.allocations.get(&address).map(|a| a.kind);
        if kind.is_some_and(|kind| kind != MemoryKind::Device) {
            let why = "only device memory is freed in a stream's order".to_owned();
            return Err(Error::Invalid { why });
        }
        state.condemn(site, address)?;
        state.submit(site, stream, Body::Free(address), Vec::new())?;
        self.shared.tell(&state);
        Ok(())
    }

    /// Whose memory an address is in; `None` for memory that the engine does not know.
    #[must_use]
    pub fn owner_of(&self, address: u64) -> Option<Owner> {
        let vendors = self.config().vendors.len().max(1);
        let vendors = 0..u32::try_from(vendors).unwrap_or(1);
        vendors
            .into_iter()
            .find_map(|vendor| self.owner_for(vendor, address))
    }

    /// The same as a vendor knows it: its own allocations, and what it registered.
    #[must_use]
    pub fn owner_for(&self, vendor: u32, address: u64) -> Option<Owner> {
        let state = self.shared.here().ok()?;
        let is_own = |device: u32| self.config().vendor_of(device) == vendor;
        let live = state.memory.find(address).filter(|a| a.freed_by.is_none());
        if let Some(a) = live.filter(|a| is_own(a.device)) {
            return Some(Owner {
                device: a.device,
                kind: a.kind,
                base: a.start,
                bytes: a.bytes,
                id: a.id,
                pool: a.pool,
                is_registered: false,
            });
        }
        let (base, range) = state.memory.registered_at(vendor, address)?;
        let Registered {
            id, device, bytes, ..
        } = range;
        let kind = MemoryKind::Pinned;
        Some(Owner {
            device,
            kind,
            base,
            bytes,
            id,
            pool: 0,
            is_registered: true,
        })
    }

    /// Whether an address is one that the engine gives out, allocated now or not, or is in registered memory: the
    /// host's own memory is none.
    #[must_use]
    pub fn is_known(&self, address: u64) -> bool {
        self.shared.arena.contains(address) || self.owner_of(address).is_some()
    }

    /// The same for one vendor, who gives out the addresses of its own devices.
    #[must_use]
    pub fn is_known_to(&self, vendor: u32, address: u64) -> bool {
        let device = self.shared.arena.device_at(address);
        device.is_some_and(|device| self.config().vendor_of(device) == vendor)
            || self.owner_for(vendor, address).is_some()
    }

    /// Registers host memory: its owner is then `device`, as pinned memory. Another vendor may register it too.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a range that overlaps a registered one, which is also reported, and for one where there
    /// is no memory.
    pub fn register_host(
        &self,
        site: Site,
        device: u32,
        address: u64,
        bytes: u64,
    ) -> Result<(), Error> {
        let (mut state, site) = self.enter(site, Some(device))?;
        let end = address
            .checked_add(bytes)
            .filter(|_| bytes > 0 && address > 0);
        let vendor = self.config().vendor_of(device);
        // What another vendor has pinned is the host's own to this one.
        let is_hosts = |end: u64| match state.memory.find(address) {
            _ if !self.shared.arena.contains(address) => is_mapped(address, end),
            Some(a) if a.freed_by.is_none() && a.kind == MemoryKind::Pinned => {
                self.config().vendor_of(a.device) != vendor && end <= a.start + a.bytes
            }
            _ => false,
        };
        let Some(end) = end.filter(|end| is_hosts(*end)) else {
            let why = "what is registered is host memory of at least one byte".to_owned();
            return Err(Error::Invalid { why });
        };
        let own = (vendor, 0)..(vendor, end);
        let before = state.memory.registered.range(own).next_back();
        let met = before
            .filter(|((_, at), range)| *at + range.bytes > address)
            .map(|(_, r)| r.site);
        if let Some(first) = met {
            let why = "the range overlaps one that is registered".to_owned();
            let bytes = Some((address, bytes));
            state.report(
                ReportKind::Registration,
                first,
                Some(site),
                bytes,
                why.clone(),
            );
            return Err(Error::Invalid { why });
        }
        let id = state.memory.next_id();
        state.memory.registered.insert(
            (vendor, address),
            Registered {
                id,
                device,
                bytes,
                site,
            },
        );
        Ok(())
    }

    /// Forgets a registered range. Like a free, it is reported where an operation may still use it.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] where no registered range begins, which is also reported.
    pub fn unregister_host(&self, site: Site, address: u64) -> Result<(), Error> {
        self.unregister_for(site, 0, address)
    }

    /// The same of what a vendor registered.
    ///
    /// # Errors
    ///
    /// As [`Engine::unregister_host`].
    pub fn unregister_for(&self, site: Site, vendor: u32, address: u64) -> Result<(), Error> {
        // What another vendor has pinned or registered too is not free by this.
        let vendors = 0..u32::try_from(self.config().vendors.len()).unwrap_or(1);
        let mut others = vendors.into_iter().filter(|other| *other != vendor);
        let is_kept = others.any(|other| self.owner_for(other, address).is_some());
        let (mut state, site) = self.enter(site, None)?;
        let Some(range) = state.memory.registered.remove(&(vendor, address)) else {
            let why = format!("no registered range begins at {address:#x}");
            state.report(ReportKind::Registration, site, None, None, why.clone());
            return Err(Error::Invalid { why });
        };
        let mark = state.host_mark(site, Role::Free);
        let host = state.host.clone();
        if is_kept {
            state.check_given_up(vendor, (address, range.bytes), mark, &host);
        } else {
            let end = address + range.bytes;
            state.enter_use(address, end, true, mark, &host);
            state.words.forget(address, end);
        }
        Ok(())
    }

    /// Where host code reaches the bytes of an address in an allocation of any kind, up to its end.
    /// The user of it tells the checker by [`Engine::touch`].
    #[must_use]
    pub fn host_view(&self, address: u64) -> Option<NonNull<u8>> {
        let state = self.shared.here().ok()?;
        let allocation = state.memory.find(address)?;
        let live = allocation.freed_by.is_none();
        live.then(|| NonNull::new(self.shared.arena.view(address)))
            .flatten()
    }

    /// Tells the checker that host code reads or writes `bytes` at `address`: host memory, pinned
    /// memory, or device memory by its host view.
    pub fn touch(&self, site: Site, address: u64, bytes: u64, access: Access) {
        let Some(end) = address.checked_add(bytes).filter(|_| bytes > 0) else {
            return;
        };
        let writes = access == Access::Write;
        let used = |state: &State| {
            let allocation = state.memory.find(address).map(|a| (a.start, a.id));
            Use {
                start: address,
                end,
                writes,
                allocation,
            }
        };
        if let Some((mark, mut clock)) = running() {
            // A host function is part of its stream: it is ordered as the stream is.
            if let Ok(mut state) = self.shared.here() {
                // The host may have told it what it knows, as it may have told the host.
                if self.shared.config.host_functions_inform {
                    clock.join(&state.host);
                }
                let used = used(&state);
                state.check(&[used], mark, &clock);
            }
            return;
        }
        // No fault keeps the checker from knowing what host code does.
        if let Ok((mut state, site)) = self.attend(site) {
            let mark = state.host_mark(site, Role::Host);
            let (host, used) = (state.host.clone(), used(&state));
            state.check(&[used], mark, &host);
        }
    }
}

impl State {
    /// What host code does now.
    pub(crate) fn host_mark(&mut self, site: Site, role: Role) -> Mark {
        Mark {
            epoch: self.host_moment(),
            site,
            role,
            stream: 0,
        }
    }

    /// Finds room for an allocation and makes its bytes fresh.
    fn place(&mut self, wanted: Allocation, alignment: u64) -> Result<u64, Error> {
        let bytes = wanted.bytes;
        if bytes == 0 || !alignment.is_power_of_two() {
            let why = "an allocation has bytes, and its alignment is a power of two".to_owned();
            return Err(Error::Invalid { why });
        }
        let pages = if wanted.kind == MemoryKind::Device {
            512
        } else {
            4096
        };
        // Whole pages, where pages are opened for the host: none is shared with another kind.
        let room = bytes.checked_next_multiple_of(if pages == 4096 { pages } else { 1 });
        let Some(room) = room else {
            let (device, free) = (wanted.device, self.memory.info(wanted.device));
            return Err(Error::OutOfMemory {
                device,
                bytes,
                free: free.map_or(0, |(free, _)| free),
            });
        };
        let at = self.memory.allocate(wanted, alignment.max(pages), room)?;
        self.begin_anew(at, at + bytes);
        self.arena.poison(at, bytes, 0xCD);
        Ok(at)
    }

    /// Forgets what vendors have registered in pinned memory that is freed, and reports each.
    fn forget_registered(&mut self, site: Site, address: u64, bytes: u64) {
        let is_inside = |&(_, at): &(u32, u64)| (address..address + bytes).contains(&at);
        let keys = self.memory.registered.keys();
        let inside: Vec<(u32, u64)> = keys.filter(|key| is_inside(key)).copied().collect();
        for key in inside {
            if let Some(range) = self.memory.registered.remove(&key) {
                let why = "the memory is freed, and another vendor has it registered".to_owned();
                let bytes = Some((key.1, range.bytes));
                self.report(ReportKind::Registration, range.site, Some(site), bytes, why);
            }
        }
    }

    /// Enters that an allocation is freed by this call. Twice is reported, and so is no allocation.
    fn condemn(&mut self, site: Site, address: u64) -> Result<MemoryKind, Error> {
        let found = self.memory.allocations.get_mut(&address);
        let (first, detail) = match found {
            Some(allocation) => match allocation.freed_by {
                None => {
                    allocation.freed_by = Some(site);
                    return Ok(allocation.kind);
                }
                Some(first) => (Some(first), "the memory was freed by both calls"),
            },
            None => (None, "no allocation begins here"),
        };
        let detail = detail.to_owned();
        let (first, second) = first.map_or((site, None), |first| (first, Some(site)));
        self.report(
            ReportKind::DoubleFree,
            first,
            second,
            Some((address, 0)),
            detail.clone(),
        );
        Err(Error::Invalid { why: detail })
    }
}
