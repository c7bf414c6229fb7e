//! A stream as its plugin knows it, whatever runtime asked for it.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossdock_sdk::abi::{Status, StreamHandle};

use crate::error::Error;
use crate::hooks::plugin_hooks::Hooks;
use crate::plugins::plugin::Plugin;
use crate::plugins::stream_frees::Frees;
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
    submit_lock: Mutex<()>,
    /// Held while work of another plugin is put between two events of this stream. The submit
    /// lock is taken under it, and where that plugin has no host events its holder blocks until the stream's
    /// earlier work is over.
    foreign_lock: Mutex<()>,
    pub(crate) frees: Frees,
    /// How many waits told of a failure of its work, or may be about to.
    tellers: AtomicU64,
    /// How many [`Hold`]s there are that keep its owner from ending it.
    holders: AtomicUsize,
    /// Whether its owner may have ended it, and the plugin has its handle back. Set under the submit lock.
    is_left: AtomicBool,
}

/// A stream in somebody's hand. The owner of a stream of others keeps it until the last who has it lets go, and no
/// longer: then the plugin gets its handle back, whatever the memories still remember of the stream's work.
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

    /// One more of a stream that is known; none where its owner may have ended it.
    pub(crate) fn of(core: Arc<StreamCore>) -> Option<Self> {
        let may_be_gone = core.is_of_others();
        let more = |count: usize| (count > 0 || !may_be_gone).then(|| count.saturating_add(1));
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let is_held = core.holders.fetch_update(success, failure, more).is_ok();
        is_held.then(|| Self { core, counts: true })
    }

    /// That of a call whose caller does not name the stream: the owner of a stream of others may end it meanwhile.
    pub(super) fn uncounted_if_of_others(core: Arc<StreamCore>) -> Option<Self> {
        if core.is_of_others() {
            return Some(Self {
                core,
                counts: false,
            });
        }
        Self::of(core)
    }

    /// The same stream, which its owner may end all the same.
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
            submit_lock: Mutex::new(()),
            foreign_lock: Mutex::new(()),
            frees: Frees::default(),
            tellers: AtomicU64::new(0),
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

    /// Waits by a hook that tells of a failure of the stream's work. With that the plugin forgets the
    /// failure, and an event that is recorded later does not have it. So the wait is counted before.
    pub(crate) fn tell(&self, wait: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        self.tellers.fetch_add(1, Ordering::AcqRel);
        let told = wait();
        if !told.as_ref().is_err_and(Error::is_failure_of_work) {
            self.tellers.fetch_sub(1, Ordering::AcqRel);
        }
        told
    }

    /// Whether a failure of its work may have been told by now.
    pub(crate) fn may_have_told(&self) -> bool {
        self.tellers.load(Ordering::Acquire) != 0
    }

    /// Calls hooks that submit to this stream, one caller at a time.
    ///
    /// # Errors
    /// Those of the call; `UNSUPPORTED` where the stream is of others and may be gone.
    pub(crate) fn with_submit_lock<T>(
        &self,
        call: impl FnOnce(StreamHandle) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let _lock = self.lock(&self.submit_lock);
        if self.is_left() {
            let why = "everybody let go of this stream of others, and it may be gone";
            let hooks = self.plugin.hooks();
            return Err(hooks.failure("use a stream", Status::UNSUPPORTED, why));
        }
        call(self.handle)
    }

    /// Whether everybody let go of it, a stream of others: its owner may have ended it.
    pub(crate) fn is_left(&self) -> bool {
        self.is_left.load(Ordering::Acquire)
    }

    pub(crate) fn is_of_others(&self) -> bool {
        self.origin == Origin::Wrapped
    }

    /// Whoever had it in hand let go. A stream of others may be gone from then on, and its vendor's context with it. So
    /// what is still to be put on it is put there now, and its plugin gives up what it keeps for it; a call that another
    /// thread is making is over when this returns.
    fn leave(&self) {
        let is_callable = !process_state::exiting() && !self.plugin.hooks().is_forked();
        if !self.is_of_others() || !is_callable {
            return;
        }
        loop {
            if let Some(finish) = self.frees.take() {
                finish(self);
            }
            let _lock = self.lock(&self.submit_lock);
            // A free is noted before it is submitted.
            if !self.frees.is_noted() {
                self.is_left.store(true, Ordering::Release);
                break;
            }
        }
        // From now on no hook is called with it.
        destroy(self.plugin.hooks(), self.handle);
    }

    /// Puts work of another plugin between two events of this stream, one caller at a time. Inside,
    /// the first event is recorded and the second waited for, each under the submit lock.
    pub(crate) fn with_foreign_lock<T>(
        &self,
        call: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let _lock = self.lock(&self.foreign_lock);
        call()
    }

    /// In the child of a fork a thread that the child does not have may hold the lock; no hook is
    /// called there.
    fn lock<'a>(&self, lock: &'a Mutex<()>) -> Option<MutexGuard<'a, ()>> {
        let is_forked = self.plugin.hooks().is_forked();
        (!is_forked).then(|| lock.lock().unwrap_or_else(PoisonError::into_inner))
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
        if let Some(frees) = self.frees.last() {
            if process_state::exiting() || self.plugin.hooks().is_forked() {
                let _nobody_waits = ManuallyDrop::new(frees);
            } else {
                frees(self);
            }
        }
        // A wrapped one ends as the plugin's handle only, and has ended where everybody let go of it before.
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
