//! A runtime over the simulated devices, and their control table: tests hold and release their work.
#![expect(unsafe_code, reason = "reads the control table of the plugin")]
#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a test that cannot be set up has failed"
)]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossdock::{CostCache, Device, Runtime, RuntimeBuilder};
use crossdock_plugin_asynchronous::{CONTROL, Controlled};

use crate::asynchronous;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The CPU, two simulated devices, and control over these. All tests of a process share one open
/// plugin, so they run one after another.
#[derive(Debug)]
#[non_exhaustive]
pub struct Simulated {
    /// The CPU and the simulated devices.
    pub runtime: Runtime,
    /// Control over the simulated ones.
    pub control: Controlled,
    _turn: MutexGuard<'static, ()>,
}

impl Simulated {
    /// Longer than any wait here takes; one that needs it has failed.
    pub const LIMIT: Duration = Duration::from_secs(20);

    /// Waits until no other test of the process has them, and opens them.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it waits for other tests")]
    pub fn new() -> Self {
        Self::with(Runtime::builder())
    }

    /// The same where staged copies take chunks of so many bytes.
    #[must_use]
    pub fn with_chunks(bytes: u64) -> Self {
        // There are eight to a copy.
        Self::with(Runtime::builder().staging_bytes(8 * bytes))
    }

    fn with(builder: RuntimeBuilder) -> Self {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let builder = builder.search(false).costs(CostCache::Off);
        let runtime = builder.plugin(asynchronous()).open().unwrap();
        let device = runtime.device("vpi:0".parse().unwrap()).unwrap();
        let word = device.plugin().hooks().device_attribute(0, CONTROL);
        // SAFETY: the plugin answered, and is open as long as `runtime` is here.
        let control = unsafe { Controlled::new(word.unwrap()) }.unwrap();
        drop(control.take_reports());
        control.clear_faults();
        Self {
            runtime,
            control,
            _turn: turn,
        }
    }

    /// A device by its name.
    #[must_use]
    pub fn device(&self, name: &str) -> Device {
        self.runtime.device(name.parse().unwrap()).unwrap()
    }

    /// Runs `work` while nothing on the simulated devices starts.
    pub fn held<T>(&self, work: impl FnOnce() -> T) -> T {
        let still = Still::new(self.control);
        let done = work();
        drop(still);
        done
    }

    /// Waits until so many operations were submitted that are not done.
    pub fn wait_for_pending(&self, count: u64) {
        let end = Instant::now() + Self::LIMIT;
        while self.control.pending() < count {
            assert!(Instant::now() < end, "nothing was submitted");
            std::thread::yield_now();
        }
    }

    /// Waits until everything is over, and fails where the checker of order reported something.
    pub fn assert_clean(&self) {
        assert!(
            self.control.drain(Self::LIMIT),
            "{:?}",
            self.control.standstill()
        );
        assert_eq!(self.control.take_reports(), [""; 0]);
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        self.control.clear_faults();
    }
}

/// Nothing starts on the simulated devices until this is dropped, also by a panic.
struct Still(Controlled);

impl Still {
    fn new(control: Controlled) -> Self {
        control.hold();
        Self(control)
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        self.0.release();
    }
}
