//! The code that called an entry point of this library.
#![expect(unsafe_code, reason = "walks the stack")]

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

/// `_URC_NO_REASON` goes on to the next frame, `_URC_NORMAL_STOP` does not.
const GO_ON: c_int = 0;
const STOP: c_int = 4;

type Visit = extern "C" fn(*mut c_void, *mut c_void) -> c_int;

unsafe extern "C" {
    fn _Unwind_Backtrace(visit: Visit, data: *mut c_void) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
}

/// The address that the innermost frame outside of this library goes on at; 0 where none is seen.
pub(crate) fn returns_to() -> usize {
    let mut found = 0_usize;
    let data: *mut usize = &raw mut found;
    // SAFETY: `visit` takes a frame and this place for an answer.
    unsafe { _Unwind_Backtrace(visit, data.cast()) };
    found
}

extern "C" fn visit(frame: *mut c_void, found: *mut c_void) -> c_int {
    // SAFETY: it is the frame that the walk is at.
    let at = unsafe { _Unwind_GetIP(frame) };
    static OWN: OnceLock<Range<usize>> = OnceLock::new();
    if OWN.get_or_init(own_range).contains(&at.wrapping_sub(1)) {
        return GO_ON;
    }
    // SAFETY: it is the place that `returns_to` gave.
    unsafe { found.cast::<usize>().write(at) };
    STOP
}

/// Where this library is loaded.
fn own_range() -> Range<usize> {
    let mut own = 0..0;
    let data: *mut Range<usize> = &raw mut own;
    // SAFETY: `look` takes an object and this place for an answer.
    unsafe { libc::dl_iterate_phdr(Some(look), data.cast()) };
    own
}

unsafe extern "C" fn look(
    object: *mut libc::dl_phdr_info,
    _size: usize,
    found: *mut c_void,
) -> c_int {
    // SAFETY: the loader gives an object that lives during the call.
    let object = unsafe { &*object };
    let base = usize::try_from(object.dlpi_addr).unwrap_or(0);
    // SAFETY: so many headers are there, as the loader says.
    let headers =
        unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
    let loaded = headers
        .iter()
        .filter(|header| header.p_type == libc::PT_LOAD);
    let part = |header: &libc::Elf64_Phdr| {
        let from = base.wrapping_add(usize::try_from(header.p_vaddr).unwrap_or(0));
        from..from.saturating_add(usize::try_from(header.p_memsz).unwrap_or(0))
    };
    let whole = loaded
        .map(part)
        .reduce(|one, other| one.start.min(other.start)..one.end.max(other.end));
    static HERE: AtomicBool = AtomicBool::new(false);
    let here: *const AtomicBool = &raw const HERE;
    if let Some(whole) = whole.filter(|whole| whole.contains(&here.addr())) {
        // SAFETY: it is the place that `own_range` gave.
        unsafe { found.cast::<Range<usize>>().write(whole) };
        return 1;
    }
    0
}
