//! Reads memory that others name and nobody vouches for, by a call that fails where a load would crash.
#![expect(unsafe_code, reason = "asks the kernel to copy out of this process")]

use std::mem::MaybeUninit;

/// A struct of C whose every pattern of bits is a value.
///
/// # Safety
/// - It is `repr(C)`, of integers, raw pointers and optional functions alone.
pub(crate) unsafe trait AnyBits: Copy {}

/// What stands at any address. `None` where it cannot be read or is not aligned, and where the system
/// forbids the call.
pub(crate) fn peek<T: AnyBits>(address: *const T) -> Option<T> {
    if address.is_null() || !address.is_aligned() {
        return None;
    }
    let mut value = MaybeUninit::<T>::uninit();
    let place = libc::iovec {
        iov_base: value.as_mut_ptr().cast(),
        iov_len: size_of::<T>(),
    };
    let there = libc::iovec {
        iov_base: address.cast_mut().cast(),
        iov_len: size_of::<T>(),
    };
    let (place, there) = (&raw const place, &raw const there);
    // SAFETY: may be asked at any time.
    let own = unsafe { libc::getpid() };
    // SAFETY: the place is writable for its length; the other address is looked at by the kernel.
    let copied = unsafe { libc::process_vm_readv(own, place, 1, there, 1, 0) };
    let is_whole = usize::try_from(copied).is_ok_and(|copied| copied == size_of::<T>());
    // SAFETY: the kernel has written every byte, and any bytes are a value (`AnyBits`).
    is_whole.then(|| unsafe { value.assume_init() })
}
