//! The pointer query: which one plugin owns an address.

use std::sync::Arc;

use crossdock_sdk::abi::{Address, MemoryKind, PointerFlags, PointerInfo};

use crate::devices::device::Device;
use crate::devices::runtime::{NoDevice, Runtime};
use crate::error::Error;
use crate::plugins::plugin::Plugin;

/// Who owns an address.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PointerAnswer {
    /// The owning device; `None` when no plugin knows the address.
    pub device: Option<Device>,
    /// What its plugin says of the address; its kind is `UNOWNED` when no plugin knows it.
    pub info: PointerInfo,
}

/// Which plugins of a runtime are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    All,
    /// Those that answer from a table of their own.
    Tables,
}

impl Runtime {
    /// Asks every plugin who owns an address, those that nobody needed so far too, which are probed and opened
    /// for it, and also those whose devices speak of handles: pinned and shared memory of theirs has addresses
    /// too.
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
        self.look_at_all();
        let mut search = Search::default();
        self.ask_those(&mut search, address, Asked::All, None)?;
        search.check()?;
        // The parts are moved once: a claim that is moved as a whole costs a sixth of a query.
        let (device, info) = match search.best {
            Some(owner) => (Some(owner.device), owner.info),
            None => (None, PointerInfo::default()),
        };
        Ok(PointerAnswer { device, info })
    }

    /// As [`Runtime::pointer_query`] of the plugins `asked`, or `None` where none of them knows the
    /// address. `held` is a plugin that the caller keeps alive.
    #[inline]
    pub(crate) fn owner_of(
        &self,
        address: u64,
        asked: Asked,
        held: Option<&Arc<Plugin>>,
    ) -> Result<Option<Claim>, Error> {
        let mut search = Search::default();
        self.ask_those(&mut search, address, asked, held)?;
        search.check()?;
        Ok(search.best)
    }

    #[inline]
    fn ask_those(
        &self,
        search: &mut Search,
        address: u64,
        asked: Asked,
        held: Option<&Arc<Plugin>>,
    ) -> Result<(), Error> {
        // A vendor's call may fail for NULL, which is nobody's.
        if address == 0 {
            return Ok(());
        }
        let find = |plugin: &Arc<Plugin>, index| self.look_up(plugin, index);
        let ask = |plugin: &Arc<Plugin>| search.ask(find, plugin, address).err();
        let failed = self.query_order().find_map(asked, held, ask);
        failed.map_or(Ok(()), Err)
    }
}

/// As [`Runtime::owner_of`], of these plugins; `find` gives their devices.
pub(crate) fn owner_among(
    plugins: &[Arc<Plugin>],
    address: u64,
    find: impl Fn(&Arc<Plugin>, u32) -> Result<Device, NoDevice>,
) -> Result<Option<Claim>, Error> {
    let mut search = Search::default();
    // A vendor's call may fail for NULL, which is nobody's.
    if address != 0 {
        let mut plugins = plugins.iter();
        plugins.try_for_each(|plugin| search.ask(&find, plugin, address))?;
    }
    search.check()?;
    Ok(search.best)
}

/// The owner among the plugins asked so far, and the first failure.
#[derive(Debug, Default)]
struct Search {
    best: Option<Claim>,
    failure: Option<Error>,
}

/// What one plugin said.
#[derive(Debug)]
pub(crate) struct Claim {
    ownership: Ownership,
    pub(crate) device: Device,
    pub(crate) info: PointerInfo,
}

/// By what a plugin knows an address; a later one is the better ownership.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Ownership {
    Foreign,
    Host,
    Allocated,
}

impl Ownership {
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
    /// Whether the plugin only registered or adopted the memory.
    pub(crate) fn is_foreign(&self) -> bool {
        self.ownership == Ownership::Foreign
    }

    /// Whether the plugin would say so again. If not, the memory was freed while others were
    /// asked, and the next owner may have it already.
    fn is_still_there(&self, address: u64) -> Result<bool, Error> {
        let again = self
            .device
            .hooks()
            .pointer_query(Address::pointer(address))?;
        Ok(Ownership::of(&again) == Some(self.ownership)
            && again.allocation_id == self.info.allocation_id)
    }
}

impl Search {
    #[inline]
    fn ask(
        &mut self,
        find: impl FnOnce(&Arc<Plugin>, u32) -> Result<Device, NoDevice>,
        plugin: &Arc<Plugin>,
        address: u64,
    ) -> Result<(), Error> {
        let mut info = PointerInfo::default();
        let asked = plugin
            .hooks()
            .pointer_query_into(Address::pointer(address), &mut info);
        match (asked, Ownership::of(&info)) {
            (Ok(()), None) => Ok(()),
            (Ok(()), Some(ownership)) => self.weigh(ownership, find, plugin, info, address),
            (Err(error), _) => {
                self.failure.get_or_insert(error);
                Ok(())
            }
        }
    }

    /// Keeps what a plugin claims where its ownership is the better one.
    #[cold]
    fn weigh(
        &mut self,
        ownership: Ownership,
        find: impl FnOnce(&Arc<Plugin>, u32) -> Result<Device, NoDevice>,
        plugin: &Arc<Plugin>,
        info: PointerInfo,
        address: u64,
    ) -> Result<(), Error> {
        let device = match find(plugin, info.device) {
            Ok(device) => device,
            // A plugin that was retired since it was asked keeps its memory, but not its devices.
            Err(NoDevice::NotListed) => return Ok(()),
            Err(NoDevice::OfPlugin) => {
                let why = format!("the owner is device {}, which does not exist", info.device);
                return Err(plugin.hooks().fault("pointer_query", &why));
            }
        };
        let keep = match &self.best {
            None => false,
            Some(best) if best.ownership == ownership && ownership != Ownership::Foreign => {
                if best.is_still_there(address)? {
                    return Err(two_owners(address, &best.device, &device));
                }
                false
            }
            Some(best) => best.ownership >= ownership,
        };
        if !keep {
            self.best = Some(Claim {
                ownership,
                device,
                info,
            });
        }
        Ok(())
    }

    /// A plugin that failed may be the owner, unless another one allocated the memory.
    #[inline]
    fn check(&mut self) -> Result<(), Error> {
        let is_owned = self.best.as_ref().is_some_and(|best| !best.is_foreign());
        let failure = self.failure.take_if(|_| !is_owned);
        failure.map_or(Ok(()), Err)
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
