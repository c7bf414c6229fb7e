//! A program that ends, or forks, while plugins are open: `leaving SCENARIO PLUGIN..`.
//!
//! It ends with code 0 when every hook answered what it may, and with a text and code 3 otherwise.
#![expect(unsafe_code, reason = "registers destructors and forks")]

use std::cell::RefCell;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossdock::{Event, RouteChoice, RouteKind, Runtime, Stream, Tensor, counted_leaks, late_log};
use crossdock_e2e::every_hook::every_hook;
use crossdock_e2e::outsiders::symbol;
use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::{Device, Dtype, Layout};

/// What lives until the process is gone.
static KEPT: OnceLock<(Runtime, Vec<Tensor>)> = OnceLock::new();
static AT_THE_VERY_END: AtomicBool = AtomicBool::new(false);

thread_local! {
    static AT_THREAD_END: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
}

/// Uses every hook, and tensors of its own, when it is dropped.
struct AtEnd(Vec<Tensor>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        use_everything(&[Status::OK, Status::EXITING]);
        self.0.clear();
    }
}

// The linker gives the section this meaning: functions of this type that run last.
#[unsafe(link_section = ".fini_array")]
#[used]
static FINI: extern "C" fn() = at_the_very_end;

extern "C" fn at_the_very_end() {
    if AT_THE_VERY_END.load(Ordering::Relaxed) {
        use_everything(&[Status::EXITING]);
        write(&late_log());
    }
}

/// What is dropped once the exit has begun.
static HELD: Mutex<Option<(Stream, Event, [Tensor; 2])>> = Mutex::new(None);

/// A stream, an event and memory of the CPU, and memory of others.
fn hold() -> Result<(), crossdock::Error> {
    let Some((runtime, _)) = KEPT.get() else {
        return Ok(());
    };
    let cpu = runtime.device(Device::CPU)?;
    let (stream, event) = (Stream::new(&cpu)?, Event::host(&cpu)?);
    let layout = Layout::compact(Dtype::UINT8, &[64])?;
    let lent = Box::new(Foreign(vec![1; 64]));
    let lent = Tensor::from_host_memory(runtime, lent, 0, &layout)?;
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    *held = Some((stream, event, [Tensor::empty(&cpu, &layout)?, lent]));
    Ok(())
}

extern "C" fn registered_before() {
    use_everything(&[Status::EXITING]);
    if counted_leaks() == 0 {
        fail("no release was counted as a leak");
    }
    let before = counted_leaks();
    drop(HELD.lock().unwrap_or_else(PoisonError::into_inner).take());
    if counted_leaks() != before + 4 {
        fail("a stream, an event and two memories are four leaks");
    }
}

/// Who waits for releases when the exit begins.
static WAITING: Mutex<Option<JoinHandle<Option<Status>>>> = Mutex::new(None);

fn wait_for_releases() -> Option<Status> {
    let (runtime, _) = KEPT.get()?;
    runtime.wait_for_releases(None).err()?.status()
}

/// Drops memory that the work of each device uses, for a host that never comes, and lets a thread
/// wait until it is given back.
fn wait_for_what_stays_in_use(runtime: &Runtime) -> Result<(), crossdock::Error> {
    let layout = Layout::compact(Dtype::UINT8, &[64])?;
    let mut held = Vec::new();
    for device in runtime.devices() {
        let Ok(event) = Event::host(&device) else {
            continue;
        };
        let stream = Stream::new(&device)?;
        stream.wait(&event)?;
        let lent = Tensor::from_host_memory(runtime, Box::new(Foreign(vec![1; 64])), 0, &layout)?;
        let direct = RouteChoice::Only(RouteKind::Direct);
        held.push((lent.to_on(&device, direct, &stream)?.0, event));
    }
    let _never_completed = KEPT_WORK.set(held);
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    *waiting = Some(std::thread::spawn(wait_for_releases));
    Ok(())
}

extern "C" fn registered_for_those_who_wait() {
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    let other = waiting.take().and_then(|thread| thread.join().ok()?);
    let answers = (other, wait_for_releases());
    if answers != (Some(Status::EXITING), Some(Status::EXITING)) {
        fail(&format!("a wait for releases answered {answers:?}"));
    }
}

