//! Functions by their names, and those that nobody wrote here: they answer that they are not supported, and say so
//! once.
#![expect(unsafe_code, reason = "the runtime's functions are exported by name")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::AtomicBool;

use super::entry::{Answer, Call, In, Out, entries};
use super::errors::note;
use crate::cuda::devices::text;
use crate::cuda::lookup::{address_of, not_simulated};
use crate::face::codes::Code;

/// `HIP_GET_PROC_ADDRESS_*`.
const FOUND: c_int = 0;
const SYMBOL_NOT_FOUND: c_int = 1;
/// The flag for the forms with the thread's own default stream.
const PER_THREAD_DEFAULT_STREAM: u64 = 2;

entries! {
    before_init
    fn hipGetProcAddress(
        symbol: In<c_char>,
        function: Out<*const c_void>,
        version: c_int,
        flags: u64,
        status: Out<c_int>,
    ) |call| {
        let found = find(call, symbol, function, version, flags);
        let is_missing = found == Err(Code::NOT_FOUND);
        status.offer(if is_missing { SYMBOL_NOT_FOUND } else { FOUND });
        // A name that is not found is told by the status alone.
        if is_missing { Err(Code::INVALID_VALUE) } else { found }
    }
}

/// Whether there is a function of this name.
pub(crate) fn has(name: &str) -> bool {
    FUNCTIONS
        .iter()
        .any(|symbol| symbol.to_bytes() == name.as_bytes())
}

/// The form of a function that a program of this version (603 is 6.3) asks for.
fn find(
    call: &Call,
    symbol: In<c_char>,
    function: Out<*const c_void>,
    version: c_int,
    flags: u64,
) -> Answer {
    function.set(std::ptr::null())?;
    let name = text(symbol)?;
    let is_missing = call.process.missing.contains(&name);
    let known = |name: &str| FUNCTIONS.iter().find(|form| form.to_str() == Ok(name));
    let wanted = match name.as_str() {
        "hipGetDeviceProperties" | "hipChooseDevice" if version >= 600 => format!("{name}R0600"),
        _ => name.clone(),
    };
    let twin = (flags & PER_THREAD_DEFAULT_STREAM != 0).then(|| format!("{wanted}_spt"));
    let form = twin.as_deref().and_then(known).or_else(|| known(&wanted));
    let form = form.filter(|_| !is_missing).ok_or(Code::NOT_FOUND)?;
    function.set(address_of(form).ok_or(Code::NOT_FOUND)?)
}

/// Writes functions that take whatever they are given: what C passes beyond that stays unread.
macro_rules! stubs {
    ($($name:ident)*) => {
        $(const _: () = {
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $name() -> std::ffi::c_int {
                static WAS_TOLD: AtomicBool = AtomicBool::new(false);
                let number = not_simulated(stringify!($name), &WAS_TOLD);
                note(number);
                number
            }
        };)*
    };
}

/// Writes functions by which programs tell of their kernels as they are loaded, which have none to run here.
macro_rules! registrations {
    ($($name:ident)*) => {
        $(const _: () = {
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $name() -> *const c_void {
                static HANDLE: AtomicBool = AtomicBool::new(false);
                let handle: *const AtomicBool = &raw const HANDLE;
                handle.cast()
            }
        };)*
    };
}

registrations! {
    __hipRegisterFatBinary
    __hipRegisterFunction
    __hipRegisterManagedVar
    __hipRegisterSurface
    __hipRegisterTexture
    __hipRegisterVar
    __hipUnregisterFatBinary
}

include!(concat!(env!("OUT_DIR"), "/hip.rs"));
