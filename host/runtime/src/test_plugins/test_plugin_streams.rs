//! A plugin for tests of streams: it counts what it gives and gets back, and a test can step into a
//! call.
#![expect(unsafe_code, reason = "a plugin's hooks are unsafe to offer")]

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crossdock_sdk::abi::{
    Address, AllocateArgs, CopyArgs, DefaultStream, DeviceInfo, EventHandle, HostFunction,
    MemoryInfo, MemoryKind, PointerInfo, ProbeInfo, Status, StreamHandle,
};
use crossdock_sdk::plugin::{Error, Groups, Host, HostCalls, HostEvents, Streams, Wrap, describe};

use crate::plugins::plugin::Plugin;
use crate::test_plugins::test_plugin;
use crate::{Device, Runtime};

/// The plugin with this number; each has its own streams. Its natives are its own: 0 and 1 both name
/// the default stream.
pub(crate) struct CountedStreams<const N: usize>;

/// What a test does inside of a hook.
pub(crate) type Step = Arc<dyn Fn() + Send + Sync>;

/// What a plugin gave, and what a test wants of it.
#[derive(Default)]
pub(crate) struct Given {
    /// The native of each live handle but the default one.
    live: Mutex<BTreeMap<u64, u64>>,
    last: AtomicU64,
    /// How many events it gave and did not get back.
    pub(crate) events: AtomicU64,
    /// What it answers for the native handle of a stream.
    pub(crate) no_native: Mutex<Option<Status>>,
    /// How often it was queried for one.
    pub(crate) natives: AtomicU64,
    pub(crate) defaults: AtomicU64,
    pub(crate) wraps: AtomicU64,
    pub(crate) retires: AtomicU64,
    pub(crate) waits: AtomicU64,
    /// The handle of a stream whose work failed, which it tells the first waiter.
    pub(crate) failed: AtomicU64,
    /// The handle of a stream whose work runs, and about which it answers a question by a failure.
    pub(crate) doubtful: AtomicU64,
    /// The handle of a stream whose work is still running.
    pub(crate) busy: AtomicU64,
    /// The handle of a stream of which it cannot say whether its work is over.
    pub(crate) captured: AtomicU64,
    /// How many records of events it refuses from now on.
    pub(crate) refused_records: AtomicU64,
    /// The natives of streams that were told to wait.
    pub(crate) waiting: Mutex<Vec<u64>>,
    /// The failures of events, by handle; the others ended well.
    ended: Mutex<BTreeMap<u64, Status>>,
    /// How long it was let wait for each event and stream.
    pub(crate) limits: Mutex<Vec<u64>>,
    /// The streams that it was to wait for.
    pub(crate) awaited: Mutex<Vec<u64>>,
    /// Whether it describes its devices no more.
    pub(crate) is_silent: AtomicBool,
    pub(crate) in_default: Mutex<Option<Step>>,
    pub(crate) in_wrap: Mutex<Option<Step>>,
    pub(crate) in_destroy: Mutex<Option<Step>>,
    pub(crate) in_device_info: Mutex<Option<Step>>,
    pub(crate) in_retire: Mutex<Option<Step>>,
    pub(crate) in_query: Mutex<Option<Step>>,
    pub(crate) in_stream_query: Mutex<Option<Step>>,
    pub(crate) in_stream_synchronize: Mutex<Option<Step>>,
    /// Once the answer is known.
    pub(crate) behind_stream_query: Mutex<Option<Step>>,
    pub(crate) in_event_query: Mutex<Option<Step>>,
    pub(crate) in_event_synchronize: Mutex<Option<Step>>,
    pub(crate) in_event_destroy: Mutex<Option<Step>>,
    /// The host functions, and their words, that it takes and panics. Where there is no place for
    /// them it has no such calls.
    pub(crate) calls_before_a_panic: Mutex<Option<Vec<(HostFunction, usize)>>>,
}

