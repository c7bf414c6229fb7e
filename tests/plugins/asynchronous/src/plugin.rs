//! The plugin as the host sees it: its life, its devices, and who may do what when.
#![expect(
    unsafe_code,
    reason = "hooks that touch raw memory are unsafe to implement"
)]

use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossdock_sdk::abi::{
    Address, AllocateArgs, CopyArgs, DeviceInfo, EventHandle, MemoryInfo, MemoryKind, PluginTable,
    PointerInfo, ProbeInfo, QueryCost, Status, StreamHandle,
};
use crossdock_sdk::deadline::limit;
use crossdock_sdk::handles::Handles;
use crossdock_sdk::plugin::{Attributes, Error, Groups, Host, Plugin, describe, table_of};
use crossdock_sim_engine::{self as sim, Engine, Site};

use crate::answer::refused;
use crate::control::{CONTROL, Control};
use crate::lent::{Lent, Views};
use crate::peers::Peers;
use crate::streams::{HostStream, Point};
use crate::uses::Uses;
use crate::{device, settings};

/// The plugin: simulated devices, on which work is never done when a hook returns.
#[derive(Debug)]
pub struct Asynchronous {
    pub(crate) engine: Engine,
    /// The upper half of allocation ids: those of two engines never meet.
    pub(crate) number: u64,
    pub(crate) streams: Handles<StreamHandle, HostStream>,
    pub(crate) events: Handles<EventHandle, Point>,
    /// Each device's default stream.
    pub(crate) defaults: Vec<StreamHandle>,
    /// What was allocated and not freed, by its base; what a stream will free is gone already.
    pub(crate) allocated: Mutex<HashMap<u64, MemoryKind>>,
    pub(crate) lent: Lent,
    pub(crate) views: Views,
    pub(crate) uses: Uses,
    pub(crate) peers: Arc<Peers>,
    control: Box<Control>,
    life: AtomicU8,
}

/// The plugin's table, for a test that links it in; a file exports [`Asynchronous`] instead.
#[must_use]
pub fn table() -> NonNull<PluginTable> {
    table_of::<Asynchronous>()
}

impl Plugin for Asynchronous {
    const DESCRIPTION: &'static str = describe!(
        name = "asynchronous",
        vendor = "Crossdock tests",
        devices = "vpi",
        // Its devices' memory is shared with children, as a driver's is.
        driver = "libvpi.so.1"
    );
    const GROUPS: Groups<Self> = Groups::new()
        .streams()
        .wrap()
        .host_events()
        .host_calls()
        .timing()
        .strided()
        .fill()
        .register()
        .adopt()
        .map()
        .async_memory()
        .attributes()
        .pool()
        .peer();
    const QUERY_COST: QueryCost = QueryCost::TABLE;

    fn probe() -> Result<ProbeInfo, Error> {
        let settings = settings::of_process().map_err(unreadable("probe"))?;
        let devices = settings.engine.devices;
        Ok(ProbeInfo::ready(devices, env!("CARGO_PKG_VERSION")))
    }

    fn open(_: Host) -> Result<Self, Error> {
        let operation = "open";
        let settings = settings::of_process().map_err(unreadable(operation))?;
        let devices = settings.engine.devices;
        let peers = Arc::new(Peers::new(settings.links));
        let engine = Engine::new(settings.engine).map_err(|error| refused(operation, &error))?;
        let streams = Handles::new();
        let default = |device| {
            let stream = engine.create_stream(Site::new(OWN), device);
            let stream = stream.map_err(|error| refused(operation, &error))?;
            let host_stream = HostStream {
                stream,
                device,
                is_owned: false,
            };
            Ok(streams.insert(operation, host_stream)?)
        };
        let defaults = (0..devices).map(default).collect::<Result<_, Error>>()?;
        Ok(Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            control: Box::new(Control::over(&engine, &peers)),
            engine,
            streams,
            events: Handles::new(),
            defaults,
            allocated: Mutex::default(),
            lent: Lent::default(),
            views: Views::default(),
            uses: Uses::default(),
            peers,
            life: AtomicU8::new(OPEN),
        })
    }

    fn device_count(&self) -> u32 {
        self.engine.config().devices
    }

    fn device_info(&self, device: u32) -> Result<DeviceInfo, Error> {
        self.check_index("device_info", device)?;
        Ok(device::info(device, self.engine.config()))
    }

    fn memory_info(&self, device: u32) -> Result<MemoryInfo, Error> {
        let operation = "memory_info";
        self.check_alive(operation)?;
        self.check_index(operation, device)?;
        let answer = self.engine.memory_info(device);
        let (free, total) = answer.map_err(|error| refused(operation, &error))?;
        Ok(MemoryInfo { free, total })
    }

    fn allocate(&self, args: AllocateArgs) -> Result<Address, Error> {
        self.allocate_now(args)
    }

    unsafe fn free(&self, address: Address, kind: MemoryKind) -> Result<(), Error> {
        self.free_now(address, kind)
    }

    unsafe fn copy(&self, args: CopyArgs, stream: StreamHandle) -> Result<(), Error> {
        // SAFETY: the caller keeps both sides valid until the copy is done.
        unsafe { self.copy_bytes(&args, stream) }
    }

    fn pointer_query(&self, address: Address) -> Result<PointerInfo, Error> {
        self.check_alive("pointer_query")?;
        Ok(self.look_up(address))
    }

    fn retire(&self, deadline_ns: u64) -> Result<(), Error> {
        let operation = "retire";
        self.check_alive(operation)?;
        self.life.store(RETIRED, Ordering::Release);
        let limit = limit(deadline_ns).unwrap_or(LONGEST).min(LONGEST);
        self.engine
            .drain(limit)
            .map_err(|error| refused(operation, &error))
    }

    fn at_fork_child(&self) {
        self.life.store(FORKED, Ordering::Release);
    }

    fn at_exit(&self) {
        if self.life.swap(EXITED, Ordering::AcqRel) != FORKED {
            // Nothing starts any more: what the work uses may be gone soon.
            self.engine.hold();
        }
    }
}

