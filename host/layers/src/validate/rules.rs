//! What is asked of each call before the plugin sees it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crossdock_sdk::abi::{Address, AllocateArgs, CopyArgs, FillArgs, Status};
use crossdock_sdk::plugin::Error;

use super::answers;
use super::handles::Found;
use super::live_registry::LiveRegistry;
use super::ranges::offset;
use super::sides::{Reach, extents};
use crate::calls::call::Call;
use crate::calls::layer_hooks::{Answer, CallState, LayerHooks};
use crate::calls::live_objects::LiveObjects;
use crate::calls::target::Target;

/// Validates the calls of one plugin. Its lock is never held across a hook.
#[derive(Debug)]
pub(crate) struct Validate {
    pub(crate) plugin: String,
    pub(crate) inner: Target,
    /// Fixed from `open` on; `None` when the plugin did not say.
    pub(crate) devices: Option<u32>,
    registry: Mutex<LiveRegistry>,
}

impl Validate {
    pub(crate) fn new(plugin: &str, inner: Target) -> Self {
        Self {
            plugin: plugin.to_owned(),
            inner,
            devices: inner.device_count(),
            registry: Mutex::default(),
        }
    }

    /// The registry; nobody calls a hook while this is held.
    pub(crate) fn registry(&self) -> MutexGuard<'_, LiveRegistry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arguments(&self, call: &Call<'_>) -> Result<(), Error> {
        let mut missing = None;
        call.each(|name, argument| {
            if argument.is_missing() {
                missing = missing.or(Some(name));
            }
        });
        if let Some(name) = missing {
            return Err(invalid(call.hook(), format!("`{name}` is NULL")));
        }
        match *call {
            Call::DeviceInfo { device, .. }
            | Call::MemoryInfo { device, .. }
            | Call::DeviceAttribute { device, .. }
            | Call::MemoryTrim { device, .. }
            | Call::MemoryUsage { device, .. }
            | Call::MemoryResetPeaks { device }
            | Call::StreamCreate { device, .. }
            | Call::StreamDefault { device, .. }
            | Call::StreamWrap { device, .. }
            | Call::EventCreate { device, .. }
            | Call::EventCreateHost { device, .. } => self.device(call.hook(), device),
            Call::Allocate {
                args: Some(args), ..
            } => self.request(&args),
            Call::Adopt { device, size, .. } | Call::Map { device, size, .. } => {
                sized(call.hook(), size)?;
                self.device(call.hook(), device)
            }
            Call::RegisterHost {
                device,
                pointer,
                size,
            } => {
                sized(call.hook(), size)?;
                present(call.hook(), pointer.is_null())?;
                self.device(call.hook(), device)
            }
            Call::UnregisterHost { device, pointer }
            | Call::Unmap {
                device, pointer, ..
            } => {
                present(call.hook(), pointer.is_null())?;
                self.device(call.hook(), device)
            }
            Call::ReleaseAdopted { device, .. } => self.device(call.hook(), device),
            Call::PeerCanAccess { device, peer, .. }
            | Call::PeerEnable { device, peer }
            | Call::PeerDisable { device, peer } => {
                self.device(call.hook(), device)?;
                self.device(call.hook(), peer)
            }
            Call::AllocateAsync { size, .. } => sized(call.hook(), size),
            _ => Ok(()),
        }
    }

    fn request(&self, args: &AllocateArgs) -> Result<(), Error> {
        sized("allocate", args.size)?;
        if !args.alignment.is_power_of_two() {
            let why = format!("the alignment {} is no power of two", args.alignment);
            return Err(invalid("allocate", why));
        }
        self.device("allocate", args.device)
    }

    pub(crate) fn device(&self, hook: &'static str, device: u32) -> Result<(), Error> {
        match self.devices {
            Some(count) if device >= count => {
                let plugin = &self.plugin;
                let why = format!("device {device} of `{plugin}`, which has {count}");
                Err(invalid(hook, why))
            }
            _ => Ok(()),
        }
    }

    /// The streams and events that a call uses are live.
    fn handles(&self, call: &Call<'_>) -> Result<(), Error> {
        let hook = call.hook();
        match *call {
            Call::StreamNative { stream, .. }
            | Call::StreamSynchronize { stream, .. }
            | Call::StreamQuery { stream }
            | Call::StreamHost { stream, .. }
            | Call::AllocateAsync { stream, .. }
            | Call::FreeAsync { stream, .. }
            | Call::StreamDestroy { stream } => self.stream(hook, stream.raw()),
            Call::Copy { stream, .. }
            | Call::CopyStrided { stream, .. }
            | Call::Fill { stream, .. }
                if !stream.is_none() =>
            {
                self.stream(hook, stream.raw())
            }
            Call::StreamWaitEvent { stream, event } | Call::EventRecord { event, stream } => {
                self.stream(hook, stream.raw())?;
                self.event(hook, event.raw())
            }
            Call::EventQuery { event }
            | Call::EventSynchronize { event, .. }
            | Call::EventComplete { event, .. }
            | Call::EventDestroy { event } => self.event(hook, event.raw()),
            Call::EventElapsed { start, end, .. } => {
                self.event(hook, start.raw())?;
                self.event(hook, end.raw())
            }
            _ => Ok(()),
        }
    }

    fn stream(&self, hook: &'static str, word: u64) -> Result<(), Error> {
        let found = self.registry().streams.find(word);
        self.handle(hook, &format!("stream {word:#x}"), found)
    }

    fn event(&self, hook: &'static str, word: u64) -> Result<(), Error> {
        let found = self.registry().events.find(word);
        self.handle(hook, &format!("event {word:#x}"), found)
    }

    fn handle(&self, hook: &'static str, what: &str, found: Found) -> Result<(), Error> {
        let plugin = &self.plugin;
        match found {
            Found::Live(_) => Ok(()),
            Found::Gone => {
                let why = format!("the {what} of `{plugin}` was destroyed before");
                Err(Error::new(Status::STALE, hook, why))
            }
            Found::Unknown => Err(invalid(hook, format!("`{plugin}` never gave the {what}"))),
        }
    }

    /// One call at a time puts work on a stream.
    fn begin_submit(&self, hook: &'static str, stream: Option<u64>) -> Result<(), Error> {
        let Some(stream) = stream else {
            return Ok(());
        };
        if self.registry().busy.insert(stream) {
            return Ok(());
        }
        let plugin = &self.plugin;
        let why = format!("another thread is in a hook of `{plugin}` with the stream {stream:#x}");
        Err(Error::new(Status::CONFLICT, hook, why))
    }

    fn end_submit(&self, stream: Option<u64>) {
        if let Some(stream) = stream {
            self.registry().busy.remove(&stream);
        }
    }

    /// The memory that a call touches is what it is said to be.
    fn memory(&self, call: &Call<'_>) -> Result<(), Error> {
        match call {
            Call::Copy {
                args: Some(args), ..
            } => self.copy(args),
            Call::Fill {
                args: Some(args), ..
            } => self.fill(args),
            Call::CopyStrided {
                args: Some(args), ..
            } => {
                let (dst, src) = extents(args)?;
                self.end("copy_strided", "dst", &args.dst, dst)?;
                self.end("copy_strided", "src", &args.src, src)
            }
            Call::Map {
                address: Some(address),
                size,
                ..
            } => self.owned("map", *address, Reach::ahead(*size)),
            _ => Ok(()),
        }
    }

    fn copy(&self, args: &CopyArgs) -> Result<(), Error> {
        sized("copy", args.bytes)?;
        let reach = Reach::ahead(args.bytes);
        self.end("copy", "dst", &args.dst, reach)?;
        self.end("copy", "src", &args.src, reach)?;
        let meets = |base: Address, other| offset(base, args.bytes, other).is_some();
        let (dst, src) = (args.dst.address, args.src.address);
        if meets(dst, src) || meets(src, dst) {
            let why = format!("`dst` and `src` overlap within {} bytes", args.bytes);
            return Err(invalid("copy", why));
        }
        Ok(())
    }

    fn fill(&self, args: &FillArgs) -> Result<(), Error> {
        sized("fill", args.bytes)?;
        let pattern = args.pattern_bytes;
        if ![1, 2, 4, 8, 16].contains(&pattern) || !args.bytes.is_multiple_of(pattern.into()) {
            let why = format!("{} bytes with a pattern of {pattern}", args.bytes);
            return Err(invalid("fill", why));
        }
        self.end("fill", "dst", &args.dst, Reach::ahead(args.bytes))
    }
}

