//! Memory whose free would wait for the whole device: kept for the next allocation.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crossdock_sdk::pointers::{PointerEntry, PointerTable};

use crate::device::locked;
use crate::vendor::Kind;

/// The blocks that the driver gave, and which of them are idle. Host functions give some back, so nothing here calls
/// the vendor.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    /// By kind and size.
    idle: Mutex<BTreeMap<(u8, u64), Vec<u64>>>,
    /// All blocks that the driver gave, idle ones too: it still answers for their addresses.
    addresses: PointerTable,
    /// The kind of each block by address: the close frees them all.
    kinds: Mutex<BTreeMap<u64, Kind>>,
}

impl Blocks {
    /// A block of this kind, which has exactly this size.
    pub(crate) fn take(&self, kind: Kind, size: u64) -> Option<u64> {
        locked(&self.idle).get_mut(&(number(kind), size))?.pop()
    }

    /// Remembers a block that the driver gave.
    pub(crate) fn add(&self, kind: Kind, size: u64, address: u64) {
        locked(&self.kinds).insert(address, kind);
        // Where this fails, the block passes for memory of others while it is idle.
        drop(
            self.addresses
                .insert(PointerEntry::new(address, size, 0, 0)),
        );
    }

    /// Forgets a block, before it is freed.
    pub(crate) fn remove(&self, address: u64) {
        locked(&self.kinds).remove(&address);
        self.addresses.remove(address);
    }

    /// Whether an address is in one of these blocks.
    pub(crate) fn contains(&self, address: u64) -> bool {
        self.addresses.lookup(address).is_some()
    }

    /// Keeps a block that no work uses any more.
    pub(crate) fn give(&self, kind: Kind, size: u64, address: u64) {
        let mut idle = locked(&self.idle);
        idle.entry((number(kind), size)).or_default().push(address);
    }

    /// Bytes of the idle blocks of a kind.
    pub(crate) fn bytes(&self, kind: Kind) -> u64 {
        let idle = locked(&self.idle);
        let of_kind = idle.iter().filter(|((of, _), _)| *of == number(kind));
        of_kind
            .map(|((_, size), all)| size.saturating_mul(all.len() as u64))
            .sum()
    }

    /// Takes out the largest idle block of a kind, to be freed.
    pub(crate) fn largest(&self, kind: Kind) -> Option<(u64, u64)> {
        let mut idle = locked(&self.idle);
        let mut of_kind = idle
            .range_mut((number(kind), 0)..=(number(kind), u64::MAX))
            .rev();
        of_kind.find_map(|((_, size), all)| Some((all.pop()?, *size)))
    }

    /// Takes out all blocks, with their kinds, also those that were never given back: nobody is left who could.
    pub(crate) fn drain(&self) -> Vec<(u64, Kind)> {
        locked(&self.idle).clear();
        std::mem::take(&mut *locked(&self.kinds))
            .into_iter()
            .collect()
    }
}

const KINDS: [Kind; 3] = [Kind::Device, Kind::Pinned, Kind::Managed];

fn number(kind: Kind) -> u8 {
    let at = KINDS.iter().position(|one| *one == kind);
    at.and_then(|at| u8::try_from(at).ok()).unwrap_or(0)
}

/// The size of the block for so many bytes: an eighth of the next power of two is the step, so that few sizes serve
/// all, and at most a quarter is lost above 16 KiB. None where that overflows.
pub(crate) fn room_for(bytes: u64) -> Option<u64> {
    let step = (bytes.checked_next_power_of_two()? / 8).max(SMALLEST);
    bytes.checked_next_multiple_of(step)
}

const SMALLEST: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_serves_its_size_again_and_no_other() {
        let blocks = Blocks::default();
        for (kind, size, address) in [
            (Kind::Pinned, 4096, 7),
            (Kind::Pinned, 8192, 8),
            (Kind::Managed, 4096, 9),
        ] {
            blocks.add(kind, size, address);
        }
        blocks.give(Kind::Pinned, 4096, 7);
        blocks.give(Kind::Pinned, 8192, 8);
        assert_eq!(blocks.take(Kind::Managed, 4096), None);
        assert_eq!(blocks.bytes(Kind::Pinned), 12_288);
        assert_eq!(blocks.take(Kind::Pinned, 4096), Some(7));
        assert_eq!(blocks.take(Kind::Pinned, 4096), None);
        assert_eq!(blocks.largest(Kind::Pinned), Some((8, 8192)));
        blocks.remove(8);
        // Two are in use.
        assert_eq!(blocks.drain(), [(7, Kind::Pinned), (9, Kind::Managed)]);
        assert!(blocks.drain().is_empty());
    }

    #[test]
    fn a_block_is_little_more_than_what_is_asked_for() {
        assert_eq!(room_for(1), Some(4096));
        assert_eq!(room_for(1 << 20), Some(1 << 20));
        assert_eq!(room_for((1 << 20) + 1), Some((1 << 20) + (1 << 18)));
        assert_eq!(room_for(u64::MAX), None);
    }
}
