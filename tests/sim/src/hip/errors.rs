//! The last error of each thread, and results in words.
#![expect(unsafe_code, reason = "the runtime's functions are exported by name")]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};

use super::entry::{Answer, Out, entries};
use crate::face::codes::{self, Code};
use crate::process::Process;

thread_local! {
    static LAST: Cell<i32> = const { Cell::new(0) };
}

/// Notes what a call answered. Before HIP 7 it is what the last call answered, and from then on the last error, which
/// pending work is none.
pub(crate) fn note(number: i32) {
    let keeps = Process::get().is_ok_and(|process| process.hip >= (7, 0));
    let is_error = ![0, Code::NOT_READY.0].contains(&number);
    if is_error || !keeps {
        LAST.set(number);
    }
}

/// The last error of this thread, which is forgotten.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn hipGetLastError() -> c_int {
    LAST.replace(0)
}

/// The last error of this thread, which stays.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn hipPeekAtLastError() -> c_int {
    LAST.get()
}

/// The name of a result.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn hipGetErrorName(error: c_int) -> *const c_char {
    words(error)
        .map_or(c"hipErrorUnknown", |(name, _)| name)
        .as_ptr()
}

/// Its sentence.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn hipGetErrorString(error: c_int) -> *const c_char {
    words(error)
        .map_or(c"unknown error", |(_, text)| text)
        .as_ptr()
}

entries! {
    before_init
    fn hipDrvGetErrorName(error: c_int, name: Out<*const c_char>) |_call| {
        tell(name, words(error).map(|(name, _)| name))
    }

    fn hipDrvGetErrorString(error: c_int, text: Out<*const c_char>) |_call| {
        tell(text, words(error).map(|(_, text)| text))
    }
}

/// Name and sentence of a result that HIP has.
fn words(error: c_int) -> Option<(&'static CStr, &'static CStr)> {
    let ([_, name], text) = codes::words(error)?;
    (!name.is_empty()).then_some((name, text))
}

fn tell(out: Out<*const c_char>, words: Option<&'static CStr>) -> Answer {
    match words {
        Some(words) => out.set(words.as_ptr()),
        None => {
            out.set(std::ptr::null())?;
            Err(Code::INVALID_VALUE)
        }
    }
}
