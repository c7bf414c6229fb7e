//! What others lent: given back through their gate, where a deleter needs what only that can promise, such as an
//! interpreter that still lives, and not at all once the process exits.
#![expect(unsafe_code, reason = "hands deleters to a function of the caller's")]

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::OnceLock;

use crossdock_sdk::dlpack::{Deleter, Ownership};
use crossdock_sdk::fence::fence;

use crate::process::process_state;
use crate::tensors::owner::HostOwner;

/// Calls `deleter(tensor)` once before it returns, or never: then the tensor is leaked.
pub type ReleaseGate = unsafe extern "C" fn(deleter: Deleter, tensor: *mut c_void);

static GATE: OnceLock<ReleaseGate> = OnceLock::new();

/// Gives back every tensor of others through `gate`, from now on and in the whole process. `false`
/// where another gate was set before, which stays.
///
/// # Safety
/// - `gate` may be called on any thread until the process ends, and is as [`ReleaseGate`] says.
#[must_use]
pub unsafe fn release_through(gate: ReleaseGate) -> bool {
    std::ptr::fn_addr_eq(*GATE.get_or_init(|| gate), gate)
}

/// Gives back what others lent, by code of theirs: an exit that begins meanwhile waits for it. Once the process
/// exits their code may be gone, and it is leaked and counted.
#[inline]
pub fn release_lent(release: impl FnOnce()) {
    match process_state::begin_release() {
        Some(_releasing) => release(),
        None => process_state::leak(release),
    }
}

/// What keeps memory of others: a DLPack tensor, a word of C, or an object of Rust. It is given back when this
/// is dropped, on whichever thread that is; through the function of [`release_through`] where there is one, and
/// not at all once the process exits.
pub struct MemoryOwner {
    release: Option<Deleter>,
    word: *mut c_void,
}

// SAFETY: the word is only passed on, and whoever made this promised that any thread may release it.
unsafe impl Send for MemoryOwner {}
// SAFETY: nothing is done through `&MemoryOwner`.
unsafe impl Sync for MemoryOwner {}

impl MemoryOwner {
    /// An object that keeps the memory for as long as it lives.
    #[must_use]
    pub fn new<T: Send + Sync + 'static>(object: T) -> Self {
        unsafe extern "C" fn release<T>(object: *mut c_void) {
            // SAFETY: the box that was taken apart below, and this is called once.
            let object = unsafe { Box::from_raw(object.cast::<T>()) };
            fence(|| drop(object)).unwrap_or_default();
        }
        Self {
            release: Some(release::<T>),
            word: Box::into_raw(Box::new(object)).cast(),
        }
    }

    /// No owner: the memory needs no release.
    pub(crate) const fn none() -> Self {
        Self {
            release: None,
            word: std::ptr::null_mut(),
        }
    }

    /// A word, and the function that gives back what it stands for; `None` where nothing has to be given back.
    ///
    /// # Safety
    /// - `release` may be called once with `word`, on any thread, and does not unwind.
    #[must_use]
    pub const unsafe fn from_raw(word: *mut c_void, release: Option<Deleter>) -> Self {
        Self { release, word }
    }
}

impl From<Ownership> for MemoryOwner {
    #[inline]
    fn from(tensor: Ownership) -> Self {
        let (release, word) = tensor.into_deleter();
        Self { release, word }
    }
}

impl fmt::Debug for MemoryOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryOwner").field(&self.word).finish()
    }
}

/// So many releases may run inside of each other. What is given back may be the last that keeps other memory, whose
/// release then runs inside: a tensor of an array of a tensor, and so on. Each takes some of the stack, so deeper ones
/// wait for the outermost.
const DEEPEST: u32 = 64;

thread_local! {
    /// How many releases this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Whether deeper ones wait.
    static WAIT: Cell<bool> = const { Cell::new(false) };
    static WAITING: RefCell<Vec<(Deleter, *mut c_void)>> = const { RefCell::new(Vec::new()) };
}

impl Drop for MemoryOwner {
    #[inline]
    fn drop(&mut self) {
        let (word, Some(release)) = (self.word, self.release) else {
            return;
        };
        let depth = DEPTH.get();
        if depth >= DEEPEST && wait_for_the_outermost(release, word) {
            return;
        }
        give_back(release, word, depth);
        if depth == 0 && WAIT.get() {
            give_back_the_waiting();
        }
    }
}

/// Runs a release in which others may run.
#[inline]
fn give_back(release: Deleter, word: *mut c_void, depth: u32) {
    DEPTH.set(depth + 1);
    release_lent(|| match GATE.get() {
        // SAFETY: it may be called once, as whoever made the owner promised.
        None => unsafe { release(word) },
        // SAFETY: the setter of the gate promised that it may be called with what is owned.
        Some(gate) => unsafe { gate(release, word) },
    });
    DEPTH.set(depth);
}

/// Leaves a release to the outermost one of this thread; false at the end of the thread, which keeps none any more.
#[cold]
fn wait_for_the_outermost(release: Deleter, word: *mut c_void) -> bool {
    let kept = WAITING.try_with(|waiting| waiting.borrow_mut().push((release, word)));
    WAIT.set(kept.is_ok());
    kept.is_ok()
}

#[cold]
fn give_back_the_waiting() {
    let next = || WAITING.try_with(|waiting| waiting.borrow_mut().pop());
    while let Ok(Some((release, word))) = next() {
        give_back(release, word, 1);
    }
    DEPTH.set(0);
    WAIT.set(false);
}

/// Host bytes of others, given back when they are dropped.
pub(crate) struct LentBytes(ManuallyDrop<HostOwner>);

impl LentBytes {
    pub(crate) const fn new(owner: HostOwner) -> Self {
        Self(ManuallyDrop::new(owner))
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        (**self.0).as_ref()
    }
}

impl Drop for LentBytes {
    fn drop(&mut self) {
        // SAFETY: taken here and nowhere else.
        let owner = unsafe { ManuallyDrop::take(&mut self.0) };
        release_lent(|| drop(owner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory that keeps other memory.
    struct Link {
        _next: Option<MemoryOwner>,
    }

    #[test]
    fn a_long_chain_of_owners_ends_on_a_small_stack() {
        let mut owner = MemoryOwner::new(Link { _next: None });
        for _ in 0..100_000 {
            owner = MemoryOwner::new(Link { _next: Some(owner) });
        }
        let small = std::thread::Builder::new().stack_size(256 << 10);
        small.spawn(move || drop(owner)).unwrap().join().unwrap();
    }
}
