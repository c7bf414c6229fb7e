//! Contexts, streams and events: which exist, which context they belong to, and the order of default streams.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossdock_sim_engine::{Engine, Error, Event, Site, Stream};

use super::captures::Captures;
use super::codes::Code;
use super::entry::{Answer, Call};
use super::gone::Gone;
use super::stream_ends::END;
use super::whose::Face;
use crate::cuda::ipc::Import;

/// `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`.
pub(crate) const LEGACY: u64 = 1;
pub(crate) const PER_THREAD: u64 = 2;
/// `CU_STREAM_NON_BLOCKING`.
pub(crate) const NON_BLOCKING: u32 = 1;

/// A context.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) device: u32,
    pub(crate) is_primary: bool,
    pub(crate) flags: u32,
    pub(crate) id: u64,
    /// How often the primary context is retained; 1 for a context that a program made.
    pub(crate) held: u32,
    /// Contexts of other devices whose memory this one reaches.
    pub(crate) peers: Vec<u64>,
    legacy: Option<u64>,
    /// Where the blocking streams ended that are gone: its legacy default stream comes behind them too.
    pub(crate) ends: Vec<Event>,
}

/// A stream.
#[derive(Debug)]
pub(crate) struct StreamOf {
    pub(crate) engine: Stream,
    pub(crate) context: u64,
    pub(crate) flags: u32,
    pub(crate) priority: i32,
    pub(crate) id: u64,
    pub(crate) is_legacy: bool,
    /// How much of the other streams is ordered before it: of the legacy stream before a blocking one, of each
    /// blocking one before the legacy stream.
    behind: BTreeMap<u64, u64>,
}

/// An event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventOf {
    pub(crate) engine: Event,
    pub(crate) context: u64,
    pub(crate) flags: u32,
    pub(crate) is_recorded: bool,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Objects {
    pub(crate) contexts: BTreeMap<u64, Context>,
    pub(crate) streams: BTreeMap<u64, StreamOf>,
    pub(crate) events: BTreeMap<u64, EventOf>,
    /// The context of each allocation, by its first address.
    pub(crate) allocations: BTreeMap<u64, u64>,
    /// Registered host memory, by vendor and first address: its flags, and the context that it was registered in.
    pub(crate) registered: BTreeMap<(Face, u64), (u32, u64)>,
    /// Memory of other processes, by the address that it has here; its contexts are among those of `allocations`.
    pub(crate) imports: BTreeMap<u64, Import>,
    /// The memory that stands in for an allocation over a link that lies, by the allocation's number.
    pub(crate) mirrors: BTreeMap<u64, u64>,
    pub(crate) captures: Captures,
    pub(crate) gone: Gone,
    /// The primary context of each device, whose handle stays.
    primary: BTreeMap<u32, u64>,
    made: u64,
}

/// What a thread has.
#[derive(Debug, Default)]
struct OfThread {
    /// Its stack of contexts, the current one last.
    stack: Vec<u64>,
    /// Its default streams, by their contexts.
    streams: BTreeMap<u64, u64>,
    /// Its device of HIP, by the client's number.
    device: i32,
}

thread_local! {
    /// It is never dropped: destructors of other thread data, and code that runs at the exit, call the driver too.
    static THREAD: Cell<Option<&'static RefCell<OfThread>>> = const { Cell::new(None) };
}

/// Looks at, or changes, what this thread has.
fn of_thread<T>(change: impl FnOnce(&mut OfThread) -> T) -> T {
    let own = THREAD.get().unwrap_or_else(|| Box::leak(Box::default()));
    THREAD.set(Some(own));
    change(&mut own.borrow_mut())
}

/// All objects of the process. Nobody waits for work while holding them.
pub(crate) fn objects() -> MutexGuard<'static, Objects> {
    static OBJECTS: Mutex<Objects> = Mutex::new(Objects::new());
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the default streams of this thread away from it.
pub(crate) fn take_own_streams() -> BTreeMap<u64, u64> {
    of_thread(|own| std::mem::take(&mut own.streams))
}

