//! Hooks that panic. An error of a hook has begun nothing, by contract; after a panic nobody knows what the
//! plugin still reads and writes. So memory that such a hook was given is leaked and counted, and here is
//! decided where that is so. A call that was refused because of an earlier panic was given nothing.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::error::Error;
use crate::process::process_state;

thread_local! {
    /// How many hooks have panicked in calls of this thread.
    static PANICS: Cell<u64> = const { Cell::new(0) };
}

/// Notes that a hook panicked that this thread called, or has called through other threads.
pub(crate) fn note() {
    PANICS.set(PANICS.get().wrapping_add(1));
}

/// The panics of hooks that this thread calls, from a point on.
#[derive(Debug)]
pub(crate) struct Panics {
    before: u64,
    /// Others are counted on another thread.
    of_thread: PhantomData<*const ()>,
}

impl Panics {
    /// Those that come from now on.
    pub(crate) fn from_now() -> Self {
        Self {
            before: PANICS.get(),
            of_thread: PhantomData,
        }
    }

    /// Whether there was one.
    pub(crate) fn is_any(&self) -> bool {
        PANICS.get() != self.before
    }
}

/// Lends what is ours to the hooks that `work` calls. It comes back with what they answer; where one of
/// them panicked, it is leaked.
pub(crate) fn lend<M, T>(
    mut lent: M,
    work: impl FnOnce(&mut M) -> Result<T, Error>,
) -> Result<(M, T), Error> {
    let panics = Panics::from_now();
    match work(&mut lent) {
        Ok(answer) => Ok((lent, answer)),
        Err(error) => {
            if panics.is_any() {
                process_state::leak(lent);
            }
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_was_lent_comes_back_unless_a_hook_panicked_meanwhile() {
        let refused = || Err::<(), _>(Error::misuse("call a hook", "refused"));
        let lent = Arc::new(());
        let (back, answer) = lend(Arc::clone(&lent), |_| Ok(7)).unwrap();
        assert_eq!((Arc::strong_count(&back), answer), (2, 7));
        drop(back);
        lend(Arc::clone(&lent), |_| refused()).unwrap_err();
        assert_eq!(Arc::strong_count(&lent), 1, "given back");
        let leaks = process_state::counted_leaks();
        let panicked = |_: &mut _| {
            note();
            refused()
        };
        lend(Arc::clone(&lent), panicked).unwrap_err();
        assert_eq!(Arc::strong_count(&lent), 2, "leaked");
        assert!(process_state::counted_leaks() > leaks);
        lend(Arc::clone(&lent), |_| refused()).unwrap_err();
        assert_eq!(Arc::strong_count(&lent), 2, "it was an earlier one");
    }
}