impl LayerHooks for Validate {
    fn before(&self, call: &Call<'_>) -> Result<CallState, Error> {
        self.arguments(call)?;
        self.handles(call)?;
        self.memory(call)?;
        let stream = submits_to(call);
        self.begin_submit(call.hook(), stream)?;
        let state = self.ends_object(call);
        if state.is_err() {
            self.end_submit(stream);
        }
        state
    }

    fn after(&self, call: &Call<'_>, state: CallState, answer: Answer) -> Result<(), Error> {
        self.end_submit(submits_to(call));
        self.learn_end(call, state, answer.status.is_ok());
        answers::form(call, answer)?;
        self.verdict(call, state, answer.status)?;
        if answer.status.is_ok() {
            self.learn_memory(call)?;
            self.learn_alias(call)?;
            self.learn_handle(call)?;
            self.content(call, state)?;
        }
        Ok(())
    }

    fn live_objects(&self) -> Option<LiveObjects> {
        Some(self.registry().live())
    }
}

/// The stream that takes one such call at a time.
const fn submits_to(call: &Call<'_>) -> Option<u64> {
    match *call {
        Call::Copy { stream, .. }
        | Call::CopyStrided { stream, .. }
        | Call::Fill { stream, .. }
        | Call::StreamWaitEvent { stream, .. }
        | Call::EventRecord { stream, .. }
        | Call::AllocateAsync { stream, .. }
        | Call::FreeAsync { stream, .. }
        | Call::StreamDestroy { stream }
            if !stream.is_none() =>
        {
            Some(stream.raw())
        }
        _ => None,
    }
}

/// The caller broke the contract.
pub(crate) fn invalid(hook: &'static str, why: impl Into<String>) -> Error {
    Error::new(Status::INVALID, hook, why.into())
}

fn sized(hook: &'static str, size: u64) -> Result<(), Error> {
    if size == 0 {
        return Err(invalid(hook, "no byte: size 0 never reaches a plugin"));
    }
    Ok(())
}

fn present(hook: &'static str, is_null: bool) -> Result<(), Error> {
    if is_null {
        return Err(invalid(hook, "`pointer` is NULL"));
    }
    Ok(())
}
