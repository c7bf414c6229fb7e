//! What the host offers a plugin.
#![expect(unsafe_code, reason = "the host's services are C functions")]

use core::sync::atomic::{AtomicU32, Ordering};

use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::abi::{HostServices, Text};

/// The host's services, copied out at `open`; its level is read anew for each line.
#[derive(Debug, Clone, Copy)]
pub struct Host {
    services: Option<HostServices>,
    level: Option<&'static AtomicU32>,
}

// SAFETY: the context is the host's, and the host promises that `log` may be called from any
// thread until the process ends (`HostServices`).
unsafe impl Send for Host {}
// SAFETY: as above; nothing here is written after it is made.
unsafe impl Sync for Host {}

impl Host {
    /// Reads the host's services; NULL is a host that offers none.
    ///
    /// # Safety
    /// - `services` is NULL or points at a `HostServices` of at least `struct_size` bytes, which lives
    ///   and whose functions stay callable until the process ends; its level is written as an atomic.
    #[must_use]
    pub unsafe fn from_raw(services: *const HostServices) -> Self {
        if services.is_null() {
            return Self::NONE;
        }
        // SAFETY: not NULL, so by the caller's promise the first field can be read.
        let size = unsafe { (*services).struct_size };
        if (size as usize) < size_of::<HostServices>() {
            return Self::NONE;
        }
        // SAFETY: the host's struct is at least as long as ours.
        let level = unsafe { &raw const (*services).log_level };
        // SAFETY: aligned as a part of the struct, which lives until the process ends by the caller's
        // promise; it is only read here, and the host writes it by whole words.
        let level = unsafe { AtomicU32::from_ptr(level.cast_mut()) };
        // SAFETY: the host's struct is at least as long as ours.
        let services = unsafe { services.read() };
        Self {
            services: Some(services),
            level: Some(level),
        }
    }

    const NONE: Self = Self {
        services: None,
        level: None,
    };

    /// Whether the host's log takes lines of a level now: ask before a line costs something.
    #[must_use]
    pub fn takes(&self, level: Level) -> bool {
        let wanted = self
            .level
            .map_or(0, |wanted| wanted.load(Ordering::Relaxed));
        level as u32 <= wanted
    }

    /// Sends what this library logs through `log` to the host, which has a `log` of its own. The
    /// first host that opens the plugin keeps it, and a logger that was set by hand stays.
    pub(super) fn with_log(self) -> Self {
        if self.services.is_some() && log::set_boxed_logger(Box::new(self)).is_ok() {
            // The host may ask for more later: `takes` is asked for each line, before it is formatted.
            log::set_max_level(LevelFilter::Trace);
        }
        self
    }

    /// Writes one line to the host's log under `crossdock::plugin::...`; drops it where the host
    /// wants none.
    pub fn log(&self, level: Level, target: &str, message: &str) {
        let Some(HostServices {
            log: Some(write),
            context,
            ..
        }) = self.services
        else {
            return;
        };
        if !self.takes(level) {
            return;
        }
        // SAFETY: `from_raw`'s caller promised a callable `log`; both texts outlive the call.
        unsafe {
            write(
                context,
                level as u32,
                Text::borrow(target),
                Text::borrow(message),
            )
        };
    }
}

impl Log for Host {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.takes(metadata.level())
    }

    fn log(&self, record: &Record<'_>) {
        if !self.takes(record.level()) {
            return;
        }
        let message = record.args().to_string();
        Self::log(self, record.level(), record.target(), &message);
    }

    fn flush(&self) {}
}
