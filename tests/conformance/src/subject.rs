//! The plugin and device that a run looks at.

use std::sync::Arc;

use crossdock::{Error, Hooks};
use crossdock_sdk::abi::{AllocateArgs, Capabilities, DeviceInfo, MemoryKind};

use crate::allocation::Allocation;
use crate::case::{Unmet, Verdict, is_unsupported, skipped};
use crate::event::{Event, HostEvent};
use crate::random::pattern;
use crate::stream::{PITCH, ROW, ROWS, Stream};

/// One device of one open plugin.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'h> {
    hooks: &'h Hooks,
    device: u32,
    info: DeviceInfo,
    /// Whether the native handle of each stream is queried.
    shows_streams: bool,
}

impl<'h> Subject<'h> {
    /// Looks at the device `device` of an open plugin.
    ///
    /// # Errors
    /// What the hook `device_info` answered.
    pub fn new(hooks: &'h Hooks, device: u32) -> Result<Self, Error> {
        Ok(Self {
            hooks,
            device,
            info: hooks.device_info(device)?,
            shows_streams: false,
        })
    }

    /// The plugin's hooks.
    #[must_use]
    pub const fn hooks(&self) -> &'h Hooks {
        self.hooks
    }

    /// The device's index in its plugin.
    #[must_use]
    pub const fn device(&self) -> u32 {
        self.device
    }

    /// What the plugin says of the device.
    #[must_use]
    pub const fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Whether the device claims a capability.
    pub(crate) const fn can(&self, capability: Capabilities) -> bool {
        self.info.capabilities.contains(capability)
    }

    /// The kinds of memory that the device allocates.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = MemoryKind> {
        let kinds = [
            (MemoryKind::DEVICE, true),
            (MemoryKind::PINNED, self.can(Capabilities::PINNED)),
            (MemoryKind::MANAGED, self.can(Capabilities::MANAGED)),
        ];
        let offered = kinds.into_iter().filter(|(_, is_offered)| *is_offered);
        offered.map(|(kind, _)| kind)
    }

    /// Skips a case whose capability the device does not claim.
    pub(crate) fn needs(&self, capability: Capabilities) -> Verdict {
        if self.can(capability) {
            return Ok(());
        }
        skipped(lacks(capability))
    }

    /// Skips a case that needs streams.
    pub(crate) fn needs_streams(&self) -> Verdict {
        match self.hooks.table().streams() {
            Some(_) => Ok(()),
            None => skipped("the plugin has no group `streams`"),
        }
    }

    /// Skips a case that puts work behind an event which the host completes.
    pub(crate) fn needs_host_events(&self) -> Verdict {
        self.needs_streams()?;
        self.needs(Capabilities::HOST_EVENTS)?;
        self.needs(Capabilities::ASYNC_COPY)
    }

    /// The arguments for plain device memory.
    pub(crate) const fn request(&self, size: u64) -> AllocateArgs {
        AllocateArgs {
            size,
            alignment: 256,
            kind: MemoryKind::DEVICE,
            device: self.device,
        }
    }

    /// Allocates device memory.
    pub(crate) fn allocate(&self, size: u64) -> Result<Arc<Allocation<'h>>, Error> {
        Allocation::new(self.hooks, self.request(size)).map(Arc::new)
    }

    /// Memory with rows as [`Stream::pack`] takes them, and the bytes that it leaves of them.
    pub(crate) fn pitched(&self, seed: u64) -> Result<(Arc<Allocation<'h>>, Vec<u8>), Error> {
        let pitched = pattern(seed, ROWS * PITCH);
        let memory = self.allocate(pitched.len() as u64)?;
        memory.write(0, &pitched)?;
        let rows = pitched.chunks(PITCH).flat_map(|row| row.iter().take(ROW));
        Ok((memory, rows.copied().collect()))
    }

    /// Allocates memory of another kind, or skips the case where the device has none.
    pub(crate) fn allocate_kind(
        &self,
        kind: MemoryKind,
        size: u64,
    ) -> Result<Arc<Allocation<'h>>, Error> {
        let args = AllocateArgs {
            kind,
            ..self.request(size)
        };
        Allocation::new(self.hooks, args).map(Arc::new)
    }

    /// Creates a stream.
    pub(crate) fn stream(&self) -> Result<Stream<'h>, Error> {
        let made = Stream::create(self.hooks, self.device)?;
        if self.shows_streams {
            made.native()?;
        }
        Ok(made)
    }

    /// The same device, with streams whose native handles are known; `None` if its streams have none.
    pub(crate) fn showing_streams(&self) -> Option<Self> {
        let is_called = self.hooks.table().streams().is_some() && !self.hooks.is_quarantined();
        let made = is_called.then(|| self.stream()).and_then(Result::ok)?;
        made.native().is_ok().then_some(Self {
            shows_streams: true,
            ..*self
        })
    }

    /// Creates an event.
    pub(crate) fn event(&self) -> Result<Event<'h>, Error> {
        Event::create(self.hooks, self.device)
    }

    /// Creates an event that the host completes.
    pub(crate) fn host_event(&self) -> Result<HostEvent<'h>, Error> {
        HostEvent::create(self.hooks, self.device)
    }

    /// Turns "not for these arguments" into a skip, any other failure into a failed case.
    pub(crate) fn or_skip<T>(&self, what: &str, answer: Result<T, Error>) -> Result<T, Unmet> {
        if is_unsupported(&answer) {
            return skipped(format!(
                "{what} answers UNSUPPORTED on device {}",
                self.device
            ));
        }
        Ok(answer?)
    }
}

/// Why a case is skipped that needs a capability.
pub(crate) fn lacks(capability: Capabilities) -> String {
    let mut names = Capabilities::NAMES.iter();
    let named = names.find(|(bit, _)| *bit == capability);
    let name = named.map_or("?", |(_, name)| name);
    format!("the device does not claim the capability {name}")
}