impl Given {
    const fn new() -> Self {
        Self {
            live: Mutex::new(BTreeMap::new()),
            last: AtomicU64::new(DEFAULT),
            events: AtomicU64::new(0),
            no_native: Mutex::new(None),
            natives: AtomicU64::new(0),
            defaults: AtomicU64::new(0),
            wraps: AtomicU64::new(0),
            retires: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            doubtful: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            captured: AtomicU64::new(0),
            refused_records: AtomicU64::new(0),
            waiting: Mutex::new(Vec::new()),
            ended: Mutex::new(BTreeMap::new()),
            limits: Mutex::new(Vec::new()),
            awaited: Mutex::new(Vec::new()),
            is_silent: AtomicBool::new(false),
            in_default: Mutex::new(None),
            in_wrap: Mutex::new(None),
            in_destroy: Mutex::new(None),
            in_device_info: Mutex::new(None),
            in_retire: Mutex::new(None),
            in_query: Mutex::new(None),
            in_stream_query: Mutex::new(None),
            in_stream_synchronize: Mutex::new(None),
            behind_stream_query: Mutex::new(None),
            in_event_query: Mutex::new(None),
            in_event_synchronize: Mutex::new(None),
            in_event_destroy: Mutex::new(None),
            calls_before_a_panic: Mutex::new(None),
        }
    }

    pub(crate) fn live(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.live.lock().unwrap()
    }

    /// Lets an event be one that ended with a failure.
    pub(crate) fn end(&self, event: EventHandle, status: Status) {
        self.ended.lock().unwrap().insert(event.raw(), status);
    }

    /// The failure that an event ended with.
    pub(crate) fn failure(&self, event: EventHandle) -> Option<Status> {
        self.ended.lock().unwrap().get(&event.raw()).copied()
    }

    fn check_captured(&self, call: &'static str, stream: StreamHandle) -> Result<(), Error> {
        if self.captured.load(SeqCst) == stream.raw() {
            return Err(Error::new(Status::CAPTURING, call, "it is captured"));
        }
        Ok(())
    }

    fn answer(&self, call: &'static str, event: EventHandle) -> Result<(), Error> {
        match self.ended.lock().unwrap().get(&event.raw()) {
            Some(status) => Err(Error::new(*status, call, "it failed")),
            None => Ok(()),
        }
    }

    fn add(&self, native: u64) -> StreamHandle {
        let handle = self.last.fetch_add(1, SeqCst) + 1;
        self.live().insert(handle, native);
        StreamHandle::from_raw(handle)
    }
}

/// A step that lets another thread do something meanwhile, and whether that ended: a thread that
/// needs a lock that is held over the hook does not.
pub(crate) fn meanwhile(work: impl Fn() + Send + Sync + 'static) -> (Step, Arc<AtomicBool>) {
    let (is_done, work) = (Arc::<AtomicBool>::default(), Arc::new(work));
    let done = Arc::clone(&is_done);
    let step = move || {
        let (told, hears) = std::sync::mpsc::channel();
        let work = Arc::clone(&work);
        std::thread::spawn(move || {
            work();
            let _late = told.send(());
        });
        let is_over = hears.recv_timeout(Duration::from_secs(10)).is_ok();
        done.store(is_over, SeqCst);
    };
    (Arc::new(step), is_done)
}

/// Takes the step that a test put there, once.
fn once(place: &Mutex<Option<Step>>) {
    let step = place.lock().unwrap().take();
    if let Some(step) = step {
        step();
    }
}

/// Takes the step each time.
fn every(place: &Mutex<Option<Step>>) {
    let step = place.lock().unwrap().clone();
    if let Some(step) = step {
        step();
    }
}

static GIVEN: [Given; 78] = [const { Given::new() }; 78];

/// The handle of the default stream, and its native.
const DEFAULT: u64 = 1;

/// The address of all memory, which nobody touches.
pub(crate) const MEMORY: u64 = 1 << 40;

/// What plugin `N` gave.
pub(crate) fn given<const N: usize>() -> &'static Given {
    &GIVEN[N]
}

/// Plugin `N`, open.
pub(crate) fn plugin<const N: usize>() -> Arc<Plugin> {
    test_plugin::start::<CountedStreams<N>>(format!("streams{N}"))
}

