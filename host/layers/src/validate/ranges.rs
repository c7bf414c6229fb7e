//! Memory by address: which range an address lies in.

use std::collections::{BTreeMap, VecDeque};

use crossdock_sdk::abi::{Address, AddressForm, MemoryKind};

use crate::calls::describe::{address_text, kind_name};

/// Memory that the caller has from the plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) base: Address,
    pub(crate) size: u64,
    pub(crate) kind: MemoryKind,
    pub(crate) device: u32,
    /// Its number in the registry.
    pub(crate) serial: u64,
    /// The hook that gave it.
    pub(crate) from: &'static str,
}

impl Range {
    /// The range as messages name it.
    pub(crate) fn text(&self) -> String {
        let Self {
            size, device, from, ..
        } = self;
        let kind = kind_name(self.kind);
        let base = address_text(self.base);
        format!("{size} bytes of {kind} memory from {base} on device {device} (`{from}`)")
    }

    /// How far `address` is from the first byte, where it lies inside.
    pub(crate) fn offset_of(&self, address: Address) -> Option<u64> {
        offset(self.base, self.size, address)
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.offset_of(other.base).is_some() || other.offset_of(self.base).is_some()
    }
}

/// How far `address` is behind `base`, where it is less than `size`.
pub(crate) fn offset(base: Address, size: u64, address: Address) -> Option<u64> {
    let (base, at) = (Spot::of(base)?, Spot::of(address)?);
    if (base.form, base.handle) != (at.form, at.handle) {
        return None;
    }
    at.at.checked_sub(base.at).filter(|offset| *offset < size)
}

/// An address as a key: only those with one form and one handle are compared by distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    form: u32,
    handle: u64,
    pub(crate) at: u64,
}

impl Spot {
    /// `None` when word and offset overflow.
    pub(crate) fn of(address: Address) -> Option<Self> {
        let pointer = address.form == AddressForm::POINTER;
        let (handle, at) = if pointer {
            (0, address.as_pointer()?)
        } else {
            (address.word, address.offset)
        };
        Some(Self {
            form: address.form.0,
            handle,
            at,
        })
    }
}

/// Ranges that do not overlap, and those that went lately.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    live: BTreeMap<Spot, Range>,
    /// Taken out while the plugin frees them.
    ending: Vec<Range>,
    gone: VecDeque<Range>,
}

/// How many ended objects are remembered, for the message.
pub(crate) const REMEMBERED: usize = 1024;

impl Ranges {
    /// The live range with this address.
    pub(crate) fn find(&self, address: Address) -> Option<&Range> {
        let spot = Spot::of(address)?;
        let (_, range) = self.live.range(..=spot).next_back()?;
        range.offset_of(address).map(|_| range)
    }

    /// A live range that overlaps this one.
    pub(crate) fn overlapping(&self, range: &Range) -> Option<&Range> {
        let start = Spot::of(range.base)?;
        let last = Spot {
            at: start.at.saturating_add(range.size.saturating_sub(1)),
            ..start
        };
        let (_, before) = self.live.range(..=last).next_back()?;
        before.overlaps(range).then_some(before)
    }

    /// The range that went lately and had this address.
    pub(crate) fn find_gone(&self, address: Address) -> Option<&Range> {
        let had = |range: &&Range| range.offset_of(address).is_some();
        self.ending
            .iter()
            .find(had)
            .or_else(|| self.gone.iter().rev().find(had))
    }

    pub(crate) fn add(&mut self, range: Range) {
        self.gone.retain(|gone| !gone.overlaps(&range));
        if let Some(spot) = Spot::of(range.base) {
            self.live.insert(spot, range);
        }
    }

    /// Takes a range out before the plugin frees it, so that a new one may take its place.
    pub(crate) fn begin_end(&mut self, range: Range) {
        if let Some(spot) = Spot::of(range.base) {
            self.live.remove(&spot);
        }
        self.ending.push(range);
    }

    /// The plugin freed it, or did not.
    pub(crate) fn finish_end(&mut self, serial: u64, ended: bool) -> Option<Range> {
        let place = self
            .ending
            .iter()
            .position(|range| range.serial == serial)?;
        let range = self.ending.swap_remove(place);
        if !ended {
            self.add(range);
        } else if self.overlapping(&range).is_none() {
            if self.gone.len() == REMEMBERED {
                self.gone.pop_front();
            }
            self.gone.push_back(range);
        }
        Some(range)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Range> {
        self.live.values()
    }
}
