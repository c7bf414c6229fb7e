//! Host memory that was registered or adopted, and what the host sees of the devices'.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::plugin::lock;

/// Ranges of host memory that a device may use, none of which overlap.
#[derive(Debug, Default)]
pub(crate) struct Lent(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    ranges: BTreeMap<u64, Range>,
    /// By the address that an adoption gave, the bases of the ranges that it lies in.
    adoptions: BTreeMap<u64, Vec<u64>>,
}

#[derive(Debug, Clone, Copy)]
struct Range {
    size: u64,
    origin: Origin,
}

/// How a range came to be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// By `register_host`, for this device.
    Registered(u32),
    /// By `adopt`, so many times.
    Adopted(u32),
}

/// What a new range meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entered {
    /// Nothing: it is known now.
    New,
    /// It lies in the range with this base.
    Inside(u64),
    /// It lies partly in another range, and nothing was changed.
    Overlaps,
}

impl Lent {
    /// How the range that begins here came to be known.
    pub(crate) fn origin(&self, base: u64) -> Option<Origin> {
        lock(&self.0).ranges.get(&base).map(|range| range.origin)
    }

    /// Enters a range that is to be registered, where it meets no other.
    pub(crate) fn register(&self, base: u64, size: u64, device: u32) -> Entered {
        lock(&self.0).enter(base, size, Origin::Registered(device))
    }

    /// Ends the registration of a range; `None` where there is none, else whether the range is known no
    /// more: what was adopted in it keeps it.
    pub(crate) fn unregister(&self, base: u64, device: u32) -> Option<bool> {
        let mut book = lock(&self.0);
        let bases = book.adoptions.values().flatten();
        let adopted = bases.filter(|of| **of == base).count();
        let range = book.ranges.get_mut(&base)?;
        if range.origin != Origin::Registered(device) {
            return None;
        }
        // There are no more adoptions than a process has addresses for.
        range.origin = Origin::Adopted(u32::try_from(adopted).unwrap_or(u32::MAX));
        if adopted == 0 {
            book.ranges.remove(&base);
        }
        Some(adopted == 0)
    }

    /// Enters an adoption: of a new range, or inside of one that is known.
    pub(crate) fn adopt(&self, base: u64, size: u64) -> Entered {
        let mut book = lock(&self.0);
        let entered = book.enter(base, size, Origin::Adopted(1));
        match entered {
            Entered::Overlaps => {}
            Entered::New => book.adoptions.entry(base).or_default().push(base),
            Entered::Inside(of) => {
                if let Some(Range {
                    origin: Origin::Adopted(count),
                    ..
                }) = book.ranges.get_mut(&of)
                {
                    *count += 1;
                }
                book.adoptions.entry(base).or_default().push(of);
            }
        }
        entered
    }

    /// Enters an adoption of an allocation's bytes.
    pub(crate) fn adopt_inside(&self, address: u64, base: u64) {
        lock(&self.0)
            .adoptions
            .entry(address)
            .or_default()
            .push(base);
    }

    /// The base of the range that an adoption lies in.
    pub(crate) fn adopted(&self, address: u64) -> Option<u64> {
        lock(&self.0)
            .adoptions
            .get(&address)
            .and_then(|bases| bases.last().copied())
    }

    /// Ends an adoption; the base of its range, and whether that is known no more.
    pub(crate) fn release(&self, address: u64) -> Option<(u64, bool)> {
        let mut book = lock(&self.0);
        let bases = book.adoptions.get_mut(&address)?;
        let base = bases.pop()?;
        if bases.is_empty() {
            book.adoptions.remove(&address);
        }
        let Some(Range {
            origin: Origin::Adopted(count),
            ..
        }) = book.ranges.get_mut(&base)
        else {
            return Some((base, false));
        };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            book.ranges.remove(&base);
        }
        Some((base, is_last))
    }
}

