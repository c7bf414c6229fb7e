//! Calls that make or end an object: what may be ended, and what the registry learns.

use crossdock_sdk::abi::{Address, AddressForm, MemoryKind, Status};
use crossdock_sdk::plugin::Error;

use super::handles::Found;
use super::live_registry::{Mapping, Registration};
use super::ranges::Range;
use super::rules::{Validate, invalid};
use crate::calls::call::Call;
use crate::calls::describe::{address_text, kind_name};
use crate::calls::layer_hooks::CallState;

impl Validate {
    /// Before: whether the object of an ending call is there, which then is taken out of the registry.
    pub(crate) fn ends_object(&self, call: &Call<'_>) -> Result<CallState, Error> {
        match *call {
            Call::Free {
                address: Some(address),
                kind,
            } => self.begin_free("free", address, kind),
            Call::FreeAsync {
                address: Some(address),
                ..
            } => self.begin_free("free_async", address, MemoryKind::DEVICE),
            Call::ReleaseAdopted {
                device,
                address: Some(address),
            } => self.begin_release(device, address),
            Call::Unmap {
                device,
                address: Some(address),
                pointer,
            } => self.begin_unmap(device, address, pointer.addr() as u64),
            Call::UnregisterHost { device, pointer } => {
                self.begin_unregister(device, pointer.addr() as u64)
            }
            Call::StreamDestroy { stream } => self.begin_destroy(stream.raw()),
            Call::EventDestroy { event } => {
                let mut registry = self.registry();
                registry.events.begin_end(event.raw());
                registry.verdicts.forget(event.raw());
                Ok(CallState::Nothing)
            }
            // Forgotten after the call as well: until then an answer may be about either record.
            Call::EventRecord { event, .. } => {
                self.registry().verdicts.forget(event.raw());
                Ok(CallState::Nothing)
            }
            Call::EventQuery { event } | Call::EventSynchronize { event, .. } => {
                Ok(self.begin_question(event.raw()))
            }
            Call::PointerQuery {
                address: Some(address),
                ..
            } => {
                let registry = self.registry();
                let serial = registry
                    .memory
                    .find(address)
                    .map_or(0, |range| range.serial);
                Ok(CallState::Object { serial, id: 0 })
            }
            _ => Ok(CallState::Nothing),
        }
    }

    fn begin_free(
        &self,
        hook: &'static str,
        address: Address,
        kind: MemoryKind,
    ) -> Result<CallState, Error> {
        let info = self.inner.pointer_query(address);
        let mut registry = self.registry();
        let Some(range) = registry.memory.find(address).copied() else {
            let gone = registry.memory.find_gone(address).copied();
            let adopted = registry.ranges_at(address).first().copied();
            return Err(self.not_to_be_freed(hook, address, gone, adopted));
        };
        if range.offset_of(address) != Some(0) {
            let at = address_text(address);
            let why = format!("{at} lies inside of {}: free its first byte", range.text());
            return Err(Error::new(Status::NOT_OWNER, hook, why));
        }
        if range.kind != kind {
            let why = format!(
                "it is freed as {}, and it is {}",
                kind_name(kind),
                range.text()
            );
            return Err(Error::new(Status::NOT_OWNER, hook, why));
        }
        if let Some(mapping) = registry.mapping_in(&range) {
            let why = format!("it is still mapped: {}", mapping.text());
            return Err(Error::new(Status::CONFLICT, hook, why));
        }
        registry.memory.begin_end(range);
        let id = info.map_or(0, |info| info.allocation_id);
        Ok(CallState::Object {
            serial: range.serial,
            id,
        })
    }

    fn not_to_be_freed(
        &self,
        hook: &'static str,
        address: Address,
        gone: Option<Range>,
        adopted: Option<Range>,
    ) -> Error {
        let (plugin, at) = (&self.plugin, address_text(address));
        let why = match (adopted, gone) {
            (Some(range), _) => format!(
                "{at} belongs to {}, which ends with `release_adopted`",
                range.text()
            ),
            (None, Some(range)) => format!("{at} was freed before: {}", range.text()),
            (None, None) => format!("`{plugin}` did not allocate {at}"),
        };
        Error::new(Status::NOT_OWNER, hook, why)
    }

