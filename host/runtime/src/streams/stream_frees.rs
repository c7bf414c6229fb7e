//! What a stream was told to free, for those who wait for releases: its plugin frees it when the
//! stream comes to that, and tells nobody.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::devices::device::Device;
use crate::error::Error;
use crate::streams::completion::{self, Then};
use crate::streams::event::Event;
use crate::streams::release::Release;

/// What a stream was told to free: one place among its plugin's outstanding releases.
#[derive(Debug, Default)]
pub(crate) struct Frees {
    /// Whether there is a place: one more free takes no lock then.
    is_noted: AtomicBool,
    place: Mutex<Option<Place>>,
}

/// A place that waits until somebody asks when the stream is past its frees.
#[derive(Debug)]
pub(crate) struct Place {
    /// The device whose events tell when the stream is past its frees.
    device: Device,
    release: Release,
}

impl Frees {
    /// Notes that the stream was told to free memory.
    pub(crate) fn note(&self, device: &Device) {
        if self.is_noted.load(Ordering::Acquire) {
            return;
        }
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        // Entered under the lock: a wait for it finds it here.
        place.get_or_insert_with(|| Place::new(device));
        self.is_noted.store(true, Ordering::Release);
    }

    /// Takes the place out: a free after this has another one.
    pub(crate) fn take(&self) -> Option<Place> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_noted.store(false, Ordering::Release);
        place.take()
    }

    /// The same without taking the lock, which in the child of a fork may be held for ever.
    pub(crate) fn last(&mut self) -> Option<Place> {
        let place = self.place.get_mut();
        place.unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Place {
    pub(crate) fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            release: Release::by_plugin(device.plugin().completions().outstanding()),
        }
    }

    /// Gives the place up once the stream is past its present end, of which `record` gives an event;
    /// none where the stream is idle. Where nobody can say when that is, nobody waits for it.
    pub(crate) fn leave_behind(self, record: impl FnOnce(&Device) -> Result<Option<Event>, Error>) {
        let left = record(&self.device).and_then(|end| match end {
            Some(end) => completion::after(end, Then::Release(self.release, Vec::new())).map(drop),
            None => Ok(()),
        });
        if let Err(error) = left {
            log::debug!(target: "crossdock::memory", "{error}: {}", error.why());
        }
    }
}
