//! The line of a thread that let Python's lock go for its call. No function says it without the lock, so the frame
//! is read as the interpreter lays it out, of the versions that are known here.
//!
//! Nobody else changes the frames of a thread that is in a call. They are read by the system, which refuses what is
//! no memory, and code is taken for code when its type says so: a build with another layout has no lines.
#![expect(unsafe_code, reason = "reads what the interpreter has of this thread")]

use std::ffi::{c_int, c_void};

use crossdock_sim_engine::Line;

use super::python::Functions;

/// What a frame says of the place that it is at. Two that say the same are at the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Frame {
    code: usize,
    /// In bytes, from the first instruction.
    at: c_int,
    file: usize,
    function: usize,
}

/// Where things are, in words.
struct Layout {
    /// In a thread's state: the innermost frame, or what has that.
    frame: usize,
    /// Where it is in that.
    inner: Option<usize>,
    /// In a frame.
    code: usize,
    previous: usize,
    instruction: usize,
    /// In a code object: the first instruction, in bytes.
    first: usize,
}

/// In a code object of all these versions, and in every object.
const FILE: usize = 14;
const FUNCTION: usize = 16;
const TYPE: usize = 1;

/// Of a version, from the headers of 3.11.7, 3.12.1 and 3.13.0.
const fn layout(version: u64) -> Option<Layout> {
    match version >> 16 {
        0x030B => Some(Layout {
            frame: 7,
            inner: Some(1),
            code: 4,
            previous: 6,
            instruction: 7,
            first: 184,
        }),
        0x030C => Some(Layout {
            frame: 7,
            inner: Some(0),
            code: 0,
            previous: 1,
            instruction: 7,
            first: 192,
        }),
        0x030D => Some(Layout {
            frame: 9,
            inner: None,
            code: 0,
            previous: 1,
            instruction: 7,
            first: 200,
        }),
        _ => None,
    }
}

/// The innermost frame of the calling thread's state.
pub(crate) fn frame(python: &Functions, thread: usize) -> Option<Frame> {
    let layout = layout(python.version)?;
    let [mut frame] = read(thread + 8 * layout.frame)?;
    if let Some(inner) = layout.inner {
        [frame] = read(frame + 8 * inner)?;
    }
    // Between the frames of Python's functions are some of the interpreter's own, which have no code.
    for _ in 0..4 {
        let words: [usize; 8] = read(frame)?;
        let code = *words.get(layout.code)?;
        if let Some(object) = read::<17>(code)
            && object.get(TYPE) == Some(&python.code_type)
        {
            let first = code + layout.first;
            let at = words.get(layout.instruction)?.checked_sub(first)?;
            return Some(Frame {
                code,
                at: c_int::try_from(at).ok()?,
                file: *object.get(FILE)?,
                function: *object.get(FUNCTION)?,
            });
        }
        frame = *words.get(layout.previous)?;
    }
    None
}

impl Frame {
    /// The place in words, while the thread is there.
    pub(crate) fn line(self, python: &Functions) -> Option<Line> {
        let object = std::ptr::with_exposed_provenance_mut::<c_void>;
        // SAFETY: the frame keeps the code, which nobody changes, and this allocates nothing.
        let number = unsafe { (python.PyCode_Addr2Line)(object(self.code), self.at) };
        Some(Line {
            file: python.text(object(self.file)),
            number,
            function: python.text(object(self.function)),
        })
    }
}

/// Words of this process, where there is memory.
fn read<const WORDS: usize>(at: usize) -> Option<[usize; WORDS]> {
    let mut words = [0_usize; WORDS];
    let bytes = size_of::<[usize; WORDS]>();
    let to = libc::iovec {
        iov_base: words.as_mut_ptr().cast(),
        iov_len: bytes,
    };
    let from = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(at),
        iov_len: bytes,
    };
    let own = libc::pid_t::try_from(std::process::id()).ok()?;
    // SAFETY: it writes the words, and reads what is there, or refuses to.
    let got = unsafe { libc::process_vm_readv(own, &raw const to, 1, &raw const from, 1, 0) };
    (usize::try_from(got) == Ok(bytes)).then_some(words)
}
