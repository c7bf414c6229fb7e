//! The engine itself: made from a configuration, shared by its handles.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::arena::Arena;
use crate::callers::Callers;
use crate::fault::Moment;
use crate::policy::{idle, seeded, threads};
use crate::schedule::Rest;
use crate::state::State;
use crate::turns::Turns;
use crate::{Config, Error, Failure, Policy, ReportKind, Site};

/// A set of simulated devices. Clones name the same engine; it ends with the last of them.
///
/// Calls may come from any thread but a host function. What is pending when the last handle goes is
/// dropped: [`Engine::drain`] first.
#[derive(Clone)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
    _life: Arc<Life>,
}

/// The state, held.
pub(crate) type Locked<'a> = MutexGuard<'a, State>;

/// What the handles, the workers and host functions share.
pub(crate) struct Shared {
    pid: u32,
    pub(crate) config: Arc<Config>,
    pub(crate) arena: Arc<Arena>,
    state: Mutex<State>,
    /// Told of everything that can let a waiting thread or a worker go on.
    pub(crate) changed: Condvar,
    /// Told when there is work again after there was none.
    pub(crate) busy: Condvar,
    /// Told of an operation that has its link, and is to end in time.
    pub(crate) due: Condvar,
    pub(crate) callers: Callers,
    turns: Option<Turns>,
    /// How many reports there ever were.
    pub(crate) reports_made: Arc<AtomicU64>,
}

/// Ends the threads of an engine with its last handle.
struct Life {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Engine {
    /// Reserves the devices' memory and starts what the policy needs.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a number in `config` that makes no sense; [`Error::System`] without
    /// address space or threads.
    pub fn new(config: Config) -> Result<Self, Error> {
        if config.queues == 0 || config.workers == 0 {
            let why = "a device needs a hardware queue, and `Threads` a worker".to_owned();
            return Err(Error::Invalid { why });
        }
        if config.turns && config.policy == Policy::Threads {
            let why = "workers run what they can at any time, so `Threads` has no turns".to_owned();
            return Err(Error::Invalid { why });
        }
        let arena = Arc::new(Arena::new(&config)?);
        let config = Arc::new(config);
        let state = State::new(&config, &arena);
        let shared = Arc::new(Shared {
            pid: std::process::id(),
            reports_made: Arc::clone(&state.reports_made),
            state: Mutex::new(state),
            changed: Condvar::new(),
            busy: Condvar::new(),
            due: Condvar::new(),
            callers: Callers::default(),
            turns: config.turns.then(|| Turns::new(config.seed)),
            config,
            arena,
        });
        let mut life = Life {
            shared: Arc::clone(&shared),
            threads: Vec::new(),
        };
        match shared.config.policy {
            Policy::Threads => {
                for worker in 0..shared.config.workers {
                    life.start(move |shared| threads::work(shared, worker))?;
                }
                if shared.config.paced {
                    life.start(Shared::keep_time)?;
                }
            }
            Policy::Seeded | Policy::Lazy => {
                if let Some(after) = shared.config.idle {
                    life.start(move |shared| idle::tick(shared, after))?;
                }
            }
        }
        Ok(Self {
            shared,
            _life: Arc::new(life),
        })
    }

    /// The status of a host function that the system had no thread for.
    pub const NO_THREAD: i32 = -3;

    /// What it was made from.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// Begins a call: takes the lock, numbers the call, and runs what the policy runs now.
    pub(crate) fn attend(&self, site: Site) -> Result<(Locked<'_>, Site), Error> {
        let shared = &self.shared;
        let mut state = shared.in_turn()?;
        state.calls += 1;
        if state.is_paced() && state.end_what_is_due() {
            shared.changed.notify_all();
        }
        state.host_ns = (state.host_ns + 50).max(state.now_ns());
        let site = if site.number() == 0 {
            site.numbered(state.calls)
        } else {
            site
        };
        if crate::callers::is_host_function() {
            let detail = "host functions must not call the engine".to_owned();
            state.report(ReportKind::InHostFunction, site, None, None, detail);
            return Err(Error::InHostFunction);
        }
        state.last_call = Instant::now();
        state.trace.note(site.name(), [site.number(), 0]);
        if shared.config.policy == Policy::Seeded {
            state = seeded::at_call(shared, state);
        }
        Ok((state, site))
    }

