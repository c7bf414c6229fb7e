//! Events: points in a stream, and points that the host completes.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use crossdock_sdk::abi::{EventHandle, Status};

use crate::devices::device::Device;
use crate::error::Error;
use crate::plugins::pending_events::Pending;
use crate::process::process_state;

/// A point in a stream's work, or one that the host completes. Clones are the same event.
///
/// ```
/// use crossdock::{Event, Runtime};
/// use crossdock_sdk::abi::Status;
/// use crossdock_sdk::dlpack::Device;
///
/// let cpu = Runtime::builder().search(false).open()?.device(Device::CPU)?;
/// let event = Event::host(&cpu)?;
/// assert!(!event.is_done()?);
/// event.complete(Status::OK)?;
/// event.synchronize(None)?;
/// assert!(event.is_done()?);
/// # Ok::<(), crossdock::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Event {
    inner: Arc<Inner>,
    /// Who may complete it; none where the host does not, and for those who only wait for it.
    _completer: Option<Arc<Completer>>,
    /// Where a user has it, the plugin's event.
    _keeper: Option<Arc<Keeper>>,
}

/// Who completes an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CompletedBy {
    Plugin,
    /// The same, for an event of this library's own: once it is known to have happened, its plugin gets it back.
    PluginForUs,
    Host,
}

/// Keeps the plugin's event of one that a user has.
struct Keeper(Arc<Inner>);

/// Held by those who may complete a host event: it fails when the last of them is gone.
struct Completer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    device: Device,
    handle: EventHandle,
    /// How many calls use the handle, and 1 for the event itself. At 0 the plugin has it back.
    users: AtomicUsize,
    /// Seen to have happened, without a failure: nobody needs to ask again.
    happened: AtomicBool,
    /// Known to be over although the work before it failed, which each question is told.
    failed: AtomicBool,
    /// The failure of the work before it where the plugin's event does not have it, because the stream
    /// had told of it before this event was recorded.
    carried: OnceLock<Arc<Error>>,
    by: CompletedBy,
    /// Whether the host has.
    completed: AtomicBool,
}

impl Event {
    /// An event that was not recorded yet.
    pub(crate) fn create(device: &Device) -> Result<Self, Error> {
        let handle = device.hooks().event_create(device.index())?;
        Ok(Self::new(device, handle, CompletedBy::Plugin))
    }

    /// The same for the end of work that only this library waits for. A few others of that plugin that may have happened
    /// are queried first.
    pub(crate) fn create_own(device: &Device) -> Result<Self, Error> {
        let hooks = device.hooks();
        if !hooks.is_forked() {
            let plugin = device.plugin();
            plugin.pending_events().poll(plugin.releases());
        }
        let handle = hooks.event_create(device.index())?;
        Ok(Self::new(device, handle, CompletedBy::PluginForUs))
    }

    /// Lets its plugin have it back once it has happened, although nobody waits for it. To be called once it is
    /// recorded and carries what it has to.
    pub(crate) fn poll_later(&self) {
        if self.inner.by == CompletedBy::PluginForUs {
            let inner: Weak<Inner> = Arc::downgrade(&self.inner);
            self.device().plugin().pending_events().add(inner);
        }
    }

    /// Calls a hook with the handle. Where the plugin has it back the event has happened: then `happened` is the answer.
    pub(crate) fn with_handle<T>(
        &self,
        happened: T,
        call: impl FnOnce(EventHandle) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if !self.inner.begin_use() {
            return Ok(happened);
        }
        let _use = Use(&self.inner);
        call(self.inner.handle)
    }

    /// The event for a user, who may ask for times: it keeps the plugin's event. None where the plugin has that back,
    /// since the event has happened.
    pub(crate) fn for_user(self) -> Option<Self> {
        let keep = || Arc::new(Keeper(Arc::clone(&self.inner)));
        let _keeper = Some(self.inner.begin_use().then(keep)?);
        Some(Self { _keeper, ..self })
    }

    /// An event of a device that is pending until [`Event::complete`]. One that is dropped before is
    /// completed with the failure `VENDOR`, which its waiters see; their streams go on.
    ///
    /// # Errors
    /// [`Error::Hook`]; `UNSUPPORTED` where the plugin has no such events.
    pub fn host(device: &Device) -> Result<Self, Error> {
        let handle = device.hooks().event_create_host(device.index())?;
        Ok(Self::new(device, handle, CompletedBy::Host))
    }

