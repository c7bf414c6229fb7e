//! The pointer query: which one plugin owns an address.

use crossdock_sdk::abi::{Address, MemoryKind, PointerFlags, PointerInfo};

use crate::device::Device;
use crate::error::Error;
use crate::runtime::Runtime;

/// Who owns an address.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PointerAnswer {
    /// The owning device; `None` when no plugin knows the address.
    pub device: Option<Device>,
    /// What its plugin says of the address; its kind is `UNOWNED` when no plugin knows it.
    pub info: PointerInfo,
}

impl Runtime {
    /// Asks every plugin who owns an address, also those whose devices speak of handles: pinned and
    /// shared memory of theirs has addresses too.
    ///
    /// An address has one owner, the plugin whose memory it is:
    ///
    /// 1. device, pinned or managed memory that the plugin allocated;
    /// 2. else host memory that it allocated;
    /// 3. else memory of others that it only registered or adopted
    ///    ([`PointerFlags::FOREIGN`]); of several such plugins, the one registered first.
    ///
    /// # Errors
    /// [`Error::Owners`] when two plugins say that they allocated it. What a hook answered, when it
    /// failed and no other plugin allocated the memory: its plugin may be the owner.
    pub fn pointer_query(&self, address: u64) -> Result<PointerAnswer, Error> {
        let mut search = Search::default();
        // A vendor's call may fail for NULL, which is nobody's.
        if address != 0 {
            let registry = self.registry();
            for devices in registry
                .devices
                .chunk_by(|one, next| one.is_of(next.plugin()))
            {
                search.ask(devices, address)?;
            }
        }
        search.end()
    }
}

impl PointerAnswer {
    /// The owning device, where the memory was allocated by its plugin.
    pub(crate) fn allocated_by(&self) -> Option<&Device> {
        self.device.as_ref().filter(|_| !self.is_foreign())
    }

    /// Whether the plugin that answered only registered or adopted the memory.
    pub(crate) const fn is_foreign(&self) -> bool {
        self.info.flags.contains(PointerFlags::FOREIGN)
    }
}

/// The owner among the plugins asked so far, and the first failure.
#[derive(Debug, Default)]
struct Search {
    best: Option<Claim>,
    failure: Option<Error>,
}

/// What one plugin said.
#[derive(Debug)]
struct Claim {
    title: Title,
    device: Device,
    info: PointerInfo,
}

/// By what a plugin knows an address; a later one is the better title.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Title {
    Foreign,
    Host,
    Allocated,
}

impl Title {
    fn of(info: &PointerInfo) -> Option<Self> {
        if info.kind == MemoryKind::UNOWNED {
            return None;
        }
        Some(if info.flags.contains(PointerFlags::FOREIGN) {
            Self::Foreign
        } else if info.kind == MemoryKind::HOST {
            Self::Host
        } else {
            Self::Allocated
        })
    }
}

impl Claim {
    /// Whether the plugin would say so again. If not, the memory was freed while others were
    /// asked, and the next owner may have it already.
    fn is_still_there(&self, address: u64) -> Result<bool, Error> {
        let again = self
            .device
            .hooks()
            .pointer_query(Address::pointer(address))?;
        Ok(Title::of(&again) == Some(self.title) && again.allocation_id == self.info.allocation_id)
    }
}

impl Search {
    /// Asks the plugin of these devices, which are all that it has.
    fn ask(&mut self, devices: &[Device], address: u64) -> Result<(), Error> {
        let Some(hooks) = devices.first().map(Device::hooks) else {
            return Ok(());
        };
        let info = match hooks.pointer_query(Address::pointer(address)) {
            Ok(info) => info,
            Err(error) => {
                self.failure.get_or_insert(error);
                return Ok(());
            }
        };
        let Some(title) = Title::of(&info) else {
            return Ok(());
        };
        let Some(device) = devices.iter().find(|device| device.index() == info.device) else {
            let why = format!("the owner is device {}, which does not exist", info.device);
            return Err(hooks.fault("pointer_query", &why));
        };
        let keep = match &self.best {
            None => false,
            Some(best) if best.title == title && title != Title::Foreign => {
                if best.is_still_there(address)? {
                    return Err(two_owners(address, &best.device, device));
                }
                false
            }
            Some(best) => best.title >= title,
        };
        if !keep {
            self.best = Some(Claim {
                title,
                device: device.clone(),
                info,
            });
        }
        Ok(())
    }

    fn end(self) -> Result<PointerAnswer, Error> {
        match (self.best, self.failure) {
            (Some(best), failure) if best.title > Title::Foreign || failure.is_none() => {
                Ok(PointerAnswer {
                    device: Some(best.device),
                    info: best.info,
                })
            }
            (_, Some(failure)) => Err(failure),
            (_, None) => Ok(PointerAnswer {
                device: None,
                info: PointerInfo::default(),
            }),
        }
    }
}

fn two_owners(address: u64, first: &Device, second: &Device) -> Error {
    let owner = |device: &Device| {
        format!(
            "plugin `{}` as memory of `{device}`",
            device.plugin().name()
        )
    };
    Error::Owners {
        address,
        owners: [owner(first), owner(second)],
    }
}
