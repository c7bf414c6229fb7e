//! The host of scripts: one Python, one thread that runs scripts in it, and one that interrupts them.
#![expect(
    unsafe_code,
    reason = "starts Python, and raises exceptions in its threads"
)]

use std::collections::HashMap;
use std::ffi::CString;
use std::fmt;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, mpsc};
use std::time::Duration;

use crossdock_sdk::threads::Thread;

use crate::failure::{Failure, Kind};
use crate::finding::startup_check;
use crate::process::{self, ThreadIdent};
use crate::python::gil::{Gil, Raised, attached, is_known, without_lock};
use crate::python::libpython::{Functions, PyObject};
use crate::python::open::Python;
use crate::python::value::Value;
use crate::sessions::host_function::{
    self, Function, FunctionFailure, HostFunction, Output, Stream,
};
use crate::sessions::queue::JobQueue;
use crate::sessions::script_threads::Mark;
use crate::sessions::signals::{HostActions, Signals};
use crate::sessions::worker::Worker;

/// Python as it runs in this process, with the thread that runs scripts.
pub struct Host {
    python: &'static Python,
    pub(crate) queue: JobQueue,
    /// What signals do without scripts, for when a session ends.
    pub(crate) actions: HostActions,
    /// What takes the captured streams, by their session.
    outputs: RwLock<HashMap<u64, Arc<HostFunction<Output>>>>,
    /// What scripts can call, by number.
    functions: RwLock<HashMap<u64, Defined>>,
    /// The last number of a session or a function.
    last_number: AtomicU64,
    /// Python's class `KeyboardInterrupt`.
    interrupt: AtomicPtr<PyObject>,
    /// The watcher has raised one in the script thread; guarded by Python's lock.
    has_raised: AtomicBool,
    thread: OnceLock<ThreadIdent>,
    /// What tells the threads that scripts started.
    mark: OnceLock<Option<Mark>>,
}

/// A function that scripts of a session can call.
struct Defined {
    session: u64,
    function: Arc<HostFunction<Function>>,
}

static HOST: OnceLock<Host> = OnceLock::new();
static STARTED: OnceLock<Result<(), Failure>> = OnceLock::new();

/// What Python reckons with for its own main thread on most systems, and more for native code.
const STACK_BYTES: usize = 16 << 20;

impl Host {
    /// Starts Python, once a process, and gives the same host from then on.
    ///
    /// Python is started on a thread of its own, which is Python's main thread. It installs no
    /// handlers of the process's usual signals, and never ends before the process does. A Python
    /// that somebody else started is used by a thread of its own as well, which is then not its main
    /// thread.
    ///
    /// # Errors
    /// [`Kind::Forked`] in a fork of the process that started it, [`Kind::NoPython`] where
    /// a variable keeps it from starting, or parts of the standard library are missing.
    pub fn start(python: &'static Python) -> Result<&'static Self, Failure> {
        process::refuse_forks()?;
        let host = HOST.get_or_init(|| Self {
            python,
            queue: JobQueue::default(),
            actions: HostActions::default(),
            outputs: RwLock::default(),
            functions: RwLock::default(),
            last_number: AtomicU64::new(0),
            interrupt: AtomicPtr::new(ptr::null_mut()),
            has_raised: AtomicBool::new(false),
            thread: OnceLock::new(),
            mark: OnceLock::new(),
        });
        let started = without_lock(host.functions(), || {
            // What it finds may be mended, so it is looked for again.
            if STARTED.get().is_none() && !host.is_running() {
                startup_check::starts(host.python.choice())?;
            }
            STARTED.get_or_init(|| host.start_threads()).clone()
        });
        started.map(|()| host)
    }

    /// Which Python it is.
    #[must_use]
    pub const fn python(&self) -> &'static Python {
        self.python
    }

