//! Events: points in a stream, and points that the host completes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossdock_sdk::abi::{EventHandle, Status};

use crate::device::Device;
use crate::error::Error;
use crate::hooks::OnQuarantine;
use crate::life;
use crate::stream::done;

/// A point in a stream's work, or one that the host completes. Clones are the same event.
#[derive(Debug, Clone)]
pub struct Event(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    device: Device,
    handle: EventHandle,
    /// Seen to have happened, without a failure: nobody needs to ask again.
    happened: AtomicBool,
    /// Whether the host completes it.
    by_host: bool,
}

impl Event {
    /// An event that was not recorded yet.
    pub(crate) fn create(device: &Device) -> Result<Self, Error> {
        let handle = device.hooks().event_create(device.index())?;
        Ok(Self::new(device, handle, false))
    }

    /// An event of a device that is pending until [`Event::complete`]. One that is dropped before is
    /// completed with the failure `VENDOR`, which its waiters see; their streams go on.
    ///
    /// # Errors
    /// [`Error::Hook`]; `UNSUPPORTED` where the plugin has no such events.
    pub fn host(device: &Device) -> Result<Self, Error> {
        let handle = device.hooks().event_create_host(device.index())?;
        let event = Self::new(device, handle, true);
        let inner: Arc<Inner> = Arc::clone(&event.0);
        device.hooks().watch_quarantine(inner);
        Ok(event)
    }

    fn new(device: &Device, handle: EventHandle, by_host: bool) -> Self {
        Self(Arc::new(Inner {
            device: device.clone(),
            handle,
            happened: AtomicBool::new(false),
            by_host,
        }))
    }

    /// Completes an event of [`Event::host`]: with `OK`, or with a failure that its waiters see:
    /// `VENDOR`, `DEVICE_LOST` and `OOM_DEVICE` as they are, every other status as `VENDOR`.
    ///
    /// # Errors
    /// [`Error::Hook`]: `INVALID` for another kind of event, and for a second completion. After any
    /// other error the event is still pending, and this may be tried again.
    pub fn complete(&self, status: Status) -> Result<(), Error> {
        self.device().hooks().event_complete(self.0.handle, status)
    }

    /// The device whose event it is.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Whether it happened.
    ///
    /// # Errors
    /// [`Error::Hook`]: the failure of the work before it.
    pub fn is_done(&self) -> Result<bool, Error> {
        if self.is_known_done() {
            return Ok(true);
        }
        let happened = done(self.device().hooks().event_query(self.0.handle))?;
        if happened {
            self.0.happened.store(true, Ordering::Release);
        }
        Ok(happened)
    }

    /// Makes the CPU wait for it; `None` is no limit.
    ///
    /// # Errors
    /// [`Error::Hook`]: `TIMEOUT`, or the failure of the work before it.
    pub fn synchronize(&self, limit: Option<Duration>) -> Result<(), Error> {
        if self.is_known_done() {
            return Ok(());
        }
        self.device().hooks().wait_for_event(self.0.handle, limit)?;
        self.0.happened.store(true, Ordering::Release);
        Ok(())
    }

    /// The time from `earlier` to this event, as the device measured it.
    ///
    /// # Errors
    /// [`Error::Misuse`] for events of two plugins; [`Error::Hook`]: `NOT_READY` before both
    /// happened, `INVALID` when one was never recorded, `UNSUPPORTED` without a clock.
    pub fn elapsed_since(&self, earlier: &Self) -> Result<Duration, Error> {
        if !Arc::ptr_eq(self.device().plugin(), earlier.device().plugin()) {
            let why = "the events belong to two plugins, whose clocks differ";
            return Err(Error::misuse("measure the time between two events", why));
        }
        let hooks = self.device().hooks();
        let elapsed = hooks.event_elapsed(earlier.0.handle, self.0.handle)?;
        Ok(Duration::from_nanos(elapsed))
    }

    pub(crate) fn handle(&self) -> EventHandle {
        self.0.handle
    }

    /// Whether it is known to have happened, without asking the plugin.
    pub(crate) fn is_known_done(&self) -> bool {
        self.0.happened.load(Ordering::Acquire)
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Event {}

impl OnQuarantine for Inner {
    /// Nobody can complete it any more, so it fails now, and what waits for it goes on.
    fn quarantined(&self, _why: &Error) {
        self.device.hooks().fail_host_event(self.handle);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let hooks = self.device.hooks();
        let ended = if self.by_host {
            hooks.host_event_destroy(self.handle)
        } else {
            hooks.event_destroy(self.handle)
        };
        if let Err(error) = ended
            && !life::is_over(&error)
        {
            log::error!(target: "crossdock::stream", "{error}: {}", error.why());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Runtime;
    use crate::Stream;
    use crate::lines_plugin::{self, given};
    use std::sync::Mutex;

    /// Lets go of what it holds as soon as it is told of a panic.
    #[derive(Debug, Default)]
    struct LetsGo(Mutex<Option<Event>>);

    impl OnQuarantine for LetsGo {
        fn quarantined(&self, _why: &Error) {
            drop(self.0.lock().unwrap().take());
        }
    }

    #[test]
    fn an_event_of_the_host_that_is_dropped_while_others_are_told_of_a_panic_fails_too() {
        const PLUGIN: usize = 24;
        let plugin = lines_plugin::plugin::<PLUGIN>();
        let runtime = Runtime::builder().search(false).open().unwrap();
        assert!(runtime.register(&plugin).unwrap());
        let device = runtime.device_of(&plugin, 0).unwrap();
        let lets_go = Arc::new(LetsGo::default());
        // Told before the event is.
        let first: Arc<LetsGo> = Arc::clone(&lets_go);
        device.hooks().watch_quarantine(first);
        let event = Event::host(&device).unwrap();
        let handle = event.handle();
        *lets_go.0.lock().unwrap() = Some(event);
        let given = given::<PLUGIN>();
        *given.in_stream_query.lock().unwrap() = Some(Arc::new(|| panic!("a plugin's mistake")));
        let stream = Stream::new(&device).unwrap();
        let panicked = stream.is_idle().unwrap_err();
        assert_eq!(panicked.status(), Some(Status::PANIC));
        assert!(lets_go.0.lock().unwrap().is_none());
        assert_eq!(given.failure(handle), Some(Status::VENDOR));
    }
}
