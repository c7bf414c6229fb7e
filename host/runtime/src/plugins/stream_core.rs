//! A stream as its plugin knows it, whatever runtime asked for it.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crossdock_sdk::abi::{Status, StreamHandle};
use crossdock_sdk::deadline::Deadline;

use crate::error::Error;
use crate::hooks::plugin_hooks::Hooks;
use crate::hooks::waits::ask_until;
use crate::plugins::plugin::Plugin;
use crate::plugins::stream_frees::{Finish, SubmitLock, Submitting};
use crate::plugins::tellers::Tellers;
use crate::process::process_state;

/// A stream of one device of a plugin. All runtimes have the same: callers of its hooks take the same
/// lock, and streams that are compared are seen to be one.
pub(crate) struct StreamCore {
    plugin: Arc<Plugin>,
    pub(super) device: u32,
    pub(crate) handle: StreamHandle,
    /// The integer that the vendor's API uses. None for a created stream: [`LiveStreams`] learns it once a caller asks.
    ///
    /// [`LiveStreams`]: crate::plugins::live_streams::LiveStreams
    pub(super) native: Option<u64>,
    pub(super) origin: Origin,
    /// The contract: one submitting call at a time for one stream. Held across hooks that never call back, and
    /// block only where a vendor refuses a call in the middle of a copy. Under it only locks are taken that are
    /// held over no call.
    submit_lock: SubmitLock,
    /// Held while work of another plugin is put between two events of this stream. The submit
    /// lock is taken under it, and where that plugin has no host events its holder blocks until the stream's
    /// earlier work is over.
    foreign_lock: Mutex<()>,
    pub(crate) tellers: Tellers,
    /// How many counted [`Hold`]s there are.
    holders: AtomicUsize,
    /// Whether the last counted hold was dropped: no work is submitted from then on. Set under the submit lock.
    is_left: AtomicBool,
}

/// A handle to a stream. The stream ends when its last counted hold is dropped: a created stream is destroyed once its
/// work is over, and the owner of a foreign stream may destroy it. Memories hold uncounted ones to identify the stream
/// of pending work without keeping it alive.
#[derive(Debug)]
pub(crate) struct Hold {
    core: Arc<StreamCore>,
    counts: bool,
}

impl Hold {
    /// That of a stream which was made or wrapped just now.
    pub(crate) fn first(core: StreamCore) -> Self {
        core.holders.store(1, Ordering::Release);
        Self {
            core: Arc::new(core),
            counts: true,
        }
    }

    /// One more of a stream that is known; none where it has ended.
    pub(crate) fn of(core: Arc<StreamCore>) -> Option<Self> {
        let may_be_gone = core.origin != Origin::Default;
        let more = |count: usize| (count > 0 || !may_be_gone).then(|| count.saturating_add(1));
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let is_held = core.holders.fetch_update(success, failure, more).is_ok();
        is_held.then(|| Self { core, counts: true })
    }

    /// That of a call whose caller does not name the stream: the owner of a stream of others may end it meanwhile. None
    /// for a stream that has ended, which is among its plugin's ended streams then.
    pub(super) fn uncounted_if_of_others(core: Arc<StreamCore>) -> Option<Self> {
        if core.is_of_others() {
            return Some(Self {
                core,
                counts: false,
            });
        }
        let known = Arc::clone(&core);
        Self::of(core).or_else(|| {
            known.leave();
            None
        })
    }

    /// The same stream, which may end all the same.
    pub(crate) fn uncounted(&self) -> Self {
        Self {
            core: Arc::clone(&self.core),
            counts: false,
        }
    }
}

impl std::ops::Deref for Hold {
    type Target = Arc<StreamCore>;

    fn deref(&self) -> &Arc<StreamCore> {
        &self.core
    }
}

impl Clone for Hold {
    fn clone(&self) -> Self {
        if self.counts {
            self.core.holders.fetch_add(1, Ordering::AcqRel);
        }
        Self {
            core: Arc::clone(&self.core),
            counts: self.counts,
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.counts && self.core.holders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.core.leave();
        }
    }
}

/// Where a stream comes from, which says how it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Made here, and destroyed here.
    Created,
    /// The device's own default, which the plugin keeps.
    Default,
    /// Somebody else's; only the plugin's handle of it is destroyed here.
    Wrapped,
}

impl StreamCore {
    /// Takes ownership of a handle that a hook returned, and queries which stream of the vendor's it is unless the
    /// stream was created here. A plugin has to assume that other code uses a stream once it returned the integer, and
    /// without that assumption it can synchronize the stream without a marker.
    ///
    /// # Errors
    /// The plugin's answer to that query; the handle was given back. Without the answer one stream
    /// could become two.
    pub(crate) fn new(
        plugin: &Arc<Plugin>,
        device: u32,
        handle: StreamHandle,
        origin: Origin,
    ) -> Result<Self, Error> {
        let mut core = Self {
            plugin: Arc::clone(plugin),
            device,
            handle,
            native: None,
            origin,
            submit_lock: SubmitLock::default(),
            foreign_lock: Mutex::new(()),
            tellers: Tellers::default(),
            holders: AtomicUsize::new(0),
            is_left: AtomicBool::new(false),
        };
        if origin != Origin::Created {
            core.native = match plugin.hooks().stream_native(handle) {
                Ok(native) => Some(native),
                Err(error) if error.is_unsupported() => None,
                Err(error) => return Err(error),
            };
        }
        Ok(core)
    }