/// What a hook answers in which a thread was when the exit began.
static INSIDE: Mutex<Option<JoinHandle<Option<Status>>>> = Mutex::new(None);

/// Lets a thread into the late hook of `answers_late.c`, and waits until it is there.
fn enter_the_late_hook(runtime: &Runtime, file: &str) -> Option<()> {
    let plugin = runtime
        .plugins()
        .into_iter()
        .find(|plugin| plugin.path().is_some())?;
    let file = std::ffi::CString::new(file).ok()?;
    // SAFETY: the path ends with a NUL, and nothing is loaded.
    let library = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    // SAFETY: the name ends with a NUL; a NULL library is the whole program, which has no such symbol.
    let symbol = unsafe { libc::dlsym(library, c"is_inside".as_ptr()) };
    // SAFETY: NULL, or an int that is only used atomically; libraries stay mapped.
    let is_inside = unsafe { symbol.cast::<AtomicU32>().as_ref() }?;
    let call = move || plugin.hooks().memory_info(0).err()?.status();
    *INSIDE.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::thread::spawn(call));
    while is_inside.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    Some(())
}

extern "C" fn registered_for_the_late_hook() {
    let mut inside = INSIDE.lock().unwrap_or_else(PoisonError::into_inner);
    let answer = inside.take().and_then(|thread| thread.join().ok()?);
    if answer != Some(Status::EXITING) {
        fail(&format!(
            "the hook that failed at the exit answered {answer:?}"
        ));
    }
}

extern "C" fn registered_after() {
    use_everything(&[Status::OK, Status::EXITING]);
}

/// A function of a plugin file that takes nothing, and gives nothing that is looked at.
fn function_of(plugin: &Path, name: &str) -> extern "C" fn() {
    let symbol = symbol(plugin, name);
    // SAFETY: the address of such a function.
    unsafe { (&raw const symbol).cast::<extern "C" fn()>().read() }
}

/// The process ends while a thread opens the plugin, which goes on once the exit has begun.
fn leave_in_a_first_look(plugin: &Path) {
    let builder = Runtime::builder().search(false);
    let opened = builder
        .plugin_dir(plugin.parent().unwrap_or(Path::new("")))
        .open();
    let Ok(runtime) = opened else {
        fail("no runtime");
    };
    let (runtime, _) = KEPT.get_or_init(|| (runtime, Vec::new()));
    function_of(plugin, "driver_hold_in_open")();
    std::thread::spawn(|| runtime.devices());
    function_of(plugin, "driver_wait_until_held")();
    let let_go = function_of(plugin, "driver_let_go");
    std::thread::spawn(move || {
        while !crossdock::exiting() {
            std::thread::yield_now();
        }
        let_go();
    });
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let scenario = arguments.next().unwrap_or_default();
    // A hang is an end by SIGALRM.
    // SAFETY: it only starts a timer.
    unsafe { libc::alarm(20) };
    let signals = handlers();
    if scenario == "atexit-before" {
        at_exit(registered_before);
    }
    if scenario == "waiting" {
        at_exit(registered_for_those_who_wait);
    }
    if scenario == "inside-a-hook" {
        at_exit(registered_for_the_late_hook);
    }
    if scenario == "first-look" {
        return leave_in_a_first_look(Path::new(&arguments.next().unwrap_or_default()));
    }
    let mut builder = Runtime::builder().search(false);
    let first = std::env::args().nth(2).unwrap_or_default();
    for plugin in arguments {
        builder = builder.plugin(plugin);
    }
    let in_flight = matches!(scenario.as_str(), "in-flight" | "in-flight-fork");
    let runtime = match builder.open() {
        Ok(runtime) => runtime,
        Err(error) => fail(&format!("{error}: {}", error.why())),
    };
    let tensors = tensors(&runtime);
    if scenario == "retire" {
        return retire(runtime, tensors);
    }
    if in_flight {
        return leave_in_flight(runtime, tensors, scenario == "in-flight-fork");
    }
    let kept = KEPT.get_or_init(|| (runtime, tensors));
    let answers = use_everything(&[Status::OK]);
    match scenario.as_str() {
        "static-destructor" => AT_THE_VERY_END.store(true, Ordering::Relaxed),
        "atexit-before" => {
            if let Err(error) = hold() {
                fail(&format!("{error}: {}", error.why()));
            }
        }
        "atexit-after" => at_exit(registered_after),
        "waiting" => {
            if let Err(error) = wait_for_what_stays_in_use(&kept.0) {
                fail(&format!("{error}: {}", error.why()));
            }
        }
        "thread-local" => AT_THREAD_END.set(Some(AtEnd(kept.1.clone()))),
        "detached-thread" => start_busy_threads(),
        "inside-a-hook" => enter_the_late_hook(&kept.0, &first).unwrap_or_else(|| fail("no hook")),
        "fork" => fork_and_check(answers),
        "fork-busy" => {
            start_busy_threads();
            (0..20).for_each(|_| fork_and_check(answers));
        }
        "signals" if handlers() == signals => {}
        _ => fail("unknown scenario, or signal handlers were changed"),
    }
}

