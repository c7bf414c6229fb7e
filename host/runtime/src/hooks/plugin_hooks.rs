//! One open plugin's hooks, called safely: missing groups answer `UNSUPPORTED`, error objects
//! become [`Error`], and a plugin whose hook panicked is quarantined.
#![expect(unsafe_code, reason = "calls the C functions of a plugin's table")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crossdock_layers::{ErrorOut, Layer, LiveObjects, Stack, Table, Target, read_text};
use crossdock_sdk::abi::{DeviceInfo, PluginHandle, ProbeInfo, ProbeState, RawError, Status};

use crate::error::Error;
use crate::hooks::host_services::services;
use crate::hooks::panics;
use crate::hooks::weak_list::WeakList;
use crate::process::process_state;
use crate::process::trace;

/// A plugin's table with the name that its errors carry, and the handle once it is open.
///
/// Any thread may call a method. What submits to a stream (copies, fills, waits, records, host calls) is called by one
/// thread at a time for that stream; the caller sees to that. `timeout_ns` and `deadline_ns` are nanoseconds from the
/// call on, and `u64::MAX` is no limit. Handles and addresses stay the plugin's until they are given back.
#[derive(Debug)]
pub struct Hooks {
    name: String,
    /// The plugin's own table: `probe` and `open` carry no handle, so no layer wraps them.
    closed: Target,
    opened: OnceLock<Opened>,
    /// The state of the process in which hooks are called; [`QUARANTINE`] after a panic.
    called_in: AtomicU32,
    /// Who is told of a quarantine. Taken then, after which nobody is entered.
    watchers: Mutex<Option<WeakList<dyn OnQuarantine>>>,
    generation: u32,
}

/// No state of a process.
const QUARANTINE: u32 = u32::MAX;

/// What an open plugin is called through.
#[derive(Debug)]
struct Opened {
    /// Its own table and handle.
    own: Target,
    /// The same, wrapped in its layers.
    stack: Stack,
}

/// What waits for something that a plugin will not do once it is quarantined.
pub(crate) trait OnQuarantine: std::fmt::Debug + Send + Sync {
    /// A hook panicked, as this error says: none is called any more but `event_complete`.
    fn quarantined(&self, error: &Error);
}

/// Calls a mandatory hook: `hook!(self, free, (address, kind))`.
macro_rules! hook {
    ($self:ident, $hook:ident, ($($arg:expr),*)) => {{
        let Some(target) = $self.opened_target() else {
            return Err($self.not_open(stringify!($hook)));
        };
        let Some(hook) = target.table().raw().$hook else {
            return Err($self.missing(stringify!($hook)));
        };
        // SAFETY: the table's contract: a live handle, arguments that the caller of this method
        // vouches for where it is unsafe, and an error pointer of ours.
        let call = |error: ErrorOut| unsafe { hook(target.handle(), $($arg,)* error) };
        $self.call(target, stringify!($hook), call)
    }};
}

/// Calls a hook of a group: `group_hook!(self, streams.stream_query, (stream))`.
macro_rules! group_hook {
    ($self:ident, $group:ident . $hook:ident, ($($arg:expr),*)) => {{
        let Some(target) = $self.opened_target() else {
            return Err($self.not_open(stringify!($hook)));
        };
        let Some(hook) = target.table().$group().and_then(|group| group.$hook) else {
            return Err($self.missing(stringify!($hook)));
        };
        // SAFETY: the table's contract: a live handle, arguments that the caller of this method
        // vouches for where it is unsafe, and an error pointer of ours.
        let call = |error: ErrorOut| unsafe { hook(target.handle(), $($arg,)* error) };
        $self.call(target, stringify!($hook), call)
    }};
}
pub(crate) use {group_hook, hook};

impl Hooks {
    /// Wraps a checked table that is not open yet.
    #[must_use]
    pub fn new(name: String, table: Table) -> Self {
        Self {
            name,
            // SAFETY: no stack is put around it.
            closed: unsafe { Target::new(table, PluginHandle::NONE) },
            opened: OnceLock::new(),
            called_in: AtomicU32::new(process_state::generation()),
            watchers: Mutex::new(Some(WeakList::default())),
            generation: process_state::generation(),
        }
    }

