//! What the host offers a plugin.
#![expect(unsafe_code, reason = "the host's services are C functions")]

use log::{LevelFilter, Log, Metadata, Record};

use crate::abi::{HostServices, Text};

/// The host's services, copied out at `open`.
#[derive(Debug, Clone, Copy)]
pub struct Host {
    services: Option<HostServices>,
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
    /// - `services` is NULL or points at a `HostServices` of at least `struct_size` bytes whose
    ///   functions stay callable until the process ends.
    #[must_use]
    pub unsafe fn from_raw(services: *const HostServices) -> Self {
        if services.is_null() {
            return Self { services: None };
        }
        // SAFETY: not NULL, so by the caller's promise the first field can be read.
        let size = unsafe { (*services).struct_size };
        if (size as usize) < size_of::<HostServices>() {
            return Self { services: None };
        }
        // SAFETY: the host's struct is at least as long as ours.
        let services = unsafe { services.read() };
        Self {
            services: Some(services),
        }
    }

    /// Sends what this library logs through `log` to the host, which has a `log` of its own. The
    /// first host that opens the plugin keeps it, and a logger that was set by hand stays.
    pub(super) fn with_log(self) -> Self {
        let wanted = self.services.map_or(0, |services| services.log_level);
        let wanted = LevelFilter::iter().take_while(|level| *level as u32 <= wanted);
        let wanted = wanted.last().unwrap_or(LevelFilter::Off);
        if wanted > LevelFilter::Off && log::set_boxed_logger(Box::new(self)).is_ok() {
            log::set_max_level(wanted);
        }
        self
    }

    /// Writes one line to the host's log under `crossdock::plugin::...`; drops it where the host
    /// wants none.
    pub fn log(&self, level: log::Level, target: &str, message: &str) {
        let Some(HostServices {
            log: Some(write),
            context,
            log_level,
            ..
        }) = self.services
        else {
            return;
        };
        if level as usize > log_level as usize {
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
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let message = record.args().to_string();
        Self::log(self, record.level(), record.target(), &message);
    }

    fn flush(&self) {}
}
