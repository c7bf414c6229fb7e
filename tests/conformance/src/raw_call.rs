//! Hooks that are called by the plugin's own table, so that their error objects are seen as the plugin made
//! them: behind `Hooks` they are an `Error` already.
#![expect(unsafe_code, reason = "calls the C functions of a plugin's table")]

use std::mem::MaybeUninit;
use std::ptr::{from_mut, null_mut};

use crossdock::Table;
use crossdock_sdk::abi::{
    Address, Capabilities, CopyArgs, DeviceInfo, EventHandle, FillArgs, MemoryInfo, MemoryKind,
    PluginHandle, PointerInfo, RawError, Side, Status, StreamHandle, StridedArgs, Text,
};

use crate::allocation::host_side;
use crate::case::{Unmet, ensure};
use crate::subject::Subject;

/// What a hook answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) hook: &'static str,
    pub(crate) status: Status,
    pub(crate) object: Option<Object>,
}

/// What stood in its error object.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) status: Status,
    /// Whether it has a sentence.
    pub(crate) has_message: bool,
}

/// Calls hooks, and keeps what they answer.
#[derive(Debug)]
struct Caller<'h> {
    table: &'h Table,
    handle: PluginHandle,
    /// Whether a hook is given room for an error object.
    has_room: bool,
    answers: Vec<Answer>,
}

impl<'h> Caller<'h> {
    fn of(subject: &Subject<'h>, has_room: bool) -> Self {
        let hooks = subject.hooks();
        Self {
            table: hooks.table(),
            handle: hooks.handle(),
            has_room,
            answers: Vec::new(),
        }
    }

    fn call(&mut self, hook: &'static str, call: impl FnOnce(*mut *mut RawError) -> Status) {
        let mut raw = null_mut::<RawError>();
        let room = if self.has_room {
            from_mut(&mut raw)
        } else {
            null_mut()
        };
        let status = call(room);
        // SAFETY: NULL or an object that the hook made just now; it lives until it is freed below.
        let object = unsafe { raw.as_ref() }.map(|object| Object {
            status: object.status,
            has_message: says(object.message),
        });
        if let Some(free) = self.table.raw().error_free.filter(|_| object.is_some()) {
            // SAFETY: the plugin's own object, which nobody looks at any more.
            unsafe { free(raw) };
        }
        self.answers.push(Answer {
            hook,
            status,
            object,
        });
    }
}

/// Whether there is a text. It is not read: `Hooks` does that.
const fn says(text: Text) -> bool {
    !text.ptr.is_null() && text.len > 0
}

/// Calls a hook, where it is there: `ask!(caller, free: hook, (address, kind))`.
macro_rules! ask {
    ($caller:ident, $hook:ident: $found:expr, ($($arg:expr),*)) => {
        if let Some(hook) = $found {
            let handle = $caller.handle;
            // SAFETY: the table's contract: a live handle, and arguments that live for the call and that
            // the contract has the plugin look at, and do or refuse.
            $caller.call(stringify!($hook), |error| unsafe { hook(handle, $($arg,)* error) });
        }
    };
}

/// Asks for what every plugin has to refuse, with room for an error object or without.
pub(crate) fn failing(subject: &Subject<'_>, has_room: bool) -> Result<Vec<Answer>, Unmet> {
    let hooks = subject.hooks();
    let raw = hooks.table().raw();
    let absent = hooks.device_count()?;
    let mut caller = Caller::of(subject, has_room);
    let mut info = MaybeUninit::<DeviceInfo>::uninit();
    ask!(caller, device_info: raw.device_info, (absent, info.as_mut_ptr()));
    let mut memory = MemoryInfo::default();
    ask!(caller, memory_info: raw.memory_info, (absent, &raw mut memory));
    let (mut out, request) = (Address::default(), subject.request(1 << 60));
    ask!(caller, allocate: raw.allocate, (&raw const request, &raw mut out));
    let mut bytes = [0_u64; 2];
    let word = (&raw mut bytes).expose_provenance();
    let nobodys = Address {
        form: subject.info().address_form,
        ..Address::pointer(word as u64)
    };
    ask!(caller, free: raw.free, (&raw const nobodys, MemoryKind::DEVICE));
    let side = Side {
        address: nobodys,
        kind: MemoryKind::DEVICE,
        device: subject.device(),
    };
    works(&mut caller, subject, (host_side(word + 8), side), side);
    if let Some(streams) = hooks.table().streams() {
        let mut stream = StreamHandle::NONE;
        ask!(caller, stream_create: streams.stream_create, (absent, &raw mut stream));
        let mut event = EventHandle::NONE;
        ask!(caller, event_create: streams.event_create, (absent, &raw mut event));
    }
    for Answer { hook, status, .. } in &caller.answers {
        ensure!(!status.is_ok(), "`{hook}` did not fail");
        let is_known = status.name().is_some();
        ensure!(is_known, "`{hook}` failed with the unknown {status}");
        ensure!(*status != Status::PANIC, "`{hook}` panicked");
    }
    Ok(caller.answers)
}

