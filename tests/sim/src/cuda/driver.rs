//! The driver itself: `cuInit`, its version, errors in words, and functions by their names.
#![expect(unsafe_code, reason = "the driver's functions are exported by name")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use super::codes::{self, Code};
use super::entry::{Answer, IS_INITIALISED, In, Out, entries};
use super::lookup;
use crate::refused::refuse;

/// `CU_GET_PROC_ADDRESS_*`: the flags of a look-up, and what it says of itself.
const LEGACY_STREAM: u64 = 1;
const PER_THREAD_DEFAULT_STREAM: u64 = 2;
const FOUND: c_int = 0;
const SYMBOL_NOT_FOUND: c_int = 1;
const VERSION_NOT_SUFFICIENT: c_int = 2;

entries! {
    before_init
    fn cuInit(flags: u32) |call| {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        if call.devices().is_empty() {
            return Err(Code::NO_DEVICE);
        }
        IS_INITIALISED.store(true, Ordering::Release);
        Ok(())
    }

    fn cuDriverGetVersion(version: Out<c_int>) |call| {
        version.set(call.process.driver)
    }

    fn cuGetErrorName(error: c_int, name: Out<*const c_char>) |_call| {
        words(error, name, |([name, _], _)| name)
    }

    fn cuGetErrorString(error: c_int, text: Out<*const c_char>) |_call| {
        words(error, text, |(_, text)| text)
    }

    fn cuGetProcAddress(symbol: In<c_char>, function: Out<*const c_void>, version: c_int, flags: u64) |call| {
        find(call.process.driver, &call.process.missing, symbol, function, version, flags).map_err(|(code, _)| code)
    }

    fn cuGetProcAddress_v2(
        symbol: In<c_char>,
        function: Out<*const c_void>,
        version: c_int,
        flags: u64,
        status: Out<c_int>,
    ) |call| {
        let found = find(call.process.driver, &call.process.missing, symbol, function, version, flags);
        status.offer(match found {
            Ok(()) => FOUND,
            Err((_, status)) => status,
        });
        found.map_err(|(code, _)| code)
    }

    // Its tables are NVIDIA's own, and not simulated.
    fn cuGetExportTable(table: Out<*const c_void>, _id: In<[u8; 16]>) |_call| {
        static WAS_TOLD: AtomicBool = AtomicBool::new(false);
        table.set(std::ptr::null())?;
        refuse("cuGetExportTable", Code::NOT_FOUND.0, &WAS_TOLD);
        Err(Code::NOT_FOUND)
    }
}

fn words(
    error: c_int,
    out: Out<*const c_char>,
    which: impl Fn(([&'static CStr; 2], &'static CStr)) -> &'static CStr,
) -> Answer {
    match codes::words(error) {
        Some(words) => out.set(which(words).as_ptr()),
        None => {
            out.set(std::ptr::null())?;
            Err(Code::INVALID_VALUE)
        }
    }
}

/// The newest form of a function that a program of this version asks for and the driver has.
fn find(
    driver: i32,
    missing: &[String],
    symbol: In<c_char>,
    function: Out<*const c_void>,
    version: c_int,
    flags: u64,
) -> Result<(), (Code, c_int)> {
    let invalid = |code| (code, SYMBOL_NOT_FOUND);
    function.set(std::ptr::null()).map_err(invalid)?;
    if symbol.raw().is_null() || flags & !(LEGACY_STREAM | PER_THREAD_DEFAULT_STREAM) != 0 {
        return Err(invalid(Code::INVALID_VALUE));
    }
    // SAFETY: it is not NULL, and a C string by the driver's own rule.
    let name = unsafe { CStr::from_ptr(symbol.raw()) };
    let name = name.to_str().ok().ok_or(invalid(Code::NOT_FOUND))?;
    if missing.iter().any(|one| one == name) {
        return Err((Code::NOT_FOUND, SYMBOL_NOT_FOUND));
    }
    let forms: Vec<_> = lookup::forms(name).collect();
    let newest = version.min(driver);
    let wants_twin = flags & PER_THREAD_DEFAULT_STREAM != 0;
    let best = forms
        .iter()
        .filter(|form| form.since <= newest && (wants_twin || !form.is_twin))
        .max_by_key(|form| (form.is_twin, form.since));
    let Some(form) = best else {
        let status = if forms.is_empty() {
            SYMBOL_NOT_FOUND
        } else {
            VERSION_NOT_SUFFICIENT
        };
        return Err((Code::NOT_FOUND, status));
    };
    let address = lookup::address(form).ok_or((Code::NOT_FOUND, SYMBOL_NOT_FOUND))?;
    function.set(address).map_err(invalid)
}
