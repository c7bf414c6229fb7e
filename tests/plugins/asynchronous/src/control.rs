//! How a test holds the devices still, moves them on, makes work fail, and takes the reports.
//!
//! The attribute [`CONTROL`] of any device is the address of a table of C functions, so that no
//! symbol is exported and each open plugin has its own. [`Controlled`] calls it from Rust.
#![expect(unsafe_code, reason = "a table of C functions, and the calls of it")]

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

use crossdock_sdk::fence::fence;
use crossdock_sim_engine::{Engine, Report};

use crate::peers::Peers;
use crate::plugin::OWN;
use crate::settings;

/// The key of the attribute whose value is the address of the [`Control`].
pub const CONTROL: u32 = 0x5349_4d00;

/// Takes a text: any word, the first byte, the length.
pub type Sink = unsafe extern "C" fn(word: *mut c_void, text: *const u8, bytes: usize);

/// The table; every function takes it first, and may be called on any thread while the plugin is open.
#[repr(C)]
#[derive(Debug)]
pub struct Control {
    /// Bytes of this struct.
    pub struct_size: u32,
    /// Zero.
    pub reserved: u32,
    /// Nothing starts until as many calls of `release`; what runs already goes on.
    pub hold: unsafe extern "C" fn(control: *const Self),
    /// Ends one `hold`.
    pub release: unsafe extern "C" fn(control: *const Self),
    /// Runs up to so many operations that can run, whatever the policy; answers how many ran.
    pub progress: unsafe extern "C" fn(control: *const Self, operations: u64) -> u64,
    /// Answers 1 while a thread waits for its turn, else 0.
    pub wants_turn: unsafe extern "C" fn(control: *const Self) -> u32,
    /// Runs everything; answers 1 when nothing was left after at most so long, else 0.
    pub drain: unsafe extern "C" fn(control: *const Self, limit_ns: u64) -> u32,
    /// How many operations were submitted and are not done.
    pub pending: unsafe extern "C" fn(control: *const Self) -> u64,
    /// What happened so far, as one number.
    pub trace: unsafe extern "C" fn(control: *const Self) -> u64,
    /// Nanoseconds of simulated time until now, as the host knows them.
    pub now_ns: unsafe extern "C" fn(control: *const Self) -> u64,
    /// Adds faults, written as in `CROSSDOCK_ASYNCHRONOUS`; 0, or 1 after it told `sink` what is wrong.
    pub inject: unsafe extern "C" fn(
        control: *const Self,
        text: *const u8,
        bytes: usize,
        sink: Sink,
        word: *mut c_void,
    ) -> u32,
    /// Removes all faults, and gives lost devices back.
    pub clear_faults: unsafe extern "C" fn(control: *const Self),
    /// Gives every report so far to `sink`, once, and forgets them.
    pub take_reports: unsafe extern "C" fn(control: *const Self, sink: Sink, word: *mut c_void),
    /// Names each object that the host has not given back.
    pub leaks: unsafe extern "C" fn(control: *const Self, sink: Sink, word: *mut c_void),
    /// Says what stands still, where nothing can run before the host does something.
    pub standstill: unsafe extern "C" fn(control: *const Self, sink: Sink, word: *mut c_void),
    /// How many links are enabled, each direction by itself.
    pub links: unsafe extern "C" fn(control: *const Self) -> u64,
    engine: Engine,
    peers: Arc<Peers>,
}

impl Control {
    pub(crate) fn over(engine: &Engine, peers: &Arc<Peers>) -> Self {
        Self {
            struct_size: u32::try_from(size_of::<Self>()).unwrap_or(0),
            reserved: 0,
            hold,
            release,
            progress,
            wants_turn,
            drain,
            pending,
            trace,
            now_ns,
            inject,
            clear_faults,
            take_reports,
            leaks,
            standstill,
            links,
            engine: engine.clone(),
            peers: Arc::clone(peers),
        }
    }

    /// What the attribute answers.
    pub(crate) fn word(&self) -> u64 {
        std::ptr::from_ref(self).expose_provenance() as u64
    }
}

/// The control of an open plugin, for tests in Rust.
#[derive(Debug, Clone, Copy)]
pub struct Controlled(*const Control);

// SAFETY: the functions may be called on any thread.
unsafe impl Send for Controlled {}
// SAFETY: as above.
unsafe impl Sync for Controlled {}

impl Controlled {
    /// Reads the value of the attribute [`CONTROL`]; `None` when it is no table of this version.
    ///
    /// # Safety
    /// - An open plugin of this crate answered `word`, and stays open as long as this is used.
    #[must_use]
    pub unsafe fn new(word: u64) -> Option<Self> {
        let address = usize::try_from(word).ok().filter(|word| *word != 0)?;
        let control: *const Control = std::ptr::with_exposed_provenance(address);
        // SAFETY: not null, and a table by the caller's promise.
        let size = unsafe { (*control).struct_size };
        (usize::try_from(size) == Ok(size_of::<Control>())).then_some(Self(control))
    }

