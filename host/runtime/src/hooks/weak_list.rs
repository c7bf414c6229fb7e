//! Weak references to those of a kind that are alive.

use std::sync::{Arc, Weak};

/// A list whose length is at most twice the number of those alive, or [`LEAST_ROOM`].
#[derive(Debug)]
pub(crate) struct WeakList<T: ?Sized> {
    all: Vec<Weak<T>>,
    /// At this length, those that are gone are removed.
    room: usize,
}

const LEAST_ROOM: usize = 64;

impl<T: ?Sized> Default for WeakList<T> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            room: LEAST_ROOM,
        }
    }
}

impl<T: ?Sized> WeakList<T> {
    pub(crate) fn push(&mut self, one: Weak<T>) {
        if self.all.len() >= self.room {
            self.forget_gone();
            self.room = (2 * self.all.len()).max(LEAST_ROOM);
        }
        self.all.push(one);
    }

    /// Whether nobody is in it, alive or gone.
    pub(crate) const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn forget_gone(&mut self) {
        self.all.retain(|one| one.strong_count() > 0);
    }

    pub(crate) fn forget(&mut self, one: &Weak<T>) {
        self.all.retain(|other| !other.ptr_eq(one));
    }

    /// Those that are alive. The caller may become the last holder of each.
    pub(crate) fn alive(&self) -> Vec<Arc<T>> {
        self.all.iter().filter_map(Weak::upgrade).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_are_gone_take_no_room_and_those_alive_are_kept() {
        let (mut list, mut alive) = (WeakList::default(), Vec::new());
        for number in 0..10_000_u32 {
            let one = Arc::new(number);
            list.push(Arc::downgrade(&one));
            if number % 10 == 0 {
                alive.push(one);
            }
            assert!(list.all.len() <= (2 * alive.len()).max(LEAST_ROOM));
        }
        assert_eq!(list.alive(), alive);
        alive.clear();
        list.forget_gone();
        assert!(list.is_empty());
    }
}
