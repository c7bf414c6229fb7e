//! Calls about memory that another process opens.

use crate::arena::PAGE;
use crate::export::{descriptor, number_of, open};
use crate::memory::{Allocation, Life};
use crate::shadow::Role;
use crate::{Engine, Error, Export, MemoryKind, Site};

impl Engine {
    /// Lets other processes open an allocation of device memory, by any address in it. It is there for them until it
    /// is freed or this process ends.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for what is no device memory of this process.
    pub fn export(&self, site: Site, address: u64) -> Result<Export, Error> {
        let (mut state, _site) = self.enter(site, None)?;
        let found = state
            .memory
            .find(address)
            .filter(|a| a.freed_by.is_none() && a.kind == MemoryKind::Device && !a.is_imported);
        let Some((start, bytes, device, id)) = found.map(|a| (a.start, a.bytes, a.device, a.id))
        else {
            let why = "device memory of this process is opened by others, and no other".to_owned();
            return Err(Error::Invalid { why });
        };
        let arena = &self.shared.arena;
        let (file, offset) = arena.in_file(start);
        arena.enter(id, true)?;
        if let Some(allocation) = state.memory.allocations.get_mut(&start) {
            allocation.is_exported = true;
        }
        Ok(Export {
            process: std::process::id(),
            device,
            file: (u32::try_from(file).unwrap_or(0), number_of(file)?),
            range: (offset, bytes),
            ledger: arena.ledger(id),
            id,
        })
    }

    /// Opens memory of another process: it is an allocation here too, of the same bytes. The checkers of the two
    /// processes know nothing of each other.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`]; [`Error::Invalid`] for no such device; [`Error::OutOfMemory`] without addresses.
    pub fn import(&self, site: Site, export: &Export) -> Result<u64, Error> {
        let (mut state, site) = self.enter(site, Some(export.device))?;
        let file = open(export)?;
        let (offset, bytes) = export.range;
        let lead = offset % PAGE;
        let mut wanted =
            Allocation::new(site, export.device, bytes, MemoryKind::Device, Life::Live);
        wanted.lead = lead;
        wanted.is_imported = true;
        let room = lead
            .checked_add(bytes)
            .and_then(|bytes| bytes.checked_next_multiple_of(PAGE));
        let room = room.ok_or(Error::Gone)?;
        let start = state.memory.allocate(wanted, PAGE, room)?;
        state.begin_anew(start, start + bytes);
        let (arena, from) = (&self.shared.arena, start - lead);
        if let Err(error) = arena.show(from, room, descriptor(&file), offset - lead) {
            state.memory.give_back(start);
            state.memory.allocations.remove(&start);
            return Err(error);
        }
        Ok(start)
    }

    /// Closes memory of another process; it waits for nothing, and an operation that may still use it makes a report.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] where none was opened.
    pub fn close_import(&self, site: Site, address: u64) -> Result<(), Error> {
        let (mut state, site) = self.enter(site, None)?;
        let found = state.memory.allocations.get(&address);
        let Some((lead, room, end)) = found
            .filter(|a| a.is_imported && a.freed_by.is_none())
            .map(|a| (a.lead, a.room, a.end()))
        else {
            let why = "no memory of another process begins here".to_owned();
            return Err(Error::Invalid { why });
        };
        let mark = state.host_mark(site, Role::Free);
        let host = state.host.clone();
        if let Some(allocation) = state.memory.allocations.get_mut(&address) {
            allocation.freed_by = Some(site);
            allocation.life = Life::Freed(mark);
        }
        state.enter_use(address, end, true, mark, &host);
        state.memory.give_back(address);
        let arena = &self.shared.arena;
        let (file, offset) = arena.in_file(address - lead);
        arena.show(address - lead, room, file, offset)
    }
}
