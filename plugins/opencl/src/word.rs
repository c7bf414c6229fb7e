//! Words that others pass as objects of a driver: what can be none is told before the driver sees it.
#![expect(
    unsafe_code,
    reason = "asks the system to read at an address of others"
)]

use std::ffi::c_void;

use crate::device::Device;

/// Whether a word can be an object of the device's driver.
///
/// Every object of OpenCL begins with the address of its driver's functions (`cl_khr_icd`), so one that
/// begins otherwise than ours is none. The system reads it, for which a wrong address is an answer.
pub(crate) fn can_be_object(device: &Device, word: *mut c_void) -> bool {
    let context = first_word(device.context().raw());
    // Of a driver that begins its objects in another way, and where the system may not be asked, all
    // is believed.
    if context.is_none() || context != first_word(device.queue.raw()) {
        return true;
    }
    word.cast::<usize>().is_aligned() && first_word(word) == context
}

fn first_word(object: *mut c_void) -> Option<usize> {
    let mut word = 0_usize;
    let to = libc::iovec {
        iov_base: (&raw mut word).cast(),
        iov_len: size_of::<usize>(),
    };
    let from = libc::iovec {
        iov_base: object,
        ..to
    };
    // SAFETY: asks for nothing.
    let own = unsafe { libc::getpid() };
    // SAFETY: one place of ours, which has room for what is read; the system checks the other one.
    let read = unsafe { libc::process_vm_readv(own, &raw const to, 1, &raw const from, 1, 0) };
    (usize::try_from(read) == Ok(size_of::<usize>())).then_some(word)
}
