//! One case in this process: opens its world, runs its programs, and looks at what is left.
#![expect(unsafe_code, reason = "forks and ends processes at a chosen moment")]

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use crossdock::{Plugin, Tensor, counted_leaks};
use crossdock_sdk::abi::Status;

use crate::caller::Caller;
use crate::driver;
use crate::program::{Case, Ending};
use crate::run::Run;
use crate::turns::Turns;
use crate::verdict::{Finding, Passed, Verdict, What};
use crate::world::{World, alive, nothing_is_counted, nothing_is_left};

/// The code of a process that exits in the middle of its work.
pub const EXITED: i32 = 7;
/// What the child of a fork ends with when all went well.
const FORKED_WELL: i32 = 0;

/// How long what is over may take to be gone.
const A_MOMENT: Duration = Duration::from_millis(200);

/// The first panic of any thread.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// The first error that was logged.
static LOGGED: Mutex<Option<String>> = Mutex::new(None);

/// Keeps the first error of the runtime: what a drop is refused has no other way out.
struct Errors;

impl log::Log for Errors {
    fn enabled(&self, about: &log::Metadata<'_>) -> bool {
        about.level() == log::Level::Error && about.target().starts_with("crossdock")
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            let mut first = LOGGED
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            first.get_or_insert_with(|| format!("{}: {}", record.target(), record.args()));
        }
    }

    fn flush(&self) {}
}

/// Remembers panics, also of threads that nobody joins, and errors in the log.
pub fn watch() {
    // A second logger is refused, and only the first call makes one.
    if log::set_logger(&Errors).is_ok() {
        log::set_max_level(log::LevelFilter::Error);
    }
    std::panic::set_hook(Box::new(|panic| {
        let mut first = PANIC
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        first.get_or_insert_with(|| panic.to_string());
    }));
}

/// Worlds that are kept for the next case: to open one takes longer than most cases.
#[derive(Debug, Default)]
pub struct Kept {
    world: Option<(Case, Arc<World>)>,
    trace: Option<u64>,
}

impl Kept {
    /// What the simulated engine did in the last case and before it, where there is one: equal numbers
    /// are those of runs that did the same.
    #[must_use]
    pub const fn trace(&self) -> Option<u64> {
        self.trace
    }

    /// A kept world if it is alike, else a new one.
    fn open(&mut self, case: &Case) -> Result<Arc<World>, String> {
        let alike = |kept: &Case| {
            let key = |case: &Case| {
                (
                    case.devices.clone(),
                    case.language,
                    case.runtimes,
                    case.staging,
                    case.engine.clone(),
                )
            };
            !case.fresh && !case.has_faults() && key(kept) == key(case)
        };
        if let Some((kept, world)) = self.world.take() {
            if alike(&kept) {
                return Ok(world);
            }
            // A simulated engine reads its settings when its plugin is opened, so the plugins are closed first.
            let closing: Vec<Weak<Plugin>> = world.plugins().iter().map(Arc::downgrade).collect();
            drop(world);
            let _late = are_closed(&closing);
        }
        World::open(case).map(Arc::new)
    }

    /// Keeps a world in which nothing more is alive than before.
    fn keep(&mut self, case: &Case, world: &Arc<World>) {
        if !case.fresh && !case.has_faults() {
            self.world = Some((case.clone(), Arc::clone(world)));
        }
    }
}

/// Runs a case; a call has `limit` to answer.
#[must_use]
pub fn run(case: &Case, limit: Duration, kept: &mut Kept) -> Verdict {
    let outcome = watched(case, limit, kept);
    let panic = PANIC
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .take();
    let logged = LOGGED
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .take()
        .filter(|_| !case.may_fail());
    match (panic, outcome) {
        (Some(text), _) => Verdict::Found(Finding::new(What::Panic, text)),
        (None, Err(finding)) => Verdict::Found(finding),
        (None, Ok(passed)) => match logged {
            Some(text) => Verdict::Found(Finding::new(What::Logged, text)),
            None => Verdict::Passed {
                refused: passed.refused,
                spent: counted_leaks() > 0,
                reached: passed.reached,
            },
        },
    }
}