    fn table(&self) -> &Control {
        // SAFETY: a table that lives while its plugin is open, by the promise of `new`.
        unsafe { &*self.0 }
    }

    /// Nothing starts until as many calls of [`Self::release`].
    pub fn hold(&self) {
        // SAFETY: the table's own function and the table.
        unsafe { (self.table().hold)(self.0) }
    }

    /// Ends one [`Self::hold`].
    pub fn release(&self) {
        // SAFETY: the table's own function and the table.
        unsafe { (self.table().release)(self.0) }
    }

    /// Runs up to so many operations; answers how many ran.
    #[must_use]
    pub fn progress(&self, operations: u64) -> u64 {
        // SAFETY: the table's own function and the table.
        unsafe { (self.table().progress)(self.0, operations) }
    }

    /// Whether a thread waits for its turn.
    #[must_use]
    pub fn wants_turn(&self) -> bool {
        // SAFETY: the table's own function and the table.
        unsafe { (self.table().wants_turn)(self.0) == 1 }
    }

    /// Runs everything; whether nothing was left in time.
    #[must_use]
    pub fn drain(&self, limit: Duration) -> bool {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the table's own function and the table.
        unsafe { (self.table().drain)(self.0, limit_ns) == 1 }
    }

    /// How many operations were submitted and are not done.
    #[must_use]
    pub fn pending(&self) -> u64 {
        // SAFETY: the table's own function and the table.
        unsafe { (self.table().pending)(self.0) }
    }

    /// What happened so far, as one number: equal ones are those of runs that did the same.
    #[must_use]
    pub fn trace(&self) -> u64 {
        // SAFETY: the table's own function and the table.
        unsafe { (self.table().trace)(self.0) }
    }

    /// Simulated time until now, as the host knows it.
    #[must_use]
    pub fn now(&self) -> Duration {
        // SAFETY: the table's own function and the table.
        Duration::from_nanos(unsafe { (self.table().now_ns)(self.0) })
    }

    /// Adds faults: `run:copy@1=VENDOR`.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn inject(&self, faults: &str) -> Result<(), String> {
        let mut why = Vec::new();
        // SAFETY: the table's own function, the table, a text that outlives the call, and a sink
        // with the word that it takes.
        let refused = unsafe {
            (self.table().inject)(
                self.0,
                faults.as_ptr(),
                faults.len(),
                keep,
                word_of(&mut why),
            )
        };
        if refused == 0 {
            Ok(())
        } else {
            Err(why.concat())
        }
    }

    /// Removes all faults, and gives lost devices back.
    pub fn clear_faults(&self) {
        // SAFETY: the table's own function and the table.
        unsafe { (self.table().clear_faults)(self.0) }
    }

    /// What the checker found since the last call.
    #[must_use]
    pub fn take_reports(&self) -> Vec<String> {
        self.texts(self.table().take_reports)
    }

    /// What the host has not given back.
    #[must_use]
    pub fn leaks(&self) -> Vec<String> {
        self.texts(self.table().leaks)
    }

    /// What stands still, where nothing can run before the host does something.
    #[must_use]
    pub fn standstill(&self) -> Option<String> {
        self.texts(self.table().standstill).pop()
    }

    /// How many links are enabled, each direction by itself.
    #[must_use]
    pub fn links(&self) -> u64 {
        // SAFETY: the table's own function and the table.
        unsafe { (self.table().links)(self.0) }
    }

    fn texts(&self, of: unsafe extern "C" fn(*const Control, Sink, *mut c_void)) -> Vec<String> {
        let mut texts = Vec::new();
        // SAFETY: the table's own function, the table, and a sink with the word that it takes.
        unsafe { of(self.0, keep, word_of(&mut texts)) };
        texts
    }
}

fn word_of(texts: &mut Vec<String>) -> *mut c_void {
    std::ptr::from_mut(texts).cast()
}

/// The sink of [`Controlled`].
unsafe extern "C" fn keep(word: *mut c_void, text: *const u8, bytes: usize) {
    // SAFETY: `word_of` made it of a vector that outlives the call.
    let texts = unsafe { &mut *word.cast::<Vec<String>>() };
    // SAFETY: the plugin gives a text that is there for the call.
    let text = unsafe { std::slice::from_raw_parts(text, bytes) };
    let _caught = fence(|| texts.push(String::from_utf8_lossy(text).into_owned()));
}

/// Calls the engine of a table behind the fence. Each function of the table is called with that
/// table, as [`Control`] says.
///
/// # Safety
/// - `control` is a live table.
unsafe fn on<R>(control: *const Control, otherwise: R, call: impl FnOnce(&Engine) -> R) -> R {
    // SAFETY: live, by the caller's promise.
    let engine = unsafe { &(*control).engine };
    fence(|| call(engine)).unwrap_or(otherwise)
}

