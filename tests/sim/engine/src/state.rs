//! All that changes in an engine, behind its one lock.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use crate::arena::Arena;
use crate::choices::Choices;
use crate::clock::{Clock, Epoch, HOST};
use crate::fault::Plan;
use crate::links::Links;
use crate::memory::Memory;
use crate::op::{Body, Op, Point, Use};
use crate::random::Random;
use crate::shadow::Shadow;
use crate::trace::Trace;
use crate::words::Words;
use crate::{Config, Error, Event, Failure, Policy, Report, ReportKind, Site, Stream};

/// A stream, until it is destroyed and its work is over.
#[derive(Debug)]
pub(crate) struct StreamState {
    pub(crate) device: u32,
    pub(crate) queue: usize,
    pub(crate) actor: usize,
    pub(crate) site: Site,
    pub(crate) destroyed: bool,
    pub(crate) submitted: u64,
    pub(crate) completed: u64,
    /// What its last finished operation knew.
    pub(crate) clock: Clock,
    pub(crate) time_ns: u64,
    /// The first since it was told last.
    pub(crate) failure: Option<Failure>,
}

/// An event, until it is destroyed.
#[derive(Debug)]
pub(crate) struct EventState {
    pub(crate) site: Site,
    pub(crate) is_host: bool,
    /// The last record, or what the host completes; `None` if it was never recorded.
    pub(crate) point: Option<Arc<Point>>,
}

/// One hardware queue.
#[derive(Default, Debug)]
pub(crate) struct Queue {
    pub(crate) ops: VecDeque<Op>,
    /// The operation at its head that started and is not over.
    pub(crate) busy: Option<Busy>,
    pub(crate) time_ns: u64,
}

/// An operation that takes real time.
#[derive(Debug)]
pub(crate) struct Busy {
    pub(crate) op: u64,
    pub(crate) site: Site,
    pub(crate) stream: u64,
    pub(crate) clock: Clock,
    pub(crate) failed: Option<Failure>,
    pub(crate) phase: Phase,
}

/// How far such an operation is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Phase {
    /// Its host function runs, or its bytes are moved.
    Runs,
    /// It has its link until then.
    Until(u64),
}

impl Busy {
    pub(crate) const fn is_due(&self, now_ns: u64) -> bool {
        matches!(self.phase, Phase::Until(end_ns) if end_ns <= now_ns)
    }
}

/// All that changes.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) config: Arc<Config>,
    pub(crate) arena: Arc<Arena>,
    pub(crate) random: Random,
    pub(crate) choices: Choices,
    pub(crate) trace: Trace,
    pub(crate) plan: Plan,
    pub(crate) lost: BTreeMap<u32, Failure>,
    pub(crate) memory: Memory,
    pub(crate) shadow: Shadow,
    pub(crate) pruned_at: usize,
    pub(crate) streams: BTreeMap<u64, StreamState>,
    pub(crate) events: BTreeMap<u64, EventState>,
    pub(crate) queues: Vec<Queue>,
    pub(crate) links: Links,
    pub(crate) words: Words,
    pub(crate) host: Clock,
    pub(crate) host_ns: u64,
    /// Since when real time counts.
    pub(crate) began: Instant,
    /// The last moment of each actor.
    pub(crate) moments: Vec<u64>,
    /// What the streams of each device knew that are gone: a wait for a device learns it.
    pub(crate) gone: BTreeMap<u32, Clock>,
    /// Actors of streams that are gone, with their last moment.
    pub(crate) retired: Vec<Epoch>,
    pub(crate) reports: Vec<Report>,
    /// How many there ever were, for who does not have the lock.
    pub(crate) reports_made: Arc<AtomicU64>,
    pub(crate) reported: HashSet<(ReportKind, u64, u64)>,
    pub(crate) held: usize,
    pub(crate) pending: usize,
    /// Operations that started, ever.
    pub(crate) ran: u64,
    /// How many had started, and since when no other one did, while somebody waits.
    pub(crate) still: (u64, Instant),
    /// When somebody waited last.
    pub(crate) waited: Instant,
    pub(crate) calls: u64,
    pub(crate) ops: u64,
    pub(crate) last_call: Instant,
    pub(crate) over: bool,
    /// Whether the process ends: work is judged from here on, and not done.
    pub(crate) only_judges: bool,
    next_handle: u64,
    /// The hardware queue of each device from which the next stream's is looked for.
    queue_turns: BTreeMap<u32, usize>,
}

