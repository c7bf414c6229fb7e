//! This room knows what happens to the process: its exit, its forks, its trace.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `process_state` | whether it exits or is a fork, who is told, and what was leaked |
//! | `trace` | the trace file, for Perfetto |
//! | `late_log` | what plugins log once the log may be gone |
//!
//! # Exit and fork
//!
//! *Exit* begins with our `atexit` function, which is registered again after each plugin is
//! opened: it then runs before what the plugin's library registered. From its first moment on
//! every hook answers `EXITING` without a call, and what would be given back is a counted leak
//! (`exiting`, `counted_leaks`). It waits, for at most 2 s, for releases that have begun, because
//! their deleters may be code of others. No new release begins (`release_lent` in
//! `tensors/foreign.rs`), not even that of a refused import. It waits in the same way for plugins
//! that are being opened, and then tells each open plugin by `at_exit`. What plugins log once the
//! exit has begun is kept in a fixed place (`late_log`). What a vendor registers later, at its
//! first use, runs before ours: nothing can be done about that.
//!
//! *Fork*: in a child every hook of an inherited plugin answers `FORKED`, and so do `load` and
//! `retire` of an inherited runtime. Nothing that was inherited is given back, tensors of others
//! included: in the child it is a counted leak, and the parent gives it back. A new runtime of
//! the child opens plugins anew, whose parent's instances have heard `at_fork_child`; but a
//! driver that was started before the fork works in no child, so a plugin whose description names
//! it (`driver=SONAME`) is refused before any of its code runs, with `FORKED` and the advice to
//! `spawn`. Looking for one of its devices gets the same answer.
//!
//! A thread that the child does not have may hold any lock, so tables belong to one generation of
//! forks: that of open plugins (`open_plugins.rs`), that of live streams, and the work that is
//! remembered on a memory (`outstanding_work.rs`), whose lock is only tried. Of an inherited
//! plugin the queues of releases are leaked with their locks. Before Python forks, it imports
//! what is otherwise imported late (`crossdock/_late.py`): the import lock of a module that
//! another thread is importing would be held in the child for ever.
//!
//! A fork that had begun on one thread before another made the first call tells the child nothing (glibc
//! runs the handlers that were registered when a fork began). So the process is watched from the moment that
//! the library's table is asked for, and a child learns of such a fork when it opens a runtime.

pub(crate) mod late_log;
pub(crate) mod process_state;
pub mod trace;