/// Changes this thread's stack of contexts.
pub(crate) fn stack<T>(change: impl FnOnce(&mut Vec<u64>) -> T) -> T {
    of_thread(|own| change(&mut own.stack))
}

/// Sets this thread's device of HIP, which takes the place of a current context.
pub(crate) fn set_device(ordinal: i32) {
    of_thread(|own| own.device = ordinal);
}

/// This thread's device of HIP.
pub(crate) fn own_device() -> i32 {
    of_thread(|own| own.device)
}

/// The current context of this thread.
pub(crate) fn current() -> Option<u64> {
    stack(|stack| stack.last().copied()).filter(|context| *context != 0)
}

impl Objects {
    const fn new() -> Self {
        Self {
            contexts: BTreeMap::new(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            allocations: BTreeMap::new(),
            registered: BTreeMap::new(),
            imports: BTreeMap::new(),
            mirrors: BTreeMap::new(),
            captures: Captures::new(),
            gone: Gone::new(),
            primary: BTreeMap::new(),
            made: 0,
        }
    }

    /// A handle that no other object has: no number of a default stream, and no address.
    pub(crate) fn handle(&mut self) -> u64 {
        self.made += 1;
        0x1000 + 16 * self.made
    }

    /// The primary context of a device, whether it is retained or not.
    pub(crate) fn primary(&mut self, device: u32) -> u64 {
        if let Some(context) = self.primary.get(&device) {
            return *context;
        }
        let context = self.make_context(device, true, 0);
        self.primary.insert(device, context);
        context
    }

    pub(crate) fn make_context(&mut self, device: u32, is_primary: bool, flags: u32) -> u64 {
        let handle = self.handle();
        let context = Context {
            device,
            is_primary,
            flags,
            id: self.made,
            held: u32::from(!is_primary),
            peers: Vec::new(),
            legacy: None,
            ends: Vec::new(),
        };
        self.contexts.insert(handle, context);
        handle
    }

    /// The context with this handle, which lives.
    pub(crate) fn context(&mut self, handle: u64) -> Answer<&mut Context> {
        match self.contexts.get_mut(&handle) {
            None => Err(Code::INVALID_CONTEXT),
            Some(context) if context.held == 0 => Err(Code::CONTEXT_IS_DESTROYED),
            Some(context) => Ok(context),
        }
    }

    /// The current context of this thread and its device.
    pub(crate) fn current(&mut self, call: &Call) -> Answer<(u64, u32)> {
        if call.face == Face::Hip {
            let device = call.device(own_device())?;
            return Ok((self.of_device(device), device));
        }
        let handle = current().ok_or(Code::INVALID_CONTEXT)?;
        Ok((handle, self.context(handle)?.device))
    }

    /// The one context of a device of HIP, which is always there.
    pub(crate) fn of_device(&mut self, device: u32) -> u64 {
        let handle = self.primary(device);
        if let Some(context) = self.contexts.get_mut(&handle) {
            context.held = 1;
        }
        handle
    }

    /// Whether a context is of the vendor that a call is made to.
    pub(crate) fn is_own(&self, call: &Call, context: u64) -> bool {
        let context = self.contexts.get(&context);
        context.is_some_and(|context| Face::of(call.process, context.device) == call.face)
    }

    pub(crate) fn make_stream(
        &mut self,
        call: &Call,
        context: u64,
        flags: u32,
        priority: i32,
    ) -> Answer<u64> {
        let device = self.context(context)?.device;
        let engine = call.process.engine.create_stream(call.site, device)?;
        let handle = self.handle();
        let stream = StreamOf {
            engine,
            context,
            flags,
            priority,
            id: self.made,
            is_legacy: false,
            behind: BTreeMap::new(),
        };
        self.streams.insert(handle, stream);
        Ok(handle)
    }

    /// The key of the stream that a handle means: 0 is the default one of this form of the function.
    pub(crate) fn resolve(&mut self, call: &Call, handle: u64) -> Answer<u64> {
        match (handle, call.is_per_thread) {
            (0, false) => self.legacy(call),
            (LEGACY, _) if call.process.has_legacy(call.face) => self.legacy(call),
            (0, true) | (PER_THREAD, _) => self.own(call),
            _ => match self.streams.get(&handle) {
                Some(stream) if self.is_own(call, stream.context) => Ok(handle),
                _ => Err(self.no_handle(call, handle, "a stream")),
            },
        }
    }

    /// The legacy default stream of the current context.
    fn legacy(&mut self, call: &Call) -> Answer<u64> {
        let (context, _) = self.current(call)?;
        if let Some(stream) = self.context(context)?.legacy {
            return Ok(stream);
        }
        let handle = self.make_stream(call, context, 0, 0)?;
        if let Some(stream) = self.streams.get_mut(&handle) {
            stream.is_legacy = true;
        }
        self.context(context)?.legacy = Some(handle);
        Ok(handle)
    }

    /// The default stream of this thread in the current context.
    fn own(&mut self, call: &Call) -> Answer<u64> {
        let (context, _) = self.current(call)?;
        let known = of_thread(|own| own.streams.get(&context).copied());
        if let Some(stream) = known.filter(|stream| self.streams.contains_key(stream)) {
            return Ok(stream);
        }
        let handle = self.make_stream(call, context, 0, 0)?;
        of_thread(|own| own.streams.insert(context, handle));
        // Where the thread's data is being dropped already, the stream is left.
        let _kept = END.try_with(|_| ());
        Ok(handle)
    }

    /// The stream that a handle means, and its context.
    pub(crate) fn stream(&mut self, call: &Call, handle: u64) -> Answer<(Stream, u64)> {
        let key = self.resolve(call, handle)?;
        let stream = self.streams.get(&key).ok_or(Code::INVALID_HANDLE)?;
        let (engine, context) = (stream.engine, stream.context);
        self.context(context)?;
        Ok((engine, context))
    }

    /// Refuses a stream of another context than the current one.
    pub(crate) fn check_current(&mut self, call: &Call, handle: u64) -> Answer {
        let (_, context) = self.stream(call, handle)?;
        match self.current(call)? {
            (current, _) if current == context => Ok(()),
            _ => Err(Code::INVALID_CONTEXT),
        }
    }

    pub(crate) fn is_legacy(&self, key: u64) -> bool {
        self.streams
            .get(&key)
            .is_some_and(|stream| stream.is_legacy)
    }

    /// The streams of a context that its legacy default stream waits for, and that wait for it.
    pub(crate) fn blocking(&self, context: u64) -> Vec<u64> {
        let is_blocking = |(_, other): &(&u64, &StreamOf)| {
            other.context == context && !other.is_legacy && other.flags & NON_BLOCKING == 0
        };
        let others = self.streams.iter().filter(is_blocking);
        others.map(|(key, _)| *key).collect()
    }

    /// The stream that work goes to now, and its context; `None` where the stream captures, and the work is done
    /// with. Work on the legacy default stream comes behind all that is on the blocking streams of its context,
    /// and they come behind it.
    pub(crate) fn submit_to(&mut self, call: &Call, handle: u64) -> Answer<Option<(Stream, u64)>> {
        let key = self.resolve(call, handle)?;
        self.stream(call, key)?;
        if self.captures.take(key)? {
            return Ok(None);
        }
        self.come_to(call, key).map(Some)
    }

    /// The stream that is asked or waited for now, and its context, in the same order. None that captures.
    pub(crate) fn come_to(&mut self, call: &Call, handle: u64) -> Answer<(Stream, u64)> {
        let key = self.resolve(call, handle)?;
        let (_, context) = self.stream(call, key)?;
        let stream = self.streams.get(&key).ok_or(Code::INVALID_HANDLE)?;
        let is_legacy = stream.is_legacy;
        let before: Vec<u64> = if is_legacy {
            let blocking = self.blocking(context);
            self.captures.refuse_implicit(&blocking)?;
            blocking
        } else if stream.flags & NON_BLOCKING == 0 {
            let legacy = self.context(context)?.legacy;
            legacy.into_iter().collect()
        } else {
            Vec::new()
        };
        for other in before {
            self.come_behind(&call.process.engine, key, other)?;
        }
        if is_legacy {
            self.come_behind_ends(&call.process.engine, key, context)?;
        }
        let stream = self.streams.get(&key).ok_or(Code::INVALID_HANDLE)?;
        Ok((stream.engine, context))
    }

    /// Lets a stream wait for what is on another one by now, unless it does. The engine counts what is there:
    /// another thread may have been told the stream, and not have submitted yet.
    fn come_behind(&mut self, engine: &Engine, key: u64, other: u64) -> Answer {
        let first = self.streams.get(&other).ok_or(Code::INVALID_HANDLE)?;
        let (from, point) = (first.engine, engine.submitted(first.engine));
        let stream = self.streams.get_mut(&key).ok_or(Code::INVALID_HANDLE)?;
        if stream.behind.get(&other).copied().unwrap_or(0) >= point {
            return Ok(());
        }
        let site = Site::new("the legacy default stream");
        let device = engine.device_of(site, from)?;
        let event = engine.create_event(site, device)?;
        engine.record(site, event, from)?;
        engine.wait(site, stream.engine, event)?;
        // The record counts too; where others came between, it is not known what is before it.
        let recorded = point + 1;
        let is_last = engine.submitted(from) == recorded;
        stream
            .behind
            .insert(other, if is_last { recorded } else { point });
        Ok(engine.destroy_event(site, event)?)
    }

    /// Ends a context with its streams, events, memory and registered ranges: destroying it destroys them.
    /// What fails keeps none of the others, and the first failure is the answer.
    pub(crate) fn end_context(&mut self, call: &Call, handle: u64) -> Answer {
        let engine = &call.process.engine;
        let mut done = Ok(());
        let mut note = |ended: Result<(), Error>| done = done.and(ended.map_err(Code::from));
        for (key, stream) in taken(&mut self.streams, |stream| stream.context == handle) {
            self.captures.forget_stream(key);
            note(engine.destroy_stream(call.site, stream.engine));
        }
        for (key, event) in taken(&mut self.events, |event| event.context == handle) {
            self.captures.forget_event(key);
            note(engine.destroy_event(call.site, event.engine));
        }
        for (address, _) in taken(&mut self.allocations, |context| *context == handle) {
            let owner = engine.owner_of(address);
            note(match self.imports.remove(&address) {
                Some(_) => engine.close_import(call.site, address),
                None => engine.free(call.site, address),
            });
            if let Some(owner) = owner {
                self.forget_registered(owner.base, owner.bytes);
            }
        }
        let registered = taken(&mut self.registered, |(_, context)| *context == handle);
        for (face, address) in registered.into_keys() {
            note(engine.unregister_for(call.site, face.vendor(), address));
        }
        if let Some(context) = self.contexts.get_mut(&handle) {
            context.held = 0;
            context.legacy = None;
            context.peers.clear();
            for end in context.ends.drain(..) {
                note(engine.destroy_event(call.site, end));
            }
        }
        done
    }
}

impl Objects {
    /// Forgets what any vendor had registered in memory that is freed: the engine reported and forgot it.
    pub(crate) fn forget_registered(&mut self, start: u64, bytes: u64) {
        let end = start.saturating_add(bytes);
        self.registered
            .retain(|(_, address), _| !(start..end).contains(address));
    }
}

/// Takes the matching entries out of a map.
fn taken<K: Ord, T>(map: &mut BTreeMap<K, T>, is_meant: impl Fn(&T) -> bool) -> BTreeMap<K, T> {
    let all = std::mem::take(map);
    let (meant, kept) = all.into_iter().partition(|(_, value)| is_meant(value));
    *map = kept;
    meant
}
