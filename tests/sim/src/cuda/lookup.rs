//! The table of the driver's functions, and those that nobody wrote here: they answer that they are not supported,
//! and say so once.
#![expect(unsafe_code, reason = "looks for functions of this library by name")]

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::AtomicBool;

use super::codes::Code;
use crate::refused::refuse;

/// One form of a function.
#[derive(Debug)]
pub(crate) struct Function {
    /// The name that programs ask for.
    base: &'static str,
    /// The version of the driver that brought it.
    pub(crate) since: i32,
    /// Whether it is the form for per-thread default streams.
    pub(crate) is_twin: bool,
    symbol: &'static CStr,
}

/// The forms of the function that programs ask for by this name.
pub(crate) fn forms(base: &str) -> impl Iterator<Item = &'static Function> {
    FUNCTIONS.iter().filter(move |form| form.base == base)
}

/// Whether there is a function of this name, as programs ask for it or as it is exported.
pub(crate) fn has(name: &str) -> bool {
    let is_it = |form: &Function| form.base == name || form.symbol.to_bytes() == name.as_bytes();
    FUNCTIONS.iter().any(is_it)
}

/// Where the function is.
pub(crate) fn address(form: &Function) -> Option<*const c_void> {
    address_of(form.symbol)
}

/// Where a function of this name is, in this library and in no other one.
pub(crate) fn address_of(symbol: &CStr) -> Option<*const c_void> {
    let mut own = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    let here: *const AtomicBool = &raw const HERE;
    // SAFETY: `own` is written during the call, and any address may be asked for.
    if unsafe { libc::dladdr(here.cast(), &raw mut own) } == 0 {
        return None;
    }
    // SAFETY: the name is the loader's own, of this library, which is loaded.
    let library = unsafe { libc::dlopen(own.dli_fname, libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    if library.is_null() {
        return None;
    }
    // SAFETY: the library is open, and the name is a C string.
    let found = unsafe { libc::dlsym(library, symbol.as_ptr()) };
    // SAFETY: it is closed as often as it was opened; it stays loaded, for this is its code.
    unsafe { libc::dlclose(library) };
    (!found.is_null()).then_some(found.cast_const())
}

/// Any place in this library.
static HERE: AtomicBool = AtomicBool::new(false);

/// Refuses a call of a function that is not simulated.
pub(crate) fn not_simulated(name: &'static str, was_told: &AtomicBool) -> c_int {
    refuse(name, Code::NOT_SUPPORTED.0, was_told);
    Code::NOT_SUPPORTED.0
}

/// Writes functions that take whatever they are given: what C passes beyond that stays unread.
macro_rules! stubs {
    ($($name:ident)*) => {
        $(const _: () = {
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $name() -> std::ffi::c_int {
                static WAS_TOLD: AtomicBool = AtomicBool::new(false);
                not_simulated(stringify!($name), &WAS_TOLD)
            }
        };)*
    };
}

include!(concat!(env!("OUT_DIR"), "/cuda.rs"));
