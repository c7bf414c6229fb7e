//! What a session's scripts write, passed to the functions of its host.
#![expect(unsafe_code, reason = "calls functions of callers")]

use std::ffi::{c_char, c_void};

use crossdock_api::XdSessionOptions;
use crossdock_embed::{Output, Stream};

type Function = unsafe extern "C" fn(*mut c_void, *const c_char, u64);

/// Two functions and their word.
#[derive(Clone, Copy)]
struct Functions {
    out: Option<Function>,
    err: Option<Function>,
    word: *mut c_void,
}

// SAFETY: the word is only passed back, and the header asks for functions that any thread may call.
unsafe impl Send for Functions {}
// SAFETY: as above, also on several threads at once.
unsafe impl Sync for Functions {}

impl Functions {
    fn write(&self, stream: Stream, bytes: &[u8]) {
        let function = match stream {
            Stream::Out => self.out,
            Stream::Err => self.err,
        };
        if let Some(function) = function {
            // SAFETY: the caller of `xd_session_create` promised functions that may be called with
            // their word until the session is freed; the bytes live for the call.
            unsafe { function(self.word, bytes.as_ptr().cast(), bytes.len() as u64) };
        }
    }
}

/// Where the captured streams of a session go.
pub(crate) fn output(options: &XdSessionOptions<'_>) -> Option<Output> {
    let functions = Functions {
        out: options.on_stdout,
        err: options.on_stderr,
        word: options.word,
    };
    let captures = functions.out.is_some() || functions.err.is_some();
    captures.then(|| -> Output { Box::new(move |stream, bytes| functions.write(stream, bytes)) })
}