    fn begin_release(&self, device: u32, address: Address) -> Result<CallState, Error> {
        let mut registry = self.registry();
        let own = |range: &Range| range.device == device && range.offset_of(address) == Some(0);
        let Some(place) = registry.adopted.iter().rposition(own) else {
            let at = address_text(address);
            let known = registry.memory.find(address).map(Range::text);
            let why = match known {
                Some(text) => format!("{at} was not adopted: it is {text}"),
                None => format!(
                    "{at} is not adopted on device {device} of `{}`",
                    self.plugin
                ),
            };
            return Err(Error::new(Status::NOT_OWNER, "release_adopted", why));
        };
        let range = registry.adopted.swap_remove(place);
        Ok(CallState::Object {
            serial: range.serial,
            id: range.size,
        })
    }

    fn begin_unmap(&self, device: u32, address: Address, pointer: u64) -> Result<CallState, Error> {
        let mut registry = self.registry();
        let own = |mapping: &Mapping| {
            (mapping.device, mapping.address, mapping.pointer) == (device, address, pointer)
        };
        let Some(place) = registry.mappings.iter().position(own) else {
            let at = address_text(address);
            let why = format!("{pointer:#x} is no live mapping of {at} on device {device}");
            return Err(Error::new(Status::NOT_OWNER, "unmap", why));
        };
        let size = registry.mappings.swap_remove(place).size;
        Ok(CallState::Object {
            serial: 0,
            id: size,
        })
    }

    fn begin_unregister(&self, device: u32, pointer: u64) -> Result<CallState, Error> {
        let mut registry = self.registry();
        let own = |entry: &Registration| (entry.device, entry.pointer) == (device, pointer);
        let Some(place) = registry.registered.iter().position(own) else {
            let why = format!("{pointer:#x} is not registered for device {device}");
            return Err(Error::new(Status::NOT_OWNER, "unregister_host", why));
        };
        let size = registry.registered.swap_remove(place).size;
        Ok(CallState::Object {
            serial: 0,
            id: size,
        })
    }

    fn begin_destroy(&self, word: u64) -> Result<CallState, Error> {
        let mut registry = self.registry();
        if let Found::Live(stream) = registry.streams.find(word)
            && stream.is_kept
        {
            let why = format!("stream {word:#x} is a default stream: the plugin keeps it");
            return Err(invalid("stream_destroy", why));
        }
        registry.streams.begin_end(word);
        Ok(CallState::Nothing)
    }

    /// After an ending call: what it did not end is live again.
    pub(crate) fn learn_end(&self, call: &Call<'_>, state: CallState, ended: bool) {
        let (serial, size) = match state {
            CallState::Object { serial, id } => (serial, id),
            CallState::Nothing
            | CallState::Began(_)
            | CallState::Fail(_)
            | CallState::Verdict { .. } => (0, 0),
        };
        if let Call::Close {} = call {
            self.report();
        }
        let mut registry = self.registry();
        match *call {
            Call::Free { .. } | Call::FreeAsync { .. } => {
                let _range = registry.memory.finish_end(serial, ended);
            }
            Call::ReleaseAdopted {
                device,
                address: Some(address),
            } if !ended => {
                let range = adopted(device, address, size, serial);
                registry.adopted.push(range);
            }
            Call::Unmap {
                device,
                address: Some(address),
                pointer,
            } if !ended => {
                let pointer = pointer.addr() as u64;
                registry.mappings.push(Mapping {
                    device,
                    address,
                    pointer,
                    size,
                });
            }
            Call::UnregisterHost { device, pointer } if !ended => {
                let pointer = pointer.addr() as u64;
                registry.registered.push(Registration {
                    device,
                    pointer,
                    size,
                });
            }
            Call::StreamDestroy { stream } if !ended => registry.streams.take_back(stream.raw()),
            Call::EventDestroy { event } if !ended => registry.events.take_back(event.raw()),
            Call::EventRecord { event, .. } => registry.verdicts.forget(event.raw()),
            _ => {}
        }
    }