impl State {
    pub(crate) fn new(config: &Arc<Config>, arena: &Arc<Arena>) -> Self {
        let ranges = (0..config.devices).map(|device| arena.device_range(device));
        let queues = config.queues * usize::try_from(config.devices).unwrap_or(0);
        Self {
            random: Random::new(config.seed),
            choices: Choices::new(config.schedule.as_ref(), config.notes_choices),
            trace: Trace::default(),
            plan: Plan::new(&config.faults, config.seed),
            lost: BTreeMap::new(),
            memory: Memory::new(ranges, config.memory_bytes),
            shadow: Shadow::default(),
            pruned_at: 4096,
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            queues: (0..queues).map(|_| Queue::default()).collect(),
            links: Links::default(),
            words: Words::default(),
            host: Clock::default(),
            host_ns: 0,
            began: Instant::now(),
            moments: vec![0],
            gone: BTreeMap::new(),
            retired: Vec::new(),
            reports: Vec::new(),
            reports_made: Arc::default(),
            reported: HashSet::new(),
            held: 0,
            pending: 0,
            ran: 0,
            still: (0, Instant::now()),
            waited: Instant::now(),
            calls: 0,
            ops: 0,
            last_call: Instant::now(),
            over: false,
            only_judges: false,
            next_handle: 1,
            queue_turns: BTreeMap::new(),
            config: Arc::clone(config),
            arena: Arc::clone(arena),
        }
    }

    /// Whether work takes its simulated time in truth.
    pub(crate) fn is_paced(&self) -> bool {
        self.config.paced && self.config.policy == Policy::Threads
    }

    pub(crate) const fn next_handle(&mut self) -> u64 {
        let handle = self.next_handle;
        self.next_handle += 1;
        handle
    }

    /// Something host code did that others must be ordered against.
    pub(crate) fn host_moment(&mut self) -> Epoch {
        self.look_at_words();
        let epoch = self.moment(HOST);
        self.host.set(epoch);
        epoch
    }

    pub(crate) fn moment(&mut self, actor: usize) -> Epoch {
        if self.moments.len() <= actor {
            self.moments.resize(actor + 1, 0);
        }
        let time = self.moments.get_mut(actor).map_or(0, |time| {
            *time += 1;
            *time
        });
        Epoch { actor, time }
    }

    /// The hardware queue of the next stream on a device: of those with the fewest streams, the
    /// first from the turn on.
    pub(crate) fn next_queue(&mut self, device: u32) -> usize {
        let count = self.config.queues;
        let first = count * usize::try_from(device).unwrap_or(0);
        let mut streams = vec![0_usize; count];
        for stream in self.streams.values().filter(|stream| !stream.destroyed) {
            let own = stream.queue.checked_sub(first);
            if let Some(streams) = own.and_then(|own| streams.get_mut(own)) {
                *streams += 1;
            }
        }
        let turn = self.queue_turns.entry(device).or_default();
        let from_turn = (0..count).map(|step| (*turn + step) % count);
        let queue = from_turn
            .min_by_key(|queue| streams.get(*queue))
            .unwrap_or(0);
        *turn = queue + 1;
        first + queue
    }

    /// An actor for a new stream: one of a stream whose work the host knows to be over, if any.
    pub(crate) fn next_actor(&mut self) -> usize {
        let host = &self.host;
        let known = self.retired.iter().position(|epoch| host.knows(*epoch));
        if let Some(at) = known {
            return self.retired.swap_remove(at).actor;
        }
        self.moments.push(0);
        self.moments.len() - 1
    }

    /// The stream, or the report and the error that there is none.
    pub(crate) fn stream(&mut self, site: Site, stream: Stream) -> Result<&mut StreamState, Error> {
        let alive = self
            .streams
            .get(&stream.raw())
            .is_some_and(|s| !s.destroyed);
        if !alive {
            return Err(self.stale(site, stream.to_string()));
        }
        let missing = || Error::Stale {
            what: stream.to_string(),
        };
        self.streams.get_mut(&stream.raw()).ok_or_else(missing)
    }

    /// The event, or the report and the error that there is none.
    pub(crate) fn event(&mut self, site: Site, event: Event) -> Result<&mut EventState, Error> {
        if !self.events.contains_key(&event.raw()) {
            return Err(self.stale(site, event.to_string()));
        }
        let missing = || Error::Stale {
            what: event.to_string(),
        };
        self.events.get_mut(&event.raw()).ok_or_else(missing)
    }

    fn stale(&mut self, site: Site, what: String) -> Error {
        let detail = format!("{what} does not exist or was destroyed");
        self.report(ReportKind::Stale, site, None, None, detail);
        Error::Stale { what }
    }

    /// Puts an operation at the end of its stream's queue.
    pub(crate) fn submit(
        &mut self,
        site: Site,
        stream: Stream,
        body: Body,
        uses: Vec<Use>,
    ) -> Result<(), Error> {
        let host = self.host.clone();
        let host_ns = self.host_ns;
        let id = self.ops;
        let state = self.stream(site, stream)?;
        state.submitted += 1;
        let queue = state.queue;
        self.ops += 1;
        self.pending += 1;
        let op = Op {
            id,
            site,
            stream: stream.raw(),
            body,
            uses,
            host,
            host_ns,
        };
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.ops.push_back(op);
        }
        Ok(())
    }

    /// Drops what nothing can meet any more, when it has become much and nothing is pending.
    pub(crate) fn tidy(&mut self) {
        if self.pending == 0 && self.shadow.len() > self.pruned_at {
            self.shadow.prune(&self.host);
            self.words.prune(&self.host);
            self.pruned_at = (self.shadow.len() * 2).max(4096);
        }
    }
}