    fn new(device: &Device, handle: EventHandle, by: CompletedBy) -> Self {
        let inner = Arc::new(Inner {
            device: device.clone(),
            handle,
            users: AtomicUsize::new(1),
            happened: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            carried: OnceLock::new(),
            by,
            completed: AtomicBool::new(false),
        });
        Self {
            _completer: (by == CompletedBy::Host).then(|| Arc::new(Completer(Arc::clone(&inner)))),
            _keeper: None,
            inner,
        }
    }

    /// The event for a waiter: one that nobody else can complete any more fails, and
    /// is not kept pending by those who wait.
    pub(crate) fn awaited(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            _completer: None,
            _keeper: None,
        }
    }

    /// Completes an event of [`Event::host`]: with `OK`, or with a failure that its waiters see:
    /// `VENDOR`, `DEVICE_LOST` and `OOM_DEVICE` as they are, every other status as `VENDOR`. Once a hook
    /// of the plugin panicked, they see `VENDOR` in any case.
    ///
    /// # Errors
    /// [`Error::Hook`]: `INVALID` for another kind of event, and for a second completion. After any
    /// other error the event is still pending, and this may be tried again.
    pub fn complete(&self, status: Status) -> Result<(), Error> {
        let hooks = self.device().hooks();
        hooks.event_complete(self.inner.handle, status)?;
        self.inner.completed.store(true, Ordering::Release);
        Ok(())
    }

    /// The device whose event it is.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// Whether it happened.
    ///
    /// # Errors
    /// [`Error::Hook`]: the failure of the work before it, each time; or that of the question, which
    /// says nothing of the work.
    pub fn is_done(&self) -> Result<bool, Error> {
        if self.is_known_done() {
            return Ok(true);
        }
        let ask = |handle| self.device().hooks().has_happened(handle);
        let happened = self.with_handle(true, ask)?;
        if happened {
            self.happen()?;
        }
        Ok(happened)
    }

    /// Blocks the calling thread until it happened; `None` is no limit.
    ///
    /// # Errors
    /// [`Error::Hook`]: `TIMEOUT`; the failure of the work before it, each time; or that of the question,
    /// which says nothing of the work.
    pub fn synchronize(&self, limit: Option<Duration>) -> Result<(), Error> {
        if self.is_known_done() {
            return Ok(());
        }
        let wait = |handle| self.device().hooks().synchronize_event(handle, limit);
        self.with_handle((), wait)?;
        self.happen()
    }

    /// Remembers that the plugin says that it happened.
    fn happen(&self) -> Result<(), Error> {
        if let Some(failure) = self.inner.carried.get() {
            self.set_failed();
            return Err(Error::clone(failure));
        }
        let is_first = !self.inner.happened.swap(true, Ordering::AcqRel);
        if is_first && self.inner.by == CompletedBy::PluginForUs {
            self.inner.end_use();
        }
        Ok(())
    }

    /// The time from `earlier` to this event, as the device measured it.
    ///
    /// # Errors
    /// [`Error::Misuse`] for events of two plugins; [`Error::Hook`]: `NOT_READY` before both
    /// happened, `INVALID` where this one happened first or the plugin has no time for an event that the
    /// host completes, `UNSUPPORTED` where the device, or a wrapped queue, measures no times.
    pub fn elapsed_since(&self, earlier: &Self) -> Result<Duration, Error> {
        if !Arc::ptr_eq(self.device().plugin(), earlier.device().plugin()) {
            let why = "the events belong to two plugins, whose clocks differ";
            return Err(Error::misuse("measure the time between two events", why));
        }
        let hooks = self.device().hooks();
        let elapsed = hooks.event_elapsed(earlier.inner.handle, self.inner.handle)?;
        Ok(Duration::from_nanos(elapsed))
    }

    pub(crate) fn handle(&self) -> EventHandle {
        self.inner.handle
    }

    /// Whether the work before it is known to be over, and to have failed.
    pub(crate) fn is_known_failed(&self) -> bool {
        self.inner.failed.load(Ordering::Acquire)
    }

    /// Remembers that the work before it is over, and failed.
    pub(crate) fn set_failed(&self) {
        self.inner.failed.store(true, Ordering::Release);
    }

    /// Gives it a failure of the work before it, which the plugin's event does not have. To be called
    /// before anybody else has the event.
    pub(crate) fn carry(&self, failure: &Arc<Error>) {
        let _first = self.inner.carried.set(Arc::clone(failure));
    }

    /// Whether it has a failure that the plugin's event does not have. A stream of its own plugin that
    /// waits for it by that event would not fail.
    pub(crate) fn carries_failure(&self) -> bool {
        self.inner.carried.get().is_some()
    }

    /// Whether it is known to have happened, without asking the plugin.
    pub(crate) fn is_known_done(&self) -> bool {
        self.inner.happened.load(Ordering::Acquire)
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for Event {}

/// The event shows the rest already.
impl fmt::Debug for Completer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Completer")
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keeper")
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.end_use();
    }
}

