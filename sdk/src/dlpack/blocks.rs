//! Memory for exports, which is never unmapped: a holder of the address of an export may ask whether
//! that is still the one it was.
//!
//! Some consumers run a capsule's deleter and leave the capsule as if it still owned its tensor.
//! Before each block lies a serial number that changes with each release, which tells.
//!
//! Each thread has free blocks of its own. What is too many goes to a list for all, and a thread that has none
//! takes that list, keeps a part and puts the rest back: so no lock is needed, which a fork could leave
//! locked.
#![expect(unsafe_code, reason = "free blocks are a list in raw memory")]

use std::alloc::{self, Layout as MemoryLayout};
use std::cell::Cell;
use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// What lies before a block.
#[repr(C, align(16))]
struct Before {
    /// The next free one, while this one is free.
    next: *mut Self,
    /// How often it was released.
    serial: AtomicU64,
}

const _: () = assert!(offset_of!(Before, serial) + 8 == size_of::<Before>());

/// Blocks are as long as a power of two with what lies before them, from this one on.
const SHORTEST: usize = 256;
const LENGTHS: usize = 24;
/// Two of each length: aligned to 16 bytes as all memory is, and [`WIDEST`].
const CLASSES: usize = 2 * LENGTHS;
/// The widest alignment.
pub(super) const WIDEST: usize = 128;
/// What is asked of the system at once, at least.
const CHUNK: usize = 1 << 16;
/// So many more given than taken go to the list for all, and so many are taken from it.
const MOST: u32 = 64;
/// How often a thread looks again for the list that another one is about to put back.
const PATIENCE: u32 = 64;

/// The list for all, by class.
static SPARE: [AtomicPtr<Before>; CLASSES] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; CLASSES];

/// How many threads took the list of a class and did not put the rest back yet. In the child of a fork
/// threads may stay counted that it does not have: who finds no block then makes new ones after
/// [`PATIENCE`], once for each [`CHUNK`], and the blocks that such a thread had are never used again.
static HOLDERS: [AtomicU32; CLASSES] = [const { AtomicU32::new(0) }; CLASSES];

/// The free blocks of a thread.
struct Own([List; CLASSES]);

struct List {
    first: Cell<*mut Before>,
    /// How many more were given than taken since it was last empty or given away.
    given: Cell<u32>,
}

thread_local! {
    static OWN: Own = const { Own([const { List::new() }; CLASSES]) };
}

/// The length of a block and its alignment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Class(usize);

impl Class {
    /// The shortest that has room; `None` where there is none so long, or so aligned.
    #[inline]
    pub(super) fn for_memory(memory: MemoryLayout) -> Option<Self> {
        let is_wide = memory.align() > align_of::<Before>();
        let (before, first) = match is_wide {
            false => (size_of::<Before>(), 0),
            true => (WIDEST, LENGTHS),
        };
        let units = memory.size().checked_add(before - 1)? / SHORTEST;
        let length = (usize::BITS - units.leading_zeros()) as usize;
        (length < LENGTHS && memory.align() <= WIDEST).then_some(Self(first + length))
    }

    /// A block.
    #[inline]
    pub(super) fn take(self) -> Option<NonNull<c_void>> {
        let own = OWN.try_with(|own| own.0.get(self.0)?.take());
        let before = match own {
            Ok(Some(before)) => before,
            _ => self.refill()?,
        };
        // SAFETY: the block behind it belongs to it.
        Some(unsafe { before.add(1) }.cast())
    }

    /// Gives a block back.
    ///
    /// # Safety
    /// - `block` was taken from this class, and nobody uses it any more.
    #[inline]
    pub(super) unsafe fn give(self, block: *mut c_void) {
        // SAFETY: what `take` left in front of it.
        let before = unsafe { block.cast::<Before>().sub(1) };
        // SAFETY: never unmapped.
        let serial = unsafe { &(*before).serial };
        serial.store(
            serial.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Release,
        );
        let own = OWN.try_with(|own| own.0.get(self.0).map(|own| own.give(before)));
        match own {
            Ok(Some(true)) => {}
            Ok(_) => self.spill(),
            Err(_ended) => self.spare(before, before),
        }
    }

    /// A part of the list for all, or a new chunk, becomes the thread's own; its first block is taken.
    #[cold]
    fn refill(self) -> Option<NonNull<Before>> {
        let holders = HOLDERS.get(self.0)?;
        let mut first = self.part(holders);
        // Else each thread that comes in that moment would make new blocks, which stay for ever. A
        // thread that a fork left behind puts nothing back.
        for _ in 0..PATIENCE {
            if first.is_some() || holders.load(Ordering::Acquire) == 0 {
                break;
            }
            std::thread::yield_now();
            first = self.part(holders);
        }
        let first = first
            .or_else(|| self.part(holders))
            .or_else(|| self.chunk())?;
        // SAFETY: a free block that is this thread's.
        let rest = unsafe { first.as_ref() }.next;
        let kept = OWN.try_with(|own| own.0.get(self.0).map(|own| own.first.set(rest)));
        if kept.is_err() && !rest.is_null() {
            self.spare(rest, last_of(rest));
        }
        Some(first)
    }