    /// The host of this process, once it was started.
    pub(crate) fn started() -> Option<&'static Self> {
        HOST.get()
    }

    pub(crate) const fn functions(&self) -> &'static Functions {
        &self.python.functions
    }

    fn start_threads(&'static self) -> Result<(), Failure> {
        let no_thread = |error: std::io::Error| {
            Failure::new(Kind::Exhausted, "start a thread for scripts")
                .because(error.to_string(), "free resources of this process")
        };
        let (ready, answer) = mpsc::sync_channel(1);
        let script = Thread::named("crossdock-embed").stack_size(STACK_BYTES);
        let _detached = script
            .spawn(move || self.serve(&ready))
            .map_err(no_thread)?;
        let gone = |_| Failure::new(Kind::NoPython, "start Python: its thread ended");
        answer.recv().map_err(gone)??;
        process::watch(process::Watched {
            may_finish_script: || Self::started().is_some_and(Self::may_finish_script),
            close: |limit| {
                if let Some(host) = Self::started() {
                    host.close(limit);
                }
            },
        });
        let watcher = Thread::named("crossdock-watcher");
        let _detached = watcher.spawn(move || self.watch()).map_err(no_thread)?;
        Ok(())
    }

    /// The script thread. It never ends, because it may be Python's main thread. Between jobs it blocks all signals
    /// but its own two. During a job it blocks what the caller blocks, because processes and threads that a script
    /// starts inherit that.
    fn serve(&'static self, ready: &SyncSender<Result<(), Failure>>) {
        let is_main = self.attach();
        // SAFETY: this thread has the lock since it started Python, or asked for it.
        let gil = unsafe { Gil::assume(self.functions()) };
        let _set_once = self.thread.set(process::this_thread());
        let _set_once = self.mark.set(Mark::this_thread());
        let signals = Signals::of_this_thread(is_main);
        let (wake, place, _pipe) = signals.numbers();
        let worker = Worker::new(self, &gil, signals.numbers()).map_err(|raised| {
            gil.print(raised);
            Failure::new(Kind::NoPython, "start Python").because(
                "a module of the standard library cannot be imported; Python printed why",
                "recreate the environment",
            )
        });
        self.queue.set_signals(signals);
        let _received = ready.send(worker.as_ref().map(|_| ()).map_err(Clone::clone));
        loop {
            let job = gil.released(|| self.queue.next());
            let restored = job.signals.without(wake).without(place).swap();
            let answer = match &worker {
                Ok(worker) => worker.work(job.work),
                Err(failure) => Err(failure.clone()),
            };
            drop(restored);
            self.queue.finish(answer);
        }
    }

    fn is_running(&self) -> bool {
        // SAFETY: may be asked at any time.
        unsafe { self.functions().Py_IsInitialized() != 0 }
    }

    /// Starts Python on this thread, or makes the thread known to one that runs. Says which it was.
    fn attach(&self) -> bool {
        let functions = self.functions();
        if self.is_running() {
            // SAFETY: Python runs, and any thread may ask for its lock. This one is never let go.
            let _before = unsafe { functions.PyGILState_Ensure() };
            return false;
        }
        let program = self.python.choice().executable.as_os_str().as_bytes();
        let program = CString::new(program).unwrap_or_default();
        // SAFETY: a text, and no place for its length. Python keeps what it makes.
        let program = unsafe { functions.Py_DecodeLocale(program.as_ptr(), ptr::null_mut()) };
        if !program.is_null() {
            // SAFETY: a text that is never freed; Python does not run yet.
            unsafe { functions.Py_SetProgramName(program) };
        }
        // SAFETY: Python does not run, and this thread is going to be its main thread. The signals
        // of the process stay as they are.
        unsafe { functions.Py_InitializeEx(0) };
        true
    }

    /// The thread that raises exceptions in the script thread, for which it takes the lock.
    fn watch(&'static self) {
        loop {
            let ticket = self.queue.overdue();
            attached(self.functions(), |_gil| {
                if self.queue.claim_for(ticket) {
                    self.raise_in_script();
                }
            });
        }
    }

    /// The exception of interrupts, from now on.
    pub(crate) fn set_interrupt(&self, class: *mut PyObject) {
        self.interrupt.store(class, Ordering::Release);
    }

    /// Raises the exception of an interrupt on this thread.
    pub(crate) fn raise_interrupt(&self, _gil: &Gil) -> Raised {
        // SAFETY: the lock is held; a class of exceptions, which is never given back.
        unsafe {
            self.functions()
                .PyErr_SetNone(self.interrupt.load(Ordering::Acquire))
        };
        Raised
    }

    /// Raises it on the script thread, at the next line of Python there.
    fn raise_in_script(&self) {
        let class = self.interrupt.load(Ordering::Acquire);
        if let Some(ident) = self.thread.get() {
            self.has_raised.store(true, Ordering::Relaxed);
            // SAFETY: callers hold the lock; a class of exceptions, which is never given back.
            unsafe { self.functions().PyThreadState_SetAsyncExc(*ident, class) };
        }
    }

    /// Whether the script thread was sent an exception since it was asked last, which it may have
    /// raised or not.
    pub(crate) fn take_raised(&self, _gil: &Gil) -> bool {
        self.has_raised.swap(false, Ordering::Relaxed)
    }

    /// The refusal of scripts that a script would wait for: on the script thread, and where a thread of
    /// the script is in a function of the host, which the script may wait for.
    pub(crate) fn refuse_inside_script(&self) -> Result<(), Failure> {
        if !self.is_inside_script() {
            return Ok(());
        }
        let what = "run a script from inside a script";
        let why = "there is one thread for scripts, and it is running this one";
        Err(Failure::new(Kind::Busy, what).because(why, "call the function itself"))
    }

    /// Whether a script may wait for this thread.
    pub(crate) fn is_inside_script(&self) -> bool {
        self.is_script_thread() || host_function::is_inside()
    }

    pub(crate) fn is_script_thread(&self) -> bool {
        let own = process::this_thread();
        self.thread.get().is_some_and(|script| *script == own)
    }

    /// Whether it is a thread of Python that a script started: the script that runs may wait for it.
    pub(crate) fn is_started_by_script(&self) -> bool {
        let mark = self.mark.get().copied().flatten();
        is_known(self.functions()) && mark.is_some_and(Mark::is_here)
    }

    /// Whether this thread runs a script that is given the time to end.
    pub(crate) fn may_finish_script(&self) -> bool {
        self.is_script_thread() && !self.queue.is_closed()
    }

    /// A number that nothing else has.
    pub(crate) fn number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn enter_output(&self, session: u64, output: Output) {
        let output = Arc::new(HostFunction::new(output));
        write(&self.outputs).insert(session, output);
    }

    /// Passes on what a script wrote.
    pub(crate) fn write(&self, session: u64, stream: Stream, bytes: &[u8]) {
        if process::is_forked() {
            // The child has the descriptors, but not the threads that the host's function needs.
            let _broken = match stream {
                Stream::Out => std::io::stdout().write_all(bytes),
                Stream::Err => std::io::stderr().write_all(bytes),
            };
            return;
        }
        let output = read(&self.outputs).get(&session).map(Arc::clone);
        if let Some(output) = output {
            let _quiet = self.queue.quiet();
            output.call(|output| output(stream, bytes));
        }
    }

    /// Makes a function one that scripts of a session can call by the number.
    pub(crate) fn enter_function(&self, session: u64, function: Function) -> u64 {
        let (number, function) = (self.number(), Arc::new(HostFunction::new(function)));
        write(&self.functions).insert(number, Defined { session, function });
        number
    }

    /// Calls a function for a script.
    pub(crate) fn call(
        &self,
        number: u64,
        values: Vec<Value>,
        named: Vec<(String, Value)>,
    ) -> Result<Value, FunctionFailure> {
        let refused = |text: &str| FunctionFailure {
            text: text.to_owned(),
            is_out_of_memory: false,
        };
        if process::is_forked() {
            return Err(refused("a fork has none of its parent's functions"));
        }
        let function = read(&self.functions)
            .get(&number)
            .map(|defined| Arc::clone(&defined.function));
        let _quiet = self.queue.quiet();
        let answer = function.and_then(|function| function.call(|call| call(values, named)));
        answer.unwrap_or_else(|| {
            let why = "the host has closed the session of this function, or defined its name anew";
            Err(refused(why))
        })
    }

    /// Closes a function, and waits for calls that are under way on other threads.
    pub(crate) fn remove_function(&self, number: u64) {
        let removed = write(&self.functions).remove(&number);
        if let Some(defined) = removed {
            defined.function.close();
        }
    }

    /// Closes what scripts of a session can reach, and waits for calls that are under way on other
    /// threads.
    pub(crate) fn remove_functions(&self, session: u64) {
        let output = write(&self.outputs).remove(&session);
        if let Some(output) = output {
            output.close();
        }
        let of_session = |_: &u64, defined: &mut Defined| defined.session == session;
        let removed: Vec<_> = write(&self.functions).extract_if(of_session).collect();
        for (_, defined) in removed {
            defined.function.close();
        }
    }

    /// Ends the work of this process's scripts, as far as it ends within this time.
    pub(crate) fn close(&self, limit: Duration) {
        // A script that ends the process does not end before it.
        let limit = if self.is_script_thread() {
            Duration::ZERO
        } else {
            limit
        };
        self.queue.close(limit);
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("python", &self.python)
            .finish_non_exhaustive()
    }
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
