//! Frees in a stream's order and waits for releases, under the model checker.

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::stream_frees::SubmitLock;

/// What is on a stream.
#[derive(Debug, PartialEq)]
enum Entry {
    Free,
    /// A wait for releases waits for this.
    End,
}

#[derive(Default)]
struct Stream {
    submit_lock: SubmitLock<()>,
    /// Whether the note has its place among the releases.
    is_placed: AtomicBool,
    entries: Mutex<Vec<Entry>>,
}

impl Stream {
    fn free(&self) {
        let mut submitting = self.submit_lock.lock();
        submitting.note_free(|| self.is_placed.store(true, Ordering::SeqCst));
        self.push(Entry::Free);
    }

    fn wait_for_releases(&self) {
        if !self.submit_lock.is_noted() {
            return;
        }
        let mut submitting = self.submit_lock.lock();
        if submitting.take_note().is_some() {
            self.push(Entry::End);
        }
    }

    fn push(&self, entry: Entry) {
        self.entries.lock().unwrap().push(entry);
    }
}

#[test]
fn a_wait_for_releases_finds_each_earlier_free() {
    loom::model(|| {
        let stream = Arc::new(Stream::default());
        stream.free();
        let other = {
            let stream = Arc::clone(&stream);
            thread::spawn(move || stream.wait_for_releases())
        };
        stream.free();
        stream.wait_for_releases();
        other.join().unwrap();
        let entries = stream.entries.lock().unwrap();
        assert_eq!(entries.last(), Some(&Entry::End), "{entries:?}");
    });
}

#[test]
fn a_wait_for_releases_takes_out_each_note_whose_place_it_waits_for() {
    loom::model(|| {
        let stream = Arc::new(Stream::default());
        let other = {
            let stream = Arc::clone(&stream);
            thread::spawn(move || stream.free())
        };
        let covers = stream.is_placed.load(Ordering::SeqCst);
        stream.wait_for_releases();
        if covers {
            let entries = stream.entries.lock().unwrap();
            assert_eq!(entries.last(), Some(&Entry::End), "{entries:?}");
        }
        other.join().unwrap();
    });
}
