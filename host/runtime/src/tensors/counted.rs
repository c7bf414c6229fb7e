//! A counted pointer whose only owner frees what it holds without a locked instruction.
//!
//! `Arc` counts its weak pointers as well, so that its last owner pays for two locked instructions:
//! together as much as all checks of an import. A tensor has no weak pointers, and most have one
//! owner.
#![expect(
    unsafe_code,
    reason = "owners share one allocation through a raw pointer"
)]

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::Deref;
use std::process;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

/// One owner of a value that several may own.
pub(crate) struct Counted<T> {
    shared: NonNull<Shared<T>>,
    owns: PhantomData<Shared<T>>,
}

#[derive(Debug)]
struct Shared<T> {
    owners: AtomicUsize,
    value: T,
}

// SAFETY: an owner on another thread reads the value there, and may be the one that drops it.
unsafe impl<T: Send + Sync> Send for Counted<T> {}
// SAFETY: through `&Counted` the value is read, and another owner is made.
unsafe impl<T: Send + Sync> Sync for Counted<T> {}

impl<T> Counted<T> {
    /// The first owner. The value is made in its place.
    #[inline(always)]
    pub(crate) fn new(make: impl FnOnce() -> T) -> Self {
        let mut room = Box::<Shared<T>>::new_uninit();
        room.write(Shared {
            owners: AtomicUsize::new(1),
            value: make(),
        });
        // SAFETY: written just now.
        let shared = unsafe { room.assume_init() };
        Self::from_shared(NonNull::from(Box::leak(shared)))
    }

    /// The owner as a word; [`Counted::from_word`] takes it back.
    #[inline]
    pub(crate) fn into_word(self) -> NonNull<c_void> {
        std::mem::ManuallyDrop::new(self).shared.cast()
    }

    /// The owner that such a word is.
    ///
    /// # Safety
    /// - [`Counted::into_word`] of the same type gave it, and it is taken back once.
    #[inline]
    pub(crate) unsafe fn from_word(word: NonNull<c_void>) -> Self {
        Self::from_shared(word.cast())
    }

    const fn from_shared(shared: NonNull<Shared<T>>) -> Self {
        Self {
            shared,
            owns: PhantomData,
        }
    }

    #[inline]
    fn shared(&self) -> &Shared<T> {
        // SAFETY: alive as long as any owner is, and `self` is one.
        unsafe { self.shared.as_ref() }
    }

    /// Frees the value after its last owner.
    ///
    /// # Safety
    /// - No owner is left, and all that they did with the value has happened.
    unsafe fn free(shared: NonNull<Shared<T>>) {
        // SAFETY: `new` got it from a box, and nobody has it any more.
        drop(unsafe { Box::from_raw(shared.as_ptr()) });
    }
}

impl<T> Deref for Counted<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.shared().value
    }
}

impl<T> Clone for Counted<T> {
    #[inline]
    fn clone(&self) -> Self {
        // The new owner is handed on in some way that orders what was done before.
        let owners = self.shared().owners.fetch_add(1, Ordering::Relaxed);
        if owners > isize::MAX.cast_unsigned() {
            overflow();
        }
        Self::from_shared(self.shared)
    }
}

impl<T> Drop for Counted<T> {
    #[inline]
    fn drop(&mut self) {
        let owners = &self.shared().owners;
        // The only owner stays the only one: another could only be made from itself. What earlier
        // owners did has happened before this load, which sees their last subtraction.
        if owners.load(Ordering::Acquire) != 1 {
            if owners.fetch_sub(1, Ordering::Release) != 1 {
                return;
            }
            fence(Ordering::Acquire);
        }
        // SAFETY: this was the last owner, and what the others did has happened.
        unsafe { Self::free(self.shared) };
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Counted<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

/// Owners that are forgotten in a loop must not make the count begin anew: the value would be freed
/// under those that are left. `Arc` ends the process there as well.
#[cold]
#[expect(
    clippy::disallowed_methods,
    reason = "nothing can be returned from a clone"
)]
fn overflow() -> ! {
    process::abort()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_value_is_dropped_once_after_its_last_owner() {
        let watched = Arc::new(());
        let first = Counted::new(|| Arc::clone(&watched));
        let second = first.clone();
        drop(first);
        assert_eq!(Arc::strong_count(&watched), 2);
        // SAFETY: the word of the line before.
        drop(unsafe { Counted::<Arc<()>>::from_word(second.into_word()) });
        assert_eq!(Arc::strong_count(&watched), 1);
    }

    #[test]
    fn owners_on_many_threads_drop_it_once() {
        let watched = Arc::new(());
        for _ in 0..1000 {
            let owner = Counted::new(|| Arc::clone(&watched));
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    let owner = owner.clone();
                    scope.spawn(move || assert_eq!(Arc::strong_count(&owner.clone()), 2));
                }
                drop(owner);
            });
            assert_eq!(Arc::strong_count(&watched), 1);
        }
    }
}
