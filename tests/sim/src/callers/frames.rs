//! The innermost frame of a thread, and where that is in an installed package, the innermost one outside of those.
//!
//! Each look at memory is a call of the system. So all frames are looked at at once where they were the last time: a
//! loop calls from the same ones. From the first one that differs on it is one by one.

use std::cell::Cell;

use super::detached::{self, CodeWords, Frame, FrameWords, Layout};
use super::python::Functions;

/// How many frames are looked at.
pub(super) const DEPTH: usize = 16;

/// Where the last look of a thread found its frames and their codes, and the holder of the innermost one.
#[derive(Clone, Copy)]
struct LastLook {
    holder: usize,
    count: usize,
    frames: [(usize, usize); DEPTH],
}

/// Bytes of a word, in which the layout counts.
const WORD: usize = size_of::<usize>();

/// What was read of a frame and of its code.
type Words = [usize; FRAME + CODE];
const FRAME: usize = size_of::<FrameWords>() / size_of::<usize>();
const CODE: usize = size_of::<CodeWords>() / size_of::<usize>();

const NOTHING: LastLook = LastLook {
    holder: 0,
    count: 0,
    frames: [(0, 0); DEPTH],
};

thread_local! {
    static LAST: Cell<LastLook> = const { Cell::new(NOTHING) };
}

/// The innermost frame, and the program's if that is another one, of the calling thread's state.
pub(super) fn frames(python: &Functions, thread: usize) -> Option<(Frame, Option<Frame>)> {
    let layout = detached::layout(python.version)?;
    let last = LAST.try_with(Cell::get).ok()?;
    let mut guess = [[0; FRAME + CODE]; DEPTH];
    let (holder, mut at, guessed) = match reread(&layout, thread, &last, &mut guess) {
        Some((frame, guessed)) => (last.holder, frame, guessed),
        None => layout
            .innermost(thread)
            .map(|(holder, at)| (holder, at, 0))?,
    };
    let mut now = LastLook { holder, ..NOTHING };
    let mut innermost = None;
    let mut program = None;
    while now.count < DEPTH && program.is_none() {
        let known = last.frames.get(now.count).zip(guess.get(now.count));
        let known = known.filter(|_| now.count < guessed);
        let Some((words, object)) = frame_at(&layout, at, known) else {
            break;
        };
        let code = *words.get(layout.code)?;
        *now.frames.get_mut(now.count)? = (at, code);
        now.count += 1;
        // Between the frames of Python's functions are some of the interpreter's own, which have no code.
        if let Some(place) = object.and_then(|object| layout.place(python, code, &words, &object)) {
            program = (!place.is_installed(python)).then_some(place);
            innermost = innermost.or(Some(place));
        }
        at = *words.get(layout.previous)?;
    }
    LAST.set(now);
    let innermost = innermost?;
    Some((innermost, program.filter(|program| *program != innermost)))
}

/// Reads all places of the last look at once: the innermost frame, if its holder is the same, and how many frames were
/// read.
fn reread(
    layout: &Layout,
    thread: usize,
    last: &LastLook,
    guess: &mut [Words; DEPTH],
) -> Option<(usize, usize)> {
    let mut places = [(0, 0); 2 * DEPTH + 2];
    let held = (thread + WORD * layout.frame, 1);
    let inner = layout.inner.map(|inner| (last.holder + WORD * inner, 1));
    let (heads, pairs) = places.split_first_chunk_mut::<2>()?;
    *heads = [held, inner.unwrap_or(held)];
    let frames = last.frames.get(..last.count)?;
    for (pair, &(frame, code)) in pairs.chunks_exact_mut(2).zip(frames) {
        pair.copy_from_slice(&[(frame, FRAME), (code, CODE)]);
    }
    let mut words = [0; 2 + DEPTH * (FRAME + CODE)];
    let used = 2 + 2 * last.count;
    let room = words.get_mut(..2 + last.count * (FRAME + CODE))?;
    let count = detached::read_all(places.get(..used)?, room)?;
    let ([holder, frame], rest) = words.split_first_chunk::<2>()?;
    let guessed = count.checked_sub(2)? / (FRAME + CODE);
    for (words, read) in guess.iter_mut().zip(rest.as_chunks().0).take(guessed) {
        *words = *read;
    }
    (*holder == last.holder).then_some((*frame, guessed))
}

/// A frame, and its code where that is memory: as it was guessed, or looked at now.
fn frame_at(
    layout: &Layout,
    at: usize,
    guess: Option<(&(usize, usize), &Words)>,
) -> Option<(FrameWords, Option<CodeWords>)> {
    if let Some((&(frame, code), words)) = guess
        && frame == at
        && let Some((words, object)) = words.split_first_chunk::<FRAME>()
        && words.get(layout.code) == Some(&code)
    {
        return Some((*words, object.first_chunk().copied()));
    }
    let words: FrameWords = detached::read(at)?;
    let object = detached::read(*words.get(layout.code)?);
    Some((words, object))
}
