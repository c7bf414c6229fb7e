//! Python's own command line, as its executable runs it.
#![expect(unsafe_code, reason = "hands the process to Python's `main`")]

use std::ffi::{CString, OsString, c_char, c_int};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::ptr;

use crate::failure::{Failure, Kind};
use crate::python::open::Python;

impl Python {
    /// Runs Python with these arguments as its executable would, and gives its exit code. Python is
    /// over when this returns, and some programs end the process before.
    ///
    /// # Errors
    /// [`Kind::Invalid`] where Python runs already, or an argument holds a NUL.
    pub fn main(&self, arguments: &[OsString]) -> Result<i32, Failure> {
        // SAFETY: may be asked at any time.
        if unsafe { self.functions.Py_IsInitialized() } != 0 {
            return Err(Failure::new(
                Kind::Invalid,
                "run a command line: Python runs already",
            ));
        }
        // The program's name selects the environment.
        let program = self.choice().executable.as_os_str();
        let words = std::iter::once(program).chain(arguments.iter().map(OsString::as_os_str));
        let words: Result<Vec<_>, _> = words.map(|word| CString::new(word.as_bytes())).collect();
        let words = words.map_err(|error| {
            let word = OsString::from_vec(error.into_vec());
            Failure::new(Kind::Invalid, format!("the argument {word:?} holds a NUL"))
        })?;
        let Ok(count) = c_int::try_from(words.len()) else {
            return Err(Failure::new(Kind::Invalid, "too many arguments"));
        };
        // Python keeps the pointers, so the words are never freed.
        let mut words: Vec<*mut c_char> = words.into_iter().map(CString::into_raw).collect();
        words.push(ptr::null_mut());
        let words = Box::leak(words.into_boxed_slice());
        leave_crashes_to_the_system();
        // SAFETY: as many texts as it says, then NULL, all of which stay; Python does not run.
        Ok(unsafe { self.functions.Py_BytesMain(count, words.as_mut_ptr()) })
    }
}

/// The handlers of Rust's runtime, which would end a stack overflow in other words than Python's.
fn leave_crashes_to_the_system() {
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: the default action runs no code of ours.
        let _before = unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}
