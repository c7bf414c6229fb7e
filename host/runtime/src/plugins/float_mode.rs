//! How this thread computes with floating-point numbers, kept over foreign code that may change it:
//! a library built with `-ffast-math` does when it is loaded, for the thread that loads it.
#![expect(unsafe_code, reason = "asks the C library for the thread's mode")]

use std::ffi::c_int;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// `fenv_t`, of which only the C library knows what is in it. No platform's is larger or aligned
/// more strictly.
#[repr(C, align(16))]
struct Environment([u8; 128]);

#[link(name = "m")]
unsafe extern "C" {
    fn fegetenv(environment: *mut Environment) -> c_int;
    fn fesetenv(environment: *const Environment) -> c_int;
}

/// The mode as it was when this was made, which it is again once this is dropped.
pub(crate) struct FloatMode {
    environment: MaybeUninit<Environment>,
    _this_thread: PhantomData<*mut ()>,
}

impl FloatMode {
    pub(crate) fn keep() -> Self {
        let mut environment = MaybeUninit::zeroed();
        // SAFETY: a place that is as large as the platform's `fenv_t` at least.
        unsafe { fegetenv(environment.as_mut_ptr()) };
        Self {
            environment,
            _this_thread: PhantomData,
        }
    }
}

impl Drop for FloatMode {
    fn drop(&mut self) {
        // SAFETY: what the C library wrote on this thread, which the value cannot leave.
        unsafe { fesetenv(self.environment.as_ptr()) };
    }
}
