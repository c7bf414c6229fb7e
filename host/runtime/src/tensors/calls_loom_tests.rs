//! Views whose end is deferred, under the model checker.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use super::calls::Calls;

/// A view whose end is counted.
struct View(Arc<AtomicUsize>);

impl Drop for View {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_deferred_view_ends_once_and_with_the_last_call() {
    loom::model(|| {
        let calls = Arc::new(Calls::<View>::default());
        let ended = Arc::new(AtomicUsize::new(0));
        let callers = [(); 2].map(|()| {
            let calls = Arc::clone(&calls);
            thread::spawn(move || drop(calls.begin()))
        });
        let view = View(Arc::clone(&ended));
        let mut kept = Some(view);
        if !calls.defer(|| kept.take().unwrap()) {
            drop(kept.take());
        }
        for caller in callers {
            caller.join().unwrap();
        }
        assert_eq!(ended.load(Ordering::Relaxed), 1);
        assert!(!calls.is_any());
    });
}

#[test]
fn no_view_ends_during_a_call_that_it_was_deferred_to() {
    loom::model(|| {
        let calls = Arc::new(Calls::<View>::default());
        let ended = Arc::new(AtomicUsize::new(0));
        let call = calls.begin();
        let other = {
            let (calls, ended) = (Arc::clone(&calls), Arc::clone(&ended));
            thread::spawn(move || {
                let mut kept = Some(View(ended));
                drop(calls.begin());
                let is_deferred = calls.defer(|| kept.take().unwrap());
                assert_eq!(is_deferred, kept.is_none());
                is_deferred
            })
        };
        assert_eq!(ended.load(Ordering::Relaxed), 0, "this call is not over");
        drop(call);
        other.join().unwrap();
        assert_eq!(ended.load(Ordering::Relaxed), 1);
    });
}
