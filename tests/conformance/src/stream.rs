//! A stream that keeps the memory of its work alive until the work is done.
#![expect(unsafe_code, reason = "hooks that touch memory are unsafe to call")]

use std::sync::Arc;

use crossdock::{Error, Hooks};
use crossdock_sdk::abi::{
    Address, CopyArgs, DefaultStream, FillArgs, Status, StreamHandle, StridedArgs,
};

use crate::allocation::{Allocation, host_side, misuse};
use crate::case::status_of;
use crate::event::{Event, HostEvent, LIMIT_NS, note};
use crate::registration::Registration;

/// A stream with everything that its work touches.
#[derive(Debug)]
pub(crate) struct Stream<'h> {
    hooks: &'h Hooks,
    handle: StreamHandle,
    is_owned: bool,
    memories: Vec<Arc<Allocation<'h>>>,
    sources: Vec<Vec<u8>>,
    targets: Vec<Vec<u8>>,
    registered: Vec<Arc<Registration<'h>>>,
}

impl<'h> Stream<'h> {
    /// Creates a stream.
    pub(crate) fn create(hooks: &'h Hooks, device: u32) -> Result<Self, Error> {
        Ok(Self::over(hooks, hooks.stream_create(device)?, true))
    }

    /// Uses the device's default stream.
    pub(crate) fn default_of(hooks: &'h Hooks, device: u32) -> Result<Self, Error> {
        let handle = hooks.stream_default(device, DefaultStream::LEGACY)?;
        Ok(Self::over(hooks, handle, false))
    }

