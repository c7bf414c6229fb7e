//! An engine for a test, with short names for what all tests do.
#![expect(
    unsafe_code,
    reason = "submits copies of memory that the test keeps alive"
)]

use std::time::Duration;

use crossdock_sim_engine::{
    Config, Engine, Error, Event, MemoryKind, Policy, Report, Site, Stream,
};

pub(crate) const POLICIES: [Policy; 3] = [Policy::Threads, Policy::Seeded, Policy::Lazy];

/// Long enough for any machine; a wait of this length is a hang.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// An engine whose calls are known to succeed.
pub(crate) struct Machine(pub(crate) Engine);

impl Machine {
    pub(crate) fn new(policy: Policy) -> Self {
        Self::with(Config {
            policy,
            memory_bytes: 64 << 20,
            idle: None,
            ..Config::default()
        })
    }

    pub(crate) fn with(config: Config) -> Self {
        Self(Engine::new(config).expect("an engine"))
    }

    #[track_caller]
    pub(crate) fn allocate(&self, bytes: u64) -> u64 {
        let site = Site::here("allocate");
        self.0
            .allocate(site, 0, bytes, 512, MemoryKind::Device)
            .expect("memory")
    }

    #[track_caller]
    pub(crate) fn stream(&self) -> Stream {
        self.0
            .create_stream(Site::here("create_stream"), 0)
            .expect("a stream")
    }

    #[track_caller]
    pub(crate) fn event(&self) -> Event {
        self.0
            .create_event(Site::here("create_event"), 0)
            .expect("an event")
    }

    #[track_caller]
    pub(crate) fn host_event(&self) -> Event {
        self.0
            .create_host_event(Site::here("create_host_event"), 0)
            .expect("an event")
    }

    #[track_caller]
    pub(crate) fn copy(
        &self,
        name: &'static str,
        stream: Stream,
        target: u64,
        source: u64,
        bytes: u64,
    ) {
        // SAFETY: tests keep host memory alive until the engine is drained.
        unsafe { self.0.copy(Site::here(name), stream, target, source, bytes) }.expect("a copy");
    }

    #[track_caller]
    pub(crate) fn fill(
        &self,
        name: &'static str,
        stream: Stream,
        target: u64,
        bytes: u64,
        value: u8,
    ) {
        // SAFETY: as above.
        unsafe {
            self.0
                .fill(Site::here(name), stream, target, bytes, &[value])
        }
        .expect("a fill");
    }

    #[track_caller]
    pub(crate) fn record(&self, event: Event, stream: Stream) {
        self.0
            .record(Site::here("record"), event, stream)
            .expect("a record");
    }

    #[track_caller]
    pub(crate) fn wait(&self, stream: Stream, event: Event) {
        self.0
            .wait(Site::here("wait"), stream, event)
            .expect("a wait");
    }

    #[track_caller]
    pub(crate) fn synchronize(&self, stream: Stream) -> Result<(), Error> {
        self.0
            .synchronize_stream(Site::here("synchronize_stream"), stream, Some(LIMIT))
    }

    #[track_caller]
    pub(crate) fn drain(&self) {
        self.0.drain(LIMIT).expect("all work ends");
    }

    /// The one report, by the kind and the names of its calls.
    #[track_caller]
    pub(crate) fn only_report(&self) -> Report {
        let reports = self.0.take_reports();
        let texts: Vec<String> = reports.iter().map(ToString::to_string).collect();
        let [one] = reports
            .try_into()
            .unwrap_or_else(|_| panic!("one report, not {texts:#?}"));
        one
    }
}

/// An address of host memory.
pub(crate) fn address<T>(memory: &[T]) -> u64 {
    memory.as_ptr().expose_provenance() as u64
}

/// An address of host memory that is written.
pub(crate) fn address_mut<T>(memory: &mut [T]) -> u64 {
    memory.as_mut_ptr().expose_provenance() as u64
}