impl Attributes for Asynchronous {
    fn device_attribute(&self, device: u32, key: u32) -> Result<u64, Error> {
        let operation = "device_attribute";
        self.check_alive(operation)?;
        self.check_index(operation, device)?;
        match key {
            CONTROL => Ok(self.control.word()),
            _ => Err(Error::unsupported(operation)),
        }
    }
}

impl Asynchronous {
    /// Fails in the child of a fork and once the process exits.
    pub(crate) fn check_alive(&self, operation: &'static str) -> Result<(), Error> {
        let (status, why) = match self.life.load(Ordering::Acquire) {
            FORKED => (
                Status::FORKED,
                "the process is a fork of the one that opened the plugin",
            ),
            EXITED => (Status::EXITING, "the process is exiting"),
            _ => return Ok(()),
        };
        Err(Error::new(status, operation, why))
    }

    /// Fails when no new work is taken.
    pub(crate) fn check_open(&self, operation: &'static str) -> Result<(), Error> {
        self.check_alive(operation)?;
        if self.life.load(Ordering::Acquire) == RETIRED {
            return Err(Error::new(
                Status::RETIRED,
                operation,
                "the plugin was retired",
            ));
        }
        Ok(())
    }

    pub(crate) fn check_index(&self, operation: &'static str, device: u32) -> Result<(), Error> {
        let count = self.engine.config().devices;
        if device < count {
            return Ok(());
        }
        let why = format!("no device {device}: there are {count}");
        Err(Error::new(Status::INVALID, operation, why))
    }

    /// Does work of a device that touches these addresses: on a stream of the host's, or now and to
    /// its end.
    pub(crate) fn run(
        &self,
        operation: &'static str,
        on: Option<HostStream>,
        (device, addresses): (u32, &[u64]),
        submit: impl FnOnce(sim::Stream) -> Result<(), sim::Error>,
    ) -> Result<(), Error> {
        let shared = addresses.iter().filter_map(|at| self.shared_base(*at));
        if let Some(host_stream) = on {
            let submitted = self
                .uses
                .submit(&self.engine, shared, host_stream.stream, || {
                    submit(host_stream.stream)
                });
            return submitted.map_err(|error| refused(operation, &error));
        }
        let made = self.engine.create_stream(Site::new(OWN), device);
        let own = made.map_err(|error| refused(operation, &error))?;
        let submitted = self.uses.submit(&self.engine, shared, own, || submit(own));
        let done = submitted.and_then(|()| self.finish(own));
        self.uses.forget_stream(own);
        // The work is over, whatever becomes of the stream: a fault may refuse to destroy it.
        drop(self.engine.destroy_stream(Site::new(OWN), own));
        done.map_err(|error| refused(operation, &error))
    }

    /// The base of the memory at an address that the host shares.
    fn shared_base(&self, address: u64) -> Option<u64> {
        let owner = self.engine.owner_of(address)?;
        let is_shared = owner.is_registered || device::is_integrated(owner.device);
        is_shared.then_some(owner.base)
    }

    /// Waits until all work on a stream of our own is over, whatever it came to. The memories are the
    /// host's again when the hook returns, so no other answer ends the wait.
    fn finish(&self, own: sim::Stream) -> Result<(), sim::Error> {
        loop {
            let waited = self.engine.synchronize_stream(Site::new(OWN), own, None);
            match &waited {
                Err(sim::Error::Standstill(_) | sim::Error::TimedOut) => {}
                // A fault refused the wait, and may refuse each one; no fault refuses this.
                Err(sim::Error::Failed(failure)) if failure.site.name() == OWN => {
                    if self.engine.drain(AT_CLOSE).is_ok() {
                        return waited;
                    }
                }
                _ => return waited,
            }
        }
    }
}

impl Drop for Asynchronous {
    fn drop(&mut self) {
        if self.check_alive("close").is_err() {
            // In the child of a fork its locks may be held for ever, so it never ends there.
            let _kept = ManuallyDrop::new(self.engine.clone());
            return;
        }
        // Streams that wait for the host would never end.
        for event in self.events.all() {
            // What cannot be destroyed was destroyed.
            drop(self.engine.destroy_event(Site::new("close"), event.event));
        }
        // A standstill stays what it is, and is in the reports.
        drop(self.engine.drain(AT_CLOSE));
    }
}

/// No state behind these locks can be left half changed, so a panic elsewhere does not spoil it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unreadable(operation: &'static str) -> impl FnOnce(String) -> Error {
    move |why| Error::new(Status::INVALID, operation, why)
}

/// The name of what the plugin does for itself; reports of what is left pass over it.
pub(crate) const OWN: &str = "(plugin)";

/// The next plugin's number. Of the process and not of one engine.
static NEXT: AtomicU64 = AtomicU64::new(1);

const LONGEST: Duration = Duration::from_secs(24 * 3600);
const AT_CLOSE: Duration = Duration::from_secs(5);

const OPEN: u8 = 0;
const RETIRED: u8 = 1;
const EXITED: u8 = 2;
const FORKED: u8 = 3;