fn watched(case: &Case, limit: Duration, kept: &mut Kept) -> Result<Passed, Finding> {
    kept.trace = None;
    let world = match kept.open(case) {
        Ok(world) => world,
        // Loading may be what a fault hits.
        Err(_why) if case.fault.is_some() => return Ok(Passed::default()),
        Err(why) => return Err(Finding::new(What::Answer, why)),
    };
    // Open until the end, for the engine's sake.
    let (plugins, control) = (world.plugins(), world.control);
    let devices = world.places();
    let leaks = counted_leaks();
    if let Some(fault) = &case.engine.fault {
        driver::arm(fault).map_err(|why| Finding::new(What::Answer, why))?;
    }
    let outcome = within(case, world, &devices, limit, kept);
    driver::disarm();
    kept.trace = control.map(|control| control.trace());
    let mut devices = devices.into_iter();
    let has_lost_one = case.has_faults() && devices.any(|(plugin, index)| is_lost(&plugin, index));
    let closing: Vec<Weak<Plugin>> = plugins.iter().map(Arc::downgrade).collect();
    drop((plugins, devices));
    let reports = driver::take_reports();
    if case.loses_device() {
        driver::give_back();
    }
    let passed = outcome?;
    let was_lost = case.loses_device() || has_lost_one;
    // Where calls fail, what was to be waited for is waited for in another way or kept; of a lost device nobody can say.
    if let Some(found) = reports.first().filter(|_| !was_lost) {
        return Err(Finding::new(What::Report, found));
    }
    let has_leaked = counted_leaks() != leaks;
    // A plugin that takes a device for lost, since two calls in a row failed for no known reason, leaves all that is
    // there. Clients that stay have their memory.
    let may_leave = case.fault.is_some() || has_lost_one || passed.has_clients;
    let is_judged = match has_leaked {
        true => case.has_single_faults() && are_closed(&closing),
        false => true,
    };
    if case.fresh && !may_leave && is_judged {
        driver_is_empty(limit)?;
    }
    Ok(passed)
}

