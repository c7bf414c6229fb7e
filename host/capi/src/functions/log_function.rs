//! `xd_log_set`: the log goes to a function of the caller.
//!
//! The library has one logger. Which function it calls is swapped without a lock, so that a log
//! function may set another one.
#![expect(unsafe_code, reason = "calls a log function of callers")]

use std::ffi::{c_char, c_void};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use crossdock_api::{Failure, LogFunction};
use log::{LevelFilter, Log, Metadata, Record};

use crate::crossing::boundary::fence_call;
use crate::crossing::error_object::c_text;
use crate::crossing::failure::Refusal;

static LOGGER: Logger = Logger;
static SINK: ArcSwapOption<Sink> = ArcSwapOption::const_empty();

/// Where lines go.
struct Sink {
    function: unsafe extern "C" fn(*mut c_void, u32, *const c_char, *const c_char),
    word: *mut c_void,
}

// SAFETY: the word is only passed back, and the header asks for a function that any thread may call.
unsafe impl Send for Sink {}
// SAFETY: as above, also on several threads at once.
unsafe impl Sync for Sink {}

struct Logger;

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        if let Some(sink) = &*SINK.load() {
            let (target, message) = (c_text(record.target()), c_text(record.args().to_string()));
            // SAFETY: the caller of `xd_log_set` promised a function that may be called with its
            // word on any thread; both texts live for the call.
            unsafe {
                (sink.function)(
                    sink.word,
                    record.level() as u32,
                    target.as_ptr(),
                    message.as_ptr(),
                )
            };
        }
    }

    fn flush(&self) {}
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xd_log_set(
    function: LogFunction,
    word: *mut c_void,
    level: u32,
) -> Failure {
    fence_call("xd_log_set", || {
        let filter = filter(level)?;
        let Some(function) = function else {
            if SINK.swap(None).is_some() {
                log::set_max_level(LevelFilter::Off);
                crossdock::log_level_changed();
            }
            return Ok(());
        };
        install()?;
        SINK.store(Some(Arc::new(Sink { function, word })));
        log::set_max_level(filter);
        crossdock::log_level_changed();
        Ok(())
    })
}

fn filter(level: u32) -> Result<LevelFilter, Refusal> {
    let filters = LevelFilter::iter();
    let found = usize::try_from(level)
        .ok()
        .and_then(|level| filters.into_iter().nth(level));
    found.ok_or_else(|| Refusal::argument(format!("level {level} is not between 0 and 5")))
}

/// Makes ours the logger of the program, unless it has one.
fn install() -> Result<(), Refusal> {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    let ours = INSTALLED.get_or_init(|| log::set_logger(&LOGGER).is_ok());
    ours.then_some(()).ok_or(Refusal::SecondLogger)
}
