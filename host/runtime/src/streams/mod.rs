//! This room keeps the order of work on streams, and lets streams of two plugins wait for each other.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `stream`, `event` | streams and events as callers have them |
//! | `device_wait` | waits for all work on a device |
//! | `stream_frees` | streams that free memory |
//! | `wait` | how a stream waits for an event of another plugin |
//! | `completion` | what is done when work is over |
//! | `polled_end` | the end of work, where the plugin calls no host function |
//! | `outstanding_work` | work that may still run on a memory |
//! | `release_wait` | waits for outstanding releases |
//! | `internal_stream` | a stream that the runtime makes for itself |
//!
//! What a plugin keeps of its streams, its outstanding releases and its threads, stands in
//! [`plugins`](crate::plugins).
//!
//! # Waits, and when work is over
//!
//! *The submit lock.* Hooks that submit to a stream are called by one thread at a time, under the
//! stream's submit lock; they never call back, and block only where a vendor refuses a call in the
//! middle of a copy. Work of another plugin takes a second lock, the foreign lock, around all of its
//! steps. Its holder may block where that plugin has no host events.
//!
//! *One stream for all runtimes.* A stream belongs to the plugin's device, not to a runtime
//! (`plugins/stream_core.rs`): a `Stream` is a shared core with its one submit lock, and the `Device` of
//! the one that asked. So equal devices of two runtimes have equal streams, and the second wrap
//! of a native handle is the first one. The plugin's table of live streams is compared after the
//! hook returned, and the second handle is given back. A stream ends when its last handle is dropped, and is not
//! found from then on, since vendors use handles again. Memories remember its work by an uncounted handle
//! (`Stream::to_remember`): they know the stream again and do not keep it. Work whose end could not be recorded keeps
//! the stream until it has one. A stream that ends while its work runs is destroyed once the work is over
//! (`plugins/ended_streams.rs`), and a wait for the device finds it until then.
//!
//! *Events.* A memory keeps the event at the end of its last work for as long as the memory lives. Once such an event is
//! known to have happened its plugin gets it back (`plugins/pending_events.rs`), so kept tensors keep no driver's events.
//!
//! *Waits between plugins.* A stream waits for an event of another plugin through a host event:
//! one of its own plugin, which the host completes (`wait.rs`). The host event is completed from
//! an internal stream of the other plugin (`completion.rs`), which waits for that plugin's event
//! and then runs a host function; a function may call no hook, so it hands a job to a thread
//! (`plugins/workers.rs`). Until then that thread polls the internal stream where the device
//! asks for that: the driver of a lost device calls no function, and a plugin without threads notices a
//! loss only in a call. All this is submitted before the waiting stream is told to wait: behind that
//! wait in one hardware queue, it would never run. An internal stream carries one thing at a
//! time, because two waits on one stream could wait in a circle; as many are made as wait at
//! once, and idle ones beyond a few are destroyed. The carrier of a staged copy waits for many
//! events, but all of them are of one other stream, in its order (`copies/stage_on_stream.rs`).
//! If a plugin has no host functions, its polling thread queries the internal stream, one thread for
//! all waits (`plugins/poller.rs`). If the waiting plugin has no host events, the caller waits.
//! `Stream::wait` says which it
//! was (`WaitMethod`), and the explanation of a route says which it will be.
//!
//! *When work is over.* Only where that is known: the plugin said that the event happened, or a
//! stream that waited for it went on. Any other answer may be a failure of the question:
//! `EXITING`, a hook that panicked, a fault of the driver. So an internal stream has to pass work
//! that failed before it counts as over, and work of which nobody can tell counts as running. No
//! memory that such work uses is given back, and a write that would come after it is refused, on
//! a stream and without one. What was submitted before the plugin broke down is not taken back: a
//! stream of another plugin that waits for it goes on, with a failure, and by the contract what
//! is behind a failure still runs, so it may write what the plugin that broke down still uses. A
//! retired plugin gives no stream that could pass failed work, so memory of others that such work
//! used is a counted leak where it is dropped only then. Neither the `retire` that succeeded nor
//! the end of the streams proves more: the plugin drained its own work, and not what others put
//! on a stream of theirs, and a stream that is destroyed completes its work later.

pub(crate) mod completion;
mod device_wait;
pub(crate) mod event;
pub(crate) mod internal_stream;
#[cfg(test)]
mod internal_stream_tests;
pub(crate) mod outstanding_work;
#[cfg(test)]
mod outstanding_work_tests;
mod polled_end;
pub(crate) mod release_wait;
pub(crate) mod stream;
mod stream_frees;
#[cfg(test)]
mod stream_tests;
pub(crate) mod wait;
