//! Random programs of several threads on shared streams and events, beside a model of their order.
//!
//! `CROSSDOCK_STREAM_PROGRAMS=N` runs more of them.
#![expect(clippy::unwrap_used, reason = "a test may fail that way")]
#![expect(clippy::indexing_slicing, reason = "a test may fail that way")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crossdock_plugin_cpu::event::{Event, Failure, Outcome};
use crossdock_plugin_cpu::stream::Stream;
use crossdock_plugin_cpu::threads::Threads;
use crossdock_sdk::abi::Status;

const LIMIT: Duration = Duration::from_secs(60);
const PROGRAMS: u64 = 100;
const THREADS: u64 = 4;
const STEPS: usize = 150;
const STREAMS: usize = 6;
const EVENTS: usize = 6;

#[test]
fn random_programs_run_in_the_order_of_their_streams_and_events() {
    let more = std::env::var("CROSSDOCK_STREAM_PROGRAMS").ok();
    let programs = more.and_then(|text| text.parse().ok()).unwrap_or(PROGRAMS);
    for seed in 0..programs {
        // With few that are kept, threads begin and end all the time.
        let threads = match seed % 2 {
            0 => Threads::new(),
            _ => Threads::keeping(1, Duration::from_micros(50)),
        };
        let program = Program::new(&threads);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (program, random) = (&program, Random(seed * THREADS + thread));
                scope.spawn(move || program.run(random));
            }
        });
        program.end(seed);
        threads.close();
    }
}

/// Something that was submitted, and what is over before it.
struct Node {
    /// What came before it on its stream, or where it was recorded.
    before: Vec<usize>,
    /// Whether the stream was told of its failures since the first of these.
    is_told: bool,
    kind: Kind,
}

enum Kind {
    /// A record or a wait.
    Point,
    Work(Arc<Work>),
    HostEvent(Arc<Completion>),
}

/// How an event of the host's was completed, with the moment before.
#[derive(Default)]
struct Completion {
    moment: AtomicUsize,
    fails: AtomicBool,
}

/// Work that was submitted, with the moments of its start and end.
#[derive(Default)]
struct Work {
    fails: bool,
    start: AtomicUsize,
    end: AtomicUsize,
    runs: AtomicUsize,
}

struct Lane {
    stream: Stream,
    last: Option<usize>,
    /// Whether it was told of its failures since the last.
    is_told: bool,
    works: Vec<Arc<Work>>,
}

struct Point {
    event: Event,
    /// Where it was recorded.
    node: Option<usize>,
}

struct HostEvent {
    event: Arc<Event>,
    node: usize,
    completion: Arc<Completion>,
}

struct Program {
    threads: Arc<Threads>,
    nodes: Mutex<Vec<Node>>,
    lanes: Vec<Mutex<Lane>>,
    points: Vec<Mutex<Point>>,
    host_events: Vec<Mutex<HostEvent>>,
    /// What streams answered, behind which node.
    answers: Mutex<Vec<(usize, Outcome)>>,
    moments: Arc<Moments>,
}

/// A clock that work reads, and how much of the work is not over.
#[derive(Default)]
struct Moments {
    clock: AtomicUsize,
    open: Mutex<usize>,
    changed: Condvar,
}

impl Moments {
    fn next(&self) -> usize {
        self.clock.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn work(&self, work: &Work, until: Option<&Event>) -> Outcome {
        work.start.store(self.next(), Ordering::SeqCst);
        work.runs.fetch_add(1, Ordering::SeqCst);
        if let Some(event) = until {
            // Work that blocks; how the event ended says nothing about it.
            let _seen = event.synchronize(Some(LIMIT));
        }
        work.end.store(self.next(), Ordering::SeqCst);
        *self.open.lock().unwrap() -= 1;
        self.changed.notify_all();
        if work.fails { Err(broken()) } else { Ok(()) }
    }
}

fn broken() -> Failure {
    Failure::new(Status::VENDOR, "as the program wants it")
}

impl Program {
    fn new(threads: &Arc<Threads>) -> Self {
        let nodes = Mutex::default();
        let lanes = (0..STREAMS).map(|_| Mutex::new(Lane::new(threads)));
        let point = |_| Point {
            event: Event::new(),
            node: None,
        };
        let points = (0..EVENTS).map(point).map(Mutex::new);
        Self {
            lanes: lanes.collect(),
            points: points.collect(),
            host_events: (0..EVENTS)
                .map(|_| Mutex::new(HostEvent::new(&nodes)))
                .collect(),
            nodes,
            threads: Arc::clone(threads),
            answers: Mutex::default(),
            moments: Arc::default(),
        }
    }