impl Book {
    fn enter(&mut self, base: u64, size: u64, origin: Origin) -> Entered {
        let end = base.saturating_add(size);
        let before = self.ranges.range(..end).next_back();
        match before {
            Some((other, range)) if base < other.saturating_add(range.size) => {
                let is_inside = *other <= base && end <= other.saturating_add(range.size);
                if is_inside {
                    Entered::Inside(*other)
                } else {
                    Entered::Overlaps
                }
            }
            _ => {
                self.ranges.insert(base, Range { size, origin });
                Entered::New
            }
        }
    }
}

/// What the host sees of device memory, by the first address that it sees.
#[derive(Debug, Default)]
pub(crate) struct Views(Mutex<BTreeMap<u64, Vec<View>>>);

/// One mapping.
#[derive(Debug, Clone, Copy)]
struct View {
    /// Where the device has these bytes.
    device: u64,
    size: u64,
}

impl Views {
    /// Enters a mapping.
    pub(crate) fn add(&self, pointer: u64, device: u64, size: u64) {
        lock(&self.0)
            .entry(pointer)
            .or_default()
            .push(View { device, size });
    }

    /// Ends a mapping of a device's address; whether it was one.
    pub(crate) fn remove(&self, pointer: u64, device: u64) -> bool {
        let mut views = lock(&self.0);
        let Some(here) = views.get_mut(&pointer) else {
            return false;
        };
        let index = here.iter().position(|view| view.device == device);
        let was_there = index.map(|index| here.swap_remove(index)).is_some();
        if here.is_empty() {
            views.remove(&pointer);
        }
        was_there
    }

    /// The device's address of a byte that the host sees.
    pub(crate) fn device_address(&self, word: u64) -> Option<u64> {
        let views = lock(&self.0);
        let mut before = views.range(..=word).rev();
        before.find_map(|(start, views)| {
            let distance = word - start;
            let view = views.iter().find(|view| distance < view.size)?;
            view.device.checked_add(distance)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adoption_inside_another_keeps_its_range() {
        let lent = Lent::default();
        assert_eq!(lent.adopt(1000, 100), Entered::New);
        assert_eq!(lent.adopt(1010, 10), Entered::Inside(1000));
        assert_eq!(lent.adopt(1090, 20), Entered::Overlaps);
        assert_eq!(lent.adopt(990, 200), Entered::Overlaps);
        assert_eq!(lent.register(1000, 100, 0), Entered::Inside(1000));
        assert_eq!(lent.release(1000), Some((1000, false)));
        assert_eq!(lent.release(1000), None);
        assert_eq!(lent.release(1010), Some((1000, true)));
        assert_eq!(lent.register(1000, 100, 0), Entered::New);
        assert_eq!(lent.unregister(1000, 1), None);
        assert_eq!(lent.unregister(1000, 0), Some(true));
    }

    #[test]
    fn an_adoption_outlives_the_registration_of_its_range() {
        let lent = Lent::default();
        assert_eq!(lent.register(1000, 100, 0), Entered::New);
        assert_eq!(lent.adopt(1000, 100), Entered::Inside(1000));
        assert_eq!(lent.adopt(1010, 10), Entered::Inside(1000));
        assert_eq!(lent.unregister(1000, 0), Some(false));
        assert_eq!(lent.unregister(1000, 0), None);
        assert_eq!(lent.release(1000), Some((1000, false)));
        assert_eq!(lent.release(1010), Some((1000, true)));
        assert_eq!(lent.register(1000, 100, 0), Entered::New);
    }

    #[test]
    fn a_view_leads_to_the_devices_address_until_it_ends() {
        let views = Views::default();
        views.add(5000, 100, 50);
        assert_eq!(views.device_address(5049), Some(149));
        assert_eq!(views.device_address(5050), None);
        assert!(!views.remove(5000, 99) && views.remove(5000, 100));
        assert_eq!(views.device_address(5000), None);
    }
}
