//! Scripts: one thread runs them all, and a session is a namespace for them.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `session` | a session, and what its owner calls |
//! | `host`, `worker` | the threads, and how a job becomes calls of Python |
//! | `queue`, `queue_state`, `job` | which jobs wait, what follows from that, and what a job is |
//! | `signals`, `script_threads` | the signals of the script thread, and threads that scripts started |
//! | `host_function`, `native` | functions of the host that scripts reach, and those for `sessions.py` |
//! | `sessions.py`, `namespace.py` | what happens to a job in Python; what a namespace alone keeps |
//!
//! *Sessions* (`sessions/session.rs`) are namespaces that are real modules, in one interpreter
//! that is started once and never ended. What happens in Python stands in `sessions/sessions.py`,
//! so that few functions of Python's C API are needed; `python/gil.rs` holds the unsafe half of
//! the rest.
//!
//! - *One script thread* (`sessions/host.rs`) is Python's main thread, because signals wake only
//!   that one; it holds no lock of Python's while it is idle. Callers put jobs into a queue
//!   (`sessions/queue.rs`) and wait without the interpreter's lock. So scripts run one at a time,
//!   whatever the session, and a host's threads and usual signals stay its own. Where others
//!   started Python, the thread is one of Python's others.
//! - *Interrupts* have a ticket. A real-time signal wakes the thread, whose handler in C asks the
//!   queue whether what runs now is to stop; a watcher raises the exception from outside where
//!   that is not noticed soon. Each request raises once, and after the script's code has ended
//!   nothing is raised: one that the watcher sent too late is raised in a function that does
//!   nothing, and a late signal finds no request. Whatever may be a script's own code (streams
//!   that are flushed, texts of exceptions) runs before that point.
//! - *Timeouts* are kept by the caller, who waits anyway: interrupt, after the grace another one,
//!   then give up. `faulthandler`'s handler of a second signal then says where the thread is,
//!   from inside native code as well. While that runs, every session refuses work; so it does,
//!   for those who wait their turn, where a script without a timeout was interrupted and has not
//!   ended within their grace.
//! - *What a script changes for all* stays its session's: what `sys` says and functions that
//!   trace are put back behind each call. A thread that a script started is known by its timer
//!   slack, which Linux hands down (`sessions/script_threads.rs`), and never waits behind a
//!   script.
//! - *Functions of the host* (`sessions/host_function.rs`) are called without the interpreter's lock and
//!   without a lock of ours, so that they may call back into the library from several threads. Each is
//!   known by a number, so that what a script keeps of one that is closed leads nowhere.
//! - *A reload* clears the namespace and forgets the modules beside the program, runs it again, and
//!   puts both back where that fails.
//! - *A session's end* gives back what only its namespace held (`sessions/namespace.py`), without
//!   looking at the objects of all modules.
//! - *A tensor* crosses as a managed tensor of DLPack in a capsule: our own export comes back as
//!   the same memory.
//! - *Exit* stops what runs, waits a moment, and from then on nobody takes Python's lock. A
//!   *fork* of the host has no scripts; a child that a script forks off ends with its script.

pub(crate) mod host;
pub(crate) mod host_function;
pub(crate) mod job;
pub(crate) mod native;
pub(crate) mod queue;
pub(crate) mod queue_state;
pub(crate) mod script_threads;
pub(crate) mod session;
pub(crate) mod signals;
pub(crate) mod worker;
