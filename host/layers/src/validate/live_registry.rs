//! The live objects of one plugin.

use std::collections::HashSet;

use crossdock_sdk::abi::Address;

use super::handles::Handles;
use super::ranges::{Range, Ranges};
use super::verdicts::Verdicts;
use crate::calls::describe::address_text;
use crate::calls::live_objects::LiveObjects;

/// What the plugin gave and has not got back.
#[derive(Debug, Default)]
pub(crate) struct LiveRegistry {
    pub(crate) memory: Ranges,
    /// Adopted memory may be adopted twice, so it may overlap.
    pub(crate) adopted: Vec<Range>,
    pub(crate) mappings: Vec<Mapping>,
    pub(crate) registered: Vec<Registration>,
    pub(crate) streams: Handles,
    pub(crate) events: Handles,
    /// What events told of the work before them.
    pub(crate) verdicts: Verdicts,
    /// Streams that a hook is putting work on.
    pub(crate) busy: HashSet<u64>,
    serials: u64,
}

/// A host view of device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) device: u32,
    pub(crate) address: Address,
    pub(crate) pointer: u64,
    pub(crate) size: u64,
}

/// Host memory that is locked for a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Registration {
    pub(crate) device: u32,
    pub(crate) pointer: u64,
    pub(crate) size: u64,
}

impl LiveRegistry {
    /// A number for the next object.
    pub(crate) const fn next_serial(&mut self) -> u64 {
        self.serials += 1;
        self.serials
    }

    /// Every live range with this address: one allocation, or adoptions.
    pub(crate) fn ranges_at(&self, address: Address) -> Vec<Range> {
        let adopted = self.adopted.iter().rev();
        let adopted = adopted.filter(|range| range.offset_of(address).is_some());
        self.memory
            .find(address)
            .into_iter()
            .chain(adopted)
            .copied()
            .collect()
    }

    /// The mapping of memory that lies in this range.
    pub(crate) fn mapping_in(&self, range: &Range) -> Option<&Mapping> {
        let inside = |mapping: &&Mapping| range.offset_of(mapping.address).is_some();
        self.mappings.iter().find(inside)
    }

    /// What is live now.
    pub(crate) fn live(&self) -> LiveObjects {
        let mut examples: Vec<String> = self.memory.iter().map(Range::text).collect();
        let allocations = examples.len();
        examples.extend(self.adopted.iter().map(Range::text));
        examples.extend(self.mappings.iter().map(Mapping::text));
        examples.extend(self.registered.iter().map(Registration::text));
        let streams = texts(&self.streams, "stream");
        let events = texts(&self.events, "event");
        let live = LiveObjects {
            allocations,
            adoptions: self.adopted.len(),
            mappings: self.mappings.len(),
            registrations: self.registered.len(),
            streams: streams.len(),
            events: events.len(),
            examples: Vec::new(),
        };
        examples.extend(streams);
        examples.extend(events);
        examples.truncate(EXAMPLES);
        LiveObjects { examples, ..live }
    }
}

impl Mapping {
    pub(crate) fn text(&self) -> String {
        let Self {
            device,
            pointer,
            size,
            ..
        } = self;
        let address = address_text(self.address);
        format!("{size} bytes of {address} on device {device}, mapped at {pointer:#x} (`map`)")
    }
}

impl Registration {
    fn text(&self) -> String {
        let Self {
            device,
            pointer,
            size,
        } = self;
        format!(
            "{size} bytes of host memory from {pointer:#x} for device {device} (`register_host`)"
        )
    }
}

fn texts(handles: &Handles, what: &str) -> Vec<String> {
    let text = |(word, handle): (u64, &super::handles::Handle)| {
        let (device, from) = (handle.device, handle.from);
        format!("{what} {word:#x} of device {device} (`{from}`)")
    };
    let mut texts: Vec<_> = handles.owned().map(text).collect();
    texts.sort();
    texts
}

/// So many live objects are listed.
const EXAMPLES: usize = 16;