    /// Takes at most [`MOST`] blocks from the list for all.
    fn part(self, holders: &AtomicU32) -> Option<NonNull<Before>> {
        let spare = SPARE.get(self.0)?;
        holders.fetch_add(1, Ordering::AcqRel);
        let first = spare.swap(std::ptr::null_mut(), Ordering::AcqRel);
        let rest = cut(first);
        // Mostly nobody gave any meanwhile; else the lists become one.
        let nothing = std::ptr::null_mut();
        let is_back = rest.is_null()
            || spare
                .compare_exchange(nothing, rest, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        if !is_back {
            self.spare(rest, last_of(rest));
        }
        holders.fetch_sub(1, Ordering::AcqRel);
        NonNull::new(first)
    }

    /// New blocks, which are a list.
    fn chunk(self) -> Option<NonNull<Before>> {
        let size = SHORTEST << (self.0 % LENGTHS);
        let before_at = match self.0 < LENGTHS {
            true => 0,
            false => WIDEST - size_of::<Before>(),
        };
        let memory = MemoryLayout::from_size_align(size.max(CHUNK), SHORTEST).ok()?;
        // SAFETY: the size is not 0.
        let start = NonNull::new(unsafe { alloc::alloc(memory) })?;
        let mut next = std::ptr::null_mut();
        for at in (0..memory.size() / size).rev() {
            // SAFETY: inside of the chunk.
            let before = unsafe { start.add(at * size + before_at) }.cast::<Before>();
            let serial = AtomicU64::new(0);
            // SAFETY: fresh memory, aligned to `SHORTEST`.
            unsafe { before.write(Before { next, serial }) };
            next = before.as_ptr();
        }
        NonNull::new(next)
    }

    /// All that the thread has goes to the list for all.
    #[cold]
    fn spill(self) {
        let own = OWN.try_with(|own| own.0.get(self.0).map(List::empty));
        if let Ok(Some(first)) = own
            && !first.is_null()
        {
            self.spare(first, last_of(first));
        }
    }

    /// Puts a list in front of the list for all.
    fn spare(self, first: *mut Before, last: *mut Before) {
        let Some(spare) = SPARE.get(self.0) else {
            return;
        };
        let mut next = spare.load(Ordering::Relaxed);
        loop {
            // SAFETY: a free block that nobody else knows yet.
            unsafe { (*last).next = next };
            let swapped =
                spare.compare_exchange_weak(next, first, Ordering::AcqRel, Ordering::Relaxed);
            match swapped {
                Ok(_) => return,
                Err(now) => next = now,
            }
        }
    }
}

impl List {
    const fn new() -> Self {
        Self {
            first: Cell::new(std::ptr::null_mut()),
            given: Cell::new(0),
        }
    }

    #[inline]
    fn take(&self) -> Option<NonNull<Before>> {
        let first = NonNull::new(self.first.get())?;
        // SAFETY: a free block that is this thread's.
        self.first.set(unsafe { first.as_ref() }.next);
        self.given.set(self.given.get().saturating_sub(1));
        Some(first)
    }

    /// `false` where the list is too long now.
    #[inline]
    fn give(&self, before: *mut Before) -> bool {
        // SAFETY: a free block that nobody else has.
        unsafe { (*before).next = self.first.get() };
        self.first.set(before);
        self.given.set(self.given.get() + 1);
        self.given.get() < MOST
    }

