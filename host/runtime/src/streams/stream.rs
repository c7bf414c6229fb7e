//! Streams: ordered queues of work on one device, made here or wrapped.
#![expect(unsafe_code, reason = "wraps a stream that its caller vouches for")]

use std::sync::{Arc, Weak};
use std::time::Duration;

use crossdock_sdk::abi::{DefaultStream, Status, StreamHandle};
use crossdock_sdk::deadline::Deadline;

use crate::devices::device::Device;
use crate::error::Error;
use crate::hooks::waits;
use crate::plugins::releases::Outstanding;
use crate::plugins::stream_core::{Hold, Origin, StreamCore};
use crate::streams::event::Event;
use crate::streams::stream_frees;
use crate::streams::wait::{self, OnFailure, WaitMethod};

/// An ordered queue of work on one device. Clones are the same stream. When the last clone is dropped the stream is
/// destroyed; work on it still completes, and tensors that it works on do not keep it. Equal devices of two runtimes have equal streams.
///
/// ```
/// use crossdock::{Event, Runtime, Stream};
/// use crossdock_sdk::abi::Status;
/// use crossdock_sdk::dlpack::Device;
///
/// let cpu = Runtime::builder().search(false).open()?.device(Device::CPU)?;
/// let (first, second) = (Stream::new(&cpu)?, Stream::new(&cpu)?);
/// let gate = Event::host(&cpu)?;
/// first.wait(&gate)?; // what comes later on it waits, and the caller goes on
/// second.wait(&first.record()?)?; // after all that is on the first one
/// assert!(!second.is_idle()?);
/// gate.complete(Status::OK)?;
/// second.synchronize(None)?; // this one makes the caller wait
/// # Ok::<(), crossdock::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Stream(Hold, Device);

impl Stream {
    /// Creates a stream on a device.
    ///
    /// # Errors
    /// [`Error::Hook`]; `UNSUPPORTED` where the plugin has no streams, `RETIRED` where it was
    /// retired.
    pub fn new(device: &Device) -> Result<Self, Error> {
        // First: in the child of a fork a thread that the child does not have may hold the locks below.
        device.hooks().check_called("stream_create")?;
        device.check_listed("stream_create")?;
        device.check_not_lost("stream_create")?;
        device.plugin().ended_streams().destroy_idle(device.hooks());
        let created = device.hooks().stream_create(device.index());
        let handle = created.inspect_err(|error| device.notice_lost(error))?;
        Self::enter(device, handle, Origin::Created)
    }

    /// The device's default stream.
    ///
    /// # Errors
    /// [`Error::Hook`]; `UNSUPPORTED` where it has none.
    pub fn default_of(device: &Device) -> Result<Self, Error> {
        if let Some(known) = device.plugin().streams().default_of(device.index()) {
            return Ok(Self(known, device.clone()));
        }
        let hooks = device.hooks();
        let handle = hooks.stream_default(device.index(), DefaultStream::LEGACY)?;
        Self::enter(device, handle, Origin::Default)
    }

    /// Wraps the stream of others that the vendor's API names by this integer; where a stream with the
    /// integer is alive here, gives that one. A stream of others is never destroyed here.
    ///
    /// Where its owner ends more than the stream, such as the vendor's context that it is in, nobody can say
    /// any more whether its work is over, and the memory of tensors that had work there is leaked and counted.
    /// Drop those tensors before, and call
    /// [`Runtime::wait_for_releases`](crate::Runtime::wait_for_releases).
    ///
    /// # Errors
    /// [`Error::Misuse`] where the plugin takes no streams of others; [`Error::Hook`]; `INVALID`
    /// where the vendor can say that it belongs to another device, `RETIRED` where the plugin was
    /// retired.
    ///
    /// # Safety
    /// - `native` is a live stream of the device's vendor, and outlives all clones of the answer. What a tensor or an
    ///   event remembers of its work counts as none.
    /// - Nobody puts work on it while a call through this stream is running.
    pub unsafe fn wrap(device: &Device, native: u64) -> Result<Self, Error> {
        if let Some(known) = Self::find(device, native) {
            return Ok(known);
        }
        if device.hooks().table().wrap().is_none() {
            let why = format!("`{}` has no streams of other libraries", device.id());
            return Err(Error::misuse("take a stream of another library", why));
        }
        device.check_listed("stream_wrap")?;
        // SAFETY: the caller vouches for the stream and for its life.
        let handle = unsafe { device.hooks().stream_wrap(device.index(), native) }?;
        Self::enter(device, handle, Origin::Wrapped)
    }

