//! Whether two tensors may share bytes, whichever device's view of the memory each goes through.

use std::ops::Range;

use crossdock_sdk::abi::{Address, AddressForm, MemoryKind, PointerInfo};

use crate::tensors::memory::Memory;
use crate::tensors::tensor::Tensor;

/// Whether the elements of both may share bytes. What one memory is called by its own plugin says
/// nothing of another's, so plugins are asked where their names differ: memory of a device may have
/// come back as host memory.
pub(crate) fn may_overlap(one: &Tensor, other: &Tensor) -> bool {
    let is_one_view = std::ptr::eq(one.memory(), other.memory());
    let [one, other] = [one, other].map(|tensor| Part::of(tensor, is_one_view));
    if std::ptr::eq(one.memory, other.memory) {
        return meet(&one.bytes, &other.bytes);
    }
    let own = one.name().meets(&other.name());
    if own || (one.is_addressed() && other.is_addressed()) {
        return own;
    }
    let [said, said_of_other] = [&one, &other].map(Part::ask);
    if let (Some(said), Some(said_of_other)) = (&said, &said_of_other)
        && one.is_named_otherwise(said, &other, said_of_other)
    {
        return true;
    }
    let names = one.names(said.as_ref());
    let others = other.names(said_of_other.as_ref());
    let mut pairs = names
        .iter()
        .flat_map(|name| others.iter().map(move |other| (name, other)));
    let is_one = |part: &Part<'_>, said: Option<PointerInfo>, other: &Part<'_>| {
        said.is_some_and(|said| part.knows_as_its_own(&said, other))
    };
    pairs.any(|(name, other)| name.meets(other))
        || is_one(&one, said, &other)
        || is_one(&other, said_of_other, &one)
}

/// The bytes of a memory that a tensor's elements reach.
struct Part<'a> {
    /// The tensor's, which may be a view of the other one.
    own: &'a Memory,
    memory: &'a Memory,
    bytes: Range<u64>,
}

/// Bytes by one of the names that they may have.
#[derive(Debug)]
struct Name {
    /// The object that counts them; `None` is the address space of the process.
    object: Option<u64>,
    bytes: Range<u64>,
}

impl<'a> Part<'a> {
    /// `is_own_place`: where in the tensor's own memory, which may be a part of another one, at a place
    /// that only its plugin knows.
    fn of(tensor: &'a Tensor, is_own_place: bool) -> Self {
        let own = tensor.memory();
        let root = own.root();
        if !is_own_place && own.is_in_a_part() {
            return Self {
                own,
                memory: root,
                bytes: 0..root.size,
            };
        }
        let span = tensor.layout().span();
        let [first, end] = [span.min, span.max].map(|at| tensor.offset().wrapping_add_signed(at));
        Self {
            own,
            memory: root,
            bytes: first..end,
        }
    }

    /// What its own plugin calls it.
    fn name(&self) -> Name {
        self.name_in(self.memory)
    }

    /// What the plugin of one of its views calls it.
    fn name_in(&self, view: &Memory) -> Name {
        let Address {
            word, offset, form, ..
        } = view.address;
        let (object, base) = match form {
            AddressForm::HANDLE => (Some(word), offset),
            _ => (None, word.wrapping_add(offset)),
        };
        let at = |byte: u64| base.wrapping_add(byte);
        Name {
            object,
            bytes: at(self.bytes.start)..at(self.bytes.end),
        }
    }

    /// Whether its name is an address that the host uses too, of which there is no other.
    fn is_addressed(&self) -> bool {
        self.memory.host_address(0).is_some()
    }

    /// What its plugin says of it, where the host's address does not say all.
    fn ask(&self) -> Option<PointerInfo> {
        if self.is_addressed() {
            return None;
        }
        let first = self.memory.at(self.bytes.start);
        let said = self.memory.device.hooks().pointer_query(first).ok()?;
        (said.kind != MemoryKind::UNOWNED).then_some(said)
    }

    /// Whether both are of one memory under two handles, as an object and a part of it. Where in it
    /// they lie is not asked, so they may overlap.
    fn is_named_otherwise(
        &self,
        said: &PointerInfo,
        other: &Part<'_>,
        said_of_other: &PointerInfo,
    ) -> bool {
        let of_both = [self, other].map(|part| part.name().object);
        let [Some(own), Some(others)] = of_both else {
            return false;
        };
        let is_of_one_plugin = self.memory.device.is_of(other.memory.device.plugin());
        let is_one = said.allocation_id == said_of_other.allocation_id;
        own != others && is_of_one_plugin && is_one && said.allocation_id != 0
    }

    /// Its own name and that of each of its views, and the addresses at which the host and the device
    /// reach it.
    fn names(&self, said: Option<&PointerInfo>) -> Vec<Name> {
        let length = self.bytes.end - self.bytes.start;
        let addressed = |first: u64| Name {
            object: None,
            bytes: first..first.saturating_add(length),
        };
        let at = |first: fn(&PointerInfo) -> u64| {
            let first = said.map(first).filter(|first| *first != 0);
            first.map(addressed)
        };
        let (host, device) = (at(|said| said.host_pointer), at(|said| said.device_pointer));
        let views = self.own.views().map(|view| self.name_in(view));
        views.chain(host).chain(device).collect()
    }

    /// Whether its plugin, which said this of it, knows the other one as part of the same memory.
    /// Where the host reaches it is known then, the addresses have said whether they meet.
    fn knows_as_its_own(&self, said: &PointerInfo, other: &Part<'_>) -> bool {
        if said.host_pointer != 0 || said.allocation_id == 0 || other.name().object.is_some() {
            return false;
        }
        let first = Address::pointer(other.name().bytes.start);
        let known = self.memory.device.hooks().pointer_query(first);
        known.is_ok_and(|known| known.allocation_id == said.allocation_id)
    }
}

impl Name {
    fn meets(&self, other: &Self) -> bool {
        self.object == other.object && meet(&self.bytes, &other.bytes)
    }
}

fn meet(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