    /// The plugin's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The plugin's own table, without layers.
    #[must_use]
    pub const fn table(&self) -> &Table {
        self.closed.table()
    }

    /// What `open` gave, for who calls the table itself; none for a plugin that is not open.
    #[must_use]
    pub fn handle(&self) -> PluginHandle {
        let opened = self.opened.get();
        opened.map_or(PluginHandle::NONE, |opened| opened.own.handle())
    }

    /// Wraps an open plugin in these layers and no others; the first is nearest to the caller. To be
    /// called before other hooks: what a layer did not see, such as memory, it does not know.
    pub fn wrap(&mut self, layers: &[Layer]) {
        if let Some(opened) = self.opened.get_mut() {
            opened.stack = Stack::around(&self.name, opened.own, layers);
        }
    }

    /// What was not given back yet; `None` without [`Layer::Validate`].
    #[must_use]
    pub fn live_objects(&self) -> Option<LiveObjects> {
        self.opened.get()?.stack.live_objects()
    }

    /// What a hook is called through now.
    #[inline]
    pub(crate) fn target(&self) -> &Target {
        let opened = self.opened.get();
        opened.map_or(&self.closed, |opened| opened.stack.target())
    }

    /// The plugin's own table, without layers, and its handle.
    pub(crate) fn own_target(&self) -> &Target {
        let opened = self.opened.get();
        opened.map_or(&self.closed, |opened| &opened.own)
    }

    /// Whether a hook panicked, after which none is called any more but `event_complete`.
    #[inline]
    pub fn is_quarantined(&self) -> bool {
        self.called_in.load(Ordering::Acquire) == QUARANTINE
    }

    /// Whether this process is a fork of the one that opened the plugin.
    #[inline]
    pub fn is_forked(&self) -> bool {
        self.generation != process_state::generation()
    }

    /// Looks for the plugin's driver.
    ///
    /// # Errors
    /// What the hook answered, or a state that is none of the three.
    pub fn probe(&self) -> Result<ProbeInfo, Error> {
        let Some(probe) = self.closed.table().raw().probe else {
            return Err(self.missing("probe"));
        };
        let _span = self.span("probe");
        let mut info = ProbeInfo::broken("");
        // No answer of the hook, so that it shows where none was written.
        info.state = ProbeState::NOT_LOOKED_AT;
        // SAFETY: `info` and the error pointer are ours and outlive the call.
        self.call(&self.closed, "probe", |error| unsafe {
            probe(&raw mut info, error)
        })?;
        if info.state == ProbeState::NOT_LOOKED_AT {
            return Err(self.fault("probe", "it answered OK and wrote no state"));
        }
        if ![ProbeState::READY, ProbeState::ABSENT, ProbeState::BROKEN].contains(&info.state) {
            return Err(self.fault("probe", "the answer is neither ready nor absent nor broken"));
        }
        Ok(info)
    }

    /// Opens the plugin, without layers.
    ///
    /// # Errors
    /// What the hook answered; [`Error::Misuse`] for one that is open.
    pub fn open(&mut self) -> Result<(), Error> {
        self.open_in(&[])
    }

    /// The same in these layers.
    ///
    /// # Errors
    /// As [`Hooks::open`].
    pub(crate) fn open_in(&self, layers: &[Layer]) -> Result<(), Error> {
        let Some(open) = self.closed.table().raw().open else {
            return Err(self.missing("open"));
        };
        if self.opened.get().is_some() {
            return Err(Error::misuse("open a plugin", "it is open"));
        }
        let span = self.span("open");
        let mut handle = PluginHandle::NONE;
        // SAFETY: the services live as long as the process; `handle` and the error pointer are ours.
        self.call(&self.closed, "open", |error| unsafe {
            open(services(), &raw mut handle, error)
        })?;
        drop(span);
        if handle.is_none() {
            return Err(self.fault("open", "it answered OK with the handle 0, which is none"));
        }
        // SAFETY: `open` of this table gave the handle, and `close` drops the stack with it.
        let own = unsafe { Target::new(*self.closed.table(), handle) };
        let stack = Stack::around(&self.name, own, layers);
        let opened = self.opened.set(Opened { own, stack });
        opened.map_err(|_opened| Error::misuse("open a plugin", "another thread opened it"))
    }