    /// Calls hooks that submit to this stream, one caller at a time.
    ///
    /// # Errors
    /// Those of the call; `UNSUPPORTED` where the stream has ended.
    pub(crate) fn with_submit_lock<T>(
        &self,
        call: impl FnOnce(StreamHandle) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let _submitting = self.submitting();
        self.check_not_left()?;
        call(self.handle)
    }

    /// Submits a free, and notes it under the same lock for those who wait for releases: `finish` makes the note.
    ///
    /// # Errors
    /// As [`StreamCore::with_submit_lock`].
    pub(crate) fn submit_free(
        &self,
        finish: impl FnOnce() -> Finish,
        free: impl FnOnce(StreamHandle) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let submitting = self.submitting();
        self.check_not_left()?;
        if let Some(mut submitting) = submitting {
            submitting.note_free(finish);
            return free(self.handle);
        }
        free(self.handle)
    }

    /// Records where the stream is past what it was told to free so far, for those who wait for releases. If another call
    /// has the submit lock until the deadline, the note stays, and so does the place among the releases.
    pub(super) fn finish_frees(&self, deadline: Deadline) {
        if !self.submit_lock.is_noted() {
            return;
        }
        let submitting = self.submitting_until(deadline);
        let finish = |mut submitting: Submitting<'_>| Some(submitting.take_note()?(self.handle));
        // Called without the lock.
        if let Some(let_go_on) = submitting.and_then(finish) {
            let_go_on();
        }
    }

    fn submitting(&self) -> Option<Submitting<'_>> {
        self.may_lock().then(|| self.submit_lock.lock())
    }

    fn submitting_until(&self, deadline: Deadline) -> Option<Submitting<'_>> {
        if deadline.left().is_none() || !self.may_lock() {
            return self.submitting();
        }
        let mut submitting = None;
        let locked = ask_until(deadline, || {
            submitting = self.submit_lock.try_lock();
            Ok(submitting.is_some())
        });
        submitting.filter(|_| locked.is_ok_and(|locked| locked))
    }

    fn check_not_left(&self) -> Result<(), Error> {
        if self.is_left() {
            let why = "the last handle to this stream was dropped";
            let hooks = self.plugin.hooks();
            return Err(hooks.failure("use a stream", Status::UNSUPPORTED, why));
        }
        Ok(())
    }

    /// Whether the last counted hold was dropped.
    pub(crate) fn is_left(&self) -> bool {
        self.is_left.load(Ordering::Acquire)
    }

    pub(crate) fn is_of_others(&self) -> bool {
        self.origin == Origin::Wrapped
    }

    /// Ends a stream whose last counted hold was dropped; the device keeps its default stream. A stream of others may be
    /// gone from then on, and its vendor's context with it. So what is still to be put on it is put there now, and its
    /// plugin gives up what it keeps for it; a call that another thread is making is over when this returns.
    ///
    /// A wait for the device that finds the stream without holds calls this too: when it returns, a stream that was made
    /// here is among the ended ones, whichever thread entered it.
    fn leave(&self) {
        let is_callable = !process_state::exiting() && !self.plugin.hooks().is_forked();
        if self.origin == Origin::Default || !is_callable {
            return;
        }
        let (hooks, ended) = (self.plugin.hooks(), self.plugin.ended_streams());
        let mut submitting = self.submitting();
        if self.is_left.swap(true, Ordering::AcqRel) {
            return;
        }
        let note = submitting.as_mut().and_then(Submitting::take_note);
        let let_go_on = note.map(|finish| finish(self.handle));
        // The last call of a hook with a stream that was made here was the one above: others may destroy it now.
        if !self.is_of_others() {
            ended.enter(self.device, self.handle);
        }
        drop(submitting);
        if let Some(let_go_on) = let_go_on {
            let_go_on();
        }
        self.plugin.streams().forget(self);
        if self.is_of_others() {
            destroy(hooks, self.handle);
        } else {
            ended.destroy_idle(hooks);
        }
    }

    /// Puts work of another plugin between two events of this stream, one caller at a time. Inside,
    /// the first event is recorded and the second waited for, each under the submit lock.
    pub(crate) fn with_foreign_lock<T>(
        &self,
        call: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let lock = || self.foreign_lock.lock();
        let _lock = self
            .may_lock()
            .then(|| lock().unwrap_or_else(PoisonError::into_inner));
        call()
    }

    /// In the child of a fork a thread that the child does not have may hold a lock; no hook is
    /// called there.
    fn may_lock(&self) -> bool {
        !self.plugin.hooks().is_forked()
    }
}

impl std::fmt::Debug for StreamCore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamCore")
            .field("plugin", &self.plugin.name())
            .field("device", &self.device)
            .field("handle", &self.handle)
            .field("native", &self.native)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

impl Drop for StreamCore {
    fn drop(&mut self) {
        if let Some(finish) = self.submit_lock.last_note() {
            if process_state::exiting() || self.plugin.hooks().is_forked() {
                let _nobody_waits = ManuallyDrop::new(finish);
            } else {
                finish(self.handle)();
            }
        }
        // One that was never held, or at exit and in the child of a fork.
        if self.origin != Origin::Default && !self.is_left() {
            destroy(self.plugin.hooks(), self.handle);
        }
    }
}

/// Gives a stream back to its plugin. At exit and in the child of a fork it is a counted leak.
pub(crate) fn destroy(hooks: &Hooks, stream: StreamHandle) {
    if let Err(error) = hooks.stream_destroy(stream)
        && !process_state::is_exit_or_fork(&error)
    {
        log::error!(target: "crossdock::stream", "{error}: {}", error.why());
    }
}