    /// The same for a call that faults can refuse, for a device if it is about one.
    pub(crate) fn enter(
        &self,
        site: Site,
        device: Option<u32>,
    ) -> Result<(Locked<'_>, Site), Error> {
        let shared = &self.shared;
        let (mut state, site) = self.attend(site)?;
        if device.is_some_and(|device| device >= shared.config.devices) {
            let why = format!(
                "there are {} devices, counted from 0",
                shared.config.devices
            );
            return Err(Error::Invalid { why });
        }
        if let Some(lost) = device.and_then(|device| state.lost.get(&device)) {
            return Err(Error::Failed(*lost));
        }
        if let Some((status, lost)) = state.plan.strikes(Moment::Call, site, device) {
            let failure = Failure { status, site };
            if let (Some(device), true) = (device, lost) {
                state.lost.insert(device, failure);
            }
            return Err(Error::Failed(failure));
        }
        Ok((state, site))
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("config", &self.shared.config)
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn lock(&self) -> Locked<'_> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock, but not in a forked child: a thread that held it at the fork never lets it go there.
    pub(crate) fn here(&self) -> Result<Locked<'_>, Error> {
        if self.pid == std::process::id() {
            Ok(self.lock())
        } else {
            Err(Error::Forked)
        }
    }

    /// The lock, when it is this thread's turn.
    pub(crate) fn in_turn(&self) -> Result<Locked<'_>, Error> {
        if let Some(turns) = self
            .turns
            .as_ref()
            .filter(|_| self.pid == std::process::id())
        {
            turns.take();
        }
        self.here()
    }

    /// Whether a thread waits for its turn.
    pub(crate) fn wants_turn(&self) -> bool {
        self.turns.as_ref().is_some_and(Turns::is_wanted)
    }

    /// Lets go of the lock until it is this thread's turn again, after others were woken.
    pub(crate) fn next_turn<'a>(&'a self, state: Locked<'a>) -> Locked<'a> {
        let Some(turns) = &self.turns else {
            return state;
        };
        drop(state);
        turns.take();
        self.lock()
    }

    /// Wakes the waiters after something was submitted or completed.
    pub(crate) fn tell(&self, state: &State) {
        self.changed.notify_all();
        // The ticker looks again by itself while anything is pending.
        if state.pending <= 1 {
            self.busy.notify_all();
        }
    }

    /// Wakes everybody, the ticker too.
    pub(crate) fn tell_all(&self) {
        self.changed.notify_all();
        self.busy.notify_all();
        self.due.notify_all();
    }

    /// Runs the head of a queue. A host function is waited for a while, unless workers run things.
    pub(crate) fn run<'a>(self: &'a Arc<Self>, mut state: Locked<'a>, queue: usize) -> Locked<'a> {
        let rest = state.start(queue);
        state.tidy();
        self.changed.notify_all();
        let job = match rest {
            Rest::Nothing => return state,
            Rest::Bytes(bytes) => return self.transfer(state, &bytes),
            Rest::Call(job) => job,
        };
        let op = job.op;
        if !self.callers.call(self, job) {
            let site = state
                .queues
                .get(queue)
                .and_then(|q| q.busy.as_ref())
                .map(|b| b.site);
            let failure = site.map(|site| Failure {
                status: Engine::NO_THREAD,
                site,
            });
            state.host_done(queue, op, failure);
        }
        if self.config.policy == Policy::Threads {
            return state;
        }
        if self.turns.is_some() {
            // The others sleep when this turn comes: the function is over, or waits for something.
            return self.next_turn(state);
        }
        let runs = |state: &mut State| {
            state
                .queues
                .get(queue)
                .and_then(|q| q.busy.as_ref())
                .is_some_and(|busy| busy.op == op)
        };
        let patience = self.config.host_patience;
        let waited = self.changed.wait_timeout_while(state, patience, runs);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Life {
    fn start(&mut self, work: impl FnOnce(&Arc<Shared>) + Send + 'static) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let thread = crate::threads::spawn("sim-engine", move || work(&shared));
        let thread = thread.map_err(|error| Error::System {
            operation: "thread",
            code: error.raw_os_error().unwrap_or(0),
        })?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // A forked child has none of the threads, and perhaps a lock that nobody will let go.
        if self.shared.pid != std::process::id() {
            return;
        }
        self.shared.lock().over = true;
        self.shared.tell_all();
        self.shared.callers.close();
        for thread in self.threads.drain(..) {
            // A worker that panicked has nothing left to do.
            drop(thread.join());
        }
    }
}