/// The two devices of plugin `N` in a runtime of their own.
pub(crate) fn devices<const N: usize>() -> [Device; 2] {
    let plugin = plugin::<N>();
    let runtime = Runtime::builder().search(false).open().unwrap();
    assert!(runtime.register(&plugin).unwrap());
    [0, 1].map(|index| runtime.device_of(&plugin, index).unwrap())
}

impl<const N: usize> crossdock_sdk::plugin::Plugin for CountedStreams<N> {
    const DESCRIPTION: &'static str =
        describe!(name = "streams", vendor = "test", devices = "ext_dev");
    const GROUPS: Groups<Self> = Groups::new().streams().wrap().host_events().host_calls();

    fn probe() -> Result<ProbeInfo, Error> {
        Ok(ProbeInfo::ready(2, "1.0"))
    }

    fn open(_: Host) -> Result<Self, Error> {
        Ok(Self)
    }

    fn device_count(&self) -> u32 {
        2
    }

    fn device_info(&self, _: u32) -> Result<DeviceInfo, Error> {
        once(&GIVEN[N].in_device_info);
        if GIVEN[N].is_silent.load(SeqCst) {
            return Err(Error::new(Status::RETIRED, "device_info", "it was retired"));
        }
        Ok(test_plugin::device_info())
    }

    fn memory_info(&self, _: u32) -> Result<MemoryInfo, Error> {
        Ok(MemoryInfo::default())
    }

    fn allocate(&self, _: AllocateArgs) -> Result<Address, Error> {
        Ok(Address::pointer(MEMORY))
    }

    unsafe fn free(&self, _: Address, _: MemoryKind) -> Result<(), Error> {
        Ok(())
    }

    unsafe fn copy(&self, _: CopyArgs, _: StreamHandle) -> Result<(), Error> {
        Ok(())
    }

    fn pointer_query(&self, address: Address) -> Result<PointerInfo, Error> {
        once(&GIVEN[N].in_query);
        let is_ours = address == Address::pointer(MEMORY);
        Ok(PointerInfo {
            kind: if is_ours {
                MemoryKind::DEVICE
            } else {
                MemoryKind::UNOWNED
            },
            ..PointerInfo::default()
        })
    }

    fn retire(&self, _: u64) -> Result<(), Error> {
        GIVEN[N].retires.fetch_add(1, SeqCst);
        once(&GIVEN[N].in_retire);
        Ok(())
    }
}

impl<const N: usize> Streams for CountedStreams<N> {
    fn stream_create(&self, _: u32) -> Result<StreamHandle, Error> {
        let given = &GIVEN[N];
        let native = 1000 + given.last.load(SeqCst);
        Ok(given.add(native))
    }

    fn stream_default(&self, _: u32, _: DefaultStream) -> Result<StreamHandle, Error> {
        GIVEN[N].defaults.fetch_add(1, SeqCst);
        every(&GIVEN[N].in_default);
        Ok(StreamHandle::from_raw(DEFAULT))
    }

    fn stream_native(&self, stream: StreamHandle) -> Result<u64, Error> {
        GIVEN[N].natives.fetch_add(1, SeqCst);
        let refusal = *GIVEN[N].no_native.lock().unwrap();
        if let Some(status) = refusal {
            return Err(Error::new(status, "stream_native", "there is none"));
        }
        let native = GIVEN[N].live().get(&stream.raw()).copied();
        let is_default = stream.raw() == DEFAULT;
        native
            .or(is_default.then_some(DEFAULT))
            .ok_or_else(|| Error::new(Status::STALE, "stream_native", "it is gone"))
    }

    fn stream_destroy(&self, stream: StreamHandle) -> Result<(), Error> {
        let gone = GIVEN[N].live().remove(&stream.raw());
        once(&GIVEN[N].in_destroy);
        gone.map(drop)
            .ok_or_else(|| Error::new(Status::STALE, "stream_destroy", "it is gone"))
    }