    /// What one thread does.
    fn run(&self, mut random: Random) {
        for _ in 0..STEPS {
            let (lane, event) = (random.below(STREAMS), random.below(EVENTS));
            match random.below(20) {
                0..=3 => self.submit(lane, Manner::Long, random.below(8) == 0),
                4..=7 => self.submit(lane, Manner::Short, random.below(8) == 0),
                8 => self.submit(lane, Manner::UntilHostEvent(event), false),
                9..=11 => self.record(event, lane),
                12..=14 => self.wait(event, lane),
                15 => self.wait_host_event(event, lane),
                16 => self.complete(event, random.below(3)),
                17 => self.query(lane),
                18 => self.synchronize(lane, Duration::from_micros(20)),
                _ => *self.lanes[lane].lock().unwrap() = Lane::new(&self.threads),
            }
        }
    }

    fn submit(&self, lane: usize, manner: Manner, fails: bool) {
        let until = match manner {
            Manner::UntilHostEvent(host_event) => Some(Arc::clone(
                &self.host_events[host_event].lock().unwrap().event,
            )),
            Manner::Long | Manner::Short => None,
        };
        let work = Arc::new(Work {
            fails,
            ..Work::default()
        });
        let mut lane = self.lanes[lane].lock().unwrap();
        lane.enter(&self.nodes, None, Kind::Work(Arc::clone(&work)));
        lane.works.push(Arc::clone(&work));
        *self.moments.open.lock().unwrap() += 1;
        let moments = Arc::clone(&self.moments);
        let run = move || moments.work(&work, until.as_deref());
        match manner {
            Manner::Short => lane.stream.submit_short(run).unwrap(),
            Manner::Long | Manner::UntilHostEvent(_) => lane.stream.submit(run).unwrap(),
        }
    }

    fn record(&self, point: usize, lane: usize) {
        let mut point = self.points[point].lock().unwrap();
        let mut lane = self.lanes[lane].lock().unwrap();
        point.node = Some(lane.enter(&self.nodes, None, Kind::Point));
        lane.stream.record(&point.event);
    }

    fn wait(&self, point: usize, lane: usize) {
        let point = self.points[point].lock().unwrap();
        let mut lane = self.lanes[lane].lock().unwrap();
        lane.enter(&self.nodes, point.node, Kind::Point);
        lane.stream.wait(&point.event);
    }

    fn wait_host_event(&self, host_event: usize, lane: usize) {
        let host_event = self.host_events[host_event].lock().unwrap();
        let mut lane = self.lanes[lane].lock().unwrap();
        lane.enter(&self.nodes, Some(host_event.node), Kind::Point);
        lane.stream.wait(&host_event.event);
    }

    fn complete(&self, host_event: usize, how: usize) {
        let mut host_event = self.host_events[host_event].lock().unwrap();
        host_event.completion.fails.store(how > 0, Ordering::SeqCst);
        let moment = self.moments.next();
        host_event.completion.moment.store(moment, Ordering::SeqCst);
        match how {
            0 => assert!(host_event.event.complete(Ok(()))),
            1 => assert!(host_event.event.complete(Err(broken()))),
            _ => host_event.event.abandon(),
        }
        *host_event = HostEvent::new(&self.nodes);
    }

    fn query(&self, lane: usize) {
        let lane = self.lanes[lane].lock().unwrap();
        if let Some(outcome) = lane.stream.query() {
            self.answered(&lane, outcome);
        }
    }

    fn synchronize(&self, lane: usize, limit: Duration) {
        let mut lane = self.lanes[lane].lock().unwrap();
        if let Some(outcome) = lane.stream.synchronize(Some(limit)) {
            self.answered(&lane, outcome);
            lane.is_told = true;
        }
    }

