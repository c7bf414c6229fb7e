//! The open plugins of the process: each file is opened once, and all are told of exit and fork.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use arc_swap::{ArcSwap, ArcSwapOption};

use crate::error::Error;
use crate::plugin_files::{FileIdentity, Preflight};
use crate::plugins::float_mode::FloatMode;
use crate::plugins::plugin::{Found, Plugin, PluginState};
use crate::plugins::signals::KeptSignals;
use crate::process::process_state;

/// What is open in this process, or in the one that it was forked from.
static TABLE: ArcSwapOption<Table> = ArcSwapOption::const_empty();

/// How many plugins that ask their driver whose memory is were opened by this process, and by those that it
/// was forked from.
static NEWEST_QUERYING_PLUGIN: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Whether this thread runs code of a plugin that is being loaded.
    static LOADING: Cell<bool> = const { Cell::new(false) };
}

/// The child of a fork begins with a table of its own: the lock of the parent's may be held by a
/// thread that the child does not have.
#[derive(Debug, Default)]
struct Table {
    generation: u32,
    /// The parent's, never given back: its plugins may not be closed here.
    inherited: Option<Arc<Self>>,
    state: Mutex<State>,
    changed: Condvar,
    /// Told of exit and fork, where no lock may be taken.
    told: ArcSwap<Vec<Weak<Plugin>>>,
    /// The drivers that plugins have started, by their sonames, one for each start; children read
    /// this. What was started runs on when its plugin is closed.
    drivers: ArcSwap<Vec<String>>,
    signals: KeptSignals,
    /// The open plugins that ask their driver whose memory is, with their numbers.
    querying_plugins: ArcSwap<Vec<(u32, Weak<Plugin>)>>,
    /// How many such plugins the ancestors of this process had opened.
    inherited_querying_plugins: u32,
}

/// A driver was started by an ancestor of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inherited;

#[derive(Debug, Default)]
struct State {
    opened: Vec<Opened>,
    loading: Vec<Source>,
    /// Why a source failed at first; a later try may know less.
    failures: Vec<(Source, String)>,
}

/// Where a plugin comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The CPU plugin that is linked in.
    #[cfg(feature = "cpu")]
    BuiltIn,
    /// A file.
    File(FileIdentity),
}

/// An open plugin, and the file that it was loaded from, held open to be compared with others.
#[derive(Debug, Clone)]
pub(crate) struct Opened {
    source: Source,
    pub(crate) file: Option<Arc<Preflight>>,
    plugin: Weak<Plugin>,
}

impl Opened {
    /// The plugin, while it is of use to a new runtime: one that could not be opened is tried again.
    pub(crate) fn plugin(&self) -> Option<Arc<Plugin>> {
        let is_of_use = |plugin: &Arc<Plugin>| !plugin.is_retired() && plugin.failure().is_none();
        self.plugin.upgrade().filter(is_of_use)
    }
}

/// The files that are open, with their plugins.
pub(crate) fn files() -> Vec<Opened> {
    let table = table();
    let state = table.state();
    let files = state.opened.iter().filter(|open| open.file.is_some());
    files.cloned().collect()
}

/// Refuses a plugin that uses Crossdock while it is being loaded by Crossdock.
///
/// # Errors
/// [`Error::Misuse`].
pub(crate) fn check_reentry(operation: &'static str) -> Result<(), Error> {
    if LOADING.get() {
        let why = "a plugin is being loaded on this thread, and it called Crossdock again: \
                   a plugin must not use the host while it is loaded, probed or opened";
        return Err(Error::misuse(operation, why));
    }
    Ok(())
}

/// Gives the plugin of a source, or loads it; a second thread waits for the first.
///
/// # Errors
/// What `open` said, with what it said at first where that was something else.
pub(crate) fn open_once(
    source: Source,
    file: Option<Preflight>,
    open: impl FnOnce(Option<&Preflight>) -> Result<Plugin, Error>,
) -> Result<Arc<Plugin>, Error> {
    check_reentry("load a plugin")?;
    let table = table();
    let loading = match table.begin(source) {
        Turn::Open(plugin) => return Ok(plugin),
        Turn::Mine(loading) => loading,
    };
    let kept = (FloatMode::keep(), table.signals.keep());
    let result = open(file.as_ref());
    drop(kept);
    loading.finish(file, result)
}

