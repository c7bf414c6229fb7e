//! The one engine of this process, and the driver's state beside it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;

use crossdock_sim_engine::{Engine, Report, Site};

use crate::at_exit;
use crate::cuda::lies::Lie;
use crate::cuda::visible::visible;
use crate::face::Face;
use crate::forks;
use crate::journal::Journal;
use crate::settings::Settings;

/// The simulator in a process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) engine: Engine,
    pub(crate) driver: i32,
    /// Major and minor version of HIP.
    pub(crate) hip: (i32, i32),
    /// The devices that the clients of each vendor see, by the engine's numbers.
    devices: [Vec<u32>; 2],
    pub(crate) missing: Vec<String>,
    pub(crate) has_peers: bool,
    pub(crate) lie: Option<Lie>,
    tells_leaks: bool,
    pub(crate) tells_waits: bool,
    id: u32,
    waits: Mutex<Vec<Site>>,
    calls: Mutex<BTreeMap<&'static str, u64>>,
    omitted: Mutex<Option<OmittedCall>>,
    pub(crate) journal: Journal,
}

/// A call that does nothing and says that it worked: a defect of a program, as it would be without the call.
#[derive(Debug)]
struct OmittedCall {
    function: String,
    /// How many calls of it by this thread come before.
    before: u64,
    thread: ThreadId,
}

/// Whether the process exits: a driver does nothing more then.
static IS_EXITING: AtomicBool = AtomicBool::new(false);

static PROCESS: OnceLock<Result<Process, String>> = OnceLock::new();

impl Process {
    /// The process's, which the first call makes.
    ///
    /// # Errors
    /// Why it cannot be made: a wrong setting, or a system without address space.
    pub(crate) fn get() -> Result<&'static Self, &'static str> {
        let made = PROCESS.get().unwrap_or_else(Self::begin);
        made.as_ref().map_err(String::as_str)
    }

    fn begin() -> &'static Result<Self, String> {
        // No child of a fork finds it half made.
        let _whole = forks::hold();
        if let Some(made) = PROCESS.get() {
            return made;
        }
        let made = PROCESS.get_or_init(Self::new);
        match made {
            Ok(process) => {
                at_exit::register();
                at_exit::tell_of_standstills(process);
            }
            Err(why) => at_exit::report_unusable(why),
        }
        made
    }

    /// The same where it was made; a question makes none.
    pub(crate) fn made() -> Option<&'static Self> {
        PROCESS.get()?.as_ref().ok()
    }

    fn new() -> Result<Self, String> {
        let settings = Settings::of_process()?;
        let [cuda, rocm] = Self::count(&settings.engine.vendors);
        let of_hip: Vec<u32> = (cuda..cuda + rocm).collect();
        let mask = std::env::var("CUDA_VISIBLE_DEVICES").ok();
        let of_cuda = visible(mask.as_deref(), cuda);
        let devices = [of_cuda, crate::hip::visible(of_hip)];
        let engine = Engine::new(settings.engine).map_err(|error| error.to_string())?;
        Ok(Self {
            engine,
            driver: settings.driver,
            hip: settings.hip,
            devices,
            missing: settings.missing,
            has_peers: settings.has_peers,
            lie: settings.lie,
            tells_leaks: settings.tells_leaks,
            tells_waits: settings.tells_waits,
            id: std::process::id(),
            waits: Mutex::default(),
            calls: Mutex::default(),
            omitted: Mutex::default(),
            journal: Journal::default(),
        })
    }

    fn count(vendors: &[u32]) -> [u32; 2] {
        let of = |at: usize| vendors.get(at).copied().unwrap_or(0);
        [of(0), of(1)]
    }

    /// The devices that the clients of a vendor see.
    pub(crate) fn devices(&self, face: Face) -> &[u32] {
        let [cuda, hip] = &self.devices;
        match face {
            Face::Cuda => cuda,
            Face::Hip => hip,
        }
    }

    /// Whether 1 names the default stream: HIP has that number from 6.3 on.
    pub(crate) fn has_legacy(&self, face: Face) -> bool {
        face == Face::Cuda || self.hip >= (6, 3)
    }

    /// Whether this is a child that was forked after the engine was made.
    pub(crate) fn is_forked(&self) -> bool {
        self.id != std::process::id()
    }

    /// Remembers a call that waits for all work of a device.
    pub(crate) fn waits_for_device(&self, site: Site) {
        self.waits().push(site);
    }

    /// The calls that waited for all work of a device, oldest first.
    pub(crate) fn waits(&self) -> MutexGuard<'_, Vec<Site>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call of a function.
    pub(crate) fn called(&self, name: &'static str) {
        *self.calls().entry(name).or_default() += 1;
    }

    /// The call of a function by this thread that is the `nth` from now on, counted from 1, will do nothing.
    /// Whether one is still to come that was named before.
    pub(crate) fn drop_call(&self, function: &str, nth: u64) -> bool {
        let omitted = nth.checked_sub(1).map(|before| OmittedCall {
            function: function.to_owned(),
            before,
            thread: std::thread::current().id(),
        });
        let mut wanted = self.omitted.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *wanted, omitted).is_some()
    }

    /// Whether this call of a function does nothing.
    pub(crate) fn drops(&self, name: &str) -> bool {
        let mut omitted = self.omitted.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |wanted: &&mut OmittedCall| {
            wanted.function == name && wanted.thread == std::thread::current().id()
        };
        let Some(wanted) = omitted.as_mut().filter(is_it) else {
            return false;
        };
        match wanted.before.checked_sub(1) {
            Some(before) => {
                wanted.before = before;
                false
            }
            None => omitted.take().is_some(),
        }
    }

    /// How often each function was called.
    pub(crate) fn calls(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the program made and left, where that is to be told. Default streams are nobody's to destroy.
    pub(crate) fn leaks(&self) -> Vec<Report> {
        if !self.tells_leaks {
            return Vec::new();
        }
        let is_own = |leak: &Report| leak.bytes.is_some() || leak.first.name().contains("Create");
        let leaks = self.engine.leaks().into_iter();
        leaks.filter(is_own).collect()
    }

    /// Whether the process exits.
    pub(crate) fn is_exiting() -> bool {
        IS_EXITING.load(Ordering::Acquire)
    }

    /// From here on every call is refused.
    pub(crate) fn exits() {
        IS_EXITING.store(true, Ordering::Release);
    }
}
