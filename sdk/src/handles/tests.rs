//! Tables of handles: which words name something, and what threads see of each other.
#![expect(
    clippy::unwrap_used,
    reason = "functions beside the tests are tests too"
)]

use std::sync::{
    Arc, Barrier, Weak,
    atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
};
use std::thread;

use proptest::prelude::*;

use super::table::{LAST_NUMBER, index_of};
use super::{HandleError, Handles};
use crate::abi::{EventHandle, Status, StreamHandle};
use crate::plugin::Error;

type Events<T> = Handles<EventHandle, T>;

fn event<T>(events: &Events<T>, object: T) -> EventHandle {
    events.insert("test", object).unwrap()
}

fn is_stale<T>(events: &Events<T>, handle: EventHandle) -> bool {
    let stale = HandleError::Stale {
        operation: "test",
        what: "event",
    };
    let found = events.find("test", handle).map(drop);
    assert_eq!(found, events.find("test", handle).map(drop));
    found == Err(stale)
}

#[test]
fn a_word_names_its_object_until_it_is_removed_and_never_again() {
    let events = Events::new();
    let first = event(&events, 1);
    let second = event(&events, 2);
    assert_eq!(*events.remove("test", first).unwrap(), 1);
    let third = event(&events, 3);
    assert!(is_stale(&events, first));
    assert!(events.remove("test", first).is_err());
    assert_eq!(*events.find("test", second).unwrap(), 2);
    assert_eq!(*events.find("test", third).unwrap(), 3);
    assert!(!first.is_none() && third != first);
    let mut all: Vec<_> = events.all().iter().map(|object| **object).collect();
    all.sort_unstable();
    assert_eq!(all, [2, 3]);
}

#[test]
fn words_of_other_tables_name_nothing() {
    let (before, now) = (Events::new(), Events::new());
    let streams: Handles<StreamHandle, u32> = Handles::new();
    let old: Vec<_> = (0..100).map(|number| event(&before, number)).collect();
    let new: Vec<_> = (0..100).map(|number| event(&now, number)).collect();
    let stream = streams.insert("test", 7_u32).unwrap();
    assert!(old.iter().all(|handle| is_stale(&now, *handle)));
    assert!(new.iter().all(|handle| is_stale(&before, *handle)));
    assert!(is_stale(&now, EventHandle::from_raw(stream.raw())));
    assert!(is_stale(&now, EventHandle::NONE));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]
    #[test]
    fn any_word_is_an_answer(words in prop::collection::vec(any::<u64>(), 100), bit in 0..64_u32) {
        let events = Events::new();
        let live: Vec<_> = (0..40).map(|number| event(&events, number)).collect();
        let near = live.iter().map(|handle| handle.raw() ^ (1 << bit));
        for word in words.into_iter().chain(near) {
            let handle = EventHandle::from_raw(word);
            prop_assert_eq!(is_stale(&events, handle), !live.contains(&handle));
            let removed = events.remove("test", handle).is_ok();
            prop_assert_eq!(removed, live.contains(&handle));
        }
    }
}

#[test]
fn what_was_not_ended_lives_on_under_its_word_and_is_nobodys_meanwhile() {
    let events = Events::new();
    let handle = event(&events, "an event");
    let refused = events.remove_after("test", handle, |object| {
        assert_eq!(**object, "an event");
        assert!(is_stale(&events, handle) && events.all().is_empty());
        assert!(events.remove("test", handle).is_err());
        Err(Error::unsupported("test"))
    });
    assert_eq!(refused.unwrap_err().status(), Status::UNSUPPORTED);
    let panics = |_: &Arc<_>| -> Result<(), Error> { panic!("as a vendor's binding may") };
    let caught = crate::fence::fence(|| events.remove_after("test", handle, panics));
    assert!(caught.is_none());
    assert_eq!(*events.find("test", handle).unwrap(), "an event");
    assert!(
        events
            .remove_after("test", handle, |_| Ok::<_, Error>(()))
            .is_ok()
    );
    assert!(is_stale(&events, handle));
    let error = Error::from(events.remove("test", handle).unwrap_err());
    assert_eq!((error.status(), error.operation()), (Status::STALE, "test"));
}

#[test]
fn a_place_that_has_had_all_its_numbers_is_used_no_more() {
    let events = Events::new();
    let first = event(&events, 0);
    let (place, _) = events.place(first.raw()).unwrap();
    events.remove("test", first).unwrap();
    place.write().number = LAST_NUMBER - 1;
    let last = event(&events, 1);
    assert_eq!(index_of(last.raw()), index_of(first.raw()));
    assert_eq!(*events.remove("test", last).unwrap(), 1);
    let next = event(&events, 2);
    assert_ne!(index_of(next.raw()), index_of(last.raw()));
    assert!(is_stale(&events, first) && is_stale(&events, last));
}

#[test]
fn all_objects_end_with_the_table_or_with_who_holds_them() {
    let events = Events::new();
    let kept: Vec<Weak<_>> = (0..50)
        .map(|number| {
            let object = Arc::new(number);
            events.insert("test", Arc::clone(&object)).unwrap();
            Arc::downgrade(&object)
        })
        .collect();
    let drained = events.drain();
    assert_eq!(drained.len(), 50);
    assert!(events.all().is_empty() && events.drain().is_empty());
    drop(drained);
    let handle = event(&events, 50);
    let held = events.find("test", handle).unwrap();
    drop(events);
    assert!(kept.iter().all(|object| object.upgrade().is_none()));
    assert_eq!(*held, 50);
}

/// Knows its own word, once it has one, and how many live.
struct Counted<'a> {
    word: AtomicU64,
    live: &'a AtomicUsize,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.live.fetch_sub(1, SeqCst);
    }
}

/// Threads make, find and remove objects under words that all of them see, and all of them guess at.
#[test]
fn threads_find_the_object_of_a_word_or_none() {
    const ROUNDS: usize = 20_000;
    const SHARED: usize = 8;
    let live = AtomicUsize::new(0);
    let events = Events::<Counted<'_>>::new();
    let shared: [AtomicU64; SHARED] = Default::default();
    let (removed, found) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let start = Barrier::new(4);
    let work = |seed: u64| {
        let mut random = seed;
        start.wait();
        for _ in 0..ROUNDS {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let place = &shared[usize::try_from(random >> 33).unwrap() % SHARED];
            let word = place.load(SeqCst);
            match events.find("test", EventHandle::from_raw(word)) {
                Ok(object) => {
                    // Nobody had its word before it was kept.
                    assert!([0, word].contains(&object.word.load(SeqCst)));
                    found.fetch_add(1, SeqCst);
                }
                Err(error) => assert!(matches!(error, HandleError::Stale { .. })),
            }
            if random >> 60 < 8 {
                continue;
            }
            let gone = events.remove("test", EventHandle::from_raw(word));
            removed.fetch_add(usize::from(gone.is_ok()), SeqCst);
            live.fetch_add(1, SeqCst);
            let object = Arc::new(Counted {
                word: AtomicU64::new(0),
                live: &live,
            });
            let handle = events.insert("test", Arc::clone(&object)).unwrap();
            object.word.store(handle.raw(), SeqCst);
            place.store(handle.raw(), SeqCst);
        }
    };
    thread::scope(|scope| {
        for seed in 1..=4 {
            scope.spawn(move || work(seed));
        }
    });
    assert!(found.load(SeqCst) > 0 && removed.load(SeqCst) > 0);
    let left = events.drain();
    assert_eq!(left.len(), live.load(SeqCst));
    drop(left);
    assert_eq!(live.load(SeqCst), 0);
}