    /// The stream of the device with this native integer that is still alive, made or wrapped by any
    /// runtime of the process. An integer that others name can be trusted only where this finds its
    /// stream.
    #[must_use]
    pub fn find(device: &Device, native: u64) -> Option<Self> {
        let known = device
            .plugin()
            .streams()
            .with_native(device.index(), native)?;
        Some(Self(known, device.clone()))
    }

    /// The streams of a device that are alive, whatever runtime asked for them. The owner of a stream of others may end
    /// it meanwhile.
    pub(crate) fn all_of(device: &Device) -> impl Iterator<Item = Self> {
        let cores = device.plugin().streams().of(device.index());
        cores.into_iter().map(|core| Self(core, device.clone()))
    }

    fn enter(device: &Device, handle: StreamHandle, origin: Origin) -> Result<Self, Error> {
        let core = StreamCore::new(device.plugin(), device.index(), handle, origin)?;
        let core = device.plugin().streams().enter(core);
        Ok(Self(core, device.clone()))
    }

    /// The device whose work it orders, as the runtime has it in which this stream was asked for:
    /// equal streams of two runtimes say equal devices, which may have two ids.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.1
    }

    /// The same stream, to remember its work by. It ends when the last other clone is dropped, and nothing is put on it
    /// from then on.
    pub(crate) fn to_remember(&self) -> Self {
        Self(self.0.uncounted(), self.device().clone())
    }

    /// The same stream, to record the end of its work later. A stream that was made here lives until then; the owner of a
    /// stream of others may end it.
    pub(crate) fn to_record_later(&self) -> Self {
        match self.is_of_others() {
            true => self.to_remember(),
            false => self.clone(),
        }
    }

    /// What the stream is known again by, without keeping it.
    pub(crate) fn identity(&self) -> Weak<StreamCore> {
        Arc::downgrade(&*self.0)
    }

    /// Refuses a stream that was inherited, for calls that may have nothing to put on it: any other is
    /// refused by the first hook.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        let hooks = self.device().hooks();
        if hooks.is_forked() {
            let why = "the plugin was opened before a fork";
            return Err(hooks.failure("use a stream", Status::FORKED, why));
        }
        Ok(())
    }

    /// The integer that the vendor's API uses for it. From then on the plugin assumes that other code uses the stream.
    ///
    /// # Errors
    /// [`Error::Hook`]; `UNSUPPORTED` where there is none.
    pub fn native_handle(&self) -> Result<u64, Error> {
        let native = self.device().hooks().stream_native(self.0.handle)?;
        let streams = self.device().plugin().streams();
        streams.register_native(&self.0, native);
        Ok(native)
    }

    /// An event at its present end.
    ///
    /// # Errors
    /// [`Error::Hook`].
    pub fn record(&self) -> Result<Event, Error> {
        let event = Event::create(self.device())?;
        self.record_to(&event)?;
        Ok(event)
    }

    /// The same for an event that only this library waits for.
    pub(crate) fn record_own(&self) -> Result<Event, Error> {
        let event = Event::create_own(self.device())?;
        self.record_to(&event)?;
        Ok(event)
    }

    /// Records an event of the device at its present end.
    pub(crate) fn record_to(&self, event: &Event) -> Result<(), Error> {
        self.with_submit_lock(|handle| self.device().hooks().event_record(event.handle(), handle))
    }

    /// Makes everything that comes later on this stream wait for an event of any plugin, and says
    /// how. Only [`WaitMethod::Blocked`] made the caller wait.
    ///
    /// # Errors
    /// [`Error::Hook`]; the failure of the work before the event where that is known already.
    pub fn wait(&self, event: &Event) -> Result<WaitMethod, Error> {
        self.wait_with(event, OnFailure::Inherit)
    }

    /// As [`Stream::wait`], with what becomes of the stream when the work has failed.
    pub(crate) fn wait_with(
        &self,
        event: &Event,
        on_failure: OnFailure,
    ) -> Result<WaitMethod, Error> {
        self.check_process()?;
        wait::wait((self.device(), None), event, on_failure, |own| {
            self.wait_for_own(own)
        })
    }

    /// Waits for an event of the stream's own plugin.
    fn wait_for_own(&self, event: &Event) -> Result<(), Error> {
        let hooks = self.device().hooks();
        self.with_submit_lock(|stream| {
            event.with_handle((), |event| hooks.stream_wait_event(stream, event))
        })
    }

    /// Blocks the calling thread until its work is done; `None` is no limit.
    ///
    /// # Errors
    /// [`Error::Hook`]: `TIMEOUT`, or the first failure of the stream's work, which is told once.
    pub fn synchronize(&self, limit: Option<Duration>) -> Result<(), Error> {
        let hooks = self.device().hooks();
        self.0
            .tellers
            .tell(|| hooks.synchronize_stream(self.0.handle, limit))
    }

    /// As [`Stream::synchronize`], for a caller that does not name the stream. The owner of a stream of others may end it
    /// meanwhile: so it is waited for by an event, and only asked under its lock. With its context the event goes too:
    /// those who wait for releases before that wait for this.
    pub(crate) fn synchronize_for_device(&self, deadline: Deadline) -> Result<(), Error> {
        if !self.is_of_others() {
            return self.synchronize(deadline.left());
        }
        let _place = Outstanding::new(self.device().plugin().releases());
        let ended = match self.record_own() {
            // It makes no events, or none any more.
            Err(error) if error.is_unsupported() || error.status() == Some(Status::RETIRED) => {
                self.ask_until_idle(deadline)
            }
            end => end.and_then(|end| end.synchronize(deadline.left())),
        };
        match ended {
            Err(error) if error.status() != Some(Status::TIMEOUT) && self.0.is_left() => Ok(()),
            Err(error) if error.is_failure_of_work() => {
                // Whoever waits for the stream itself is not told again.
                let (hooks, at_once) = (self.device().hooks(), Some(Duration::ZERO));
                let told = self.0.tellers.tell(|| {
                    self.with_submit_lock(|handle| hooks.synchronize_stream(handle, at_once))
                });
                drop(told);
                Err(error)
            }
            ended => ended,
        }
    }

    /// Asks until its work is over, each time under the submit lock.
    fn ask_until_idle(&self, deadline: Deadline) -> Result<(), Error> {
        let hooks = self.device().hooks();
        let is_idle = || self.with_submit_lock(|handle| hooks.is_idle(handle));
        let why = "a stream of others still has work";
        let late = || hooks.failure("synchronize", Status::TIMEOUT, why);
        let over = waits::ask_until(deadline, is_idle)?;
        over.then_some(()).ok_or_else(late)
    }

    /// Whether its work is done.
    ///
    /// # Errors
    /// [`Error::Hook`]: the first failure of the stream's work, until [`Stream::synchronize`] has told of
    /// it.
    pub fn is_idle(&self) -> Result<bool, Error> {
        self.device().hooks().is_idle(self.0.handle)
    }

    /// Calls hooks that submit to this stream, one caller at a time.
    pub(crate) fn with_submit_lock<T>(
        &self,
        call: impl FnOnce(StreamHandle) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.0.with_submit_lock(call)
    }

    /// Whether [`Stream::synchronize`] may have told of a failure, of which later work on it hears
    /// no more then.
    pub(crate) fn may_have_told(&self) -> bool {
        self.0.tellers.may_have_told()
    }

    /// Whether others own it.
    pub(crate) fn is_of_others(&self) -> bool {
        self.0.is_of_others()
    }

    /// Frees memory of its device by `free`, which submits that to it. Those who wait for releases wait for that too.
    ///
    /// # Errors
    /// [`Error::Hook`].
    pub(crate) fn free(
        &self,
        free: impl FnOnce(StreamHandle) -> Result<(), Error>,
    ) -> Result<(), Error> {
        stream_frees::submit(&self.0, self.device(), free)
    }

    /// Puts work of another plugin between two events of this stream, one caller at a time.
    pub(crate) fn with_foreign_lock<T>(
        &self,
        call: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.0.with_foreign_lock(call)
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&*self.0, &*other.0)
    }
}

impl Eq for Stream {}
