//! Frames of a thread that let Python's lock go for its call. Python has no function that tells them without the lock,
//! so they are read from memory, by the layouts of the versions that are known here.
//!
//! Nobody else changes the frames of a thread that is in a call. The system reads them, and refuses addresses that are
//! no memory; an object counts as code when its type says so. So a build with another layout gives no lines, and no
//! crash.
#![expect(unsafe_code, reason = "reads what the interpreter has of this thread")]

use std::ffi::{c_int, c_void};

use crossdock_sim_engine::Line;

use super::installed;
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
pub(super) struct Layout {
    /// In a thread's state: the innermost frame, or what has that.
    pub(super) frame: usize,
    /// Where it is in that.
    pub(super) inner: Option<usize>,
    /// In a frame.
    pub(super) code: usize,
    pub(super) previous: usize,
    instruction: usize,
    /// In a code object: the first instruction, in bytes.
    first: usize,
}

/// In a code object of all these versions, and in every object.
const FILE: usize = 14;
const FUNCTION: usize = 16;
const TYPE: usize = 1;

/// Of a version, from the headers of 3.11.7, 3.12.1 and 3.13.0.
pub(super) const fn layout(version: u64) -> Option<Layout> {
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

/// The beginnings of a frame and of a code object.
pub(super) type FrameWords = [usize; 8];
pub(super) type CodeWords = [usize; 17];

impl Layout {
    /// What has a thread's innermost frame, and that.
    pub(super) fn innermost(&self, thread: usize) -> Option<(usize, usize)> {
        let [holder] = read(thread + 8 * self.frame)?;
        let Some(inner) = self.inner else {
            return Some((holder, holder));
        };
        let [frame] = read(holder + 8 * inner)?;
        Some((holder, frame))
    }

    /// The place that a frame is at, if its code is code.
    pub(super) fn place(
        &self,
        python: &Functions,
        code: usize,
        words: &FrameWords,
        object: &CodeWords,
    ) -> Option<Frame> {
        if object.get(TYPE) != Some(&python.code_type) {
            return None;
        }
        let at = words
            .get(self.instruction)?
            .checked_sub(code + self.first)?;
        Some(Frame {
            code,
            at: c_int::try_from(at).ok()?,
            file: *object.get(FILE)?,
            function: *object.get(FUNCTION)?,
        })
    }
}

impl Frame {
    /// Whether its code is of an installed package, while the thread is there.
    pub(crate) fn is_installed(&self, python: &Functions) -> bool {
        let file = std::ptr::with_exposed_provenance_mut::<c_void>(self.file);
        installed::is_installed((self.code, self.file), || python.text(file))
    }

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
pub(super) fn read<const WORDS: usize>(at: usize) -> Option<[usize; WORDS]> {
    let mut words = [0_usize; WORDS];
    (read_all(&[(at, WORDS)], &mut words)? == WORDS).then_some(words)
}

/// The same from up to so many places, each with its number of words, one behind the other, as far as there is memory:
/// how many words.
pub(super) fn read_all(places: &[(usize, usize)], words: &mut [usize]) -> Option<usize> {
    let to = libc::iovec {
        iov_base: words.as_mut_ptr().cast(),
        iov_len: size_of_val(words),
    };
    let nothing = libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    };
    let mut from = [nothing; PLACES];
    for (part, &(at, count)) in from.iter_mut().zip(places) {
        part.iov_base = std::ptr::without_provenance_mut(at);
        part.iov_len = count * size_of::<usize>();
    }
    let own = libc::pid_t::try_from(std::process::id()).ok()?;
    let count = libc::c_ulong::try_from(places.len().min(PLACES)).ok()?;
    // SAFETY: it writes the words, and reads what is there, or refuses to.
    let got = unsafe { libc::process_vm_readv(own, &raw const to, 1, from.as_ptr(), count, 0) };
    Some(usize::try_from(got).ok()? / size_of::<usize>())
}

/// As many places as are read at once.
const PLACES: usize = 2 + 2 * super::frames::DEPTH;