/// Probes and opens a plugin, unless that was done; a second thread waits for the first.
///
/// # Errors
/// [`Error::Misuse`] from a plugin that is being loaded.
pub(crate) fn start(plugin: &Arc<Plugin>) -> Result<(), Error> {
    if plugin.is_started() {
        return Ok(());
    }
    check_reentry("open a plugin")?;
    let table = table();
    plugin.start(|| {
        let _loading = OnThisThread::begin();
        for retired in table.retired_before(plugin) {
            retired.never_start();
        }
        // An exit that begins meanwhile waits for it, so that the plugin is told.
        let awaited = process_state::delay_exit();
        let kept = (FloatMode::keep(), table.signals.keep());
        let found = plugin.bring_up();
        if matches!(found, Ok(PluginState::Ready)) && plugin.hooks().table().asks_driver() {
            table.add_querying_plugin(plugin);
        }
        drop((kept, awaited));
        table.with_first_cause(plugin, found)
    });
    // What the plugin's library destroys at exit was registered before this.
    process_state::watch_exit();
    Ok(())
}

/// While this thread runs code of a plugin that is being loaded or opened.
struct OnThisThread;

impl OnThisThread {
    fn begin() -> Self {
        LOADING.set(true);
        Self
    }
}

impl Drop for OnThisThread {
    fn drop(&mut self) {
        LOADING.set(false);
    }
}

/// Notes that a plugin is about to start its driver.
///
/// # Errors
/// [`Inherited`]: it must not be started.
pub(crate) fn start_driver(driver: &str) -> Result<(), Inherited> {
    let own = table();
    let mut ancestor = own.inherited.as_ref();
    while let Some(table) = ancestor {
        if table.drivers.load().iter().any(|other| other == driver) {
            return Err(Inherited);
        }
        ancestor = table.inherited.as_ref();
    }
    own.drivers.rcu(|drivers| {
        let mut next = Vec::clone(drivers);
        next.push(driver.to_owned());
        next
    });
    Ok(())
}

/// Takes that back, once: there was no such driver. Others may have found it.
pub(crate) fn forget_driver(driver: &str) {
    table().drivers.rcu(|drivers| {
        let mut next = Vec::clone(drivers);
        let at = next.iter().position(|other| other == driver);
        at.map(|at| next.swap_remove(at));
        next
    });
}

/// The number of the newest plugin that asks its driver whose memory is; 0 where there is none.
#[inline]
pub(crate) fn newest_querying_plugin() -> u32 {
    NEWEST_QUERYING_PLUGIN.load(Ordering::Acquire)
}

/// The same of the ancestors of this process, whose plugins nobody here can ask.
pub(crate) fn newest_inherited_querying_plugin() -> u32 {
    table().inherited_querying_plugins
}

/// The open plugins that ask their driver whose memory is and that came after the one with this number.
pub(crate) fn querying_plugins_after(number: u32) -> Vec<Arc<Plugin>> {
    let plugins = table().querying_plugins.load_full();
    let later = plugins.iter().filter(|(own, _)| *own > number);
    let open = later.filter_map(|(_, plugin)| plugin.upgrade());
    open.filter(|plugin| !plugin.is_retired()).collect()
}

/// Watches for the exit and the forks of this process from now on, as the first runtime does.
///
/// Of a fork that had begun before on another thread, the child learns when it opens a runtime, and not
/// before: a library calls this when it is loaded. Any thread may call it, any number of times.
pub fn watch() {
    process_state::tell(process_state::Told {
        exit: tell_exit,
        fork: tell_fork,
    });
    process_state::watch();
}

/// Tells every open plugin that the process exits.
fn tell_exit() {
    tell(|plugin| {
        plugin.hooks().at_exit();
        plugin.releases().wake();
    });
}

/// Tells every inherited plugin that this is the child of a fork.
fn tell_fork() {
    tell(|plugin| plugin.hooks().at_fork_child());
}

fn tell(call: impl Fn(&Plugin)) {
    let table = TABLE.load();
    let Some(table) = table.as_ref() else {
        return;
    };
    for plugin in table.told.load().iter().filter_map(Weak::upgrade) {
        call(&plugin);
    }
}

fn table() -> Arc<Table> {
    let generation = process_state::generation();
    loop {
        let now = TABLE.load();
        if let Some(table) = now.as_ref().filter(|table| table.generation == generation) {
            return Arc::clone(table);
        }
        let fresh = Table {
            generation,
            inherited: now.as_ref().map(Arc::clone),
            inherited_querying_plugins: newest_querying_plugin(),
            ..Table::default()
        };
        TABLE.compare_and_swap(&*now, Some(Arc::new(fresh)));
    }
}