/// Removes every plugin while its tensors live, and gives everything back.
fn retire(runtime: Runtime, tensors: Vec<Tensor>) {
    for plugin in runtime.plugins() {
        let answers = every_hook(plugin.hooks());
        let fine = [Status::OK, Status::NOT_READY, Status::UNSUPPORTED];
        let other = answers.other_than(&fine);
        let retired = runtime.retire(&plugin);
        if !other.is_empty() || retired.is_err() {
            fail(&format!("{}: {other:?} {retired:?}", plugin.name()));
        }
    }
    drop((runtime, tensors));
    if counted_leaks() > 0 {
        fail("something was not given back");
    }
}

/// Bytes of others, which nobody may give back while a device reads them.
struct Foreign(Vec<u8>);

impl AsRef<[u8]> for Foreign {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        write("foreign memory was given back\n");
    }
}

/// Ends, or forks a child that does, while copies of foreign memory wait on each device's streams
/// for a host that never comes.
fn leave_in_flight(runtime: Runtime, tensors: Vec<Tensor>, fork: bool) {
    let work = || {
        let layout = Layout::compact(Dtype::UINT8, &[1 << 16])?;
        let owner = Box::new(Foreign(vec![1; 1 << 16]));
        let source = Tensor::from_host_memory(&runtime, owner, 0, &layout)?;
        let mut held = Vec::new();
        for device in runtime.devices() {
            let Ok(host_event) = Event::host(&device) else {
                continue;
            };
            for _ in 0..2 {
                let stream = Stream::new(&device)?;
                stream.wait(&host_event)?;
                let direct = RouteChoice::Only(RouteKind::Direct);
                held.push((
                    source.to_on(&device, direct, &stream)?.0,
                    host_event.clone(),
                ));
            }
        }
        Ok::<_, crossdock::Error>(held)
    };
    let held = match work() {
        Ok(held) if !held.is_empty() => held,
        Ok(_) => fail("no device has streams"),
        Err(error) => fail(&format!("{error}: {}", error.why())),
    };
    if fork {
        // SAFETY: the child only ends, by the way of every process.
        let child = unsafe { libc::fork() };
        if child != 0 {
            let mut status = 0;
            // SAFETY: `status` is ours.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            if status != 0 {
                fail(&format!("the child ended with status {status:#x}"));
            }
        }
    }
    // What is dropped before the end is memory that a device may still use, the host events' last.
    drop((tensors, runtime));
    let _waiting = KEPT_WORK.set(held);
}

/// Work that goes on until the process is gone.
static KEPT_WORK: OnceLock<Vec<(Tensor, Event)>> = OnceLock::new();

fn tensors(runtime: &Runtime) -> Vec<Tensor> {
    let layout = Layout::compact(Dtype::UINT8, &[64, 64]);
    let make = |device: &crossdock::Device| {
        let layout = layout.as_ref().ok()?;
        Tensor::from_bytes(device, layout, &[5; 64 * 64]).ok()
    };
    runtime.devices().iter().filter_map(make).collect()
}

