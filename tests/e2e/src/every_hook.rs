//! Every hook of a plugin called once, with arguments that are right while the plugin is alive.
#![expect(unsafe_code, reason = "calls hooks on memory that lives long enough")]

use std::ffi::c_void;

use crossdock::{Error, Hooks};
use crossdock_sdk::abi::{
    Address, AdoptFlags, AllocateArgs, CopyArgs, DefaultStream, FillArgs, HostFunction, MemoryKind,
    Side, Status, StreamHandle, StridedArgs,
};

const PAGE: usize = 4096;
const BYTES: u64 = PAGE as u64;

/// What each hook answered.
#[derive(Debug, Default)]
pub struct Answers(Vec<(&'static str, Status)>);

impl Answers {
    /// The hooks that answered something else than `allowed`.
    #[must_use]
    pub fn other_than(&self, allowed: &[Status]) -> Vec<(&'static str, Status)> {
        let answers = self.0.iter().copied();
        answers
            .filter(|(_, status)| !allowed.contains(status))
            .collect()
    }

    /// How many hooks were called.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    fn add<T>(&mut self, hook: &'static str, answer: Result<T, Error>) -> Option<T> {
        let status = match &answer {
            Ok(_) => Status::OK,
            Err(error) => error.status().unwrap_or(Status::INVALID),
        };
        self.0.push((hook, status));
        answer.ok()
    }
}

/// Calls every hook but those that end the plugin, on its first device.
#[must_use]
pub fn every_hook(hooks: &Hooks) -> Answers {
    let mut answers = Answers::default();
    answers.add("probe", hooks.probe());
    answers.add("device_count", hooks.device_count());
    answers.add("device_info", hooks.device_info(0));
    answers.add("memory_info", hooks.memory_info(0));
    answers.add("device_attribute", hooks.device_attribute(0, 0));
    answers.add("memory_usage", hooks.memory_usage(0));
    answers.add("memory_reset_peaks", hooks.memory_reset_peaks(0));
    answers.add("memory_trim", hooks.memory_trim(0, 0));
    links(hooks, &mut answers);
    let args = AllocateArgs {
        size: BYTES,
        alignment: 256,
        kind: MemoryKind::DEVICE,
        device: 0,
    };
    let address = answers
        .add("allocate", hooks.allocate(args))
        .unwrap_or_default();
    answers.add("pointer_query", hooks.pointer_query(address));
    copies(hooks, address, &mut answers);
    streams(hooks, &mut answers);
    foreign_memory(hooks, address, &mut answers);
    // SAFETY: allocated above, and every use of it is over.
    answers.add("free", unsafe { hooks.free(address, MemoryKind::DEVICE) });
    answers
}

fn links(hooks: &Hooks, answers: &mut Answers) {
    answers.add("peer_can_access", hooks.peer_can_access(0, 1));
    answers.add("peer_enable", hooks.peer_enable(0, 1));
    answers.add("peer_disable", hooks.peer_disable(0, 1));
}

fn copies(hooks: &Hooks, address: Address, answers: &mut Answers) {
    let mut host = [7_u8; PAGE];
    let dst = Side {
        address,
        kind: MemoryKind::DEVICE,
        device: 0,
    };
    let src = Side {
        address: Address::pointer(host.as_mut_ptr().expose_provenance() as u64),
        kind: MemoryKind::HOST,
        device: 0,
    };
    let args = CopyArgs {
        dst,
        src,
        bytes: BYTES,
    };
    // SAFETY: both sides have `BYTES` bytes until the synchronous copy is done.
    answers.add("copy", unsafe { hooks.copy(args, StreamHandle::NONE) });
    let (shape, strides) = ([BYTES.cast_signed()], [1]);
    let args = StridedArgs {
        dst,
        src,
        element_bits: 8,
        rank: 1,
        shape: shape.as_ptr(),
        dst_strides: strides.as_ptr(),
        src_strides: strides.as_ptr(),
    };
    // SAFETY: as above, and the arrays have one number each.
    answers.add("copy_strided", unsafe {
        hooks.copy_strided(args, StreamHandle::NONE)
    });
    let args = FillArgs {
        dst,
        bytes: BYTES,
        pattern: [9; 16],
        pattern_bytes: 1,
        reserved: 0,
    };
    // SAFETY: as above.
    answers.add("fill", unsafe { hooks.fill(args, StreamHandle::NONE) });
}

fn streams(hooks: &Hooks, answers: &mut Answers) {
    let stream = answers.add("stream_create", hooks.stream_create(0));
    let stream = stream.unwrap_or(StreamHandle::NONE);
    answers.add(
        "stream_default",
        hooks.stream_default(0, DefaultStream::default()),
    );
    answers.add("stream_native", hooks.stream_native(stream));
    answers.add("stream_query", hooks.stream_query(stream));
    let event = answers
        .add("event_create", hooks.event_create(0))
        .unwrap_or_default();
    answers.add("event_record", hooks.event_record(event, stream));
    answers.add("stream_wait_event", hooks.stream_wait_event(stream, event));
    answers.add("event_query", hooks.event_query(event));
    answers.add(
        "event_synchronize",
        hooks.event_synchronize(event, LIMIT_NS),
    );
    answers.add("event_elapsed", hooks.event_elapsed(event, event));
    // SAFETY: the function only reads its word, which is NULL.
    answers.add("stream_host_call", unsafe {
        hooks.stream_host_call(stream, HostFunction(Some(nothing)), std::ptr::null_mut())
    });
    let memory = answers.add("allocate_async", hooks.allocate_async(stream, BYTES));
    // SAFETY: nothing uses the memory.
    answers.add("free_async", unsafe {
        hooks.free_async(stream, memory.unwrap_or_default())
    });
    let host = answers.add("event_create_host", hooks.event_create_host(0));
    let host = host.unwrap_or_default();
    answers.add("event_complete", hooks.event_complete(host, Status::OK));
    answers.add(
        "stream_synchronize",
        hooks.stream_synchronize(stream, LIMIT_NS),
    );
    for event in [event, host] {
        answers.add("event_destroy", hooks.event_destroy(event));
    }
    answers.add("stream_destroy", hooks.stream_destroy(stream));
}

fn foreign_memory(hooks: &Hooks, address: Address, answers: &mut Answers) {
    let mut pages = vec![0_u8; 4 * PAGE];
    // Whole pages, wherever the vector begins.
    let skip = pages.as_ptr().align_offset(PAGE);
    let host: *mut c_void = pages.as_mut_ptr().wrapping_add(skip).cast();
    // SAFETY: two pages of `pages`, which is kept where the registration does not end.
    let registered = unsafe { hooks.register_host(0, host, 2 * BYTES) };
    let registered = answers.add("register_host", registered);
    // SAFETY: registered above, and not in use.
    let ended = unsafe { hooks.unregister_host(0, host) };
    let mut kept = answers.add("unregister_host", ended).is_none() && registered.is_some();
    let foreign = Address::pointer(host.expose_provenance() as u64);
    // SAFETY: `pages` is kept where the adoption does not end.
    let adopted = unsafe { hooks.adopt(0, foreign, MemoryKind::HOST, BYTES, AdoptFlags::empty()) };
    let adopted = answers.add("adopt", adopted);
    let ended = hooks.release_adopted(0, adopted.unwrap_or_default());
    kept |= answers.add("release_adopted", ended).is_none() && adopted.is_some();
    let mapped = answers.add("map", hooks.map(0, address, BYTES));
    let mapped = mapped.unwrap_or(std::ptr::null_mut());
    // SAFETY: mapped above, and not in use.
    answers.add("unmap", unsafe { hooks.unmap(0, address, mapped) });
    if kept {
        let _kept = pages.leak();
    }
}

unsafe extern "C" fn nothing(_word: *mut c_void) {}

const LIMIT_NS: u64 = 4_000_000_000;