impl Table {
    fn state(&self) -> MutexGuard<'_, State> {
        // Each change of the state is one push or one removal.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The open plugin, or the right to open it.
    fn begin(self: &Arc<Self>, source: Source) -> Turn {
        let mut state = self.state();
        loop {
            state.opened.retain(|open| open.plugin.strong_count() > 0);
            let mut same = state.opened.iter().filter(|open| open.source == source);
            if let Some(plugin) = same.find_map(Opened::plugin) {
                return Turn::Open(plugin);
            }
            if !state.loading.contains(&source) {
                break;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.loading.push(source);
        drop(state);
        Turn::Mine(Loading {
            table: Arc::clone(self),
            source,
            _this: OnThisThread::begin(),
        })
    }

    /// Has claims of memory checked with this plugin too.
    fn add_querying_plugin(&self, plugin: &Arc<Plugin>) {
        let _one_at_a_time = self.state();
        let number = newest_querying_plugin() + 1;
        self.querying_plugins.rcu(|plugins| {
            let open = plugins.iter().filter(|(_, old)| old.strong_count() > 0);
            let mut next: Vec<_> = open.cloned().collect();
            next.push((number, Arc::downgrade(plugin)));
            next
        });
        NEWEST_QUERYING_PLUGIN.store(number, Ordering::Release);
    }

    /// The retired plugins of the same file that were loaded before. One may still be being opened, which this
    /// one must not be at the same time. Those that were loaded later wait for this one.
    fn retired_before(&self, plugin: &Arc<Plugin>) -> Vec<Arc<Plugin>> {
        let state = self.state();
        let source = state.source_of(plugin);
        let opened = state.opened.iter();
        let is_own = |open: &&Opened| ptr::eq(open.plugin.as_ptr(), Arc::as_ptr(plugin));
        let earlier = opened.take_while(|open| !is_own(open));
        let same = earlier.filter(|open| Some(open.source) == source);
        let same = same.filter_map(|open| open.plugin.upgrade());
        same.filter(|other| other.is_retired()).collect()
    }

    /// What was found of a plugin, with what was said at first where that was something else.
    fn with_first_cause(&self, plugin: &Arc<Plugin>, found: Found) -> Found {
        let mut state = self.state();
        let Some(source) = state.source_of(plugin) else {
            return found;
        };
        match found {
            Err(error) => Err(state.with_first_cause(source, error)),
            Ok(PluginState::Broken { why }) => {
                let why = state.first_cause(source, &why);
                Ok(PluginState::Broken { why })
            }
            works => {
                state.failures.retain(|(other, _)| *other != source);
                works
            }
        }
    }
}

/// Whose turn it is to open a plugin.
enum Turn {
    /// Nobody's: it is open.
    Open(Arc<Plugin>),
    /// The caller's; others wait for it.
    Mine(Loading),
}

/// The right to load one source; given back when it is dropped.
struct Loading {
    table: Arc<Table>,
    source: Source,
    _this: OnThisThread,
}

impl Loading {
    fn finish(
        self,
        file: Option<Preflight>,
        result: Result<Plugin, Error>,
    ) -> Result<Arc<Plugin>, Error> {
        let mut state = self.table.state();
        let plugin = match result {
            Ok(plugin) => plugin,
            Err(error) => return Err(state.with_first_cause(self.source, error)),
        };
        let plugin = Arc::new(plugin);
        state.opened.push(Opened {
            source: self.source,
            file: file.map(Arc::new),
            plugin: Arc::downgrade(&plugin),
        });
        drop(state);
        self.table.told.rcu(|told| {
            let mut next: Vec<_> = told
                .iter()
                .filter(|old| old.strong_count() > 0)
                .cloned()
                .collect();
            next.push(Arc::downgrade(&plugin));
            next
        });
        Ok(plugin)
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        let source = self.source;
        self.table.state().loading.retain(|other| *other != source);
        self.table.changed.notify_all();
    }
}

impl State {
    fn source_of(&self, plugin: &Arc<Plugin>) -> Option<Source> {
        let is_it = |open: &&Opened| open.plugin.as_ptr() == Arc::as_ptr(plugin);
        self.opened.iter().find(is_it).map(|open| open.source)
    }

    fn with_first_cause(&mut self, source: Source, mut error: Error) -> Error {
        if let Error::Load { why, .. } | Error::Hook { message: why, .. } = &mut error {
            *why = self.first_cause(source, why);
        }
        error
    }

    /// The cause of this failure, and that of the first one where it was another.
    fn first_cause(&mut self, source: Source, why: &str) -> String {
        let first = self.failures.iter().find(|(other, _)| *other == source);
        match first {
            Some((_, first)) if first != why => format!("{why}; the first try failed: {first}"),
            Some(_) => why.to_owned(),
            None => {
                self.failures.push((source, why.to_owned()));
                why.to_owned()
            }
        }
    }
}