    fn stream_synchronize(&self, stream: StreamHandle, limit: u64) -> Result<(), Error> {
        let given = &GIVEN[N];
        given.waits.fetch_add(1, SeqCst);
        given.limits.lock().unwrap().push(limit);
        given.awaited.lock().unwrap().push(stream.raw());
        once(&given.in_stream_synchronize);
        given.check_captured("stream_synchronize", stream)?;
        let failed = given
            .failed
            .compare_exchange(stream.raw(), 0, SeqCst, SeqCst);
        if limit == 0 && given.doubtful.load(SeqCst) == stream.raw() {
            let why = "it runs";
            return Err(Error::new(Status::TIMEOUT, "stream_synchronize", why));
        }
        match failed {
            Ok(_) => Err(Error::new(
                Status::VENDOR,
                "stream_synchronize",
                "it failed",
            )),
            Err(_) => Ok(()),
        }
    }

    fn stream_query(&self, stream: StreamHandle) -> Result<(), Error> {
        let given = &GIVEN[N];
        once(&given.in_stream_query);
        given.check_captured("stream_query", stream)?;
        if given.busy.load(SeqCst) == stream.raw() {
            return Err(Error::new(Status::NOT_READY, "stream_query", "it runs"));
        }
        if given.failed.load(SeqCst) == stream.raw() {
            return Err(Error::new(Status::VENDOR, "stream_query", "it failed"));
        }
        if given.doubtful.load(SeqCst) == stream.raw() {
            return Err(Error::new(Status::VENDOR, "stream_query", "who knows"));
        }
        once(&given.behind_stream_query);
        Ok(())
    }

    fn stream_wait_event(&self, stream: StreamHandle, _: EventHandle) -> Result<(), Error> {
        let native = GIVEN[N].live().get(&stream.raw()).copied();
        GIVEN[N].waiting.lock().unwrap().extend(native);
        Ok(())
    }

    fn event_create(&self, _: u32) -> Result<EventHandle, Error> {
        let handle = GIVEN[N].last.fetch_add(1, SeqCst) + 1;
        GIVEN[N].events.fetch_add(1, SeqCst);
        Ok(EventHandle::from_raw(handle))
    }

    fn event_record(&self, _: EventHandle, _: StreamHandle) -> Result<(), Error> {
        let less = |left: u64| left.checked_sub(1);
        let refused = &GIVEN[N].refused_records;
        match refused.fetch_update(SeqCst, SeqCst, less) {
            Ok(_) => Err(Error::new(Status::VENDOR, "event_record", "it cannot")),
            Err(_) => Ok(()),
        }
    }

    fn event_query(&self, event: EventHandle) -> Result<(), Error> {
        once(&GIVEN[N].in_event_query);
        GIVEN[N].answer("event_query", event)
    }

    fn event_synchronize(&self, event: EventHandle, limit: u64) -> Result<(), Error> {
        GIVEN[N].limits.lock().unwrap().push(limit);
        once(&GIVEN[N].in_event_synchronize);
        GIVEN[N].answer("event_synchronize", event)
    }

    fn event_destroy(&self, _: EventHandle) -> Result<(), Error> {
        GIVEN[N].events.fetch_sub(1, SeqCst);
        once(&GIVEN[N].in_event_destroy);
        Ok(())
    }
}

impl<const N: usize> HostEvents for CountedStreams<N> {
    fn event_create_host(&self, device: u32) -> Result<EventHandle, Error> {
        self.event_create(device)
    }

    fn event_complete(&self, event: EventHandle, status: Status) -> Result<(), Error> {
        GIVEN[N].end(event, status);
        Ok(())
    }
}

impl<const N: usize> HostCalls for CountedStreams<N> {
    unsafe fn stream_host_call(
        &self,
        _: StreamHandle,
        function: HostFunction,
        word: *mut c_void,
    ) -> Result<(), Error> {
        let mut calls = GIVEN[N].calls_before_a_panic.lock().unwrap();
        let Some(calls) = calls.as_mut() else {
            return Err(Error::unsupported("stream_host_call"));
        };
        calls.push((function, word.expose_provenance()));
        Err(Error::new(Status::PANIC, "stream_host_call", "it panicked"))
    }
}

impl<const N: usize> Wrap for CountedStreams<N> {
    unsafe fn stream_wrap(&self, _: u32, native: u64) -> Result<StreamHandle, Error> {
        GIVEN[N].wraps.fetch_add(1, SeqCst);
        every(&GIVEN[N].in_wrap);
        Ok(GIVEN[N].add(native.max(DEFAULT)))
    }
}
