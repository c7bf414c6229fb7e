//! What is asked of the plugin's answer.

use crossdock_sdk::abi::{
    Address, AddressForm, DeviceInfo, MemoryInfo, MemoryKind, MemoryUsage, PointerInfo, Status,
};
use crossdock_sdk::plugin::Error;

use super::ranges::{Range, Spot, offset};
use super::rules::Validate;
use crate::calls::call::Call;
use crate::calls::describe::address_text;
use crate::calls::layer_hooks::{Answer, CallState};

/// Every allocation begins on a multiple of it.
const ALIGNMENT: u64 = 256;

/// The answer is one: a known status, an error object with failures only, every answer written.
pub(crate) fn form(call: &Call<'_>, answer: Answer) -> Result<(), Error> {
    let Answer { status, has_error } = answer;
    let refuse = |why: String| Err(Error::new(Status::ABI, call.hook(), why));
    if status.name().is_none() {
        return refuse(format!("the plugin answered {status}, which is none"));
    }
    if status.is_ok() && has_error {
        return refuse("the plugin answered OK with an error object".to_owned());
    }
    let mut unwritten = None;
    call.each(|name, argument| {
        if argument.is_unwritten() {
            unwritten = unwritten.or(Some(name));
        }
    });
    match unwritten {
        Some(name) if status.is_ok() => {
            refuse(format!("the plugin answered OK and did not write `{name}`"))
        }
        _ => Ok(()),
    }
}

impl Validate {
    /// The plugin broke the contract.
    pub(crate) fn broken(&self, hook: &'static str, why: String) -> Error {
        Error::new(Status::ABI, hook, format!("`{}` {why}", self.plugin))
    }

    /// What a successful call answered makes sense.
    pub(crate) fn content(&self, call: &Call<'_>, state: CallState) -> Result<(), Error> {
        match call {
            Call::DeviceCount { count } => self.count(count.answer()),
            Call::DeviceInfo { info, .. } => self.info(&info.answer()),
            Call::MemoryInfo { info, .. } => self.free_memory(info.answer()),
            Call::MemoryUsage { usage, .. } => self.usage(usage.answer()),
            Call::PeerCanAccess { device, peer, can } => self.link((*device, *peer), can.answer()),
            Call::PointerQuery {
                address: Some(address),
                info,
            } => self.ownership(*address, &info.answer(), state),
            Call::Free {
                address: Some(address),
                ..
            } => self.freed(*address, state),
            _ => Ok(()),
        }
    }

    /// Takes new memory into the registry, unless it cannot be.
    pub(crate) fn add_range(&self, range: Range, alignment: u64) -> Result<(), Error> {
        let hook = range.from;
        let text = range.text();
        let base = Spot::of(range.base);
        let Some(base) = base.filter(|_| range.base.word != 0) else {
            return Err(self.broken(hook, format!("gave {text}, which is nowhere")));
        };
        let alignment = alignment.max(ALIGNMENT);
        let is_pointer = range.base.form == AddressForm::POINTER;
        if hook == "allocate" && is_pointer && base.at % alignment != 0 {
            let why = format!("gave {text}, which is not on a multiple of {alignment}");
            return Err(self.broken(hook, why));
        }
        let mut registry = self.registry();
        if let Some(other) = registry.memory.overlapping(&range) {
            let why = format!("gave {text}, which overlaps the live {}", other.text());
            return Err(self.broken(hook, why));
        }
        let serial = registry.next_serial();
        registry.memory.add(Range { serial, ..range });
        Ok(())
    }

    fn count(&self, count: u32) -> Result<(), Error> {
        match self.devices {
            Some(first) if first != count => {
                let why = format!("counted {first} devices when it was opened, and now {count}");
                Err(self.broken("device_count", why))
            }
            _ => Ok(()),
        }
    }