    /// A stream said that all of it is over.
    fn answered(&self, lane: &Lane, outcome: Outcome) {
        let is_over = |work: &Arc<Work>| work.end.load(Ordering::SeqCst) > 0;
        assert!(lane.works.iter().all(is_over), "work is running still");
        match lane.last {
            Some(_) if lane.is_told => assert_eq!(outcome, Ok(()), "it was told"),
            Some(node) => self.answers.lock().unwrap().push((node, outcome)),
            None => assert_eq!(outcome, Ok(()), "nothing was submitted"),
        }
    }

    /// Lets all work end, and holds what happened against the model.
    fn end(&self, seed: u64) {
        for host_event in 0..EVENTS {
            self.complete(host_event, 0);
        }
        for lane in 0..STREAMS {
            self.synchronize(lane, LIMIT);
            assert_eq!(
                self.lanes[lane].lock().unwrap().stream.query(),
                Some(Ok(()))
            );
        }
        // Streams that were dropped have no other waiter.
        let open = self.moments.open.lock().unwrap();
        let ended = self
            .moments
            .changed
            .wait_timeout_while(open, LIMIT, |open| *open > 0);
        assert_eq!(*ended.unwrap().0, 0, "program {seed}: work that never ran");
        let failed = self.check(seed);
        for (node, outcome) in self.answers.lock().unwrap().iter() {
            assert_eq!(
                outcome.is_err(),
                failed[*node],
                "program {seed}, node {node}"
            );
        }
        for point in &self.points {
            let point = point.lock().unwrap();
            let outcome = point.event.synchronize(Some(LIMIT)).unwrap();
            let expected = point.node.is_some_and(|node| failed[node]);
            assert_eq!(outcome.is_err(), expected, "program {seed}");
        }
    }

    /// Whether each node brings a failure to what comes after it.
    fn check(&self, seed: u64) -> Vec<bool> {
        let nodes = self.nodes.lock().unwrap();
        // The last moment of all that is over before, and at, a node.
        let mut over: Vec<usize> = Vec::new();
        let mut failed: Vec<bool> = Vec::new();
        for node in nodes.iter() {
            let before = node
                .before
                .iter()
                .map(|&node| over[node])
                .max()
                .unwrap_or(0);
            let mut untold = node.before.iter().skip(usize::from(node.is_told));
            let mut fails = untold.any(|&node| failed[node]);
            let mut end = before;
            match &node.kind {
                Kind::Point => {}
                Kind::HostEvent(completion) => {
                    end = completion.moment.load(Ordering::SeqCst);
                    fails = completion.fails.load(Ordering::SeqCst);
                }
                Kind::Work(work) => {
                    let start = work.start.load(Ordering::SeqCst);
                    end = work.end.load(Ordering::SeqCst);
                    fails |= work.fails;
                    assert_eq!(work.runs.load(Ordering::SeqCst), 1, "program {seed}");
                    assert!(start > before, "program {seed}: work ran too early");
                }
            }
            over.push(end);
            failed.push(fails);
        }
        failed
    }
}

/// How work is submitted.
#[derive(Clone, Copy)]
enum Manner {
    Long,
    Short,
    /// It blocks until this event of the host's is complete.
    UntilHostEvent(usize),
}

impl Lane {
    fn new(threads: &Arc<Threads>) -> Self {
        Self {
            stream: Stream::new(threads),
            last: None,
            is_told: false,
            works: Vec::new(),
        }
    }

    /// Enters what comes next on the stream, and behind another node.
    fn enter(&mut self, nodes: &Mutex<Vec<Node>>, other: Option<usize>, kind: Kind) -> usize {
        let mut nodes = nodes.lock().unwrap();
        let node = nodes.len();
        nodes.push(Node {
            is_told: self.is_told && self.last.is_some(),
            before: self.last.into_iter().chain(other).collect(),
            kind,
        });
        self.last = Some(node);
        self.is_told = false;
        node
    }
}

impl HostEvent {
    fn new(nodes: &Mutex<Vec<Node>>) -> Self {
        let completion = Arc::<Completion>::default();
        let mut nodes = nodes.lock().unwrap();
        nodes.push(Node {
            before: Vec::new(),
            is_told: false,
            kind: Kind::HostEvent(Arc::clone(&completion)),
        });
        Self {
            event: Arc::new(Event::pending()),
            node: nodes.len() - 1,
            completion,
        }
    }
}

/// Numbers that look random and are the same in every run (`SplitMix64`).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((word ^ (word >> 31)) % u64::try_from(end).unwrap()).unwrap()
    }
}