/// Asks for what plugins do, and keeps what was done.
pub(crate) fn succeeding(subject: &Subject<'_>) -> Result<Vec<Answer>, Unmet> {
    let memory = subject.allocate(4096)?;
    let (hooks, device) = (subject.hooks(), subject.device());
    let raw = hooks.table().raw();
    let mut caller = Caller::of(subject, true);
    let mut count = 0;
    ask!(caller, device_count: raw.device_count, (&raw mut count));
    let mut info = MaybeUninit::<DeviceInfo>::uninit();
    ask!(caller, device_info: raw.device_info, (device, info.as_mut_ptr()));
    let mut free = MemoryInfo::default();
    ask!(caller, memory_info: raw.memory_info, (device, &raw mut free));
    let (mut out, request) = (Address::default(), subject.request(4096));
    ask!(caller, allocate: raw.allocate, (&raw const request, &raw mut out));
    if out.word != 0 {
        ask!(caller, free: raw.free, (&raw const out, MemoryKind::DEVICE));
    }
    let (mut owner, address) = (PointerInfo::default(), memory.address());
    ask!(caller, pointer_query: raw.pointer_query, (&raw const address, &raw mut owner));
    let bytes = [7_u64; 2];
    let host = host_side((&raw const bytes).expose_provenance());
    works(&mut caller, subject, (memory.side(), host), memory.side());
    if let Some(streams) = hooks.table().streams() {
        let mut stream = StreamHandle::NONE;
        ask!(caller, stream_create: streams.stream_create, (device, &raw mut stream));
        if !stream.is_none() {
            ask!(caller, stream_query: streams.stream_query, (stream));
            ask!(caller, stream_synchronize: streams.stream_synchronize, (stream, u64::MAX));
            ask!(caller, stream_destroy: streams.stream_destroy, (stream));
        }
    }
    caller.answers.retain(|answer| answer.status.is_ok());
    Ok(caller.answers)
}

/// Asks for copies of eight bytes and for a fill of them.
fn works(caller: &mut Caller<'_>, subject: &Subject<'_>, (dst, src): (Side, Side), filled: Side) {
    let table = subject.hooks().table();
    let bytes = 8;
    let copy = CopyArgs { dst, src, bytes };
    ask!(caller, copy: table.raw().copy, (&raw const copy, StreamHandle::NONE));
    let (shape, strides) = ([8_i64], [1_i64]);
    let rows = StridedArgs {
        dst,
        src,
        element_bits: 8,
        rank: 1,
        shape: shape.as_ptr(),
        dst_strides: strides.as_ptr(),
        src_strides: strides.as_ptr(),
    };
    let hook = table
        .strided()
        .filter(|_| subject.can(Capabilities::STRIDED_COPY));
    let hook = hook.and_then(|group| group.copy_strided);
    ask!(caller, copy_strided: hook, (&raw const rows, StreamHandle::NONE));
    let fill = FillArgs {
        dst: filled,
        bytes,
        pattern: [0; 16],
        pattern_bytes: 1,
        reserved: 0,
    };
    let hook = table.fill().filter(|_| subject.can(Capabilities::FILL));
    let hook = hook.and_then(|group| group.fill);
    ask!(caller, fill: hook, (&raw const fill, StreamHandle::NONE));
}