    fn info(&self, info: &DeviceInfo) -> Result<(), Error> {
        let texts: [(&str, &[u8]); 4] = [
            ("name", &info.name),
            ("pci_bus_id", &info.pci_bus_id),
            ("driver_version", &info.driver_version),
            ("runtime_version", &info.runtime_version),
        ];
        for (name, text) in texts {
            let text = std::ffi::CStr::from_bytes_until_nul(text);
            if !text.is_ok_and(|text| text.to_str().is_ok()) {
                let why = format!("gave a `{name}` that is no text with a NUL behind it");
                return Err(self.broken("device_info", why));
            }
        }
        let forms = [AddressForm::POINTER, AddressForm::HANDLE];
        if !forms.contains(&info.address_form) {
            let why = format!("gave the address form {}", info.address_form.0);
            return Err(self.broken("device_info", why));
        }
        Ok(())
    }

    fn free_memory(&self, memory: MemoryInfo) -> Result<(), Error> {
        let MemoryInfo { free, total } = memory;
        if free != u64::MAX && free > total {
            let why = format!("says that {free} of {total} bytes are free");
            return Err(self.broken("memory_info", why));
        }
        Ok(())
    }

    /// Of the numbers that are known the part is not above the whole, and none above its peak.
    fn usage(&self, usage: MemoryUsage) -> Result<(), Error> {
        let pairs = [
            (usage.used, usage.reserved, "used of reserved"),
            (usage.used, usage.peak_used, "used of a peak of"),
            (usage.reserved, usage.peak_reserved, "reserved of a peak of"),
        ];
        for (part, whole, words) in pairs {
            if part != u64::MAX && part > whole {
                let why = format!("says that {part} bytes are {words} {whole}");
                return Err(self.broken("memory_usage", why));
            }
        }
        Ok(())
    }

    /// Yes or no, and no for a device and itself.
    fn link(&self, (device, peer): (u32, u32), can: u32) -> Result<(), Error> {
        let why = match can {
            0 => return Ok(()),
            1 if device != peer => return Ok(()),
            1 => format!("says that device {device} has a link with itself"),
            can => format!("answered {can}, which is neither 0 nor 1"),
        };
        Err(self.broken("peer_can_access", why))
    }

    /// The answer of a pointer query, against itself and against the registry.
    fn ownership(
        &self,
        address: Address,
        info: &PointerInfo,
        state: CallState,
    ) -> Result<(), Error> {
        let refuse = |why: String| Err(self.broken("pointer_query", why));
        let at = address_text(address);
        if info.kind == MemoryKind::UNOWNED {
            return match (state, self.registry().memory.find(address)) {
                (CallState::Object { serial, .. }, Some(range)) if range.serial == serial => {
                    refuse(format!("does not own {at}, and gave it: {}", range.text()))
                }
                _ => Ok(()),
            };
        }
        if info.kind.0 > MemoryKind::HOST.0 {
            return refuse(format!("answers for {at} with kind {}", info.kind.0));
        }
        if self.devices.is_some_and(|count| info.device >= count) {
            return refuse(format!("answers for {at} with device {}", info.device));
        }
        let last = info
            .size
            .checked_sub(1)
            .and_then(|last| info.base.advanced(last));
        let (base, size) = (address_text(info.base), info.size);
        if last.and_then(Spot::of).is_none() {
            return refuse(format!("answers for {at} with {size} bytes from {base}"));
        }
        let comparable = info.base.form == address.form;
        let is_inside = |at| offset(info.base, size, at).is_some();
        // Host and device may reach one memory at two addresses; the base is then one of the two.
        let names = [info.host_pointer, info.device_pointer].map(Address::pointer);
        let is_named = names.contains(&address) && names.into_iter().any(is_inside);
        if comparable && !is_inside(address) && !is_named {
            return refuse(format!(
                "answers for {at} with {size} bytes from {base} apart from it"
            ));
        }
        Ok(())
    }

    /// Memory that was freed with success is the same allocation no more.
    fn freed(&self, address: Address, state: CallState) -> Result<(), Error> {
        let CallState::Object { id, .. } = state else {
            return Ok(());
        };
        let Some(info) = self.inner.pointer_query(address).filter(|_| id != 0) else {
            return Ok(());
        };
        if info.kind != MemoryKind::UNOWNED && info.allocation_id == id {
            let at = address_text(address);
            let why = format!("answered OK and still owns {at} as allocation {id}");
            return Err(self.broken("free", why));
        }
        Ok(())
    }
}