/// Calls every hook of every plugin; an absent group may always answer `UNSUPPORTED`.
fn use_everything(allowed: &[Status]) -> usize {
    let Some((runtime, _)) = KEPT.get() else {
        return 0;
    };
    let mut count = 0;
    for plugin in runtime.plugins() {
        let answers = every_hook(plugin.hooks());
        // A query may come too early, where anything is called at all.
        let query = if allowed.contains(&Status::OK) {
            Status::NOT_READY
        } else {
            Status::UNSUPPORTED
        };
        let allowed = [allowed, &[Status::UNSUPPORTED, query]].concat();
        let other = answers.other_than(&allowed);
        if !other.is_empty() {
            fail(&format!("{}: {other:?}", plugin.name()));
        }
        count += answers.count();
    }
    count
}

/// Threads that nobody waits for, each in the middle of some hook at any moment.
fn start_busy_threads() {
    static RUNNING: AtomicU32 = AtomicU32::new(0);
    for _ in 0..2 {
        let busy = || loop {
            use_everything(&[Status::OK, Status::EXITING]);
            RUNNING.fetch_add(1, Ordering::Release);
        };
        drop(std::thread::spawn(busy));
    }
    while RUNNING.load(Ordering::Acquire) < 4 {
        std::thread::yield_now();
    }
}

fn fork_and_check(answers: usize) {
    // SAFETY: the child only uses what the library promises for a child, and ends by the way of every process.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: it only starts a timer.
        unsafe { libc::alarm(5) };
        in_child(answers);
        // SAFETY: it ends the process, after what was registered for that.
        unsafe { libc::exit(0) };
    }
    let mut status = 0;
    // SAFETY: `status` is ours.
    let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
    if ended != child || status != 0 {
        fail(&format!("the child ended with status {status:#x}"));
    }
}

fn in_child(answers: usize) {
    let begin = Instant::now();
    let Some((inherited, tensors)) = KEPT.get() else {
        fail("nothing was inherited");
    };
    let count = use_everything(&[Status::FORKED]);
    if count != answers {
        fail("not every hook was called");
    }
    let forked = |result: Result<(), crossdock::Error>| {
        let status = result.err().and_then(|error| error.status());
        if status != Some(Status::FORKED) {
            fail(&format!("an inherited runtime answered {status:?}"));
        }
    };
    for plugin in inherited.plugins() {
        forked(inherited.retire(&plugin));
        let path = plugin.path().unwrap_or(Path::new("/"));
        forked(inherited.load(path).map(drop));
    }
    for tensor in tensors {
        let is_host = tensor.device().id() == Device::CPU;
        let bytes = tensor.permute(&[1, 0]).and_then(|turned| turned.read());
        match bytes {
            Ok(bytes) if bytes == [5; 64 * 64] => {}
            Err(error) if !is_host && error.status() == Some(Status::FORKED) => {}
            other => fail(&format!("{}: {other:?}", tensor.device())),
        }
        drop(tensor.clone());
    }
    new_runtime();
    if begin.elapsed() > Duration::from_secs(4) {
        fail("the child took too long");
    }
}

/// A child may open a runtime of its own, with the CPU.
fn new_runtime() {
    let moved = || {
        let runtime = Runtime::builder().search(false).open()?;
        let cpu = runtime.device(Device::CPU)?;
        let layout = Layout::compact(Dtype::UINT8, &[1 << 20])?;
        let tensor = Tensor::from_bytes(&cpu, &layout, &vec![3; 1 << 20])?;
        let (copy, _) = tensor.to(&cpu, RouteChoice::Best)?;
        copy.read()
    };
    match moved() {
        Ok(bytes) if bytes.iter().all(|byte| *byte == 3) => {}
        Ok(_) => fail("the new runtime moved other bytes"),
        Err(error) => fail(&format!("{error}: {}", error.why())),
    }
}

/// The handler of each signal.
fn handlers() -> Vec<usize> {
    let handler = |signal| {
        // SAFETY: zero is a value of each field.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: `action` is ours; nothing is changed.
        unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
        action.sa_sigaction
    };
    (1..32).map(handler).collect()
}

fn at_exit(function: extern "C" fn()) {
    // SAFETY: a function of this program that takes nothing.
    if unsafe { libc::atexit(function) } != 0 {
        fail("atexit");
    }
}

fn fail(text: &str) -> ! {
    write(text);
    // SAFETY: it ends the process.
    unsafe { libc::_exit(3) }
}

/// Writes without the standard library's lock, which another thread may hold for ever.
fn write(text: &str) {
    // SAFETY: the bytes are readable for the call.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}