unsafe extern "C" fn hold(control: *const Control) {
    // SAFETY: the caller passes the table that this function is in, which is live.
    unsafe { on(control, (), Engine::hold) }
}

unsafe extern "C" fn release(control: *const Control) {
    // SAFETY: the caller passes the table that this function is in, which is live.
    unsafe { on(control, (), Engine::release) }
}

unsafe extern "C" fn progress(control: *const Control, operations: u64) -> u64 {
    let operations = usize::try_from(operations).unwrap_or(usize::MAX);
    // SAFETY: the caller passes the table that this function is in, which is live.
    unsafe { on(control, 0, |engine| engine.progress(operations) as u64) }
}

unsafe extern "C" fn wants_turn(control: *const Control) -> u32 {
    // SAFETY: the caller passes the table that this function is in, which is live.
    unsafe { on(control, 0, |engine| u32::from(engine.wants_turn())) }
}

unsafe extern "C" fn drain(control: *const Control, limit_ns: u64) -> u32 {
    let limit = Duration::from_nanos(limit_ns);
    // SAFETY: the caller passes the table that this function is in, which is live.
    unsafe { on(control, 0, |engine| u32::from(engine.drain(limit).is_ok())) }
}

unsafe extern "C" fn pending(control: *const Control) -> u64 {
    // SAFETY: the caller passes the table that this function is in, which is live.
    unsafe { on(control, 0, |engine| engine.pending() as u64) }
}

unsafe extern "C" fn trace(control: *const Control) -> u64 {
    // SAFETY: forwarded.
    unsafe { on(control, 0, Engine::trace) }
}

unsafe extern "C" fn now_ns(control: *const Control) -> u64 {
    // SAFETY: the caller passes the table that this function is in, which is live.
    unsafe { on(control, 0, Engine::now_ns) }
}

unsafe extern "C" fn inject(
    control: *const Control,
    text: *const u8,
    bytes: usize,
    sink: Sink,
    word: *mut c_void,
) -> u32 {
    let add = |engine: &Engine| {
        // SAFETY: the caller gives a text that is there for the call.
        let text = unsafe { std::slice::from_raw_parts(text, bytes) };
        match settings::faults(&String::from_utf8_lossy(text)) {
            Ok(faults) => {
                faults.into_iter().for_each(|fault| engine.inject(fault));
                0
            }
            Err(why) => {
                // SAFETY: the caller's sink and its word.
                unsafe { sink(word, why.as_ptr(), why.len()) };
                1
            }
        }
    };
    // SAFETY: the caller passes the table that this function is in, which is live.
    unsafe { on(control, 1, add) }
}

unsafe extern "C" fn clear_faults(control: *const Control) {
    // SAFETY: the caller passes the table that this function is in, which is live.
    unsafe { on(control, (), Engine::clear_faults) }
}

unsafe extern "C" fn take_reports(control: *const Control, sink: Sink, word: *mut c_void) {
    // SAFETY: the caller passes the table that this function is in, which is live.
    unsafe { tell(control, sink, word, Engine::take_reports) }
}

unsafe extern "C" fn leaks(control: *const Control, sink: Sink, word: *mut c_void) {
    let of_the_host = |engine: &Engine| {
        let mut left = engine.leaks();
        left.retain(|report| report.first.name() != OWN);
        left
    };
    // SAFETY: the caller passes the table that this function is in, which is live.
    unsafe { tell(control, sink, word, of_the_host) }
}

unsafe extern "C" fn standstill(control: *const Control, sink: Sink, word: *mut c_void) {
    // SAFETY: the caller passes the table that this function is in, which is live.
    unsafe {
        tell(control, sink, word, |engine| {
            engine.standstill().into_iter().collect()
        })
    }
}

unsafe extern "C" fn links(control: *const Control) -> u64 {
    // SAFETY: the caller passes the table that this function is in, which is live.
    let peers = unsafe { &(*control).peers };
    fence(|| peers.enabled() as u64).unwrap_or(0)
}

/// Gives reports to a sink, as text.
///
/// # Safety
/// - `control` is a live table, and `sink` takes `word` and texts.
unsafe fn tell(
    control: *const Control,
    sink: Sink,
    word: *mut c_void,
    reports: impl FnOnce(&Engine) -> Vec<Report>,
) {
    let tell = |engine: &Engine| {
        for report in reports(engine) {
            let text = report.to_string();
            // SAFETY: the caller's sink and its word, and a text that outlives the call.
            unsafe { sink(word, text.as_ptr(), text.len()) };
        }
    };
    // SAFETY: the caller passes the table that this function is in, which is live.
    unsafe { on(control, (), tell) }
}
