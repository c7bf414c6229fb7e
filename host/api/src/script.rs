//! What scripts are asked by and answer with: values, and the options of sessions.

use std::ffi::{c_char, c_void};

use crate::handles::{Owned, XdTensor};
use crate::numbers::{SessionFlags, SessionStateKind, ValueKind};
use crate::options::sized_options;
use crate::text::Text;

/// Takes what a script writes: the word of the session's options, the bytes, and how many. The bytes
/// are lent for the call, and are UTF-8 unless the script writes other bytes to `sys.stdout.buffer`.
pub type StreamFunction =
    Option<unsafe extern "C" fn(word: *mut c_void, bytes: *const c_char, size: u64)>;

/// A value that a script is given, or gives: `xd_value`. It never changes.
///
/// Which field counts is said by `kind`; the others are zero. In an answer, `data`, `tensor` and
/// `items` are the caller's, who gives them back with `value_clear`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "a released struct never changes")]
pub struct XdValue {
    /// Which kind of value it is.
    pub kind: ValueKind,
    /// Zero.
    pub reserved: u32,
    /// Of an `INT`; of a `BOOL`, 1 or 0.
    pub integer: i64,
    /// Of a `FLOAT`.
    pub number: f64,
    /// Of a `TEXT` (UTF-8) or `BYTES`; may be NULL where `size` is 0. In an answer a NUL follows.
    pub data: *const c_char,
    /// How many bytes are in `data`; of a `LIST` how many items there are, and of a `DICT` how many pairs.
    pub size: u64,
    /// Of a `TENSOR`: lent where the value is passed in.
    pub tensor: *mut XdTensor,
    /// Of a `LIST` its items; of a `DICT` each key with its value behind it.
    pub items: *const Self,
}

impl XdValue {
    /// Python's `None`.
    pub const NONE: Self = Self {
        kind: ValueKind::NONE,
        reserved: 0,
        integer: 0,
        number: 0.0,
        data: std::ptr::null(),
        size: 0,
        tensor: std::ptr::null_mut(),
        items: std::ptr::null(),
    };

    /// A number of a kind.
    #[must_use]
    pub const fn integer(kind: ValueKind, integer: i64) -> Self {
        Self {
            kind,
            integer,
            ..Self::NONE
        }
    }

    /// A floating-point number.
    #[must_use]
    pub const fn number(number: f64) -> Self {
        Self {
            kind: ValueKind::FLOAT,
            number,
            ..Self::NONE
        }
    }

    /// A tensor. The receiver of the value owns it.
    #[must_use]
    pub const fn tensor(tensor: Owned<XdTensor>) -> Self {
        Self {
            kind: ValueKind::TENSOR,
            tensor: tensor.into_raw(),
            ..Self::NONE
        }
    }
}

sized_options!(
    XdScriptOptions<'a>,
    XdSessionOptions<'a>,
    XdRunOptions,
    XdArguments<'a>
);

/// Which Python is wanted: `xd_script_options`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "callers in C write every field")]
pub struct XdScriptOptions<'a> {
    /// [`Self::SIZE`] of its maker.
    pub struct_size: u64,
    /// An executable or an environment's folder: this one or none. NULL: the standard search.
    pub python: Text<'a>,
}

/// The Python of this process: `xd_script_info`. The texts are lent by the handle.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "a released struct never changes")]
pub struct XdScriptInfo {
    /// `sys.version`.
    pub version: *const c_char,
    /// `sys.executable` of the environment.
    pub executable: *const c_char,
    /// The shared library.
    pub library: *const c_char,
    /// `sys.prefix`.
    pub prefix: *const c_char,
    /// `sys.base_prefix`.
    pub base_prefix: *const c_char,
    /// `sys.abiflags`.
    pub abi_flags: *const c_char,
    /// Which rule of the search chose it.
    pub why: *const c_char,
    /// The major version.
    pub major: u32,
    /// The minor version.
    pub minor: u32,
    /// Not 0: others started it, and it may end before the process does.
    pub of_others: u32,
    /// Zero.
    pub reserved: u32,
}

/// How a session is made: `xd_session_options`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "callers in C write every field")]
pub struct XdSessionOptions<'a> {
    /// [`Self::SIZE`] of its maker.
    pub struct_size: u64,
    /// Its module is `__xd_NAME__`, unless it is the first. NULL: a number.
    pub name: Text<'a>,
    /// `sys.argv`; NULL without words.
    pub arguments: *const Text<'a>,
    /// How many words.
    pub argument_count: u64,
    /// Takes `sys.stdout`; none: it goes where the process's own goes.
    pub on_stdout: StreamFunction,
    /// Takes `sys.stderr`; none: it goes where the process's own goes.
    pub on_stderr: StreamFunction,
    /// Passed to both.
    pub word: *mut c_void,
    /// How long each script may take, in nanoseconds. 0: for ever.
    pub timeout_ns: u64,
    /// From the first interrupt of what took too long to the second. 0: half a second.
    pub grace_ns: u64,
    /// What is changed from the default.
    pub flags: SessionFlags,
    /// Zero.
    pub reserved: u32,
}

/// How one script is run: `xd_run_options`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "callers in C write every field")]
pub struct XdRunOptions {
    /// [`Self::SIZE`] of its maker.
    pub struct_size: u64,
    /// How long it may take, in nanoseconds. 0: as the session says; `NO_LIMIT`: for ever.
    pub timeout_ns: u64,
    /// As in the session's options. 0: as the session says.
    pub grace_ns: u64,
}

/// What a function is called with: `xd_arguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "callers in C write every field")]
pub struct XdArguments<'a> {
    /// [`Self::SIZE`] of its maker.
    pub struct_size: u64,
    /// The arguments by place.
    pub values: *const XdValue,
    /// How many.
    pub count: u64,
    /// The names of the arguments by name.
    pub names: *const Text<'a>,
    /// Their values.
    pub named_values: *const XdValue,
    /// How many.
    pub named_count: u64,
}

/// What a session does: `xd_session_state`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "a released struct never changes")]
pub struct XdSessionState {
    /// What it does.
    pub kind: SessionStateKind,
    /// Zero.
    pub reserved: u32,
    /// For how long its script runs, in nanoseconds.
    pub running_ns: u64,
    /// Where a stuck one is, as far as it is known.
    pub place: PlaceText,
}

/// A place in a script that fits into `char[XD_PLACE_BYTES]`.
#[repr(transparent)]
#[derive(Debug, Clone, Copy)]
pub struct PlaceText([u8; Self::BYTES]);

impl PlaceText {
    /// `XD_PLACE_BYTES`.
    pub const BYTES: usize = 256;

    /// `place`, cut off where it does not fit.
    #[must_use]
    pub fn new(place: &str) -> Self {
        let mut bytes = [0; Self::BYTES];
        for (to, byte) in bytes.iter_mut().zip(place.bytes().take(Self::BYTES - 1)) {
            *to = byte;
        }
        Self(bytes)
    }
}