    /// After a call that gave memory.
    pub(crate) fn learn_memory(&self, call: &Call<'_>) -> Result<(), Error> {
        let (range, alignment) = match call {
            Call::Allocate {
                args: Some(args),
                address,
            } => {
                let range = Range {
                    kind: args.kind,
                    from: "allocate",
                    ..device_range(args.device, address.answer(), args.size)
                };
                (range, args.alignment)
            }
            Call::AllocateAsync {
                stream,
                size,
                address,
            } => {
                let found = self.registry().streams.find(stream.raw());
                let device = match found {
                    Found::Live(stream) => stream.device,
                    Found::Gone | Found::Unknown => 0,
                };
                let range = device_range(device, address.answer(), *size);
                (range, 1)
            }
            _ => return Ok(()),
        };
        self.add_range(range, alignment)
    }

    /// After a call that gave another view of memory.
    pub(crate) fn learn_alias(&self, call: &Call<'_>) -> Result<(), Error> {
        let object_size = self.size_of_object(call);
        let mut registry = self.registry();
        match *call {
            Call::Adopt {
                device,
                size,
                address,
                ..
            } => {
                let serial = registry.next_serial();
                let size = object_size.unwrap_or(size);
                let range = adopted(device, address.answer(), size, serial);
                registry.adopted.push(range);
            }
            Call::Map {
                device,
                address: Some(address),
                size,
                pointer,
            } => {
                let pointer = pointer.answer().addr() as u64;
                if pointer == 0 {
                    return Err(self.broken("map", "answered OK and NULL".to_owned()));
                }
                registry.mappings.push(Mapping {
                    device,
                    address,
                    pointer,
                    size,
                });
            }
            Call::RegisterHost {
                device,
                pointer,
                size,
            } => {
                let pointer = pointer.addr() as u64;
                registry.registered.push(Registration {
                    device,
                    pointer,
                    size,
                });
            }
            _ => {}
        }
        Ok(())
    }

    /// How large an adopted object is. A handle is adopted as a whole, and only the plugin knows.
    fn size_of_object(&self, call: &Call<'_>) -> Option<u64> {
        let Call::Adopt { address, .. } = call else {
            return None;
        };
        let object = Some(address.answer()).filter(|object| object.form == AddressForm::HANDLE)?;
        self.inner.pointer_query(object).map(|info| info.size)
    }

    /// After a call that gave a stream or an event.
    pub(crate) fn learn_handle(&self, call: &Call<'_>) -> Result<(), Error> {
        let hook = call.hook();
        let (device, word, what) = match call {
            Call::StreamCreate { device, stream }
            | Call::StreamDefault { device, stream, .. }
            | Call::StreamWrap { device, stream, .. } => (*device, stream.answer().raw(), "stream"),
            Call::EventCreate { device, event } | Call::EventCreateHost { device, event } => {
                (*device, event.answer().raw(), "event")
            }
            _ => return Ok(()),
        };
        if word == 0 {
            return Err(self.broken(hook, format!("answered OK and the {what} NONE")));
        }
        let mut registry = self.registry();
        let handles = match what {
            "stream" => &mut registry.streams,
            _ => &mut registry.events,
        };
        let is_shared = matches!(call, Call::StreamDefault { .. } | Call::StreamWrap { .. });
        handles.add(word, device, hook, is_shared).map_err(|live| {
            let (device, from) = (live.device, live.from);
            let why =
                format!("gave the {what} {word:#x}, which is live on device {device} (`{from}`)");
            self.broken(hook, why)
        })
    }

    /// At close: what is still live.
    fn report(&self) {
        let live = self.registry().live();
        if live.count() > 0 {
            let plugin = &self.plugin;
            log::warn!(target: "crossdock::memory", "`{plugin}` is closed with objects {live}");
        }
    }
}

fn adopted(device: u32, base: Address, size: u64, serial: u64) -> Range {
    Range {
        serial,
        from: "adopt",
        ..device_range(device, base, size)
    }
}

/// Device memory that the registry do not have yet.
fn device_range(device: u32, base: Address, size: u64) -> Range {
    Range {
        base,
        size,
        kind: MemoryKind::DEVICE,
        device,
        serial: 0,
        from: "allocate_async",
    }
}