    /// Makes a second stream of the vendor's integer for this one, which outlives it.
    pub(crate) fn wrap(&self, device: u32) -> Result<Stream<'_>, Error> {
        let native = self.native()?;
        // SAFETY: `stream_wrap` needs
        // - a live stream of the vendor: the plugin named it for `self.handle`, which `self` owns;
        // - one that outlives the new stream: the result borrows `self`.
        let handle = unsafe { self.hooks.stream_wrap(device, native) }?;
        Ok(Stream::over(self.hooks, handle, true))
    }

    /// Makes a stream of a number below all addresses.
    pub(crate) fn wrap_small(hooks: &'h Hooks, device: u32, number: u8) -> Result<Self, Error> {
        // SAFETY: `stream_wrap` needs
        // - a number that names a default stream, which lives as long as the device, or names none: by
        //   contract it is refused then, and not followed.
        let handle = unsafe { hooks.stream_wrap(device, number.into()) }?;
        Ok(Self::over(hooks, handle, true))
    }

    fn over(hooks: &'h Hooks, handle: StreamHandle, is_owned: bool) -> Self {
        Self {
            hooks,
            handle,
            is_owned,
            memories: Vec::new(),
            sources: Vec::new(),
            targets: Vec::new(),
            registered: Vec::new(),
        }
    }

    pub(crate) const fn handle(&self) -> StreamHandle {
        self.handle
    }

    /// The vendor's integer.
    pub(crate) fn native(&self) -> Result<u64, Error> {
        self.hooks.stream_native(self.handle)
    }

    /// Starts a copy of `bytes` to the start of `dst`.
    pub(crate) fn upload(
        &mut self,
        dst: &Arc<Allocation<'h>>,
        bytes: Vec<u8>,
    ) -> Result<(), Error> {
        let length = bytes.len() as u64;
        let src = host_side(bytes.as_ptr().expose_provenance());
        self.sources.push(bytes);
        self.memories.push(Arc::clone(dst));
        self.start(
            dst.size(),
            CopyArgs {
                dst: dst.side(),
                src,
                bytes: length,
            },
        )
    }

    /// Starts a copy of all of `src` to the host; [`Stream::finish`] gives it out.
    pub(crate) fn download(&mut self, src: &Arc<Allocation<'h>>) -> Result<(), Error> {
        let count = usize::try_from(src.size()).map_err(|_beyond| misuse("too large to read"))?;
        let mut bytes = vec![NOTHING; count];
        let dst = host_side(bytes.as_mut_ptr().expose_provenance());
        self.targets.push(bytes);
        self.memories.push(Arc::clone(src));
        self.start(
            src.size(),
            CopyArgs {
                dst,
                src: src.side(),
                bytes: src.size(),
            },
        )
    }

    /// Whether a byte came of what [`Stream::download`] is to bring.
    pub(crate) fn has_arrived(&self) -> bool {
        self.targets.iter().flatten().any(|byte| *byte != NOTHING)
    }

    /// What [`Stream::download`] has brought by now.
    pub(crate) fn brought(&self) -> &[Vec<u8>] {
        &self.targets
    }

    /// Allocates memory that is usable in the stream's order.
    pub(crate) fn allocate(&self, device: u32, size: u64) -> Result<Arc<Allocation<'h>>, Error> {
        let address = self.hooks.allocate_async(self.handle, size)?;
        Ok(Arc::new(Allocation::over(
            self.hooks, device, address, size,
        )))
    }

    /// Frees memory that only this stream uses, once the stream gets there.
    pub(crate) fn free(&mut self, memory: Arc<Allocation<'h>>) -> Result<(), Error> {
        self.memories.retain(|kept| !Arc::ptr_eq(kept, &memory));
        let memory = Arc::into_inner(memory).ok_or_else(|| misuse("memory is used elsewhere"))?;
        self.free_word(memory.give_up())
    }

    /// Frees any address in the stream's order: what is not an allocation has to be refused.
    pub(crate) fn free_word(&self, address: Address) -> Result<(), Error> {
        // SAFETY: `free_async` needs
        // - no work elsewhere that uses the memory: `free` gives what only this stream knows, and
        //   what was never an allocation, or is one no more, has no work.
        unsafe { self.hooks.free_async(self.handle, address) }
    }

    /// Starts a copy of all registered memory to the start of `dst`.
    pub(crate) fn upload_registered(
        &mut self,
        dst: &Arc<Allocation<'h>>,
        src: &Arc<Registration<'h>>,
    ) -> Result<(), Error> {
        self.memories.push(Arc::clone(dst));
        self.registered.push(Arc::clone(src));
        let args = CopyArgs {
            dst: dst.side(),
            src: src.side(),
            bytes: src.bytes().len() as u64,
        };
        self.start(dst.size(), args)
    }

    /// Starts a copy of all of `src` to the start of registered memory.
    pub(crate) fn download_registered(
        &mut self,
        dst: &Arc<Registration<'h>>,
        src: &Arc<Allocation<'h>>,
    ) -> Result<(), Error> {
        self.memories.push(Arc::clone(src));
        self.registered.push(Arc::clone(dst));
        let args = CopyArgs {
            dst: dst.side(),
            src: src.side(),
            bytes: src.size(),
        };
        self.start(dst.bytes().len() as u64, args)
    }

    /// Starts a copy of all of `src` to the start of `dst`.
    pub(crate) fn transfer(
        &mut self,
        dst: &Arc<Allocation<'h>>,
        src: &Arc<Allocation<'h>>,
    ) -> Result<(), Error> {
        self.memories.extend([Arc::clone(dst), Arc::clone(src)]);
        let args = CopyArgs {
            dst: dst.side(),
            src: src.side(),
            bytes: src.size(),
        };
        self.start(dst.size().min(src.size()), args)
    }

    /// Starts a copy of the end of `src` to all of `dst`.
    pub(crate) fn transfer_end(
        &mut self,
        dst: &Arc<Allocation<'h>>,
        src: &Arc<Allocation<'h>>,
    ) -> Result<(), Error> {
        let Some(start) = src.size().checked_sub(dst.size()) else {
            return Err(misuse("a copy of the suite leaves its memory"));
        };
        self.memories.extend([Arc::clone(dst), Arc::clone(src)]);
        let args = CopyArgs {
            dst: dst.side(),
            src: src.side_at(start),
            bytes: dst.size(),
        };
        self.start(dst.size(), args)
    }

    /// Starts to fill all of `dst` with a byte.
    pub(crate) fn fill(&mut self, dst: &Arc<Allocation<'h>>, byte: u8) -> Result<(), Error> {
        self.memories.push(Arc::clone(dst));
        let args = FillArgs {
            dst: dst.side(),
            bytes: dst.size(),
            pattern: [byte; 16],
            pattern_bytes: 1,
            reserved: 0,
        };
        // SAFETY: `fill` needs
        // - the range valid for writes until it is done: it is all of the memory, which `self` holds.
        unsafe { self.hooks.fill(args, self.handle) }
    }

    /// Starts to copy [`ROWS`] rows that lie at [`PITCH`] in `src` to `dst`, one behind the other.
    pub(crate) fn pack(
        &mut self,
        dst: &Arc<Allocation<'h>>,
        src: &Arc<Allocation<'h>>,
    ) -> Result<(), Error> {
        if dst.size() < (ROWS * ROW) as u64 || src.size() < (ROWS * PITCH) as u64 {
            return Err(misuse("a strided copy of the suite leaves its memory"));
        }
        self.memories.extend([Arc::clone(dst), Arc::clone(src)]);
        let [rows, row, pitch] = [ROWS, ROW, PITCH].map(usize::cast_signed).map(|n| n as i64);
        let (shape, dst_strides, src_strides) = ([rows, row], [row, 1], [pitch, 1]);
        let args = StridedArgs {
            dst: dst.side(),
            src: src.side(),
            element_bits: 8,
            rank: 2,
            shape: shape.as_ptr(),
            dst_strides: dst_strides.as_ptr(),
            src_strides: src_strides.as_ptr(),
        };
        // SAFETY: `copy_strided` needs
        // - arrays of `rank` numbers during the call: those above;
        // - every element valid until it is done: the sizes were checked, and `self` holds both.
        unsafe { self.hooks.copy_strided(args, self.handle) }
    }

    fn start(&self, room: u64, args: CopyArgs) -> Result<(), Error> {
        if args.bytes > room {
            return Err(misuse("a copy of the suite leaves its memory"));
        }
        // SAFETY: `copy` needs
        // - both sides valid for `bytes`: the length was checked, and host vectors are that long;
        // - until the copy is done: `self` holds all of it, gives nothing out and drops nothing
        //   before the stream was synchronized, and leaks it when that does not succeed in time.
        unsafe { self.hooks.copy(args, self.handle) }
    }

    /// Makes the stream wait for an event.
    pub(crate) fn wait(&self, event: &Event<'_>) -> Result<(), Error> {
        self.hooks.stream_wait_event(self.handle, event.handle())
    }

    /// Makes the stream wait for the host.
    pub(crate) fn wait_host_event(&self, host_event: &HostEvent<'_>) -> Result<(), Error> {
        self.wait(host_event.event())
    }

    pub(crate) fn record(&self, event: &Event<'_>) -> Result<(), Error> {
        self.hooks.event_record(event.handle(), self.handle)
    }

    pub(crate) fn query(&self) -> Result<(), Error> {
        self.hooks.stream_query(self.handle)
    }

    pub(crate) fn synchronize(&self, timeout_ns: u64) -> Result<(), Error> {
        self.hooks.stream_synchronize(self.handle, timeout_ns)
    }

    /// Waits for all work, and gives out what was downloaded, in order.
    pub(crate) fn finish(mut self) -> Result<Vec<Vec<u8>>, Error> {
        self.synchronize(LIMIT_NS)?;
        Ok(std::mem::take(&mut self.targets))
    }

    /// Destroys the stream while it may have work, whose end `event` marks, and then lets that begin.
    pub(crate) fn destroy_before(
        mut self,
        event: &Event<'_>,
        host_event: Option<HostEvent<'_>>,
    ) -> Result<(), Error> {
        let destroyed = self.hooks.stream_destroy(std::mem::take(&mut self.handle));
        drop(host_event);
        let done = event.synchronize(LIMIT_NS);
        if done.is_err() {
            self.leak();
        }
        destroyed.and(done)
    }

    /// Destroys the stream without waiting for work that was seen to hang.
    pub(crate) fn abandon(mut self) {
        self.leak();
        note(self.hooks.stream_destroy(std::mem::take(&mut self.handle)));
    }

    fn leak(&mut self) {
        log::warn!(target: "crossdock::stream", "work did not end; its memory is kept for ever");
        for bytes in self.sources.drain(..).chain(self.targets.drain(..)) {
            let _kept: &'static mut [u8] = bytes.leak();
        }
        for memory in self.memories.drain(..) {
            let _kept = Arc::into_raw(memory);
        }
        for registration in self.registered.drain(..) {
            let _kept = Arc::into_raw(registration);
        }
    }
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        if self.handle.is_none() {
            return;
        }
        // Work that failed is over too; only work that goes on still needs its memory.
        if status_of(&self.synchronize(LIMIT_NS)) == Status::TIMEOUT {
            self.leak();
        }
        if self.is_owned {
            note(self.hooks.stream_destroy(self.handle));
        }
    }
}

/// The rows of [`Stream::pack`]: how many, their bytes, and how far apart they lie.
pub(crate) const ROWS: usize = 64;
pub(crate) const ROW: usize = 64;
pub(crate) const PITCH: usize = 128;

/// What stands where bytes are to arrive.
const NOTHING: u8 = 0xa5;
