//! The line of a thread that let Python's lock go for its call. Python has no function that tells it without the lock,
//! so the frame is read from memory, by the layouts of the versions that are known here.
//!
//! Nobody else changes the frames of a thread that is in a call. The system reads them, and refuses addresses that are
//! no memory; an object counts as code when its type says so. So a build with another layout gives no lines, and no
//! crash.
#![expect(unsafe_code, reason = "reads what the interpreter has of this thread")]

use std::cell::Cell;
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

/// Where the last look of a thread found its frame, its code, and what has the frame.
#[derive(Clone, Copy)]
struct Last {
    holder: usize,
    frame: usize,
    code: usize,
}

/// The beginnings of a frame and of a code object.
type FrameWords = [usize; 8];
type CodeWords = [usize; 17];

thread_local! {
    static LAST: Cell<Option<Last>> = const { Cell::new(None) };
}

/// The innermost frame of the calling thread's state.
pub(crate) fn frame(python: &Functions, thread: usize) -> Option<Frame> {
    let layout = layout(python.version)?;
    let last = LAST.try_with(Cell::get).ok()?;
    if let Some(last) = last
        && let Some((words, object)) = same_again(&layout, thread, last)
        && let Some(frame) = layout.place(python, last.code, &words, &object)
    {
        return Some(frame);
    }
    let [holder] = read(thread + 8 * layout.frame)?;
    let mut frame = holder;
    if let Some(inner) = layout.inner {
        [frame] = read(holder + 8 * inner)?;
    }
    // Between the frames of Python's functions are some of the interpreter's own, which have no code.
    for _ in 0..4 {
        let words: FrameWords = read(frame)?;
        let code = *words.get(layout.code)?;
        let object = read(code);
        let place = object.and_then(|object| layout.place(python, code, &words, &object));
        if place.is_some() {
            LAST.set(Some(Last {
                holder,
                frame,
                code,
            }));
            return place;
        }
        frame = *words.get(layout.previous)?;
    }
    None
}

/// All words at once, where they are in the same places as the last time: a loop calls from one frame.
fn same_again(layout: &Layout, thread: usize, last: Last) -> Option<(FrameWords, CodeWords)> {
    let held = (thread + 8 * layout.frame, 1);
    let inner = layout.inner.map(|inner| (last.holder + 8 * inner, 1));
    let mut all = [0_usize; 27];
    let places = [
        held,
        inner.unwrap_or(held),
        (last.frame, 8),
        (last.code, 17),
    ];
    read_all(&places, &mut all)?;
    let [holder, frame, rest @ ..] = all;
    let (words, object) = rest.split_first_chunk()?;
    let is_same =
        (holder, frame) == (last.holder, last.frame) && words.get(layout.code) == Some(&last.code);
    is_same.then_some((*words, *object.first_chunk()?))
}

impl Layout {
    /// The place that a frame is at, if its code is code.
    fn place(
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
    read_all(&[(at, WORDS)], &mut words)?;
    Some(words)
}

/// The same from several places, each with its number of words, one behind the other.
fn read_all<const PLACES: usize>(
    places: &[(usize, usize); PLACES],
    words: &mut [usize],
) -> Option<()> {
    let bytes = size_of_val(words);
    let to = libc::iovec {
        iov_base: words.as_mut_ptr().cast(),
        iov_len: bytes,
    };
    let from = places.map(|(at, count)| libc::iovec {
        iov_base: std::ptr::without_provenance_mut(at),
        iov_len: count * size_of::<usize>(),
    });
    let own = libc::pid_t::try_from(std::process::id()).ok()?;
    let count = libc::c_ulong::try_from(PLACES).ok()?;
    // SAFETY: it writes the words, and reads what is there, or refuses to.
    let got = unsafe { libc::process_vm_readv(own, &raw const to, 1, from.as_ptr(), count, 0) };
    (usize::try_from(got) == Ok(bytes)).then_some(())
}