impl Drop for Completer {
    fn drop(&mut self) {
        // Where nobody else has it, it is destroyed now, by which its plugin can say why it failed.
        let is_awaited = Arc::strong_count(&self.0) > 1;
        if is_awaited && self.0.is_pending_by_host() {
            self.0.fail();
        }
    }
}

/// A call that uses the handle of an event.
struct Use<'a>(&'a Inner);

impl Drop for Use<'_> {
    fn drop(&mut self) {
        self.0.end_use();
    }
}

impl Pending for Inner {
    fn poll(self: Arc<Self>) -> bool {
        let event = Event {
            inner: self,
            _completer: None,
            _keeper: None,
        };
        matches!(event.is_done(), Ok(true))
    }
}

impl Inner {
    /// Keeps the plugin's event until [`Inner::end_use`]; false where the plugin has it back.
    fn begin_use(&self) -> bool {
        let more = |users: usize| (users > 0).then(|| users.saturating_add(1));
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        self.users.fetch_update(success, failure, more).is_ok()
    }

    fn end_use(&self) {
        if self.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.destroy();
        }
    }

    /// Whether only the host could end it, and has not.
    fn is_pending_by_host(&self) -> bool {
        self.by == CompletedBy::Host && !self.completed.load(Ordering::Acquire)
    }

    /// Gives it back to its plugin.
    fn destroy(&self) {
        let hooks = self.device.hooks();
        let ended = if self.by == CompletedBy::Host {
            hooks.host_event_destroy(self.handle)
        } else {
            hooks.event_destroy(self.handle)
        };
        if let Err(error) = ended
            && !process_state::is_exit_or_fork(&error)
        {
            // It is still alive, and may have waiters.
            if self.is_pending_by_host() {
                self.fail();
            }
            log::error!(target: "crossdock::stream", "{error}: {}", error.why());
        }
    }

    /// Completes it with a failure. One that cannot be completed fails when it is destroyed.
    fn fail(&self) {
        let failed = self
            .device
            .hooks()
            .event_complete(self.handle, Status::VENDOR);
        match failed {
            Ok(()) => self.completed.store(true, Ordering::Release),
            Err(error) => log::debug!(target: "crossdock::stream", "{error}: {}", error.why()),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if *self.users.get_mut() > 0 {
            self.destroy();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Runtime;
    use crate::Stream;
    use crate::test_plugins::test_plugin_streams::{self, given};

    #[test]
    fn events_of_the_host_end_with_a_failure_after_a_panic_and_at_no_other_time() {
        const PLUGIN: usize = 24;
        let plugin = test_plugin_streams::plugin::<PLUGIN>();
        let runtime = Runtime::builder().search(false).open().unwrap();
        assert!(runtime.register(&plugin).unwrap());
        let device = runtime.device_of(&plugin, 0).unwrap();
        let [completed, dropped] = [(); 2].map(|()| Event::host(&device).unwrap());
        let handles = [completed.handle(), dropped.handle()];
        let given = given::<PLUGIN>();
        *given.in_stream_query.lock().unwrap() = Some(Arc::new(|| panic!("a plugin's mistake")));
        let panicked = Stream::new(&device).unwrap().is_idle().unwrap_err();
        assert_eq!(panicked.status(), Some(Status::PANIC));
        // What waits for them may still have to wait for what completes them.
        assert_eq!(handles.map(|handle| given.failure(handle)), [None, None]);
        completed.complete(Status::OK).unwrap();
        drop(dropped);
        let failed = Some(Status::VENDOR);
        assert_eq!(
            handles.map(|handle| given.failure(handle)),
            [failed, failed]
        );
    }

    #[test]
    fn an_event_and_a_stream_are_shown_in_a_line() {
        let plugin = test_plugin_streams::plugin::<55>();
        let runtime = Runtime::builder().search(false).open().unwrap();
        assert!(runtime.register(&plugin).unwrap());
        let device = runtime.device_of(&plugin, 0).unwrap();
        let event = format!("{:?}", Event::host(&device).unwrap());
        let stream = format!("{:?}", Stream::new(&device).unwrap());
        for shown in [event, stream] {
            assert!(
                shown.contains(plugin.name()) && shown.len() < 512,
                "{shown}"
            );
        }
    }
}