    fn empty(&self) -> *mut Before {
        self.given.set(0);
        self.first.replace(std::ptr::null_mut())
    }
}

/// A thread that ends leaves what it has to the others.
impl Drop for Own {
    fn drop(&mut self) {
        for (class, own) in self.0.iter().enumerate() {
            let first = own.empty();
            if !first.is_null() {
                Class(class).spare(first, last_of(first));
            }
        }
    }
}

/// Ends a list behind its first [`MOST`] blocks, and gives the rest.
fn cut(first: *mut Before) -> *mut Before {
    let mut last = first;
    for _ in 1..MOST {
        if last.is_null() {
            return last;
        }
        // SAFETY: free blocks of one list, which is this thread's.
        last = unsafe { (*last).next };
    }
    if last.is_null() {
        return last;
    }
    // SAFETY: as above.
    let last = unsafe { &mut *last };
    std::mem::replace(&mut last.next, std::ptr::null_mut())
}

fn last_of(first: *mut Before) -> *mut Before {
    let mut last = first;
    loop {
        // SAFETY: free blocks of one list, which is this thread's.
        let next = unsafe { (*last).next };
        if next.is_null() {
            return last;
        }
        last = next;
    }
}

/// The serial number of the block that an export begins: another one as soon as it is released.
///
/// # Safety
/// - `export` was made by [`Produced`](super::Produced) of any library; it may be released.
#[must_use]
#[inline]
pub unsafe fn serial_of<M>(export: NonNull<M>) -> u64 {
    // SAFETY: what lies before each export, which is never unmapped.
    let before = unsafe { export.cast::<Before>().sub(1) };
    // SAFETY: as above, and only written as an atomic.
    unsafe { (*before.as_ptr()).serial.load(Ordering::Acquire) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(size: usize, align: usize) -> Option<Class> {
        Class::for_memory(MemoryLayout::from_size_align(size, align).unwrap())
    }

    #[test]
    fn classes_have_room_for_what_lies_before() {
        for (size, of) in [(0, 0), (240, 0), (241, 1), (496, 1), (497, 2)] {
            assert_eq!(class(size, 8).unwrap().0, of, "{size}");
        }
        for (size, of) in [(0, 0), (128, 0), (129, 1), (384, 1), (385, 2)] {
            assert_eq!(class(size, 32).unwrap().0, LENGTHS + of, "{size}");
        }
        assert!(class(isize::MAX as usize - 15, 16).is_none());
        assert!(class(1 << 40, 8).is_none() && class(8, 256).is_none());
    }

    #[test]
    fn a_block_tells_of_each_release_and_is_used_again() {
        let class = class(100, 8).unwrap();
        let first = class.take().unwrap();
        // SAFETY: a block.
        let serial = unsafe { serial_of(first) };
        // SAFETY: taken above.
        unsafe { class.give(first.as_ptr()) };
        // SAFETY: a block, which is never unmapped.
        assert_ne!(unsafe { serial_of(first) }, serial);
        let again = class.take().unwrap();
        assert_eq!(again, first);
        // SAFETY: taken above.
        unsafe { class.give(again.as_ptr()) };
    }

    #[test]
    fn a_list_is_cut_behind_what_one_thread_takes() {
        let class = class(7000, 8).unwrap();
        let taken: Vec<_> = (0..3 * MOST).map(|_| class.take().unwrap()).collect();
        for block in &taken {
            // SAFETY: taken above.
            unsafe { class.give(block.as_ptr()) };
        }
        // All but a part were given to all, and come back in parts.
        let holders = &HOLDERS[class.0];
        let part = class.part(holders).unwrap();
        let mut count = 1;
        let mut last = part.as_ptr();
        // SAFETY: free blocks that are this thread's.
        while let Some(next) = NonNull::new(unsafe { (*last).next }) {
            (last, count) = (next.as_ptr(), count + 1);
        }
        assert!(count <= MOST, "{count}");
        assert_eq!(holders.load(Ordering::Relaxed), 0);
        class.spare(part.as_ptr(), last);
    }

    #[test]
    fn a_thread_that_never_puts_its_list_back_as_after_a_fork_keeps_nobody_waiting() {
        let class = class(100, 64).unwrap();
        let holders = &HOLDERS[class.0];
        holders.fetch_add(1, Ordering::AcqRel);
        let taken: Vec<_> = (0..4 * MOST).map(|_| class.take().unwrap()).collect();
        let mut places: Vec<_> = taken.iter().map(|block| block.addr()).collect();
        places.sort();
        places.dedup();
        assert_eq!(places.len(), taken.len(), "none is there twice");
        for block in taken {
            // SAFETY: taken above.
            unsafe { class.give(block.as_ptr()) };
        }
        holders.fetch_sub(1, Ordering::AcqRel);
    }

    #[test]
    fn blocks_go_from_thread_to_thread_and_none_is_there_twice() {
        let class = class(5000, 64).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel::<usize>();
        let giver = std::thread::spawn(move || {
            for block in receiver {
                let block = std::ptr::with_exposed_provenance_mut::<c_void>(block);
                // SAFETY: taken by the other thread, which wrote its own address there.
                assert_eq!(unsafe { block.cast::<usize>().read() }, block.addr());
                // SAFETY: nobody has it any more.
                unsafe { class.give(block) };
            }
        });
        for _ in 0..2000 {
            let block = class.take().unwrap();
            // SAFETY: a block that is this thread's.
            unsafe {
                block
                    .cast::<usize>()
                    .write(block.as_ptr().expose_provenance())
            };
            sender.send(block.as_ptr().addr()).unwrap();
        }
        drop(sender);
        giver.join().unwrap();
    }
}
