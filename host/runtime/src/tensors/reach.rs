//! How others reach memory: by its addresses, as its plugin's own kind, or where its plugin shows it.

use crate::devices::device::Device;
use crate::tensors::memory::Memory;

/// What decides how others reach memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reach {
    /// The host reads it at the same addresses.
    pub(crate) by_host: bool,
    /// Its plugin knows it as pinned or managed, under every device of its own.
    pub(crate) is_of_a_kind: bool,
    pub(crate) maps: Maps,
}

/// Whether the plugin shows the memory to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Maps {
    /// It is not of the form that `allocate` gives.
    Never,
    /// The hook is called, and says so.
    Tried,
    /// Nothing is done now: what the hook says of other memory of the device is believed.
    Known,
}

impl Reach {
    /// Of memory that is to become `to`'s. Its plugin knows pinned and managed memory under every device of its
    /// own. To adopt that as memory of the host's would be a claim that the plugin knows to be wrong, also
    /// where the memory is a view through another device, as the host's of pinned memory is.
    pub(crate) fn towards(memory: &Memory, to: &Device) -> Self {
        let reach = memory.reach();
        let is_known = |view: &Memory| view.reach().is_of_a_kind && to.is_of(view.device.plugin());
        if memory.views().any(is_known) && memory.seen_through(to).is_none() {
            return Self {
                by_host: false,
                maps: Maps::Never,
                ..reach
            };
        }
        reach
    }

    /// For who only asks what would be done.
    pub(crate) fn asked(self) -> Self {
        let maps = match self.maps {
            Maps::Tried => Maps::Known,
            maps => maps,
        };
        Self { maps, ..self }
    }
}