/// Whether plugins are closed: a leak is either something that a hook refused to give back, which the plugin does at
/// its close, or something that keeps the plugin open. Nothing of a driver fails any more by then.
fn are_closed(plugins: &[Weak<Plugin>]) -> bool {
    let end = Instant::now() + A_MOMENT;
    while plugins.iter().any(|plugin| plugin.strong_count() > 0) {
        if Instant::now() > end {
            return false;
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
    true
}

/// Whether its plugin takes the device for lost.
fn is_lost(plugin: &Plugin, device: u32) -> bool {
    let asked = plugin.hooks().memory_info(device);
    asked.is_err_and(|error| error.status() == Some(Status::DEVICE_LOST))
}

/// Waits until nothing is left in a simulated driver, which the last thread gives back that has work of a plugin.
fn driver_is_empty(limit: Duration) -> Result<(), Finding> {
    let end = Instant::now() + limit;
    loop {
        let left = driver::leaks();
        let Some(first) = left.first() else {
            return Ok(());
        };
        if Instant::now() > end {
            let why = format!("{first}, and {} more in the driver", left.len() - 1);
            return Err(Finding::new(What::Left, why));
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Runs a case in a world, and gives the world up.
fn within(
    case: &Case,
    world: Arc<World>,
    devices: &[(Arc<Plugin>, u32)],
    limit: Duration,
    kept: &mut Kept,
) -> Result<Passed, Finding> {
    let faulty = case.has_faults();
    let leaks = counted_leaks();
    let before = alive(&world.plugins());
    let refused = match case.ending {
        Ending::Return => together(case, &world, limit)?,
        Ending::Exit(_) | Ending::Fork(_) => ending(case, &world, limit)?,
    };
    if let Some(control) = &world.control
        && let [first, ..] = control.take_reports().as_slice()
    {
        return Err(Finding::new(What::Report, first));
    }
    // What a device was doing when it was lost, nobody can wait for.
    if let [first, ..] = driver::take_reports().as_slice()
        && !case.loses_device()
    {
        return Err(Finding::new(What::Report, first));
    }
    let plugins = world.plugins();
    let turns = Turns::of(case, &world);
    let rest = || {
        if let Some(turns) = &turns {
            turns.come_to_rest(limit);
        }
    };
    rest();
    if !case.fresh && nothing_is_left(&plugins, before, Duration::from_millis(20)).is_ok() {
        kept.keep(case, &world);
        return Ok(refused);
    }
    drop(world);
    rest();
    let leaked = || counted_leaks() - leaks;
    // What was leaked never goes, so nobody has to wait for it as long as for work.
    let left = nothing_is_left(&plugins, 0, A_MOMENT).or_else(|why| {
        if faulty && leaked() > 0 {
            Err(why)
        } else {
            nothing_is_left(&plugins, 0, limit)
        }
    });
    let leaks = leaked();
    match left {
        Err(_explained) if faulty && leaks > 0 => Ok(refused),
        Err(why) => Err(Finding::new(
            What::Left,
            format!("{why}; {leaks} counted leaks"),
        )),
        Ok(()) if !faulty && leaks > 0 => Err(Finding::new(
            What::Left,
            format!("{leaks} counted leaks, and no fault"),
        )),
        // What was leaked is counted on, and so is what a lost device has.
        Ok(()) if !case.fresh || leaks > 0 || case.loses_device() => Ok(refused),
        Ok(()) => nothing_is_counted(devices, limit)
            .map(|()| refused)
            .map_err(|why| Finding::new(What::Left, why)),
    }
}

/// Runs all programs at the same time.
fn together(case: &Case, world: &Arc<World>, limit: Duration) -> Result<Passed, Finding> {
    let alone = |ops: &[crate::program::Op]| Run::new(case, world, limit).all(ops, &|_, _| {});
    if let [only] = case.programs.as_slice() {
        return alone(only);
    }
    if case.takes_turns() {
        let run = |ops| (Run::new(case, world, limit), ops);
        let runs = case.programs.iter().map(Vec::as_slice).map(run).collect();
        return Run::in_turns(runs, case.engine.seed);
    }
    let results: Vec<_> = std::thread::scope(|scope| {
        let start = |ops: &'_ Vec<crate::program::Op>| {
            let ops = ops.clone();
            scope.spawn(move || alone(&ops))
        };
        let threads: Vec<_> = case.programs.iter().map(start).collect();
        threads
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .collect()
    });
    let panicked = || Finding::new(What::Panic, "an interpreter");
    let results = results.into_iter();
    let results = results.map(|result| result.map_err(|_payload| panicked())?);
    results.sum()
}

/// Runs the first program on another thread, and exits or forks once an operation of it has begun.
fn ending(case: &Case, world: &Arc<World>, limit: Duration) -> Result<Passed, Finding> {
    let (moment, is_exit) = match case.ending {
        Ending::Exit(moment) => (moment, true),
        Ending::Fork(moment) => (moment, false),
        Ending::Return => (usize::MAX, false),
    };
    let (reached, at) = channel::<Vec<Tensor>>();
    // Closed once this thread has no tensors any more.
    let (ours, let_go) = channel::<()>();
    let (world_there, case_there) = (Arc::clone(world), case.clone());
    let ops = case.programs.first().cloned().unwrap_or_default();
    let worker = std::thread::spawn(move || {
        let count = ops.len();
        let begun = |index: usize, caller: &dyn Caller| {
            if index == moment && index < count {
                // The main thread may have gone on already.
                drop(reached.send(caller.tensors()));
            }
            if index == count && moment < count {
                // Clients go with their contexts, where work on those tensors was: so the tensors go before.
                let _closed = let_go.recv();
            }
        };
        let outcome = Run::new(&case_there, &world_there, limit).all(&ops, &begun);
        drop(reached);
        outcome
    });
    let tensors = at.recv().unwrap_or_default();
    if is_exit {
        // The program goes on to its end meanwhile.
        drop(ours);
        // SAFETY: the end of the process, with whatever is under way; that is the trial.
        unsafe { libc::exit(EXITED) };
    }
    let forked = fork(&tensors, limit);
    drop(tensors);
    drop(ours);
    let outcome = worker
        .join()
        .map_err(|_payload| Finding::new(What::Panic, "an interpreter"))?;
    forked.and(outcome)
}

/// Forks, lets the child use and drop what it inherited and open a runtime of its own, and waits.
fn fork(tensors: &[Tensor], limit: Duration) -> Result<(), Finding> {
    // SAFETY: the child calls what the runtime promises to survive there, which is the trial.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: it only sets a timer: a hang is an end by SIGALRM.
        unsafe { libc::alarm(limit.as_secs() as u32) };
        let code = in_child(tensors);
        // SAFETY: the end of the child, with its destructors; that is the trial.
        unsafe { libc::exit(code) };
    }
    let mut status = 0;
    // SAFETY: `status` is a number that outlives the call.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    if waited == child && status == FORKED_WELL {
        return Ok(());
    }
    if libc::WIFSIGNALED(status) {
        let signal = libc::WTERMSIG(status);
        let what = if signal == libc::SIGALRM {
            What::Hang
        } else {
            What::Signal
        };
        return Err(Finding::new(
            what,
            format!("the child of the fork ended by signal {signal}"),
        ));
    }
    let code = libc::WEXITSTATUS(status);
    Err(Finding::new(
        What::Code,
        format!("the child of the fork ended with {code}"),
    ))
}

fn in_child(tensors: &[Tensor]) -> i32 {
    for tensor in tensors {
        drop(tensor.read());
        drop(tensor.fill(&[1], None));
        drop(tensor.clone());
    }
    let own = crossdock::Runtime::builder().search(false).open();
    let Ok(own) = own else { return 21 };
    let Ok(cpu) = own.device(crossdock_sdk::dlpack::Device::CPU) else {
        return 22;
    };
    let layout = crossdock_sdk::dlpack::Layout::compact(crossdock_sdk::dlpack::Dtype::UINT8, &[4]);
    let Ok(layout) = layout else { return 23 };
    match Tensor::from_bytes(&cpu, &layout, &[1, 2, 3, 4]).and_then(|tensor| tensor.read()) {
        Ok(bytes) if bytes == [1, 2, 3, 4] => FORKED_WELL,
        Ok(_) | Err(_) => 24,
    }
}