    /// Closes the plugin; every hook fails afterwards.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn close(&mut self) -> Result<(), Error> {
        let result = hook!(self, close, ());
        self.opened.take();
        result
    }

    /// Counts devices.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn device_count(&self) -> Result<u32, Error> {
        let mut out = 0;
        hook!(self, device_count, (&raw mut out)).map(|()| out)
    }

    /// Describes a device.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn device_info(&self, device: u32) -> Result<DeviceInfo, Error> {
        let mut out = std::mem::MaybeUninit::<DeviceInfo>::uninit();
        hook!(self, device_info, (device, out.as_mut_ptr()))?;
        // SAFETY: the hook succeeded, so it wrote the answer; every bit pattern is a `DeviceInfo`.
        Ok(unsafe { out.assume_init() })
    }

    /// Refuses new work from now on, and blocks until earlier work ends, or for `deadline_ns`.
    ///
    /// # Errors
    /// What the hook answered.
    pub fn retire(&self, deadline_ns: u64) -> Result<(), Error> {
        hook!(self, retire, (deadline_ns))
    }

    /// Calls a hook. Inlined up to a success, which many calls wait for; a failure may take its time.
    #[inline]
    pub(crate) fn call(
        &self,
        target: &Target,
        hook: &str,
        call: impl FnOnce(ErrorOut) -> Status,
    ) -> Result<(), Error> {
        self.check_called(hook)?;
        let mut raw: *mut RawError = std::ptr::null_mut();
        let status = call(&raw mut raw);
        if !status.is_ok() {
            return Err(self.failed(target, hook, status, raw));
        }
        if !raw.is_null() {
            Self::discard(target, raw);
        }
        Ok(())
    }

    /// Fails as a hook does that is not called any more: after a panic, in the child of a fork and once the
    /// process exits.
    #[inline]
    pub(crate) fn check_called(&self, hook: &str) -> Result<(), Error> {
        match self.called_in.load(Ordering::Acquire) == process_state::state() {
            true => Ok(()),
            false => Err(self.not_called(hook)),
        }
    }

    /// Why no hook is called any more.
    #[cold]
    fn not_called(&self, hook: &str) -> Error {
        self.count_release(hook);
        if self.is_forked() {
            self.failure(hook, Status::FORKED, "the plugin was opened before a fork")
        } else if process_state::exiting() {
            self.failure(hook, Status::EXITING, EXITS)
        } else {
            self.failure(hook, Status::PANIC, QUARANTINED)
        }
    }

    /// What a hook's failure is to the caller. Copies the error object out and gives it back.
    #[cold]
    fn failed(&self, target: &Target, hook: &str, status: Status, raw: *mut RawError) -> Error {
        // What was declined is the host's still, which gives it back in another way or later.
        let declines = [
            ("free_async", Status::UNSUPPORTED),
            ("unregister_host", Status::NOT_READY),
        ];
        if !declines.contains(&(hook, status)) {
            self.count_release(hook);
        }
        if status == Status::PANIC {
            panics::note();
        }
        // A plugin that was told of the exit while the hook ran has given up what the hook asks for.
        if process_state::exiting() {
            Self::discard(target, raw);
            return self.failure(hook, Status::EXITING, EXITS);
        }
        let mut error = self.failure(hook, status, "the plugin gave no reason");
        // SAFETY: NULL or an error object that the hook made just now; it stays until it is freed.
        let Some(object) = (unsafe { raw.as_ref() }) else {
            return self.quarantine_if_panicked(error);
        };
        if let Error::Hook {
            operation,
            native_code,
            native_name,
            message,
            ..
        } = &mut error
        {
            // SAFETY: the object is freed below, after its texts were read.
            let [own, name, why] = [object.operation, object.native_name, object.message]
                .map(|text| unsafe { read_text(text) });
            if !own.is_empty() && own != hook {
                *operation = format!("{hook}: {own}");
            }
            *native_code = object.native_code;
            *native_name = name;
            *message = why;
        }
        Self::discard(target, raw);
        self.quarantine_if_panicked(error)
    }

    /// Calls no hook any more after a panic, and tells those who wait for the plugin.
    fn quarantine_if_panicked(&self, error: Error) -> Error {
        if error.status() == Some(Status::PANIC) {
            self.called_in.store(QUARANTINE, Ordering::Release);
            let watchers = self.watchers().take().unwrap_or_default();
            for watcher in watchers.alive() {
                watcher.quarantined(&error);
            }
        }
        error
    }

    /// Tells `watcher` when the plugin is quarantined, while somebody holds it; at once where the
    /// plugin is quarantined already.
    pub(crate) fn watch_quarantine(&self, watcher: Arc<dyn OnQuarantine>) {
        let mut watchers = self.watchers();
        let Some(others) = watchers.as_mut() else {
            drop(watchers);
            let error = self.failure("wait for the plugin", Status::PANIC, QUARANTINED);
            return watcher.quarantined(&error);
        };
        others.push(Arc::downgrade(&watcher));
        drop(watchers);
        // It may be the last holder, whose end calls hooks.
        drop(watcher);
    }

    fn watchers(&self) -> MutexGuard<'_, Option<WeakList<dyn OnQuarantine>>> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives an error object back to the plugin, where there is one; what it says is not asked.
    #[cold]
    pub(crate) fn discard(target: &Target, raw: *mut RawError) {
        if let Some(free) = target.table().raw().error_free.filter(|_| !raw.is_null()) {
            // SAFETY: the object is this plugin's, and nothing borrows it any more.
            unsafe { free(raw) };
        }
    }

    /// What was not given back is a leak that is counted, whether the hook failed or was not called.
    fn count_release(&self, hook: &str) {
        if RELEASES.contains(&hook) {
            process_state::count_leak();
        }
    }

    /// Tells the plugin that the process exits; no hook is called afterwards. What a child inherited is
    /// its parent's to tell.
    pub(crate) fn at_exit(&self) {
        let target = self.target();
        let hook = target.table().raw().at_exit;
        if let Some(hook) = hook.filter(|_| self.is_usable() && !self.is_forked()) {
            // SAFETY: a live handle; the hook takes nothing else.
            unsafe { hook(target.handle()) };
        }
    }

    /// Tells the plugin that this is the child of a fork; no hook is called afterwards.
    pub(crate) fn at_fork_child(&self) {
        let target = self.target();
        let hook = target.table().raw().at_fork_child;
        if let Some(hook) = hook.filter(|_| self.is_usable()) {
            // SAFETY: a live handle; the hook takes nothing else.
            unsafe { hook(target.handle()) };
        }
    }

    fn is_usable(&self) -> bool {
        self.opened.get().is_some() && !self.is_quarantined()
    }

    /// What a hook is called through, once the plugin is open: before that there is no handle.
    #[inline]
    pub(crate) fn opened_target(&self) -> Option<&Target> {
        self.opened.get().map(|opened| opened.stack.target())
    }

    #[cold]
    pub(crate) fn not_open(&self, hook: &str) -> Error {
        self.failure(hook, Status::INVALID, "the plugin is not open")
    }

    #[cold]
    pub(crate) fn missing(&self, hook: &str) -> Error {
        self.failure(
            hook,
            Status::UNSUPPORTED,
            "the plugin does not have this hook",
        )
    }

    fn span(&self, hook: &'static str) -> trace::Span {
        trace::span("hook", hook, || serde_json::json!({ "plugin": self.name }))
    }

    pub(crate) fn fault(&self, hook: &str, why: &str) -> Error {
        self.failure(hook, Status::ABI, why)
    }

    pub(crate) fn failure(&self, hook: &str, status: Status, why: &str) -> Error {
        Error::Hook {
            plugin: self.name.clone(),
            operation: hook.to_owned(),
            status,
            native_code: 0,
            native_name: String::new(),
            message: why.to_owned(),
        }
    }
}

/// The hooks that give something back.
const RELEASES: [&str; 8] = [
    "close",
    "free",
    "free_async",
    "release_adopted",
    "unmap",
    "unregister_host",
    "stream_destroy",
    "event_destroy",
];

const EXITS: &str = "the process is exiting";
const QUARANTINED: &str = "a hook of this plugin panicked before";
